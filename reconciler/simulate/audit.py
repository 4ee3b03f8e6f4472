"""What the simulator counts of headway's plans by itself, whatever the planner believes.

A launch that leaves its team, with the cohort, above what its quotas allow is a violation: held are
the GPUs of attempts, those still leaving too, and what open windows keep.  The next job is stuck by
node while enough GPUs are free for it, but not on nodes that hold it.
"""

from collections.abc import Callable, Container, Mapping, Sequence

from reconciler.domain.plan import Verb
from reconciler.domain.reason import Reason
from reconciler.domain.team import Team
from reconciler.domain.units import JobId, TeamName
from reconciler.planning.memo import Memo

_FOR_DEVICES = (Reason.GPUS_BUSY, Reason.BEHIND_HIGHER_RANK)


class Audit:
    """Counts of one run.  Mutable."""

    def __init__(self, teams: Mapping[TeamName, Team]) -> None:
        self.quota_violations = 0
        self.stuck_s = 0.0
        self.is_stuck = False
        """True from a cycle to the next while the next job is stuck by node."""
        self._members: dict[TeamName, frozenset[str]] = {}
        self._limit: dict[frozenset[str], int] = {}
        self._held: dict[frozenset[str], int] = {}
        bounded = {name: team for name, team in teams.items() if "*" in team.quota_gpus}
        for name, team in bounded.items():
            members = frozenset(
                other
                for other, each in bounded.items()
                if other == name or (team.cohort is not None and each.cohort == team.cohort)
            )
            self._members[name] = members
            self._limit[members] = sum(bounded[TeamName(each)].quota_gpus["*"] for each in members)

    def launched(self, job: JobId, gpus: int, kept_idle: Callable[[Container[str]], int]) -> None:
        """Count a launch; ``kept_idle`` says what windows of some teams keep beside attempts."""
        members = self._members.get(TeamName(job.partition("/")[0]))
        if members is None:
            return
        held = self._held.get(members, 0) + gpus
        self._held[members] = held
        if held + kept_idle(members) > self._limit[members]:
            self.quota_violations += 1

    def left(self, job: JobId, gpus: int) -> None:
        """Count an attempt that has gone."""
        members = self._members.get(TeamName(job.partition("/")[0]))
        if members is not None:
            self._held[members] -= gpus

    def passed(self, span_s: float) -> None:
        """Let time pass in which somebody waits."""
        if self.is_stuck:
            self.stuck_s += span_s


def next_gang(memo: Memo) -> int:
    """Return the GPUs of the first job in rank that waits for devices and for nothing else; 0:
    nobody does."""
    for job in memo.ranking:
        decision = memo.decided.get(job)
        is_waiting = decision is not None and decision.verb is Verb.WAIT and decision.hold is None
        if is_waiting and decision is not None and decision.reason in _FOR_DEVICES:
            spec = memo.books.standings[job].spec
            return 0 if spec is None else spec.gpus.count
    return 0


def is_stuck(gpus: int, free_on: Sequence[int], closed: Container[int], per_node: int) -> bool:
    """Return True where so many GPUs are free on open nodes, but not so that a gang fits.

    A gang of at most a node's GPUs needs one node, a wider one whole nodes and one for the rest.
    """
    free = [count for node, count in enumerate(free_on) if count and node not in closed]
    if not gpus or sum(free) < gpus:
        return False
    whole, rest = divmod(gpus, per_node)
    empty = sum(count >= per_node for count in free)
    if empty < whole:
        return True
    return rest > 0 and empty == whole and not any(rest <= count < per_node for count in free)
