"""A small fleet as its status branch shows it, at one fixed instant: what the CLI tests read."""

from collections.abc import Mapping
from pathlib import Path

from reconciler.domain.attempt import Attempt, AttemptPhase, StopCause, attempt_id
from reconciler.domain.cluster import Allocation, NodeShare
from reconciler.domain.job import PriorityClass
from reconciler.domain.plan import Expectation
from reconciler.domain.reason import Reason
from reconciler.domain.status import Hold, JobPhase, JobStatus, Summary
from reconciler.domain.units import (
    CommitId,
    DeviceId,
    Digest,
    Instant,
    JobId,
    NodeName,
    Seconds,
    from_rfc3339,
)
from reconciler.specs.serialize import (
    Cursor,
    Forecast,
    cursor_to_json,
    forecast_to_json,
    status_to_json,
)
from reconciler.store.git.command import git

NOW = from_rfc3339("2026-11-30T06:22:45Z")
"""Monday 14:22:45 in Shanghai."""
WRITTEN_AT = Instant(NOW - 38)
CLUSTER = "gpu-a"
SUBMISSION = CommitId("9f02ab7" + "1" * 33)


def at(text: str) -> Instant:
    """Return ``Mon 09:50`` and the like of that week, Shanghai time, as an instant."""
    day, clock = text.split(" ")
    date = {"Sun": "2026-11-29", "Mon": "2026-11-30", "Tue": "2026-12-01", "Thu": "2026-12-03"}[day]
    return Instant(from_rfc3339(f"{date}T{clock}:00Z") - 8 * 3600)


def gpus(node: str, *numbers: int) -> Allocation:
    """Return an allocation on one node."""
    devices = tuple(DeviceId(f"gpu-{number}") for number in numbers)
    return Allocation(shares=(NodeShare(node=NodeName(node), devices=devices),))


def an_attempt(job: str, number: int, where: Allocation, **changes: object) -> Attempt:
    """Return one attempt of ``job``."""
    values: dict[str, object] = {
        "id": attempt_id(
            cluster=CLUSTER, job=JobId(job), submission=SUBMISSION, generation=1, number=number
        ),
        "number": number,
        "phase": AttemptPhase.RUNNING,
        "commit": SUBMISSION,
        "spec_digest": Digest("sha256:" + "ab" * 32),
        "allocation": where,
        "decided_at": at("Mon 09:00"),
    }
    return Attempt(**(values | changes))  # type: ignore[arg-type]


def a_status(job: str, phase: JobPhase, reason: Reason, **changes: object) -> JobStatus:
    """Return one status; ``priority``, ``gpus``, ``model`` and ``submitted_at`` go to summary."""
    summary = Summary(
        priority=PriorityClass[str(changes.pop("priority", "P2"))],
        gpus=int(str(changes.pop("gpus", 1))),
        gpu_types=("A100-80GB",),
        model=str(changes.pop("model", "Qwen/Qwen3-8B")),
        submitted_at=changes.pop("submitted_at", at("Mon 08:00")),  # type: ignore[arg-type]
    )
    values: dict[str, object] = {
        "job": JobId(job),
        "phase": phase,
        "reason": reason,
        "summary": summary,
        "submission": SUBMISSION,
        "observed_commit": SUBMISSION,
        "spec_digest": Digest("sha256:" + "ab" * 32),
        "since": summary.submitted_at,
    }
    return JobStatus(**(values | changes))  # type: ignore[arg-type]


