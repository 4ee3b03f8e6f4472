"""What the platform decided, as values: cluster, teams, policy, launcher, budgets, sinks.

Built from documents that were found valid; a light module, so that a warm start needs no
pydantic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.domain.cluster import Caches, Cluster, Device, DeviceKind, Node, NodeState
from reconciler.domain.job import PriorityClass
from reconciler.domain.policy import (
    DeletionPolicy,
    FairUse,
    Order,
    Policy,
    PreemptionPolicy,
    RetryPolicy,
    ScoreWeights,
    SpreadSlowdown,
)
from reconciler.domain.problem import SpecProblem
from reconciler.domain.team import Member, Team
from reconciler.domain.units import DeviceId, NodeName, TeamName
from reconciler.specs.durations import parse_duration, parse_memory

ANY = "*"
"""Key of a quota or a role limit that holds for everything else; ``any`` in files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherSettings:
    """Which launcher runs attempts, the root of its run directories, and the names of the
    reconciler's environment variables that jobs get beside the usual ones."""

    kind: str
    runs_dir: str
    pass_environment: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A platform-wide group of GPU-hours; ``teams`` empty: every team."""

    name: str
    limit_gpu_hours: float
    period: str
    timezone: str
    teams: tuple[TeamName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where a notification goes: a line in the reconciler's log, a file, or a webhook.

    ``secret_env`` names an environment variable.  A sink named ``security`` also hears of
    wildcard, negative and absurd requests.
    """

    name: str
    kind: str
    path: str | None = None
    url: str | None = None
    secret_env: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Everything ``conf/`` says about the fleet, but for the groups jobs compose from."""

    cluster: Cluster
    discovers_devices: bool
    """The machine's own GPUs stand in for the cluster's nodes where there are any."""
    teams: Mapping[TeamName, Team]
    policy: Policy
    launcher: LauncherSettings
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    sample_clusters: Mapping[TeamName, Cluster] = field(default_factory=dict)
    """Clusters of teams that are judged against another than the repository's own."""
    unusable_teams: frozenset[str] = frozenset()
    """Teams whose file has problems of its own."""

    def cluster_of(self, team: TeamName) -> Cluster:
        """Return the cluster a team's jobs are judged against."""
        return self.sample_clusters.get(team, self.cluster)


NO_PLATFORM = Platform(
    cluster=Cluster(id="", nodes=()),
    discovers_devices=False,
    teams={},
    policy=Policy(),
    launcher=LauncherSettings(kind="", runs_dir=""),
)
"""Stands in where ``conf/`` has problems, which say so; nothing is acted on by it."""


@dataclass(slots=True)
class PlatformDocuments:
    """The composed, valid documents a platform is built from; plain values that can be stored."""

    headway: Mapping[str, Any] | None = None
    teams: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    budgets: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    sinks: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    sample_clusters: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    unusable_teams: list[str] = field(default_factory=list)
    problems: list[SpecProblem] = field(default_factory=list)


def build_cluster(document: Mapping[str, Any]) -> Cluster:
    """Return the cluster of a valid ``cluster`` document; nodes sorted by name."""
    nodes = [
        Node(
            name=NodeName(name),
            rack=row["rack"],
            devices=_devices(document["node_types"][row["is"]]),
            state=NodeState(row.get("state", "ready")),
            caches=_caches(row.get("caches", {})),
        )
        for written, row in document["nodes"].items()
        for name in node_names(written)
    ]
    kinds = document["node_types"].values()
    racks = document.get("racks") or {}
    return Cluster(
        id=document["id"],
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        rdma_racks=tuple(sorted(name for name, row in racks.items() if row.get("rdma"))),
        rdma_between_racks=document.get("rdma_between_racks", False),
        rack_watts={
            name: row["power_cap_watts"]
            for name, row in sorted(racks.items())
            if row.get("power_cap_watts")
        },
        device_watts={kind["type"]: kind["watts"] for kind in kinds if kind.get("watts")},
    )


