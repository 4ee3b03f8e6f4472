"""Hypothesis strategies: random snapshots, and random lives of a simulated fleet."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from reconciler.domain.plan import PlannerState, Used
from reconciler.domain.policy import FairUse, Order, SpreadSlowdown
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Seconds, TeamName
from reconciler.planning.placement import place
from reconciler.planning.topology import layout, shape
from tests.builders import a_snapshot
from tests.values import a_cluster, a_spec

TYPES = ("A100-80GB", "H100-80GB")
NAMES = tuple("abcdefghij")
TEAMS = ("research", "vision")
PRIORITIES = ("P0", "P1", "P2", "P3", "P4")
DURATIONS = ("1m", "10m", "1h", "5h")
STATES = ("ready",) * 4 + ("cordoned", "draining", "down")


def orders() -> st.SearchStrategy[Order]:
    """Return either order of ranking."""
    return st.sampled_from(tuple(Order))


@st.composite
def clusters(
    draw: st.DrawFn, *, calm: bool = False, capped: bool = False
) -> dict[str, dict[str, Any]]:
    """One to four nodes of up to eight GPUs, in the spelling of ``a_cluster``.

    A ``calm`` cluster is small, ready and of one type, so that jobs compete for it.  Some racks of
    a ``capped`` one have the power for only some of their devices.
    """
    power = {}
    if capped:
        power = {rack: draw(st.sampled_from((None,) * 3 + (1, 3, 4, 6))) for rack in ("r1", "r2")}
    if calm:
        count = draw(st.integers(1, 2))
        nodes = {f"n{i}": {"gpus": 4, "rack": "r1"} for i in range(count)}
    else:
        nodes = draw(_mixed())
    for node in nodes.values():
        if power.get(node["rack"]) is not None:
            node["rack_gpus"] = power[node["rack"]]
    return nodes


@st.composite
def _mixed(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    count = draw(st.integers(1, 4))
    return {
        f"n{i}": {
            "gpus": draw(st.sampled_from((2, 4, 4, 8))),
            "gpu_type": draw(st.sampled_from((TYPES[0], *TYPES))) if i else TYPES[0],
            "rack": draw(st.sampled_from(("r1", "r2"))),
            "rdma": draw(st.sampled_from((False, False, True))),
            "islands": draw(st.sampled_from((0, 1, 1, 2))),
            "state": draw(st.sampled_from(STATES)) if i else "ready",
        }
        for i in range(count)
    }


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """What a job asks for."""
    return {
        "gpus": draw(st.sampled_from((1, 2, 2, 3, 4, 4, 8))),
        "within": draw(st.sampled_from(("node",) * 4 + ("nvlink", "rack", "cluster"))),
        "types": draw(st.sampled_from(((), (), (), TYPES[:1], TYPES[1:], TYPES))),
        "interconnect": draw(st.sampled_from(("any",) * 6 + ("nvlink", "rdma"))),
        "priority": draw(st.sampled_from(PRIORITIES)),
        "preemptible": draw(st.sampled_from((True, True, True, False))),
        "serves_online": draw(st.booleans()),
        "estimate": draw(st.sampled_from(DURATIONS)),
    }


MEASURED_SPREAD = {
    "nodes": {"ratio": 1.6, "weight": 4.0, "runs": 8},
    "racks": {"ratio": 1.1, "weight": 12.5, "runs": 20},
}


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A random moment of a small fleet: jobs in every phase, files in every state."""
    nodes = draw(clusters(capped=True))
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=9))
    floor = _Floor(nodes)
    running: dict[str, Any] = {}
    pending: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name in names:
        job = draw(requests())
        full = f"{draw(st.sampled_from(TEAMS))}/{name}"
        kind = draw(st.sampled_from(("running", "running", "pending", "pending", "other")))
        on = floor.take(full, job) if kind == "running" else None
        if on is not None:
            running[full] = job | draw(_live(on))
        elif kind == "other":
            others[full] = job | draw(_over())
        else:
            pending[full] = job | draw(_waiting(names))
    snapshot = a_snapshot(
        nodes=nodes,
        running=running,
        pending=pending,
        others=others,
        teams=draw(quotas()),
        rewritten=draw(st.sampled_from((False, False, False, False, True))),
        allowed_prune=draw(st.sampled_from((0, 0, 3))),
        policy={
            "order": draw(orders()),
            "fair_use": draw(fair_uses()),
            "spread_slowdown": draw(
                st.sampled_from((SpreadSlowdown(), SpreadSlowdown(nodes=1.05, racks=1.28)))
            ),
        },
        measured_spread=draw(st.sampled_from(({}, MEASURED_SPREAD))),
    )
    used = {
        TeamName(team): Used(gpu_seconds=draw(st.sampled_from((1, 50_000))), at=snapshot.now)
        for team in draw(st.lists(st.sampled_from(TEAMS), unique=True))
    }
    return replace(snapshot, planner_state=PlannerState(used=used))


