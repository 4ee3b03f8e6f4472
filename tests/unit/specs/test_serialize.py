import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.attempt import Attempt, AttemptPhase, Observation, ObservedState, StopCause
from reconciler.domain.cluster import (
    Allocation,
    Cluster,
    Device,
    DeviceKind,
    Node,
    NodeShare,
)
from reconciler.domain.job import PriorityClass, Submission
from reconciler.domain.plan import Expectation, PlannerState
from reconciler.domain.reason import Reason
from reconciler.domain.status import Hold, JobPhase, JobStatus, Summary
from reconciler.domain.units import (
    AttemptId,
    CommitId,
    DeviceId,
    Digest,
    Instant,
    JobId,
    NodeName,
    Seconds,
)
from reconciler.errors import BackendError
from reconciler.specs import serialize
from reconciler.specs.stored import FormatError

# any text but NUL is allowed, lone surrogates (what a broken log line decodes to) included
TEXT = st.text(max_size=30)
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
JOBS = st.builds(lambda team, name: JobId(f"{team}/{name}"), NAMES, NAMES)
COMMITS = st.text("0123456789abcdef", min_size=40, max_size=40).map(CommitId)
INSTANTS = st.integers(0, 4_102_444_800).map(Instant)
COUNTS = st.integers(0, 10**9)
DIGESTS = st.just(Digest("")) | st.text("0123456789abcdef", min_size=64, max_size=64).map(
    lambda text: Digest(f"sha256:{text}")
)


