"""Why each job that does not start now waits, in the words of the request and the team.

Jobs that ask for the same in the same team wait for the same reason, so it is worked out once for
them all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.domain.job import GpuRequest
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.units import JobId
from reconciler.planning.eligibility import words
from reconciler.planning.power import NO_POWER
from reconciler.planning.room import Room
from reconciler.planning.rows import Rows
from reconciler.planning.table import Draft, Table
from reconciler.planning.value.fleet import JobFacts, Within

Kind = tuple[str, GpuRequest]
"""Team and request."""
Told = tuple[Reason, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What was told to everybody who waits, kept from cycle to cycle."""

    line: Table[JobId, JobFacts]
    """Who waits."""
    decisions: Table[JobId, Decision]
    told: Mapping[Kind, Told]
    asked: Mapping[Kind, "Asked"]
    """What each kind asks for, in the terms of ``pools``."""
    pools: tuple[tuple[str, float, bool], ...]


class Asked(NamedTuple):
    """A request in the cluster's terms: it depends on neither time nor who asks."""

    pools: tuple[int, ...]
    within: Within
    words: str


class Waits:
    """Tells why, given what is left once this plan is carried out.  Local to one planning call."""

    def __init__(self, rows: Rows, free: Sequence[int], room: Room, unit: str) -> None:
        self._rows = rows
        self._free = free
        self._room = room
        self._unit = unit
        self._most: dict[tuple[Within, int, bool], int] = {}
        self._with_power: Waits | None = None
        """What would be told if the racks had all the power they could use."""

    def keep(
        self,
        line: Table[JobId, JobFacts],
        kinds: Mapping[JobId, Kind],
        asking: Iterable[Kind],
        before: Kept | None,
    ) -> Kept:
        """Return the wait of everybody in ``line``; those of ``before`` that are the same.

        ``asking`` are the kinds of those in line.
        """
        known = before.asked if before is not None and before.pools is self._rows.pools else {}
        asked = {kind: known.get(kind) or self._asked(kind[1]) for kind in asking}
        told = {kind: self._why(kind, asked[kind]) for kind in asked}
        changed = None if before is None else before.line.changed_in(line)
        if before is None or changed is None:
            waits = Draft[JobId, Decision]()
            changed = set(line)
        else:
            waits = Draft(before.decisions)
            was_told = before.told
            stale = {id(kind) for kind, why in told.items() if was_told.get(kind) != why}
            if stale:
                changed.update(job for job in line if id(kinds[job]) in stale)
        for job in changed:
            if job in line:
                reason, detail = told[kinds[job]]
                waits[job] = wait(job, reason, detail, waits)
            else:
                waits.pop(job)
        pools = self._rows.pools
        return Kept(line=line, decisions=waits.done(), told=told, asked=asked, pools=pools)

    def _asked(self, request: GpuRequest) -> Asked:
        mask = self._rows.pools_for(request)
        return Asked(
            pools=tuple(pool for pool in range(len(self._rows.pools)) if mask >> pool & 1),
            within=self._rows.within(request),
            words=f"needs {words(request, self._unit)}",
        )

    def _why(self, kind: Kind, asked: Asked) -> Told:
        """Return the reason and the words for jobs of one kind."""
        team, request = kind
        within, pools = asked.within, asked.pools
        allowed = [pool for pool in pools if self._is_allowed(team, pool, request.count)]
        if not any(self._fits(within, pool, request.count, empty=True) for pool in allowed):
            return Reason.QUOTA_EXCEEDED, f"the quota of team {team} is in use"
        if not any(self._fits(within, pool, request.count) for pool in allowed):
            if self._would_fit_with_power(within, allowed, request.count):
                return Reason.RACK_POWER, NO_POWER
            return Reason.GPUS_BUSY, asked.words
        return Reason.BEHIND_HIGHER_RANK, "what is free is promised to jobs ahead of it"

    def _is_allowed(self, team: str, pool: int, gpus: int) -> bool:
        if not self._room.is_bounded(team):
            return True
        kind = self._rows.pools[pool][0]
        return self._room.allows_of_type(team, kind, gpus)

    def _fits(self, within: Within, pool: int, gpus: int, *, empty: bool = False) -> bool:
        key = (within, pool, empty)
        most = self._most.get(key)
        if most is None:
            most = self._most[key] = self._most_free(within, pool, empty=empty)
        return most >= gpus

    def _would_fit_with_power(self, within: Within, pools: Iterable[int], gpus: int) -> bool:
        """True where only the power of racks keeps free devices from being used."""
        rows = self._rows
        if rows.up == rows.ready:
            return False
        if self._with_power is None:
            columns = zip(self._free, rows.up, rows.ready, strict=True)
            free = [free + up - ready for free, up, ready in columns]
            self._with_power = Waits(rows, free, self._room, self._unit)
        return any(self._with_power._fits(within, pool, gpus) for pool in pools)

    def _most_free(self, within: Within, pool: int, *, empty: bool) -> int:
        """Return the most devices of a pool that one domain has: free, or at all."""
        nodes = self._rows.nodes
        free = self._rows.up if empty else self._free
        if len(nodes.pools) == 1:
            if within is Within.POOL:
                return sum(free)
            is_one_row = within is Within.UNIT or nodes.node == tuple(range(len(free)))
            if is_one_row and within is not Within.RACK:
                return max(free, default=0)
        here = [(row, free[row]) for row, of in enumerate(nodes.pool) if of == pool and free[row]]
        if within is Within.UNIT:
            return max((count for _, count in here), default=0)
        if within is Within.POOL:
            return sum(count for _, count in here)
        group = nodes.node if within is Within.NODE else nodes.rack
        sums: dict[int, int] = {}
        for row, count in here:
            sums[group[row]] = sums.get(group[row], 0) + count
        return max(sums.values(), default=0)


def wait(job: JobId, reason: Reason, detail: str, before: Mapping[JobId, Decision]) -> Decision:
    """Return a job's wait; the very decision of ``before`` where it is the same."""
    old = before.get(job)
    if (
        old is not None
        and old.reason is reason
        and old.verb is Verb.WAIT
        and old.detail == detail
        and old.hold is None
    ):
        return old
    return Decision(job=job, verb=Verb.WAIT, reason=reason, detail=detail)
