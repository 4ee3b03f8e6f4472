"""The choices of the value order again, in the plainest way: for tiny fleets only.

Written from ``docs/planning-policy.md``: every number is worked out anew whenever it is needed,
nothing is kept, and victims on one row are found by trying every set of them.  Nothing is shared
with the planner but the values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, pairwise

from reconciler.domain.units import JobId
from reconciler.domain.value_state import Held
from reconciler.planning.value.fleet import JobFacts, Start, Within
from tests.property.brute_belief import CLOSE, CloseCallError, before, less, residual
from tests.property.brute_places import Floor


@dataclass
class PlainOrder(Floor):
    """One pass over one fleet."""

    arrivals: int = 0
    quantum: int = 600
    firm: set[JobId] = field(default_factory=set)
    starts: list[Start] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.headroom = dict(self.fleet.headroom)
        self.running = {each.job: each for each in self.fleet.running}
        self.open = [n for n in range(len(self.free)) if n not in self.fleet.shut]
        self.size = sum(self.fleet.nodes.sizes[row] for row in self.open)

    # Who is firm

    def mark_firm(self) -> None:
        """Add every waiting job at its bound; more than a few raise the budget."""
        start = self.budget
        ahead = self._ahead_of_twins()
        count = 0
        for job in sorted(self.fleet.waiting, key=lambda j: (j.arrived + j.served, j.job)):
            if job.job in self.firm:
                continue
            used = self.delay(job) + ahead.get(job.job, 0.0)
            firsts = (start, self.budget)
            if any(used < 0.98 * (min(w, job.bound) if job.bound else w) for w in firsts):
                continue
            self.firm.add(job.job)
            count += 1
            if count > 0.003 * self.arrivals + 5:
                self.budget *= 1.02

    def _ahead_of_twins(self) -> dict[JobId, float]:
        giants = [job for job in self.fleet.waiting if 2 * job.gpus > self.size]
        giants.sort(key=lambda j: (j.arrived + j.served, j.job), reverse=True)
        found: dict[JobId, float] = {}
        latest = float("inf")
        for job in giants if len(giants) > 1 else ():
            due = job.arrived + job.served + 0.98 * self.bound(job)
            start = min(due, latest)
            found[job.job] = min(due - start, 0.5 * self.bound(job))
            told = residual(*self.belief(job, prior=False), job.limit, self.served(job))
            latest = start - max(told, 0.25 * job.limit - self.served(job))
        return found

    # The pass

    def run(self) -> None:
        self.mark_firm()
        waiting = sorted(self.fleet.waiting, key=self._order)
        back: list[JobFacts] = []
        while waiting or back:
            back.sort(key=lambda job: (self.score(job), job.job))
            job = waiting[0] if waiting else None
            if back and (job is None or self._is_behind(job, back[0])):
                self._try_free(back.pop(0), may_be_first=False)
                continue
            assert job is not None
            waiting.pop(0)
            back += self._consider(job)

    def _is_behind(self, job: JobFacts, victim: JobFacts) -> bool:
        return not self._is_first(job) and not less(self.score(job), self.score(victim))

    def _order(self, job: JobFacts) -> tuple[int, float, int, JobId]:
        if job.rush:
            return 0, 0.0, job.arrived, job.job
        if job.job in self.firm:
            return 1, 0.0, job.arrived + job.served, job.job
        return 2, self.score(job), job.arrived, job.job

    def _is_first(self, job: JobFacts) -> bool:
        return job.rush or job.job in self.firm

    def _consider(self, job: JobFacts) -> list[JobFacts]:
        """Start the job if it may; return its victims as waiting jobs."""
        if self._try_free(job) or not self._has_headroom(job):
            return []
        victims = self._victims(job)
        if victims is None:
            if job.job in self.firm:
                self._drain(job)
            return []
        for victim in victims:
            for row, count in victim.held:
                if row not in self.fleet.shut:
                    self.free[row] += count
            self._count(victim, +1)
        avoid = self.avoided(job, is_first=self._is_first(job))
        place = self.place(job, avoid, is_freed=True)
        if place is None:
            for victim in victims:
                for row, count in victim.held:
                    if row not in self.fleet.shut:
                        self.free[row] -= count
                self._count(victim, -1)
            return []
        for victim in victims:
            del self.running[victim.job]
        self._start(job, place, victims)
        return [replace(victim, served=self.served(victim), held=(), since=0) for victim in victims]

    def _try_free(self, job: JobFacts, *, may_be_first: bool = True) -> bool:
        if not self._has_headroom(job):
            return False
        is_first = may_be_first and self._is_first(job)
        avoid = self.avoided(job, is_first=is_first) if may_be_first else self.edges(job)
        place = None if job.preemptible else self.beside_fixed(job, avoid)
        place = place or self.place(job, avoid)
        if place is None:
            return False
        self._start(job, place, [])
        return True

    def _start(self, job: JobFacts, place: Held, victims: Sequence[JobFacts]) -> None:
        for row, count in place:
            self.free[row] -= count
        self._count(job, -1)
        if not job.preemptible:
            self.fixed.append(replace(job, held=place))
        names = tuple(sorted(victim.job for victim in victims))
        self.starts.append(Start(job=job.job, nodes=place, victims=names))

    def _has_headroom(self, job: JobFacts) -> bool:
        account = self.fleet.account.get(job.job, "")
        return self.headroom.get(account, job.gpus) >= job.gpus

    def _count(self, job: JobFacts, sign: int) -> None:
        account = self.fleet.account.get(job.job, "")
        if account in self.headroom:
            self.headroom[account] += sign * job.gpus

    # For whom

    def _victims(self, job: JobFacts) -> list[JobFacts] | None:
        """Return who leaves for the job, if the rules allow that anybody does."""
        may = [
            each
            for each in self.running.values()
            if each.preemptible and not each.rush and each.job not in self.firm
        ]
        if job.rush:
            may = [each for each in may if each.level > job.level]
        elif job.job in self.firm:
            may = [each for each in may if each.level > 0 or job.level == 0]
        else:
            may = [
                each
                for each in may
                if each.level >= job.level
                and self.now - each.since >= self.quantum
                and less(self.rate(each), self.rate(job))
            ]
        victims = self.cheapest(job, may)
        if victims is None or self._is_first(job):
            return victims
        return victims if self._is_worth(job, victims) else None

    def _is_worth(self, job: JobFacts, victims: Sequence[JobFacts]) -> bool:
        gpus = sum(each.gpus for each in victims)
        price = sum(self.price(each) for each in victims)
        gain = self.rate(job) * (1 + max(0, 1 - gpus / job.gpus))
        gain /= 1 + 2 * price / (job.gpus * self.left(job))
        return not less(gain, 2 * sum(self.rate(each) for each in victims))

    def price(self, job: JobFacts) -> float:
        """Return the GPU-seconds that stopping a job costs."""
        share = job.gpus / max(self.size, 1)
        return job.gpus * (job.save_s + job.restore_s) * (1 + 1000 * share**2)

    def cost(self, victims: Sequence[JobFacts]) -> tuple[float, float]:
        return sum(map(self.rate, victims)), sum(map(self.price, victims))

    def cheapest(self, job: JobFacts, may: Sequence[JobFacts]) -> list[JobFacts] | None:
        """Return the cheapest victims: on one row the best of all sets of them; for a wider gang
        those of the rows that are cheapest to clear, and of one more row for the rest."""
        avoid = self.avoided(job, is_first=self._is_first(job)) | set(self.fleet.shut)
        found = []
        for rows, unit in self.pools(job):
            rows = [row for row in rows if row not in avoid]
            if job.gpus <= unit:
                room = self._best_row(job.gpus, rows, may)
            elif job.within == Within.UNIT:
                continue
            else:
                column = self.domain(job)
                rooms = [
                    self._clear(job.gpus, [r for r in rows if column[r] == each], unit, may)
                    for each in sorted({column[row] for row in rows})
                ]
                room = self._least([room for room in rooms if room is not None])
            if room is not None:
                found.append(room)
        return self._least(found)

    def _least(self, rooms: list[list[JobFacts]]) -> list[JobFacts] | None:
        """Return the cheapest; the first of those that cost the same."""
        best = None
        for room in rooms:
            if best is None or before(self.cost(room), self.cost(best)):
                best = room
        return best

    def _best_row(
        self, gpus: int, rows: Sequence[int], may: Sequence[JobFacts]
    ) -> list[JobFacts] | None:
        rooms = []
        for row in sorted(rows):
            here = [(each, count) for each in may for r, count in each.held if r == row]
            sets = chain.from_iterable(combinations(here, n) for n in range(1, len(here) + 1))
            wanted = gpus - self.free[row]
            fits = [[v for v, _ in one] for one in sets if sum(c for _, c in one) >= wanted]
            fits.sort(key=lambda one: sorted(each.job for each in one))
            room = self._least(fits)
            if room is not None:
                rooms.append(room)
        return self._least(rooms)

    def _clear(
        self, gpus: int, rows: Sequence[int], unit: int, may: Sequence[JobFacts]
    ) -> list[JobFacts] | None:
        whole, rest = divmod(gpus, unit)
        costs = []
        for row in rows:
            here = [(each, count) for each in may for r, count in each.held if r == row]
            if self.free[row] + sum(count for _, count in here) == unit:
                costs.append((sum(self.rate(v) * c / v.gpus for v, c in here), row))
        if len(costs) < whole:
            return None
        costs.sort()
        for (one, _), (other, _) in pairwise(costs):
            if one != other and abs(one - other) <= CLOSE * other:
                raise CloseCallError
        chosen = [row for _, row in costs[:whole]]
        victims = [v for v in may if any(row in chosen for row, _ in v.held)]
        if rest and not self._has_rest(rest, rows, chosen, victims):
            others = [each for each in may if each not in victims]
            part = self._best_row(rest, [row for row in rows if row not in chosen], others)
            if part is None:
                return None
            victims += part
        return victims

    def _has_rest(
        self, rest: int, rows: Sequence[int], chosen: Sequence[int], victims: Sequence[JobFacts]
    ) -> bool:
        return any(
            self.free[row] + sum(c for v in victims for r, c in v.held if r == row) >= rest
            for row in rows
            if row not in chosen
        )

    def _drain(self, job: JobFacts) -> None:
        """Close the rows whose blockers leave soonest to what cannot be stopped."""
        blockers = [
            (row, count, self.now + int(self.left(each)))
            for each in (*self.running.values(), *self.fleet.aside)
            if each.held and (not each.preemptible or each.rush or each.job in self.firm)
            for row, count in each.held
        ]
        sizes = self.fleet.nodes.sizes
        best: tuple[int, list[int]] | None = None
        for rows, _ in self.pools(job):
            rows = [row for row in rows if row in self.open and row not in self.closed]
            unit = max((sizes[row] for row in rows), default=0)
            if not unit:
                continue
            needs = [unit] * (job.gpus // unit) + ([job.gpus % unit] if job.gpus % unit else [])
            chosen: list[int] = []
            clear = self.now
            for need in needs:
                able = [
                    (_clear_at(need, sizes[row], row, blockers, self.now), sizes[row], row)
                    for row in rows
                    if row not in chosen and sizes[row] >= need
                ]
                if not able:
                    break
                chosen.append(min(able)[2])
                clear = max(clear, min(able)[0])
            else:
                if best is None or clear < best[0]:
                    best = clear, chosen
        if best is not None:
            self.closed |= dict.fromkeys(best[1], best[0])


def _clear_at(
    need: int, size: int, row: int, blockers: Sequence[tuple[int, int, int]], now: int
) -> int:
    here = [(end, count) for at_row, count, end in blockers if at_row == row]
    for at in sorted({now, *(end for end, _ in here)}):
        if size - sum(count for end, count in here if end > at) >= need:
            return at
    raise AssertionError("a row is free once everybody has left")
