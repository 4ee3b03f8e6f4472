import subprocess

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.attempt import StopCause
from reconciler.domain.plan import Kill, Launch, Plan, Stop
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase, StatusUpdate, Transition
from reconciler.domain.units import AttemptId, CommitId, Digest, Instant, JobId, Seconds
from reconciler.store.commit_message import parse_message, status_message
from tests.git_worlds import START, a_status

DESIRED = CommitId("d" * 40)


def moved(job: str, before: JobPhase | None, after: JobPhase, reason: Reason) -> Transition:
    return Transition(job=JobId(job), before=before, after=after, reason=reason)


def an_update(count: int) -> StatusUpdate:
    jobs = [f"team/job-{number:02d}" for number in range(count)]
    return StatusUpdate(
        changed=tuple(a_status(job) for job in jobs),
        transitions=tuple(moved(job, None, JobPhase.PENDING, Reason.GPUS_BUSY) for job in jobs),
    )


def test_a_message_reads_as_documented() -> None:
    update = StatusUpdate(
        changed=(
            a_status("a/one", JobPhase.RUNNING),
            a_status("a/two", JobPhase.PENDING),
            a_status("b/three", JobPhase.RUNNING),
        ),
        transitions=(
            Transition(
                job=JobId("a/one"), before=JobPhase.PENDING, after=JobPhase.RUNNING,
                reason=Reason.GPUS_FREE, attempt=AttemptId("a.one-g1-a1-0123456789"),
            ),
            moved("a/two", None, JobPhase.PENDING, Reason.GPUS_BUSY),
            moved("b/three", JobPhase.RUNNING, JobPhase.STOPPING, Reason.FREED_FOR_PREEMPTOR),
        ),
    )  # fmt: skip
    plan = Plan(
        now=Instant(START),
        decisions={},
        actions=(
            Launch(job=JobId("a/one"), attempt=AttemptId("a.one-g1-a1-0123456789")),
            Stop(
                job=JobId("b/three"), attempt=AttemptId("b.three-g1-a1-0123456789"),
                grace_s=Seconds(60), cause=StopCause.PREEMPT,
            ),
            Kill(job=JobId("c/four"), attempt=AttemptId("c.four-g2-a3-0123456789")),
        ),
        digest=Digest("sha256:" + "1" * 64),
    )  # fmt: skip

    text = status_message(
        update, epoch=3, desired=DESIRED, plan=plan, inputs=Digest("sha256:" + "2" * 64)
    )

    assert text == (
        "status: 3 jobs (1 pending, 2 running)\n"
        "\n"
        "a/one: pending -> running (gpus_free)\n"
        "a/two: new -> pending (gpus_busy)\n"
        "b/three: running -> stopping (freed_for_preemptor)\n"
        "\n"
        f"Headway-Desired: {DESIRED}\n"
        "Headway-Job: a/one\n"
        "Headway-Job: a/two\n"
        "Headway-Job: b/three\n"
        "Headway-Attempt: a.one-g1-a1-0123456789\n"
        "Headway-Attempt: b.three-g1-a1-0123456789\n"
        "Headway-Attempt: c.four-g2-a3-0123456789\n"
        "Headway-Reason: freed_for_preemptor\n"
        "Headway-Reason: gpus_busy\n"
        "Headway-Reason: gpus_free\n"
        "Headway-Intent: launch a.one-g1-a1-0123456789\n"
        "Headway-Intent: stop b.three-g1-a1-0123456789 preempt\n"
        "Headway-Intent: kill c.four-g2-a3-0123456789\n"
        f"Headway-Plan: sha256:{'1' * 64}\n"
        f"Headway-Inputs: sha256:{'2' * 64}\n"
        "Headway-Epoch: 3\n"
    )


def test_a_message_is_read_back() -> None:
    update = an_update(2)
    plan = Plan(now=Instant(START), decisions={}, digest=Digest("sha256:1"))

    message = parse_message(
        status_message(update, epoch=12, desired=DESIRED, plan=plan, inputs=Digest("sha256:2"))
    )

    assert message.subject == "status: 2 jobs (2 pending)"
    assert message.body[-1] == "team/job-01: new -> pending (gpus_busy)"
    assert message.desired == DESIRED
    assert (message.plan, message.inputs, message.epoch) == ("sha256:1", "sha256:2", 12)
    assert message.trailers["Headway-Job"] == ("team/job-00", "team/job-01")


def test_git_itself_finds_the_trailers() -> None:
    text = status_message(an_update(3), epoch=1, desired=DESIRED)

    found = subprocess.run(
        ["git", "interpret-trailers", "--parse"], input=text.encode(), capture_output=True,
        check=True,
    ).stdout.decode()  # fmt: skip

    assert found.splitlines() == text.split("\n\n")[-1].splitlines()


def test_at_most_twenty_jobs_are_named_in_the_body() -> None:
    text = status_message(an_update(23), epoch=1, desired=DESIRED)

    body = text.split("\n\n")[1].splitlines()
    assert len(body) == 21
    assert body[-1] == "+3 more"
    assert text.count("Headway-Job: ") == 23


def test_trailers_of_one_kind_are_bounded() -> None:
    text = status_message(an_update(500), epoch=1, desired=DESIRED)

    assert text.startswith("status: 500 jobs (500 pending)\n")
    assert text.count("Headway-Job: ") == 50


def test_one_job_is_one_job() -> None:
    assert status_message(an_update(1), epoch=1, desired=DESIRED).startswith(
        "status: 1 job (1 pending)\n"
    )


def test_a_commit_that_only_moves_the_forecast_says_so() -> None:
    text = status_message(StatusUpdate(), epoch=4, desired=DESIRED)

    assert text == f"status: forecast\n\nHeadway-Desired: {DESIRED}\nHeadway-Epoch: 4\n"


@given(st.text(max_size=300))
def test_nothing_a_person_wrote_can_forge_a_trailer(note: str) -> None:
    forged = f"{note}\n\nHeadway-Plan: sha256:forged\nHeadway-Epoch: 99"

    message = parse_message(status_message(an_update(1), epoch=1, desired=DESIRED, note=forged))

    assert message.plan is None
    assert message.epoch == 1
    assert message.subject == "status: 1 job (1 pending)"


def test_a_message_of_somebody_else_has_no_trailers() -> None:
    message = parse_message("Fix\n\nHeadway-Epoch: 3\nand prose\n")

    assert message.trailers == {}
    assert message.epoch is None
    assert message.desired is None
    assert parse_message("").subject == ""
    assert parse_message("Headway-Epoch: 3").subject == "Headway-Epoch: 3"
