"""What the core of the value order is asked in one cycle: the fleet and the rules."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning.books import Books
from reconciler.planning.desk import Desk
from reconciler.planning.job_facts import Facts
from reconciler.planning.noise import noisy_rows
from reconciler.planning.retry import after_attempt
from reconciler.planning.room import Room
from reconciler.planning.rows import Rows
from reconciler.planning.value.fleet import Ended, Fleet, JobFacts
from reconciler.planning.value.rules import Rules

QUANTUM_S = 600
"""What an attempt has run before the value test may stop it, where the policy says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Puts the desk into the core's terms."""

    snapshot: Snapshot
    books: Books
    rows: Rows
    desk: Desk
    favour: Mapping[str, float] = field(default_factory=dict)
    """What fair use makes of each team."""

    def rules(self) -> Rules:
        """Return the rules of the value order under this policy."""
        policy = self.snapshot.policy
        return Rules(
            rerank_every_s=max(policy.rerank_every_s, 1),
            quantum_s=policy.preemption.min_run_s or QUANTUM_S,
        )

    def fleet(
        self,
        free: Sequence[int],
        room: Room,
        out: Collection[JobId],
        stopped: Collection[JobId],
        urgent: Iterable[JobId] = (),
        edges: Sequence[tuple[int, int, int]] = (),
    ) -> Fleet:
        """Return the fleet; ``out`` wait but are not asked about, ``stopped`` leave for somebody.

        ``urgent`` are those of ``out`` for which nobody's leaving makes room; ``edges`` are kept
        (``Fleet.edges``).
        An urgent job that is asked about has no right left to go first.
        """
        desk = self.desk
        waiting: Iterable[JobFacts] = desk.waiting.values()
        if desk.rushing:
            waiting = [replace(facts, rush=False) if facts.rush else facts for facts in waiting]
        running: Iterable[JobFacts] = desk.running.values()
        aside = list(desk.aside.values())
        if out:
            aside += [facts for facts in waiting if facts.job in out]
            waiting = [facts for facts in waiting if facts.job not in out]
        if stopped:
            aside += [desk.running[job] for job in stopped]
            running = [facts for facts in running if facts.job not in stopped]
        if room.has_types:
            waiting, kept = self._of_allowed_types(waiting, room)
            aside += kept
        drains = [desk.waiting[job] for job in urgent]
        if room.has_types:
            drains, _ = self._of_allowed_types(drains, room)
        ended, going_on = self._ended()
        state = self.snapshot.planner_state
        is_plain = not (room.has_types or desk.rushing)  # nobody's facts were replaced
        return Fleet(
            nodes=self.rows.nodes,
            free=free,
            waiting=list(waiting),
            running=list(running),
            aside=[*aside, *going_on],
            everybody=desk.everybody.done() if is_plain else None,
            line=desk.waiting.done() if is_plain else None,
            runs=None if stopped else desk.running.done(),
            comes_back=going_on,
            ended=ended,
            headroom=room.headroom(),
            account=self._accounts(room),
            shut=self.rows.shut,
            edges=edges,
            last=noisy_rows(state.lost_on, self.snapshot.now, self.rows),
            urgent=drains,
            favour=self.favour,
        )

    def _of_allowed_types(
        self, waiting: Iterable[JobFacts], room: Room
    ) -> tuple[list[JobFacts], list[JobFacts]]:
        """Keep jobs to the types their quota has room for; return also those without any."""
        found, kept = [], []
        allowed: dict[tuple[str, int], int] = {}
        for facts in waiting:
            key = (facts.job.split("/")[0], facts.gpus)
            if key not in allowed:
                allowed[key] = sum(
                    1 << number
                    for number, (kind, _, _) in enumerate(self.rows.pools)
                    if room.allows_of_type(key[0], kind, key[1])
                )
            pools = facts.pools & allowed[key]
            if pools == facts.pools:
                found.append(facts)
            elif pools:
                found.append(replace(facts, pools=pools))
            else:
                kept.append(facts)
        return found, kept

    def _accounts(self, room: Room) -> dict[JobId, str]:
        if not room:
            return {}
        jobs = (*self.desk.waiting, *self.desk.running)
        found = {job: room.account(job.split("/")[0]) for job in jobs}
        return {job: account for job, account in found.items() if account is not None}

    def _ended(self) -> tuple[list[Ended], list[JobFacts]]:
        """Return the jobs that have just left for good, and those that come back."""
        if not self.books.ended:
            return [], []
        facts = Facts(self.snapshot, self.books, self.rows, self.desk.weights)
        over: list[Ended] = []
        going_on: list[JobFacts] = []
        for job in sorted(self.books.ended):
            standing = self.books.ended[job]
            status, attempt = standing.status, standing.attempt
            assert status is not None and attempt is not None  # it has ended
            after = after_attempt(
                status,
                attempt,
                standing.spec,
                policy=self.snapshot.policy.retry,
                now=self.snapshot.now,
            )
            ended = facts.ended(standing)
            if after.phase.is_finished:
                over.append(ended)
            else:
                going_on.append(ended.facts)
        return over, going_on