def optional(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


ALLOCATIONS = st.dictionaries(
    NAMES, st.lists(NAMES, min_size=1, max_size=3, unique=True), min_size=1, max_size=3
).map(
    lambda nodes: Allocation(
        shares=tuple(
            NodeShare(node=NodeName(node), devices=tuple(sorted(DeviceId(d) for d in devices)))
            for node, devices in sorted(nodes.items())
        )
    )
)
SUBMISSIONS = st.builds(Submission, commit=COMMITS, committed_at=INSTANTS)
ATTEMPTS = st.builds(
    Attempt,
    id=TEXT.map(AttemptId),
    number=COUNTS,
    phase=st.sampled_from(AttemptPhase),
    commit=COMMITS,
    spec_digest=DIGESTS,
    allocation=ALLOCATIONS,
    decided_at=INSTANTS,
    grace_s=COUNTS.map(Seconds),
    started_at=optional(INSTANTS),
    stop_asked_at=optional(INSTANTS),
    stop_cause=optional(st.sampled_from(StopCause)),
    ended_at=optional(INSTANTS),
    reason=optional(st.sampled_from(Reason)),
    exit_status=optional(st.integers(-64, 255)),
    step=optional(COUNTS),
    checkpoint_step=optional(COUNTS),
    checkpoint_at=optional(INSTANTS),
)
SUMMARIES = st.builds(
    Summary,
    priority=st.sampled_from(PriorityClass),
    gpus=COUNTS,
    gpu_types=st.lists(TEXT, max_size=2).map(tuple),
    model=TEXT,
    submitted_at=INSTANTS,
)
HOLDS = st.builds(
    Hold,
    freed_for=JOBS,
    devices=ALLOCATIONS,
    victims=st.lists(TEXT.map(AttemptId), max_size=2).map(tuple),
)
STATUSES = st.builds(
    JobStatus,
    job=JOBS,
    phase=st.sampled_from(JobPhase),
    reason=st.sampled_from(Reason),
    message=TEXT,
    generation=st.integers(1, 99),
    submission=st.just(CommitId("")) | COMMITS,
    observed_commit=st.just(CommitId("")) | COMMITS,
    spec_digest=DIGESTS,
    summary=optional(SUMMARIES),
    attempts=st.lists(ATTEMPTS, max_size=3).map(tuple),
    attempts_made=COUNTS,
    tries_used=COUNTS,
    lost=COUNTS,
    preemptions=COUNTS,
    ran_s=COUNTS.map(Seconds),
    gpu_seconds=COUNTS,
    holds=st.lists(HOLDS, max_size=2).map(tuple),
    retry_at=optional(INSTANTS),
    absent_since=optional(INSTANTS),
    prune_allowed=st.booleans(),
    resubmitted=optional(SUBMISSIONS),
    since=optional(INSTANTS),
)
EXPECTATIONS = st.builds(
    Expectation,
    job=JOBS,
    start_p50=INSTANTS,
    start_p90=INSTANTS,
    end_p50=INSTANTS,
    end_p90=INSTANTS,
    allocation=optional(ALLOCATIONS),
    rests_on=st.lists(JOBS, max_size=2).map(tuple),
)

A_STATUS = JobStatus(
    job=JobId("support/t1-sft"),
    phase=JobPhase.RUNNING,
    reason=Reason.GPUS_FREE,
    submission=CommitId("5" * 40),
    observed_commit=CommitId("6" * 40),
    spec_digest=Digest("sha256:" + "0" * 64),
    summary=Summary(
        priority=PriorityClass.P1,
        gpus=2,
        gpu_types=("A100-80GB",),
        model="Qwen/Qwen3-8B",
        submitted_at=Instant(1_796_000_000),
    ),
    attempts=(
        Attempt(
            id=AttemptId("support.t1-sft-g1-a1-0123456789"),
            number=1,
            phase=AttemptPhase.RUNNING,
            commit=CommitId("6" * 40),
            spec_digest=Digest("sha256:" + "0" * 64),
            allocation=Allocation(
                shares=(
                    NodeShare(node=NodeName("n1"), devices=(DeviceId("cpu-0"), DeviceId("cpu-1"))),
                )
            ),
            decided_at=Instant(1_796_000_010),
            started_at=Instant(1_796_000_012),
        ),
    ),
    attempts_made=1,
    since=Instant(1_796_000_010),
)
A_TEXT = """\
{
  "api_version": "headway/v1",
  "attempts": [
    {"allocation": {"n1": ["cpu-0", "cpu-1"]}, "commit": \
"6666666666666666666666666666666666666666", "decided_at": "2026-11-30T00:53:30Z", \
"id": "support.t1-sft-g1-a1-0123456789", "number": 1, \
"phase": "running", "spec_digest": \
"sha256:0000000000000000000000000000000000000000000000000000000000000000", \
"started_at": "2026-11-30T00:53:32Z"}
  ],
  "attempts_made": 1,
  "generation": 1,
  "job": "support/t1-sft",
  "kind": "JobStatus",
  "observed": {"commit": "6666666666666666666666666666666666666666", "spec_digest": \
"sha256:0000000000000000000000000000000000000000000000000000000000000000"},
  "phase": "running",
  "reason": "gpus_free",
  "since": "2026-11-30T00:53:30Z",
  "submission": "5555555555555555555555555555555555555555",
  "summary": {"gpu_type": ["A100-80GB"], "gpus": 2, "model": "Qwen/Qwen3-8B", "priority": "P1", \
"submitted_at": "2026-11-30T00:53:20Z"}
}
"""


@given(STATUSES)
def test_every_status_comes_back_as_it_was_written(status: JobStatus) -> None:
    text = serialize.status_to_json(status)

    assert serialize.status_from_json(text, status.job) == status
    assert text.endswith(b"}\n")
    assert serialize.status_to_json(serialize.status_from_json(text, status.job)) == text


@given(st.lists(EXPECTATIONS, max_size=4), INSTANTS)
def test_every_forecast_comes_back_as_it_was_written(
    expectations: list[Expectation], at: Instant
) -> None:
    forecast = serialize.Forecast(published_at=at, jobs={each.job: each for each in expectations})

    assert serialize.forecast_from_json(serialize.forecast_to_json(forecast)) == forecast


@given(STATUSES)
def test_plain_data_of_a_value_survives_json(status: JobStatus) -> None:
    plain = json.loads(serialize.canonical(serialize.to_plain(status)))

    assert serialize.from_plain(JobStatus, plain) == status


def test_a_status_is_spelt_as_documented() -> None:
    assert serialize.status_to_json(A_STATUS).decode() == A_TEXT


def test_the_defaults_that_are_left_out_never_change() -> None:
    """A file without a key means this value; a changed default would rewrite history."""
    bare = (
        b'{"api_version": "headway/v1", "kind": "JobStatus", "job": "a/b", "phase": "pending", '
        b'"reason": "gpus_busy", "attempts": [{"id": "x", "number": 1, "phase": "running", '
        b'"commit": "c", "spec_digest": "d", "allocation": {"n": ["0"]}, '
        b'"decided_at": "2026-11-30T09:00:00Z"}]}'
    )

    status = serialize.status_from_json(bare, JobId("a/b"))

    assert status == JobStatus(
        job=JobId("a/b"), phase=JobPhase.PENDING, reason=Reason.GPUS_BUSY, message="",
        generation=1, submission=CommitId(""), observed_commit=CommitId(""),
        spec_digest=Digest(""), summary=None, attempts=status.attempts, attempts_made=0,
        tries_used=0, lost=0, preemptions=0, ran_s=Seconds(0), gpu_seconds=0, holds=(),
        retry_at=None, absent_since=None, prune_allowed=False, resubmitted=None, since=None,
    )  # fmt: skip
    assert status.attempts[0].grace_s == 600
    assert status.attempts[0].started_at is status.attempts[0].exit_status is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"api_version": "headway/v2"}, "written as 'headway/v2' 'JobStatus'"),
        ({"kind": "Reservation"}, "written as 'headway/v1' 'Reservation'"),
        ({"surprise": 1}, "knows no key 'surprise'"),
        ({"phase": "napping"}, r"phase: 'napping' is no JobPhase"),
        ({"phase": ["running"]}, r"phase: \['running'\] is no JobPhase"),
        ({"since": "2026-11-30"}, "is not an instant like"),
        ({"since": "2026-13-30T09:00:00Z"}, "is not an instant like"),
        ({"since": 5}, "5 is not an instant"),
        ({"attempts_made": "2"}, "expected int, found '2'"),
        ({"attempts_made": True}, "expected int, found True"),
        ({"attempts": {}}, "attempts: expected a list"),
        ({"attempts": [{"number": 1}]}, r"attempts\[0\]: .*missing"),
        ({"job": "other/job"}, "names another job, 'other/job'"),
        ({"observed": {"tree": "x"}}, "observed holds"),
        ({"observed_commit": "x"}, "belongs into observed"),
        ({"summary": {"priority": "P9"}}, "summary.priority: 'P9' is not one of P0 to P4"),
        ({"summary": 3}, "summary: expected an object"),
    ],
)
def test_a_file_this_version_would_not_write_is_refused_and_says_where(
    change: dict[str, object], message: str
) -> None:
    body = json.loads(A_TEXT) | change

    with pytest.raises(FormatError, match=message) as error:
        serialize.status_from_json(json.dumps(body).encode(), A_STATUS.job)

    assert "support/t1-sft" in str(error.value)
    assert isinstance(error.value, BackendError)
    assert not error.value.retryable


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(FormatError):
        serialize.status_from_json(text, A_STATUS.job)


