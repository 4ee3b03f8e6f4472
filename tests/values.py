"""Planner values with quiet defaults: a test names only the fields that matter to it.

``a_snapshot`` also takes what scenario files say, in their spelling: nodes as GPU counts, jobs as
small mappings, durations as ``50m``.  A key it does not know is an error, never ignored.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from reconciler.domain.attempt import (
    Attempt,
    AttemptPhase,
    Observation,
    ObservedState,
    Outcome,
    attempt_id,
)
from reconciler.domain.cluster import (
    Allocation,
    Caches,
    Cluster,
    Device,
    DeviceKind,
    Node,
    NodeShare,
    NodeState,
)
from reconciler.domain.job import (
    ElasticRange,
    GangSize,
    GpuRequest,
    Interconnect,
    JobSpec,
    PriorityClass,
    TopologyDomain,
    WorkloadFacts,
)
from reconciler.domain.policy import Order, Policy, ScoreWeights
from reconciler.domain.problem import SpecProblem
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase, JobStatus, Summary
from reconciler.domain.team import Team
from reconciler.domain.units import (
    CommitId,
    DeviceId,
    Digest,
    Instant,
    JobId,
    JobName,
    NodeName,
    Seconds,
    TeamName,
)

NOW = Instant(1_772_442_000)
"""2026-03-02T09:00:00Z, a multiple of the rerank interval."""
TEAM = "research"
CLUSTER_ID = "lab"
GPU_TYPE = "A100-80GB"
WATTS = 700

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def seconds(value: str | int) -> Seconds:
    """Return ``1d12h``, ``50m`` or a plain number of seconds as seconds."""
    if isinstance(value, int):
        return Seconds(value)
    parts = re.findall(r"(\d+)([dhms])", value)
    if "".join(number + unit for number, unit in parts) != value or not parts:
        raise ValueError(f"not a duration: {value!r}")
    return Seconds(sum(int(number) * _UNITS[unit] for number, unit in parts))


def instant(value: int | datetime) -> Instant:
    return Instant(value if isinstance(value, int) else int(value.timestamp()))


def a_commit(name: str) -> CommitId:
    """Return a commit id that is the same for the same ``name``."""
    return CommitId(sha256(name.encode()).hexdigest()[:40])


def a_job_id(name: str) -> JobId:
    """Return ``name`` with the default team, unless it names one."""
    return JobId(name if "/" in name else f"{TEAM}/{name}")


MAIN = a_commit("main")


def a_node(
    name: str,
    gpus: int = 8,
    *,
    gpu_type: str = GPU_TYPE,
    memory_gib: float = 79.15,
    rack: str = "r1",
    islands: int = 1,
    state: str = "ready",
    kind: str = "gpu",
    models: Sequence[str] = (),
    data: Sequence[str] = (),
) -> Node:
    """Return a node whose GPUs are split evenly over ``islands`` (0: no NVLink at all).

    ``models`` and ``data`` are cached on it.
    """
    per_island = gpus // islands if islands else 0
    devices = tuple(
        Device(
            id=DeviceId(f"{name}-gpu{i:02d}"),
            kind=DeviceKind(kind),
            type=gpu_type,
            memory_gib=memory_gib,
            island=f"i{i // per_island}" if per_island else "",
        )
        for i in range(gpus)
    )
    return Node(
        name=NodeName(name),
        rack=rack,
        devices=devices,
        state=NodeState(state),
        caches=Caches(models=tuple(models), data=tuple(data)),
    )


def a_cluster(nodes: Mapping[str, int | Mapping[str, Any]] | None = None) -> Cluster:
    """Return a cluster from GPU counts or keywords of :func:`a_node` by node name.

    A node's ``rack_gpus`` says how many devices its rack has the power for at once, ``rdma`` that
    RDMA joins the nodes of its rack.
    """
    made: list[Node] = []
    rack_watts: dict[str, int] = {}
    joined: set[str] = set()
    for name, said in ({"n1": 8} if nodes is None else nodes).items():
        node = {"gpus": said} if isinstance(said, int) else dict(said)
        powered, has_rdma = node.pop("rack_gpus", None), node.pop("rdma", False)
        made.append(a_node(name, **node))
        if has_rdma:
            joined.add(made[-1].rack)
        if powered is not None:
            rack_watts[made[-1].rack] = powered * WATTS
    types = {device.type for node in made for device in node.devices}
    return Cluster(
        id=CLUSTER_ID,
        nodes=tuple(sorted(made, key=lambda node: node.name)),
        rdma_racks=tuple(sorted(joined)),
        rack_watts=rack_watts,
        device_watts=dict.fromkeys(sorted(types), WATTS) if rack_watts else {},
    )


def devices_of(cluster: Cluster, where: Mapping[str, list[int]]) -> Allocation:
    """Return the devices at these positions of these nodes."""
    nodes = {node.name: node for node in cluster.nodes}
    return Allocation(
        shares=tuple(
            NodeShare(
                node=NodeName(name),
                devices=tuple(nodes[NodeName(name)].devices[i].id for i in sorted(where[name])),
            )
            for name in sorted(where)
        )
    )


def a_spec(
    name: str = "job",
    *,
    gpus: int = 1,
    within: str = "node",
    types: tuple[str, ...] | list[str] = (),
    min_memory_gib: float = 0.0,
    interconnect: str = "any",
    priority: str = "P2",
    model: str = "",
    data: tuple[str, ...] | list[str] = (),
    max_steps: int | None = None,
    after: tuple[str, ...] | list[str] = (),
    grace: str | int = "2m",
    estimate: str | int | None = None,
    limit: str | int | None = None,
    deadline_in: str | int | None = None,
    elastic: tuple[int, int] | list[int] | None = None,
    now: Instant = NOW,
    **fields_as_they_are: Any,
) -> JobSpec:
    """Return a spec; other keywords are fields of ``JobSpec`` itself."""
    team, short = a_job_id(name).split("/")
    spec = JobSpec(
        team=TeamName(team),
        name=JobName(short),
        gpus=GpuRequest(
            count=gpus,
            within=TopologyDomain(within),
            types=tuple(types),
            min_memory_gib=min_memory_gib,
            interconnect=Interconnect(interconnect),
        ),
        facts=WorkloadFacts(model=model, data=tuple(data), max_steps=max_steps),
        priority=PriorityClass[priority],
        after=tuple(a_job_id(job) for job in after),
        grace_s=seconds(grace),
        estimate_s=None if estimate is None else seconds(estimate),
        limit_s=None if limit is None else seconds(limit),
        elastic=None if elastic is None else ElasticRange(min_gpus=elastic[0], max_gpus=elastic[1]),
        deadline=None if deadline_in is None else Instant(now + seconds(deadline_in)),
        **fields_as_they_are,
    )
    return replace(spec, spec_digest=a_digest(spec))


def a_size(gpus: int, duration_s: Seconds) -> GangSize:
    """Return a legal size of a job, with what is expected of it there."""
    return GangSize(
        gpus=gpus,
        gpu_type="",
        duration_p50_s=duration_s,
        duration_p90_s=Seconds(duration_s * 3 // 2),
    )


def a_digest(spec: JobSpec) -> Digest:
    """Return a digest of what the spec says, live fields left in."""
    return Digest(
        f"sha256:{sha256(repr(replace(spec, spec_digest=Digest(''))).encode()).hexdigest()}"
    )


def a_status(spec: JobSpec, *, submitted_at: Instant = NOW, **changed: Any) -> JobStatus:
    """Return the status of a pending job of ``spec``, with fields changed."""
    status = JobStatus(
        job=spec.id,
        phase=JobPhase.PENDING,
        reason=Reason.GPUS_BUSY,
        generation=spec.generation,
        submission=a_commit(f"submission of {spec.id}"),
        observed_commit=MAIN,
        spec_digest=spec.spec_digest,
        summary=Summary(
            priority=spec.priority,
            gpus=spec.gpus.count,
            gpu_types=spec.gpus.types,
            model=spec.facts.model,
            submitted_at=submitted_at,
        ),
        since=submitted_at,
    )
    return replace(status, **changed)


def an_attempt(
    spec: JobSpec,
    allocation: Allocation,
    *,
    number: int = 1,
    phase: str = "running",
    ran: str | int = "1h",
    now: Instant = NOW,
    **changed: Any,
) -> Attempt:
    """Return an attempt at ``spec`` that started ``ran`` ago (launching ones were decided then)."""
    began = Instant(now - seconds(ran))
    attempt = Attempt(
        id=attempt_id(
            cluster=CLUSTER_ID,
            job=spec.id,
            submission=a_commit(f"submission of {spec.id}"),
            generation=spec.generation,
            number=number,
        ),
        number=number,
        phase=AttemptPhase(phase),
        commit=MAIN,
        spec_digest=spec.spec_digest,
        allocation=allocation,
        decided_at=began,
        started_at=None if phase == "launching" else began,
        grace_s=spec.grace_s,
        preemptible=spec.preemptible,
        runs_command=spec.runs_command,
        budget_group=spec.budget_group,
    )
    return replace(attempt, **changed)


def an_observation(attempt: Attempt, state: str = "running", **changed: Any) -> Observation:
    """Return what a launcher saw of ``attempt``."""
    if "outcome" in changed:
        changed["outcome"] = Outcome(changed["outcome"])
    seen = Observation(
        attempt=attempt.id, state=ObservedState(state), started_at=attempt.started_at
    )
    return replace(seen, **changed)


def a_team(name: str = TEAM, **changed: Any) -> Team:
    weights = changed.pop("weights", None)
    quota = changed.pop("quota", {})
    return Team(
        name=TeamName(name),
        quota_gpus=quota,
        weights=None if weights is None else ScoreWeights(**weights),
        **changed,
    )


def a_policy(**parts: Any) -> Policy:
    """Return a policy with parts changed: ``preemption={"restart": "2m"}``.

    Quietly by score, whose decisions follow from one look; tests of the value order name it.
    """
    policy = Policy(order=Order.SCORE)
    for name, value in parts.items():
        if name == "order":
            policy = replace(policy, order=Order(value))
        elif name == "waiting_bounds":
            bounds = {PriorityClass[key]: seconds(bound) for key, bound in value.items()}
            policy = replace(policy, waiting_bounds=bounds)
        elif isinstance(value, Mapping) and name != "model_heat":
            part = getattr(policy, name)
            policy = replace(policy, **{name: replace(part, **_with_units(part, value))})
        else:
            policy = replace(policy, **_with_units(policy, {name: value}))
    return policy


def _with_units(part: Any, changed: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name for field in fields(part)}
    return {
        (name if name in known else f"{name}_s"): (value if name in known else seconds(value))
        for name, value in changed.items()
    }


def a_problem(message: str = "gpus must be at least 1", *, event: bool = False) -> SpecProblem:
    return SpecProblem(
        file="jobs/research/job.yaml",
        line=3,
        column=9,
        code="HW201",
        message=message,
        is_security_event=event,
    )
