"""Reservations and budgets of a snapshot, in the spelling of scenario files.

    reservations: {demo: {gpus: 4, start_in: 3h, duration: 72h, for: [demo-job]}}
    budgets: {q4: {limit: 200, used: 143.1, ends_in: 10d}}

``booked`` (and with it a status) gives the devices an occurrence was booked on; ``phase: active``
says that it is open.  A key nobody knows is an error.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from reconciler.domain.budget import Budget, Period
from reconciler.domain.cluster import Cluster
from reconciler.domain.job import GpuRequest, TopologyDomain
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import (
    Every,
    Occurrence,
    Reservation,
    ReservationPhase,
    ReservationStatus,
)
from reconciler.domain.snapshot import DesiredReservation, Snapshot
from reconciler.domain.units import Digest, Instant, JobId, JobName, TeamName
from reconciler.planning.budget import spent_key
from reconciler.planning.reservation_statuses import summary_of
from tests.values import MAIN, NOW, a_job_id, devices_of, seconds

WEEK_S = 7 * 86_400
_HELD_KEYS = {
    *("gpus", "types", "within", "start_in", "started_ago", "duration", "for", "exclusive"),
    *("release_if_idle", "budget", "weekly"),
}
_STATUS_KEYS = {
    *("booked", "phase", "reason", "idle_gpus", "idle_for", "absent_for", "file", "edited"),
    "booked_in",
}
_BUDGET_KEYS = {"limit", "used", "ends_in", "teams"}


def a_reservation(name: str, *, now: Instant = NOW, **said: Any) -> Reservation:
    """Return a reservation; ``weekly`` is how many weeks it comes."""
    if said.keys() - _HELD_KEYS:
        raise ValueError(f"{name}: unknown keys {sorted(said.keys() - _HELD_KEYS)}")
    team, short = a_job_id(name).split("/")
    ago = "started_ago" in said
    start = now - seconds(said["started_ago"]) if ago else now + seconds(said["start_in"])
    length = seconds(said.get("duration", "8h"))
    weeks = said.get("weekly", 1)
    idle = said.get("release_if_idle")
    return Reservation(
        team=TeamName(team),
        name=JobName(short),
        gpus=GpuRequest(
            count=said.get("gpus", 1),
            within=TopologyDomain(said.get("within", "node")),
            types=tuple(said.get("types", ())),
        ),
        occurrences=tuple(
            (Instant(start + week * WEEK_S), Instant(start + week * WEEK_S + length))
            for week in range(weeks)
        ),
        every=Every.WEEKLY if "weekly" in said else None,
        for_jobs=tuple(a_job_id(job) for job in said.get("for", ())),
        exclusive=said.get("exclusive", True),
        release_if_idle_s=None if idle is None else seconds(idle),
        budget_group=said.get("budget"),
    )


def a_budget(name: str, *, limit: float, ends_in: str = "10d", now: Instant = NOW) -> Budget:
    """Return a budget of ``limit`` GPU-hours in each thirty days, the present ones ending soon."""
    end = now + seconds(ends_in)
    month = 30 * 86_400
    turns = [end - month, end, end + month, end + 2 * month, end + 3 * month]
    return Budget(
        name=name,
        limit_gpu_s=round(limit * 3600),
        periods=tuple(
            Period(start=Instant(turns[at]), end=Instant(turns[at + 1])) for at in range(4)
        ),
        words="month",
    )


def with_calendar(
    snapshot: Snapshot,
    reservations: Mapping[str, Mapping[str, Any]],
    budgets: Mapping[str, Mapping[str, Any]],
) -> Snapshot:
    """Return the snapshot with these reservations and budgets too."""
    wanted: dict[JobId, DesiredReservation] = {}
    statuses: dict[JobId, ReservationStatus] = {}
    for name, said in reservations.items():
        unknown = said.keys() - _HELD_KEYS - _STATUS_KEYS
        if unknown:
            raise ValueError(f"{name}: unknown keys {sorted(unknown)}")
        held = a_reservation(
            name, now=snapshot.now, **{k: v for k, v in said.items() if k in _HELD_KEYS}
        )
        digest = Digest(f"sha256:{sha256(repr(held).encode()).hexdigest()}")
        if said.get("file") != "gone":
            wanted[held.id] = DesiredReservation(
                id=held.id, commit=MAIN, held=held, spec_digest=digest
            )
        if _STATUS_KEYS & said.keys():
            statuses[held.id] = _status(held, digest, said, snapshot.cluster, snapshot.now)
    made = {}
    spent = dict(snapshot.planner_state.spent)
    for name, said in budgets.items():
        if said.keys() - _BUDGET_KEYS:
            raise ValueError(f"{name}: unknown keys {sorted(said.keys() - _BUDGET_KEYS)}")
        budget = a_budget(
            name, limit=said["limit"], ends_in=said.get("ends_in", "10d"), now=snapshot.now
        )
        made[name] = replace(budget, teams=tuple(TeamName(team) for team in said.get("teams", ())))
        if "used" in said:
            spent[spent_key(name, budget.periods[0])] = round(said["used"] * 3600)
    return replace(
        snapshot,
        desired=replace(snapshot.desired, reservations=dict(sorted(wanted.items()))),
        reservations=dict(sorted(statuses.items())),
        budgets=dict(sorted(made.items())),
        planner_state=replace(snapshot.planner_state, spent=spent),
    )


def _status(
    held: Reservation, digest: Digest, said: Mapping[str, Any], cluster: Cluster, now: Instant
) -> ReservationStatus:
    start, end = held.occurrences[0]
    if "booked_in" in said:  # its document asked for another time when it was booked
        start, end = Instant(now + seconds(said["booked_in"])), Instant(end)
    phase = ReservationPhase(said.get("phase", "planned"))
    is_open = phase is ReservationPhase.ACTIVE
    reason = Reason.RESERVATION_STARTS if is_open else Reason.WINDOW_FREE
    occurrence = Occurrence(
        start=start,
        end=end,
        phase=phase,
        reason=Reason(said.get("reason", reason)),
        devices=devices_of(cluster, said["booked"]) if "booked" in said else None,
        idle_gpus=said.get("idle_gpus", 0),
        counted_at=Instant(now - seconds(said.get("idle_for", 0))) if is_open else None,
    )
    return ReservationStatus(
        reservation=held.id,
        phase=phase,
        reason=occurrence.reason,
        observed_commit=MAIN,
        spec_digest=Digest("sha256:another") if said.get("edited") else digest,
        summary=summary_of(held),
        occurrences=(occurrence,),
        absent_since=(Instant(now - seconds(said["absent_for"])) if "absent_for" in said else None),
        since=now,
    )
