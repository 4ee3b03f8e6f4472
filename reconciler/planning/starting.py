"""The attempt a start makes, and the words it is told with."""

from reconciler.domain.attempt import Attempt, AttemptPhase, attempt_id
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning.caches import cached_words
from reconciler.planning.eligibility import counted
from reconciler.planning.standing import Standing
from reconciler.planning.topology import Layout, allocation_of


def start(
    snapshot: Snapshot, standing: Standing, devices: int, where: Layout, *, was_freed: bool
) -> Decision:
    """Return the start of a job on ``devices``; ``was_freed``: somebody left for it."""
    attempt = attempt_of(snapshot, standing, devices, where)
    assert standing.spec is not None  # it has an attempt
    nodes = [share.node for share in attempt.allocation.shares]
    said = f"{counted(attempt.gpus, where.unit)} on {', '.join(nodes)}"
    cached = cached_words(standing.spec.facts, nodes, where.caches)
    return Decision(
        job=standing.id,
        verb=Verb.START,
        reason=Reason.GPUS_FREED_BY_VICTIM if was_freed else Reason.GPUS_FREE,
        detail=f"{said}, {cached}" if cached else said,
        attempt=attempt,
    )


def attempt_of(snapshot: Snapshot, standing: Standing, devices: int, where: Layout) -> Attempt:
    """Return the next attempt of a job, on ``devices``, in phase ``launching``."""
    status, wanted, spec = standing.status, standing.wanted, standing.spec
    assert status is not None and wanted is not None and spec is not None  # it wants devices
    number = status.attempts_made + 1
    return Attempt(
        id=attempt_id(
            cluster=snapshot.cluster.id,
            job=standing.id,
            submission=status.submission,
            generation=status.generation,
            number=number,
        ),
        number=number,
        phase=AttemptPhase.LAUNCHING,
        commit=wanted.commit,
        spec_digest=spec.spec_digest,
        allocation=allocation_of(devices, where),
        decided_at=snapshot.now,
        grace_s=spec.grace_s,
        preemptible=spec.preemptible,
        runs_command=spec.runs_command,
        budget_group=spec.budget_group,
    )


def preempting(job: JobId, victims: tuple[JobId, ...], devices: int, where: Layout) -> Decision:
    """Return the wait of a job for which devices are kept until its victims have left."""
    return Decision(
        job=job,
        verb=Verb.WAIT,
        reason=Reason.PREEMPTING,
        detail=f"waits for {', '.join(victims)}",
        victims=victims,
        hold=allocation_of(devices, where),
    )


def preempt(victim: JobId, for_job: JobId) -> Decision:
    """Return the request to a victim to leave."""
    return Decision(
        job=victim,
        verb=Verb.PREEMPT,
        reason=Reason.FREED_FOR_PREEMPTOR,
        detail=f"makes room for {for_job}",
        for_job=for_job,
    )
