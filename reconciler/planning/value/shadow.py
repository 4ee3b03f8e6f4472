"""How long would everybody wait under EASY?  The shadow schedule, kept on line.

It sees the same arrivals as the fleet.  A job's time in it is the true one once the job has ended
in reality, and a believed one before; a shadow job that reaches its believed end is given more
while reality, having run it that long, has not seen it end.  What it says of the longest wait is
the fleet's waiting budget, so this order is held to the maximum that plain backfilling would have.

The schedule advances to ``now`` event by event and is exported as a frozen value.  The working
structures are kept between cycles only as long as they stand for exactly the value passed in.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from reconciler.domain.units import JobId
from reconciler.domain.value_state import Held, Shadow, ShadowJob
from reconciler.planning.altered import altered
from reconciler.planning.table import Draft
from reconciler.planning.value.easy import FAR, Easy
from reconciler.planning.value.fleet import Ended, JobFacts, Nodes
from reconciler.planning.value.rules import Rules


@dataclass(frozen=True, slots=True)
class Guess:
    """What the shadow may know of a live job: how long it still needs after so many seconds, and
    how long it has really run."""

    left: Callable[[JobFacts, int], int]
    served: Callable[[JobFacts], int]


class ShadowSchedule:
    """The working form of one :class:`Shadow` on one list of nodes."""

    def __init__(self, shadow: Shadow, nodes: Nodes) -> None:
        self.nodes = nodes
        self.stands_for = shadow
        self.jobs: Draft[JobId, ShadowJob] = Draft(_on_nodes(shadow, nodes))
        self.left_out: frozenset[JobId] = frozenset()
        """Who ended in the last step and was taken out: is somebody of that name there again?"""
        self._left_out: set[JobId] = set()
        self.worst_wait = shadow.worst_wait
        self.coming_wait = shadow.coming_wait
        self.forecast_at = shadow.forecast_at
        self.at = shadow.at
        self._easy = Easy(nodes, self.jobs)
        self._ends = [(each.end, job) for job, each in self.jobs.items() if each.nodes]
        heapify(self._ends)

    def advance(
        self,
        now: int,
        live: Mapping[JobId, JobFacts],
        new: Sequence[JobFacts],
        ended: Sequence[Ended],
        gone: Sequence[JobId],
        guess: Guess,
        rules: Rules,
    ) -> Shadow:
        """Return the schedule as it stands at ``now``; the same value where nothing happened."""
        self._drop_stale()
        self.left_out, self._left_out = frozenset(), set()
        due = bool(self._ends) and self._ends[0][0] <= now
        if not (due or new or ended or gone):
            return self.stands_for
        self._easy.forget()
        for each in ended:
            self._learn_end(each)
        for job in gone:
            self._drop(job)
        if gone:
            self._begin(self._easy.start_all(self.at), self.at, live, guess)
        arrivals = sorted((max(facts.arrived, self.at), facts.job, facts) for facts in new)
        self._play(now, arrivals, live, guess)
        self._look_ahead(now, live, guess, rules)
        self.at = now
        self.left_out = frozenset(self._left_out)
        self.stands_for = Shadow(
            at=now,
            jobs=self.jobs.done(),
            nodes=self.nodes.names,
            pools=self.nodes.pools,
            worst_wait=self.worst_wait,
            coming_wait=self.coming_wait,
            forecast_at=self.forecast_at,
        )
        return self.stands_for

    def oldest_wait(self, now: int) -> int:
        """Return how long the first waiting job of the shadow has waited."""
        return max(now - self._easy.queue[0][0], 0) if self._easy.queue else 0

    def _play(
        self,
        now: int,
        arrivals: list[tuple[int, JobId, JobFacts]],
        live: Mapping[JobId, JobFacts],
        guess: Guess,
    ) -> None:
        next_arrival = 0
        while True:
            ends_at = self._ends[0][0] if self._ends else FAR
            is_more = next_arrival < len(arrivals)
            arrives_at = arrivals[next_arrival][0] if is_more else FAR
            at = min(ends_at, arrives_at)
            if at > now:
                return
            if ends_at <= arrives_at:
                if self._end_all(at, live, guess):
                    self._begin(self._easy.start_all(at), at, live, guess)
            else:
                facts = arrivals[next_arrival][2]
                next_arrival += 1
                each = ShadowJob(
                    arrived=facts.arrived,
                    gpus=facts.gpus,
                    pools=facts.pools,
                    limit=facts.limit,
                )
                self.jobs[facts.job] = each
                self._easy.submit(facts.job, each)
                began = self._easy.start_new(at, facts.job, facts.arrived)
                self._begin(began, at, live, guess)

    def _look_ahead(
        self, now: int, live: Mapping[JobId, JobFacts], guess: Guess, rules: Rules
    ) -> None:
        """Forecast the longest wait of those that wait now: it is known long before it is over."""
        if not self._easy.queue:
            self.coming_wait = 0
            return
        every = max(rules.forecast_every_s, int(rules.forecast_growth * self.coming_wait))
        if self.coming_wait and now - self.forecast_at < every:
            return
        self.forecast_at = now
        self.coming_wait = max(self._longest_ahead(now, live, guess), 1)

    def _longest_ahead(self, now: int, live: Mapping[JobId, JobFacts], guess: Guess) -> int:
        ahead = Easy(self.nodes, self.jobs)
        began = {job: each.start for job, each in self.jobs.items() if each.nodes}
        ends = [(max(self.jobs[job].end, now + 1), job) for job in began]
        heapify(ends)
        longest = 0
        while ahead.queue and ends:
            at = ends[0][0]
            while ends and ends[0][0] == at:
                job = heappop(ends)[1]
                ahead.leave(job, began[job], self.jobs[job].limit)
            for job, _ in ahead.start_all(at):
                each = self.jobs[job]
                began[job] = at
                heappush(ends, (at + (each.served or _whole(live[job], guess)), job))
                longest = max(longest, at - each.arrived)
        return longest

    def _drop_stale(self) -> None:
        """Forget the first ends that have moved: a schedule made anew would not know of them."""
        while self._ends:
            end, job = self._ends[0]
            each = self.jobs.get(job)
            if each is not None and each.nodes and each.end == end:
                return
            heappop(self._ends)

    def _end_all(self, at: int, live: Mapping[JobId, JobFacts], guess: Guess) -> bool:
        """Let go whoever ends at ``at``; True if anybody left."""
        left_any = False
        while self._ends and self._ends[0][0] <= at:
            end, job = heappop(self._ends)
            each = self.jobs.get(job)
            if each is None or not each.nodes or each.end != end:
                continue
            facts = live.get(job)
            ran = end - each.start
            if not each.served and facts is not None and guess.served(facts) >= ran:
                end += guess.left(facts, ran)
                self.jobs[job] = altered(each, end=end)
                heappush(self._ends, (end, job))
                continue
            self._easy.leave(job, each.start, each.limit)
            left_any = True
            if each.served or facts is None:
                self._take_out(job)
            else:
                self.jobs[job] = altered(each, nodes=())
        return left_any

    def _begin(
        self,
        began: Sequence[tuple[JobId, Held]],
        at: int,
        live: Mapping[JobId, JobFacts],
        guess: Guess,
    ) -> None:
        for job, held in began:
            each = self.jobs[job]
            length = each.served or _whole(live[job], guess)
            flat = tuple(value for pair in held for value in pair)
            self.jobs[job] = altered(each, start=at, end=at + length, nodes=flat)
            heappush(self._ends, (at + length, job))
            self.worst_wait = max(self.worst_wait, at - each.arrived)

    def _learn_end(self, ended: Ended) -> None:
        each = self.jobs.get(ended.facts.job)
        if each is None:
            return
        if not each.nodes and each.end:
            self._take_out(ended.facts.job)
            return
        served = max(ended.served, 1)
        if not each.nodes:
            self.jobs[ended.facts.job] = altered(each, served=served)
            return
        end = max(each.start + served, self.at)
        self.jobs[ended.facts.job] = altered(each, served=served, end=end)
        heappush(self._ends, (end, ended.facts.job))

    def _take_out(self, job: JobId) -> None:
        self.jobs.pop(job)
        self._left_out.add(job)

    def _drop(self, job: JobId) -> None:
        each = self.jobs[job]
        self.jobs.pop(job)
        if each.nodes:
            self._easy.leave(job, each.start, each.limit)
        elif not each.end:
            self._easy.withdraw(job, each.arrived)


def _whole(facts: JobFacts, guess: Guess) -> int:
    """Return the believed running time, given what the job has really run without ending."""
    served = guess.served(facts)
    return served + guess.left(facts, served)


def _on_nodes(shadow: Shadow, nodes: Nodes) -> Mapping[JobId, ShadowJob]:
    """Return the jobs of the shadow with rows counted by ``nodes``.

    Where the cluster changed, rows are found by name; a running job that lost a row, or whose
    row no longer has its devices, waits again.
    """
    if not shadow.jobs or (shadow.nodes == nodes.names and shadow.pools == nodes.pools):
        return shadow.jobs
    row_of = {name: row for row, name in enumerate(nodes.names)}
    room = list(nodes.sizes)
    moved = {}
    for job in sorted(shadow.jobs):
        each = shadow.jobs[job]
        flat: list[int] = []
        for name, count in zip(each.nodes[::2], each.nodes[1::2], strict=True):
            row = row_of.get(shadow.nodes[name], -1)
            if row < 0 or room[row] < count:
                flat = []
                break
            flat += [row, count]
        for row, count in zip(flat[::2], flat[1::2], strict=True):
            room[row] -= count
        is_lost = bool(each.nodes) and not flat
        mask = _mask(each.pools, shadow.pools, nodes.pools)
        start, end = (0, 0) if is_lost else (each.start, each.end)
        moved[job] = altered(each, nodes=tuple(flat), pools=mask, start=start, end=end)
    return moved


def _mask(pools: int, before: tuple[str, ...], after: tuple[str, ...]) -> int:
    if pools < 0 or before == after:
        return pools
    names = {name for bit, name in enumerate(before) if pools >> bit & 1}
    return sum(1 << bit for bit, name in enumerate(after) if name in names)
