"""How long is a job expected to run, how much memory will it need, and at which gang sizes?

Memory is the estimate of the document (:mod:`reconciler.specs.estimates`) times what the fleet's
own runs teach.  Sizes that do not fit are left out, so nothing is ever shrunk below what fits.

The duration rests on what the document says: its estimate.  Without one it is steps times the
expected time of a step, where runs alike or a calibrated device tell it; else half the limit,
else the policy's default.  The bound p90 of a person's estimate is the limit, else one and a half
times p50: a limit is what one is sure to need at most, an estimate is what one hopes for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.domain.cluster import Cluster
from reconciler.domain.job import GangSize, JobSpec, SizeEstimate
from reconciler.domain.policy import Policy
from reconciler.domain.snapshot import DesiredJob
from reconciler.domain.units import Digest, JobId, Seconds
from reconciler.snapshots.learned import NOTHING_LEARNED, Learned
from reconciler.specs.estimates import margin_of

START_S = 60
"""Time to start the processes and load the model, where the duration is made from steps."""


def gang_sizes(
    spec: JobSpec,
    policy: Policy,
    learned: Learned = NOTHING_LEARNED,
    usable: Mapping[str, float] | None = None,
) -> tuple[GangSize, ...]:
    """Return the legal sizes of ``spec`` that fit, the requested one first; seconds and GiB.

    One entry a size and device type where the document was estimated, else the requested size
    alone.  ``usable`` is the largest usable memory by device type; what is not in it fits.
    """
    if not spec.estimates:
        p50, p90 = expected_duration_s(spec, policy)
        only = spec.gpus.types[0] if len(spec.gpus.types) == 1 else ""
        return (
            GangSize(gpus=spec.gpus.count, gpu_type=only, duration_p50_s=p50, duration_p90_s=p90),
        )
    fitting = [one for one in spec.estimates if _fits(one, learned, usable or {})]
    asked = spec.estimates[0]
    return tuple(_size(spec, one, asked, policy, learned) for one in fitting or [asked])


def needed_memory_gib(spec: JobSpec, learned: Learned) -> float:
    """Return the usable memory below which the requested size surely fails, as measured runs
    correct it; 0 where nothing is known or measured runs do not raise it."""
    asked = [one for one in spec.estimates if one.gpus == spec.gpus.count]
    return min((_needed(one, learned) for one in asked), default=0.0)


def _needed(one: SizeEstimate, learned: Learned) -> float:
    factor = learned.memory_factor(one)
    return 0.0 if one.is_cpu else int(one.memory_gib * factor * margin_of(one).fits * 100) / 100


def _fits(one: SizeEstimate, learned: Learned, usable: Mapping[str, float]) -> bool:
    return _needed(one, learned) <= usable.get(one.gpu_type, float("inf"))


def _size(
    spec: JobSpec, one: SizeEstimate, asked: SizeEstimate, policy: Policy, learned: Learned
) -> GangSize:
    p50, p90 = _duration_s(spec, one, asked, policy, learned)
    memory = one.memory_gib * learned.memory_factor(one)
    return GangSize(
        gpus=one.gpus,
        gpu_type=one.gpu_type,
        duration_p50_s=p50,
        duration_p90_s=p90,
        memory_p50_gib=round(memory, 2),
        memory_p90_gib=round(memory * margin_of(one).p90, 2),
    )


def _duration_s(
    spec: JobSpec, one: SizeEstimate, asked: SizeEstimate, policy: Policy, learned: Learned
) -> tuple[Seconds, Seconds]:
    slower = one.step_s / asked.step_s if asked.step_s > 0 else 1.0
    if spec.estimate_s is not None:
        return expected_duration_s(spec, policy, slower)
    steps = learned.whole_steps(spec.facts, one.gpu_type)
    pace = learned.pace(spec.facts, one)
    if steps is None or pace is None:
        return expected_duration_s(spec, policy, slower)
    p50 = START_S + steps * one.step_s * pace.factor
    return _within(spec.limit_s, p50, START_S + (p50 - START_S) * pace.p90)


def expected_duration_s(
    spec: JobSpec, policy: Policy, slower: float = 1.0
) -> tuple[Seconds, Seconds]:
    """Return (p50, p90) of the running time of one generation, in seconds, p50 <= p90.

    ``slower`` is the time of a step over that of the size the document speaks of.
    """
    limit = spec.limit_s
    if spec.estimate_s is not None:
        p50 = spec.estimate_s * slower
    elif limit is not None:
        p50 = limit / 2 * slower
    else:
        p50 = policy.default_duration_s * slower
    return _within(limit, p50, p50 * 1.5 if limit is None else limit)


def _within(limit: Seconds | None, p50: float, p90: float) -> tuple[Seconds, Seconds]:
    """Return whole seconds, at least one, at most the limit, in order."""
    bound = float("inf") if limit is None else float(limit)
    low = max(int(min(p50, bound)), 1)
    return Seconds(low), Seconds(max(int(min(p90, bound)), low))


class Sizer:
    """Sizes of every job; makes again only those that a new run or another policy changes.

    A document's digest stands for it: ten thousand jobs cost milliseconds when one run ends.
    """

    def __init__(self) -> None:
        self._known: dict[Digest, tuple[GangSize, ...]] = {}
        self._policy = Policy()
        self._usable: dict[str, float] = {}
        self._learned = NOTHING_LEARNED

    def sizes(
        self, jobs: Iterable[DesiredJob], policy: Policy, learned: Learned, cluster: Cluster
    ) -> dict[JobId, tuple[GangSize, ...]]:
        """Return the sizes of every job with a spec."""
        usable = usable_gib(cluster)
        changed = learned.changed_since(self._learned)
        if (policy, usable) != (self._policy, self._usable) or changed is None:
            self._known.clear()
            changed = frozenset()
        self._policy, self._usable, self._learned = policy, usable, learned
        kept: dict[Digest, tuple[GangSize, ...]] = {}
        found = {}
        for job in jobs:
            spec = job.spec
            if spec is None:
                continue
            facts, digest = spec.facts, spec.spec_digest
            sizes = self._known.get(digest)
            if sizes is None or (facts.model, facts.task, facts.tuner) in changed:
                sizes = gang_sizes(spec, policy, learned, usable)
            if digest:
                kept[digest] = sizes
            found[job.id] = sizes
        self._known = kept
        return found


def usable_gib(cluster: Cluster) -> dict[str, float]:
    """Return the largest usable memory of each type of device."""
    largest: dict[str, float] = {}
    for node in cluster.nodes:
        for device in node.devices:
            largest[device.type] = max(largest.get(device.type, 0.0), device.memory_gib)
    return largest


def able(jobs: Mapping[JobId, DesiredJob], learned: Learned) -> Mapping[JobId, DesiredJob]:
    """Return the jobs, kept off devices on which measured runs say that they fail."""
    if all(round(factor, 2) <= 1 for factor in learned.memory.values()):
        return jobs
    return {job: _able(wanted, learned) for job, wanted in jobs.items()}


def _able(job: DesiredJob, learned: Learned) -> DesiredJob:
    spec = job.spec
    if spec is None:
        return job
    needed = needed_memory_gib(spec, learned)
    if needed <= spec.gpus.min_memory_gib:
        return job
    return replace(job, spec=replace(spec, gpus=replace(spec.gpus, min_memory_gib=needed)))