def node_names(written: str) -> list[str]:
    """Return the names that ``dgx-[01-16]`` stands for; a name without brackets is itself."""
    stem, bracket, numbers = written.partition("[")
    if not bracket:
        return [written]
    first, _, last = numbers.rstrip("]").partition("-")
    return [f"{stem}{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]


def _caches(row: Mapping[str, Any]) -> Caches:
    return Caches(
        models=tuple(sorted(row.get("models", ()))), data=tuple(sorted(row.get("data", ())))
    )


def _devices(kind: Mapping[str, Any]) -> tuple[Device, ...]:
    count, islands = kind["count"], kind.get("islands", 0)
    prefix = "cpu" if kind["kind"] == "cpu_slot" else "gpu"
    width = len(str(count - 1))
    return tuple(
        Device(
            id=DeviceId(f"{prefix}-{number:0{width}d}"),
            kind=DeviceKind(kind["kind"]),
            type=kind["type"],
            memory_gib=parse_memory(kind["memory"]),
            island=f"nvlink-{number * islands // count}" if islands else "",
        )
        for number in range(count)
    )


def build_policy(document: Mapping[str, Any]) -> Policy:
    """Return the policy of a valid ``policy`` document; what it leaves out has its default."""
    given: dict[str, Any] = {}
    plain = {"model_heat": "model_heat", "checkpoint_floor_steps": "checkpoint_floor_steps"}
    plain["max_request_gpus"] = "max_request_gpus"
    durations = {
        "cycle": "cycle_s",
        "rerank_every": "rerank_every_s",
        "lease": "lease_s",
        "default_duration": "default_duration_s",
        "lost_after": "lost_after_s",
    }
    _take(document, plain, given)
    _take_durations(document, durations, given)
    if "order" in document:
        given["order"] = Order(document["order"])
    if "waiting_bounds" in document:
        given["waiting_bounds"] = {
            PriorityClass[name]: parse_duration(bound)
            for name, bound in sorted(document["waiting_bounds"].items())
        }
    if "weights" in document:
        given["weights"] = ScoreWeights(**document["weights"])
    if document.get("spread_slowdown"):
        given["spread_slowdown"] = SpreadSlowdown(**document["spread_slowdown"])
    if document.get("fair_use"):
        given["fair_use"] = _fair_use(document["fair_use"])
    given["preemption"] = _preemption(document.get("preemption", {}))
    given["retry"] = _retry(document.get("retry", {}))
    given["deletion"] = _deletion(document.get("deletion", {}))
    return replace(Policy(), **given)


def _fair_use(document: Mapping[str, Any]) -> FairUse:
    given: dict[str, Any] = {}
    _take(document, {"strength": "strength"}, given)
    _take_durations(document, {"half_life": "half_life_s"}, given)
    return FairUse(**given)


def _preemption(document: Mapping[str, Any]) -> PreemptionPolicy:
    given: dict[str, Any] = {}
    _take(document, {"max_per_job": "max_per_job"}, given)
    _take_durations(document, {"restart": "restart_s", "min_run": "min_run_s"}, given)
    if "victims_of" in document:
        given["victims_of"] = {
            PriorityClass[stronger]: tuple(sorted(PriorityClass[weaker] for weaker in victims))
            for stronger, victims in sorted(document["victims_of"].items())
        }
    return PreemptionPolicy(**given)


def _retry(document: Mapping[str, Any]) -> RetryPolicy:
    given: dict[str, Any] = {}
    _take(document, {"max_tries": "max_tries", "max_lost": "max_lost"}, given)
    _take_durations(document, {"backoff": "backoff_s"}, given)
    return RetryPolicy(**given)


def _deletion(document: Mapping[str, Any]) -> DeletionPolicy:
    given: dict[str, Any] = {}
    _take(document, {"brake_jobs": "brake_jobs", "brake_share": "brake_share"}, given)
    _take_durations(document, {"grace": "grace_s"}, given)
    return DeletionPolicy(**given)


def _take(document: Mapping[str, Any], names: Mapping[str, str], into: dict[str, Any]) -> None:
    into.update({field_: document[key] for key, field_ in names.items() if key in document})


def _take_durations(
    document: Mapping[str, Any], names: Mapping[str, str], into: dict[str, Any]
) -> None:
    for key, field_ in names.items():
        if key in document:
            into[field_] = parse_duration(document[key])


def build_team(name: str, document: Mapping[str, Any]) -> Team:
    """Return the team of a valid ``conf/teams/<name>.yaml``."""
    weights = document.get("weights")
    return Team(
        name=TeamName(name),
        members=tuple(
            Member(
                name=member["name"],
                role=member["role"],
                emails=tuple(email.lower() for email in member.get("emails", ())),
                signing_keys=tuple(member.get("signing_keys", ())),
            )
            for member in document.get("members", ())
        ),
        quota_gpus=_with_any(document.get("quota", {})),
        cohort=document.get("cohort"),
        max_request_gpus=_with_any(document.get("max_request", {})),
        may_use_p0=document.get("may_use_p0", False),
        may_run_command=document.get("may_run_command", False),
        weights=None if weights is None else ScoreWeights(**weights),
        interruptions_per_day=document.get("interruptions_per_day"),
    )


def _with_any(limits: Mapping[str, int]) -> dict[str, int]:
    return {(ANY if key == "any" else key): count for key, count in sorted(limits.items())}


def build_budget(name: str, document: Mapping[str, Any]) -> Budget:
    """Return the budget of a valid ``conf/budgets/<name>.yaml``."""
    return Budget(
        name=name,
        limit_gpu_hours=float(document["limit_gpu_hours"]),
        period=document["period"],
        timezone=document["timezone"],
        teams=tuple(TeamName(team) for team in sorted(document.get("teams", ()))),
    )


def build_sink(name: str, document: Mapping[str, Any]) -> Sink:
    """Return the sink of a valid ``conf/sinks/<name>.yaml``."""
    return Sink(
        name=name,
        kind=document["kind"],
        path=document.get("path"),
        url=document.get("url"),
        secret_env=document.get("secret_env"),
    )


def build_launcher(row: Mapping[str, Any]) -> LauncherSettings:
    """Return the settings of the launcher in ``conf/launcher``."""
    passed = tuple(sorted(set(row.get("pass_environment", ()))))
    return LauncherSettings(kind=row["kind"], runs_dir=row["runs_dir"], pass_environment=passed)


def build_platform(found: PlatformDocuments) -> Platform:
    """Return the platform, :data:`NO_PLATFORM` where ``headway.yaml`` gave none."""
    if found.headway is None:
        return NO_PLATFORM
    clusters = {name: build_cluster(row) for name, row in sorted(found.sample_clusters.items())}
    return Platform(
        cluster=build_cluster(found.headway["cluster"]),
        discovers_devices=found.headway["cluster"].get("discover", False),
        teams={TeamName(name): build_team(name, row) for name, row in sorted(found.teams.items())},
        policy=build_policy(found.headway["policy"]),
        launcher=build_launcher(found.headway["launcher"]),
        budgets={name: build_budget(name, row) for name, row in sorted(found.budgets.items())},
        sinks={name: build_sink(name, row) for name, row in sorted(found.sinks.items())},
        unusable_teams=frozenset(found.unusable_teams),
        sample_clusters={
            TeamName(name): clusters[row["sample_cluster"]]
            for name, row in sorted(found.teams.items())
            if row.get("sample_cluster") in clusters
        },
    )
