"""A fleet on paper: the cluster, the teams and the documents of a load, as the planner knows them.

Nodes are equal and named so that their order is their number.  Names of teams and jobs are made
legal (``[a-z0-9-]``); a gang of at most a node's GPUs stays on one node, a wider one anywhere, as
for the policies it is compared with.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from reconciler.domain.cluster import Cluster, Device, DeviceKind, Node
from reconciler.domain.job import (
    ElasticRange,
    GangSize,
    GpuRequest,
    JobSpec,
    PriorityClass,
    TopologyDomain,
)
from reconciler.domain.team import Team
from reconciler.domain.units import (
    CommitId,
    DeviceId,
    Digest,
    Instant,
    JobName,
    NodeName,
    Seconds,
    TeamName,
)
from reconciler.simulate.asks import Ask

GPU_TYPE = "GPU"
MEMORY_GIB = 80.0
EPOCH = Instant(1_600_000_000)
"""Second 0 of every trace, so that no instant is near zero."""
SPEED_EXPONENT = 0.9
GRACE_S = Seconds(600)


def instant(trace_s: float) -> Instant:
    """Return the instant of a second of the trace."""
    return Instant(EPOCH + round(trace_s))


def paper_cluster(nodes: int, gpus_per_node: int, tor_size: int | None = None) -> Cluster:
    """Return ``nodes`` equal nodes; a ToR group is a rack, without groups there is one rack."""
    digits = len(str(nodes - 1))
    return Cluster(
        id="paper",
        nodes=tuple(
            Node(
                name=NodeName(f"n{at:0{digits}d}"),
                rack=f"r{at // tor_size:0{digits}d}" if tor_size else "r",
                devices=tuple(
                    Device(
                        id=DeviceId(f"g{gpu:02d}"),
                        kind=DeviceKind.GPU,
                        type=GPU_TYPE,
                        memory_gib=MEMORY_GIB,
                        island=f"n{at}",
                    )
                    for gpu in range(gpus_per_node)
                ),
            )
            for at in range(nodes)
        ),
    )


def legal_name(text: str) -> str:
    """Return ``text`` in lower case with everything but letters, digits and ``-`` made ``-``."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "none"


def paper_spec(ask: Ask, gpus_per_node: int, grace_s: Seconds = GRACE_S) -> JobSpec:
    """Return the document of one job: what its user would have written, and no truth beyond it."""
    within = TopologyDomain.NODE if ask.gpus <= gpus_per_node else TopologyDomain.CLUSTER
    spec = JobSpec(
        team=TeamName(legal_name(ask.team)),
        name=JobName(legal_name(ask.id)),
        gpus=GpuRequest(count=ask.gpus, within=within),
        priority=PriorityClass(ask.priority),
        deadline=None if ask.deadline_s is None else instant(ask.deadline_s),
        serves_online=ask.serves_online,
        preemptible=ask.preemptible,
        grace_s=grace_s,
        estimate_s=None if ask.prediction_s is None else Seconds(ask.prediction_s),
        limit_s=None if ask.limit_s is None else Seconds(ask.limit_s),
        elastic=(
            ElasticRange(min_gpus=ask.min_gpus, max_gpus=ask.max_gpus) if ask.max_gpus else None
        ),
    )
    return with_digest(spec)


def pace(asked_gpus: int, gpus: int) -> float:
    """Return how much longer a gang takes on ``gpus`` than on what it asked for: (g / k)^0.9."""
    return float((asked_gpus / gpus) ** SPEED_EXPONENT)


def paper_sizes(ask: Ask, default_s: int) -> tuple[GangSize, ...]:
    """Return the sizes of an elastic job: what it asks for first, half and twice that.

    Durations are what its user predicts, else half the limit, else ``default_s``, by :func:`pace`.
    """
    guess = ask.prediction_s or (ask.limit_s or 2 * default_s) // 2
    late = max(ask.limit_s or round(guess * 1.5), guess)
    return tuple(
        GangSize(
            gpus=gpus,
            gpu_type="",
            duration_p50_s=Seconds(max(round(guess * pace(ask.gpus, gpus)), 1)),
            duration_p90_s=Seconds(max(round(late * pace(ask.gpus, gpus)), 1)),
        )
        for gpus in (ask.gpus, ask.min_gpus, ask.max_gpus)
    )


def with_digest(spec: JobSpec) -> JobSpec:
    """Return ``spec`` with a digest of what may change in it."""
    text = f"{spec.id} {spec.gpus.count} {spec.limit_s}"
    return replace(spec, spec_digest=Digest(f"sha256:{sha256(text.encode()).hexdigest()}"))


def paper_commit(number: int) -> CommitId:
    """Return the id of the ``number``-th commit of a main branch that exists on paper."""
    return CommitId(f"{number:040x}")


def paper_teams(teams: Mapping[str, int | None], cohort: str | None) -> dict[TeamName, Team]:
    """Return teams with a quota in GPUs of any type (None: no quota), all of one cohort."""
    return {
        TeamName(name): Team(
            name=TeamName(name),
            quota_gpus={} if quota is None else {"*": quota},
            cohort=cohort,
            may_use_p0=True,
        )
        for name, quota in sorted(teams.items())
    }