def test_small_files_come_back() -> None:
    cursor = serialize.Cursor(desired=CommitId("a" * 40), runs="/var/lib/headway/runs")
    lease = serialize.LeaseRecord(epoch=3, holder="host-1a2b")

    assert serialize.cursor_from_json(serialize.cursor_to_json(cursor)) == cursor
    assert serialize.lease_from_json(serialize.lease_to_json(lease)) == lease
    assert serialize.lease_to_json(lease) == b'{\n  "epoch": 3,\n  "holder": "host-1a2b"\n}\n'


@pytest.mark.parametrize(
    "value",
    [
        Observation(attempt=AttemptId("a"), state=ObservedState.RUNNING, step=3, message="ä"),
        Cluster(
            id="laptop",
            nodes=(
                Node(
                    name=NodeName("n1"),
                    rack="r1",
                    devices=(
                        Device(id=DeviceId("0"), kind=DeviceKind.GPU, type="H100", memory_gib=79.1),
                    ),
                ),
            ),
        ),
        PlannerState(),
    ],
)
def test_what_inputs_hold_comes_back(value: object) -> None:
    assert serialize.from_plain(type(value), serialize.to_plain(value)) == value


def test_canonical_text_does_not_depend_on_the_order_of_keys() -> None:
    assert serialize.canonical({"b": [1, 2.5], "a": "ä"}) == b'{"a":"\xc3\xa4","b":[1,2.5]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        serialize.canonical({"x": float("nan")})


def test_equal_statuses_are_equal_bytes_in_every_process() -> None:
    program = (
        "from tests.unit.specs.test_serialize import A_STATUS; import sys; "
        "from reconciler.specs.serialize import status_to_json; "
        "sys.stdout.buffer.write(status_to_json(A_STATUS))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, check=True, env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
        ).stdout
        for seed in ("0", "4711")
    }  # fmt: skip

    assert texts == {A_TEXT.encode()}


def test_reading_statuses_loads_nothing_heavy() -> None:
    program = (
        "import sys, reconciler.specs.serialize, reconciler.store.status_tree; "
        "print([name for name in ('git', 'pydantic', 'hydra', 'omegaconf', 'yaml', 'numpy', "
        "'click', 'torch') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert done.stdout == b"[]\n"


def test_a_changed_field_is_a_changed_file() -> None:
    changed = replace(A_STATUS, lost=1)

    assert b'"lost": 1' in serialize.status_to_json(changed)
    assert b"lost" not in serialize.status_to_json(A_STATUS)