def statuses() -> tuple[JobStatus, ...]:
    """Return the fleet: three run, one waits for a place, one is held, and so on."""
    align = an_attempt(
        "risk/align-70b", 1, gpus("node-3", *range(8)), started_at=at("Mon 08:00"),
        decided_at=at("Mon 08:00"), checkpoint_step=1200, checkpoint_at=at("Mon 14:00"), step=1200,
    )  # fmt: skip
    first = an_attempt(
        "recsys/qwen3-dpo", 1, gpus("node-1", 4, 5), phase=AttemptPhase.PREEMPTED,
        started_at=at("Mon 08:30"), decided_at=at("Mon 08:29"), ended_at=at("Mon 09:10"),
        stop_asked_at=at("Mon 09:09"), stop_cause=StopCause.PREEMPT,
        reason=Reason.FREED_FOR_PREEMPTOR, exit_status=83, step=40, checkpoint_step=40,
        checkpoint_at=at("Mon 09:10"),
    )  # fmt: skip
    dpo = an_attempt(
        "recsys/qwen3-dpo", 2, gpus("node-1", 0, 1, 2, 3), started_at=at("Mon 09:50"),
        decided_at=at("Mon 09:49"), step=300, checkpoint_step=300, checkpoint_at=at("Mon 13:00"),
    )  # fmt: skip
    probe = an_attempt(
        "vision/probe", 1, gpus("node-1", 4), phase=AttemptPhase.STOPPING,
        started_at=at("Mon 13:02"), stop_asked_at=at("Mon 14:22"), stop_cause=StopCause.PREEMPT,
    )  # fmt: skip
    failed = an_attempt(
        "vision/ocr", 1, gpus("node-1", 6), phase=AttemptPhase.FAILED, reason=Reason.COMMAND_FAILED,
        started_at=at("Mon 11:00"), ended_at=at("Mon 11:04"), exit_status=1,
    )  # fmt: skip
    done = an_attempt(
        "search/sft-001", 1, gpus("node-2", 0), phase=AttemptPhase.SUCCEEDED,
        reason=Reason.COMPLETED, started_at=at("Sun 20:00"), ended_at=at("Mon 01:30"),
        exit_status=0, step=500,
    )  # fmt: skip
    return (
        a_status("risk/align-70b", JobPhase.RUNNING, Reason.GPUS_FREE, priority="P0", gpus=8,
                 model="Qwen/Qwen2.5-72B", attempts=(align,), attempts_made=1,
                 since=at("Mon 08:00")),
        a_status("recsys/qwen3-dpo", JobPhase.RUNNING, Reason.GPUS_FREED_BY_VICTIM, priority="P1",
                 gpus=4, attempts=(first, dpo), attempts_made=2, preemptions=1,
                 ran_s=Seconds(2400), gpu_seconds=4800, since=at("Mon 09:50")),
        a_status("vision/probe", JobPhase.STOPPING, Reason.FREED_FOR_PREEMPTOR, priority="P3",
                 attempts=(probe,), attempts_made=1, since=at("Mon 14:22")),
        a_status("search/embed-v2", JobPhase.PENDING, Reason.PREEMPTING, priority="P0", gpus=2,
                 message="vision/probe leaves node-1", submitted_at=at("Mon 14:20"),
                 model="BAAI/bge-m3",
                 holds=(Hold(freed_for=JobId("search/embed-v2"), devices=gpus("node-1", 4),
                             victims=(probe.id,)),)),
        a_status("ads/rerank-with-a-long-name", JobPhase.PENDING, Reason.GPUS_BUSY, priority="P3",
                 gpus=6, message="needs 6 GPUs in one node",
                 submitted_at=at("Mon 09:10")),
        a_status("ads/rerank", JobPhase.HELD, Reason.DEPENDENCY_FAILED, priority="P3", gpus=2,
                 message="will not succeed: vision/ocr", submitted_at=at("Mon 13:19")),
        a_status("nlp/摘要", JobPhase.SUSPENDED, Reason.SUSPEND_ASKED, priority="P4",
                 submitted_at=at("Mon 12:00")),
        JobStatus(job=JobId("nlp/star"), phase=JobPhase.INVALID, reason=Reason.WILDCARD_REQUEST,
                  message='jobs/nlp/star.yaml:7:9: gpus must be a whole number, got "*"',
                  since=at("Mon 14:00")),
        a_status("vision/ocr", JobPhase.FAILED, Reason.COMMAND_FAILED, attempts=(failed,),
                 attempts_made=1, tries_used=3, ran_s=Seconds(240), gpu_seconds=240,
                 message="exit status 1", since=at("Mon 11:04")),
        a_status("search/sft-001", JobPhase.SUCCEEDED, Reason.COMPLETED, attempts=(done,),
                 attempts_made=1, ran_s=Seconds(19800), gpu_seconds=19800, since=at("Mon 01:30"),
                 submitted_at=at("Sun 19:00")),
    )  # fmt: skip


def forecast() -> Forecast:
    """Return what was predicted for the jobs that run or wait for a place."""
    expected = (
        ("risk/align-70b", "Mon 08:00", "Mon 08:00", "Thu 08:00", "Thu 10:00", None, ()),
        ("recsys/qwen3-dpo", "Mon 09:50", "Mon 09:50", "Mon 21:40", "Mon 23:05", None, ()),
        ("vision/probe", "Mon 13:02", "Mon 13:02", "Mon 14:23", "Mon 14:32", None, ()),
        ("search/embed-v2", "Mon 14:23", "Mon 14:32", "Mon 15:23", "Mon 16:00",
         gpus("node-1", 4, 5), ("vision/probe",)),
        ("ads/rerank-with-a-long-name", "Mon 21:40", "Mon 23:05", "Tue 03:00", "Tue 06:00",
         gpus("node-1", 0, 1, 2, 3, 4, 5), ("recsys/qwen3-dpo",)),
    )  # fmt: skip
    return Forecast(
        published_at=at("Mon 14:22"),
        jobs={
            JobId(job): Expectation(
                job=JobId(job), start_p50=at(s50), start_p90=at(s90), end_p50=at(e50),
                end_p90=at(e90), allocation=where, rests_on=tuple(JobId(each) for each in rests),
            )
            for job, s50, s90, e50, e90, where, rests in expected
        },
    )  # fmt: skip


def files(runs: str = "/srv/headway/runs") -> dict[str, bytes]:
    """Return every file of the branch."""
    return {
        **{f"status/{status.job}.json": status_to_json(status) for status in statuses()},
        ".headway/forecast.json": forecast_to_json(forecast()),
        ".headway/cursor.json": cursor_to_json(Cursor(desired=SUBMISSION, runs=runs)),
    }


def write_branch(
    repo: Path,
    content: Mapping[str, bytes],
    *,
    ref: str = f"refs/heads/status/{CLUSTER}",
    message: str = "status: 1 jobs (1 running)\n",
    written_at: Instant = WRITTEN_AT,
) -> CommitId:
    """Commit ``content`` on ``ref`` of a repository and return the commit."""
    said = message.encode()
    parent = git(repo, "rev-parse", "--verify", "--quiet", ref, ok=(0, 1)).text
    parts = [
        b"commit %s\n" % ref.encode(),
        b"author reconciler-gpu-a <reconciler@headway> %d +0000\n" % written_at,
        b"committer reconciler-gpu-a <reconciler@headway> %d +0000\n" % written_at,
        b"data %d\n%s\n" % (len(said), said),
        b"from %s\n" % parent.encode() if parent else b"",
    ]
    for path, data in content.items():
        parts.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data))
    git(repo, "fast-import", "--quiet", "--date-format=raw", stdin=b"".join(parts) + b"\ndone\n")
    return CommitId(git(repo, "rev-parse", ref).text)


def a_bare_repository(folder: Path) -> Path:
    """Return a new bare repository with the fleet's status branch."""
    repo = folder / "fleet.git"
    git(folder, "init", "--bare", "--quiet", "--initial-branch=main", str(repo))
    write_branch(repo, files())
    return repo