def fair_uses() -> st.SearchStrategy[FairUse]:
    """Return whether and how use is counted: mostly not."""
    counted = FairUse(half_life_s=Seconds(86_400), strength=2.0)
    return st.sampled_from((FairUse(), FairUse(), counted))


@st.composite
def queues(draw: st.DrawFn) -> Snapshot:
    """Plain jobs, some of them running for good: nobody can be stopped, nothing is wrong."""
    nodes = draw(clusters())
    floor = _Floor(nodes)
    running: dict[str, Any] = {}
    pending: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=9)):
        job = draw(requests()) | {"preemptible": False}
        on = floor.take(name, job) if draw(st.booleans()) else None
        if on is None:
            pending[name] = job
        else:
            running[name] = job | {"on": on, "ran": draw(st.sampled_from(DURATIONS))}
    return a_snapshot(nodes=nodes, running=running, pending=pending)


class _Floor:
    """Which devices of a cluster are still free while its running jobs are made up."""

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        self._where = layout(a_cluster(nodes))
        self._free = (1 << len(self._where.devices)) - 1

    def take(self, name: str, job: Mapping[str, Any]) -> dict[str, list[int]] | None:
        """Return a place for the job, as ``devices_of`` takes it, or None if there is none."""
        devices = place(shape(a_spec(name, **job).gpus, self._where), self._free, self._where)
        if devices is None:
            return None
        self._free &= ~devices
        found: dict[str, list[int]] = {}
        for node in self._where.nodes:
            offset = (node.all & -node.all).bit_length() - 1
            part = devices & node.all
            if part:
                found[node.name] = [i for i in range(64) if part >> (offset + i) & 1]
        return found


@st.composite
def _live(draw: st.DrawFn, on: Mapping[str, list[int]]) -> dict[str, Any]:
    job: dict[str, Any] = {
        "on": on,
        "ran": draw(st.sampled_from(DURATIONS)),
        "file": draw(st.sampled_from(("valid",) * 6 + ("gone", "invalid"))),
        "seen": draw(
            st.sampled_from(("running",) * 6 + ("unknown", "absent", "lost", "ended", "missing"))
        ),
        "suspend": draw(st.sampled_from((False,) * 5 + (True,))),
        "resubmitted": draw(st.sampled_from((False,) * 7 + (True,))),
    }
    if job["seen"] == "ended":
        job["outcome"] = draw(st.sampled_from(("succeeded", "failed", "stopped", "diverged")))
    if draw(st.booleans()):
        job["since_checkpoint"] = draw(st.sampled_from(("10s", "10m")))
    cause = draw(st.sampled_from((None,) * 4 + ("preempt", "suspend", "cancel", "time_limit")))
    if cause is not None:
        job |= {"cause": cause, "asked_ago": draw(st.sampled_from(("5s", "100s", "10m")))}
    elif draw(st.sampled_from((False, False, False, True))):
        job["attempt_phase"] = "launching"
    return job


@st.composite
def _waiting(draw: st.DrawFn, names: list[str]) -> dict[str, Any]:
    job: dict[str, Any] = {
        "file": draw(st.sampled_from(("valid",) * 6 + ("gone", "invalid", "never_valid"))),
        "suspend": draw(st.sampled_from((False,) * 6 + (True,))),
        "submitted_ago": draw(st.sampled_from(DURATIONS)),
    }
    if draw(st.sampled_from((False, False, False, True))):
        team = draw(st.sampled_from(TEAMS))
        job["after"] = [f"{team}/{draw(st.sampled_from(names))}"]
    if draw(st.booleans()):
        job["deadline_in"] = draw(st.sampled_from(("1m", "1h", "1d")))
    if draw(st.booleans()):
        job |= {"tries_used": 1, "retry_in": draw(st.sampled_from((0, "1m")))}
    if job["file"] == "gone":
        job["absent_for"] = draw(st.sampled_from(("1m", "1h")))
    if job["file"] == "never_valid":
        job = {"file": "never_valid"}
    return job


@st.composite
def _over(draw: st.DrawFn) -> dict[str, Any]:
    phase = draw(st.sampled_from(("succeeded", "failed", "cancelled", "diverged", "suspended")))
    return {
        "phase": phase,
        "resubmitted": draw(st.booleans()),
        "file": draw(st.sampled_from(("valid", "valid", "gone", "invalid"))),
        "suspend": phase == "suspended" and draw(st.booleans()),
    }


@st.composite
def quotas(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Quotas of the teams, or none; of those that have one, some lend to each other."""
    limit = st.sampled_from((2, 4, 8))
    some = st.fixed_dictionaries({}, optional={"*": limit, TYPES[0]: limit})
    cohort = draw(st.sampled_from((None, None, "labs")))
    return {team: {"quota": draw(some), "cohort": cohort} for team in TEAMS if draw(st.booleans())}


@dataclass(frozen=True)
class Step:
    """Something that happens to a simulated fleet, and how long until the next."""

    what: str
    job: str
    node: str
    fields: Mapping[str, Any]
    luck: Mapping[str, Any]
    then_s: int


@st.composite
def steps(draw: st.DrawFn, *, calm: bool = False) -> Step:
    """One step; a ``calm`` life has only new jobs in it, and they compete."""
    kinds = ("submit",) * 6
    if not calm:
        kinds += ("edit", "edit", "remove", "break", "node", "silent", "dies", "raise", "prune")
        kinds += ("rewritten",)
    fields = draw(requests()) | {"grace": draw(st.sampled_from(("20s", "2m")))}
    if calm:
        fields |= {"types": (), "within": "cluster", "gpus": min(fields["gpus"], 4)}
    return Step(
        what=draw(st.sampled_from(kinds)),
        job=f"{draw(st.sampled_from(TEAMS))}/{draw(st.sampled_from(NAMES))}",
        node=f"n{draw(st.integers(0, 3))}",
        fields=fields,
        luck={
            "work": fields["estimate"] if calm else draw(st.sampled_from(DURATIONS)),
            "save": draw(st.sampled_from(("1s", "10s", "1m"))),
            "fault": None if calm else draw(st.sampled_from((None, None, None, *FAULTS))),
            "on": draw(st.sampled_from((True, False))),
        },
        then_s=draw(st.sampled_from((0, 1, 20, 300, 3600))),
    )


FAULTS = ("fails", "killed", "no_result", "diverges", "lost", "ignores_stop", "survives_grace")


def lives(*, calm: bool = False, most: int = 12) -> st.SearchStrategy[list[Step]]:
    """Return lives of a fleet of up to ``most`` steps."""
    return st.lists(steps(calm=calm), min_size=1, max_size=most)
