"""Answers "why?": what a job waits for, when that comes, who is ahead, how its score adds up.

Words for people, made from the snapshot and the plan alone; nothing here decides anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.domain.attempt import Attempt
from reconciler.domain.cluster import Allocation
from reconciler.domain.job import JobSpec
from reconciler.domain.plan import Decision, Expectation, Plan, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import Instant, JobId, TeamName
from reconciler.errors import NotFoundError
from reconciler.planning import remaining
from reconciler.planning.agenda import keep_agenda
from reconciler.planning.board import Board, Booking
from reconciler.planning.books import open_books
from reconciler.planning.budget import hours
from reconciler.planning.caches import cached_words
from reconciler.planning.contenders import Wishes
from reconciler.planning.counterfactual import Suggestion
from reconciler.planning.eligibility import counted, words
from reconciler.planning.fair_use import Factors, factor_of, fair_use_words
from reconciler.planning.placement import fits, place
from reconciler.planning.power import share_power
from reconciler.planning.priority import ScoreParts, rank_instant, score, weights_of
from reconciler.planning.quota import ALL_TYPES
from reconciler.planning.risk import Risk
from reconciler.planning.settle import refusal
from reconciler.planning.shapes import Shapes
from reconciler.planning.slowdown import runs_behind, slowdown_at, times_as_long
from reconciler.planning.spread import Spread
from reconciler.planning.standing import Standing, standing, standings
from reconciler.planning.topology import allocation_of, bits_of
from reconciler.planning.windows import reach_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing a job needs before it can start."""

    name: str
    is_met: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """What a job that waits for a better place gives up: a start now, on these pieces."""

    allocation: Allocation
    end_p50: Instant
    """When it would end so, as long as it takes when spread."""
    slowdown: float
    """How many times as long it takes so as in its best place."""
    runs: int
    """How many runs of the fleet that rests on besides the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything ``headway why`` says about one job."""

    job: JobId
    phase: JobPhase | None
    """As recorded; None for a job without a status."""
    headline: str
    reason: Reason
    detail: str
    checks: tuple[Check, ...]
    ahead: tuple[JobId, ...]
    """Jobs ranked before this one, first in rank first; empty for a job that is not ranked."""
    rank: int | None
    ranked: int
    """How many jobs are ranked in all."""
    expected: Expectation | None
    score: ScoreParts | None
    """What each factor adds to its score; None without a spec or a status."""
    apart: Apart | None = None
    """Set for a job that waits for a better place: ``expected`` says when that comes and ends."""
    risks: tuple[Risk, ...] = ()
    """Verified newcomers for which a running job would leave; made only when asked for."""
    suggestions: tuple[Suggestion, ...] = ()
    """Verified changes that would start it sooner; made only when asked for, each is a plan."""


def headline(decision: Decision) -> str:
    """Return a decision in a few words: ``wait, gpus_busy`` or ``preempt, for hotfix-eval``.

    Other jobs are named shortly where they are of the same team.
    """
    if decision.verb is Verb.PREEMPT and decision.for_job is not None:
        return f"preempt, for {_short(decision.for_job, decision.job)}"
    if decision.reason is Reason.PREEMPTING:
        names = ", ".join(_short(victim, decision.job) for victim in decision.victims)
        return f"wait, preempting {names}"
    if decision.verb is Verb.KEEP and decision.reason is Reason.RUNS:
        return "keep"
    return f"{decision.verb.value}, {decision.reason.value}"


def _short(job: JobId, beside: JobId) -> str:
    team, name = job.split("/")
    return name if team == beside.split("/")[0] else job


def explain(snapshot: Snapshot, plan: Plan, job: JobId) -> Explanation:
    """Return why ``plan`` decided as it did about ``job``.

    Raises ``NotFoundError`` for a job that is neither on main nor has a status.
    """
    decision = plan.decisions.get(job)
    if decision is None:
        raise NotFoundError(
            f"no job {job}: it is not on main at {snapshot.desired.commit[:12]} and has no"
            " status; `headway queue` lists the jobs there are"
        )
    shapes = Shapes(snapshot.cluster, None)
    here = standing(snapshot, job)
    checks = _Checks(snapshot, plan, here, shapes)
    ranks = {d.job: d.rank for d in plan.decisions.values() if d.rank is not None}
    ahead = [d for d in sorted(ranks, key=lambda d: ranks[d]) if ranks[d] < ranks.get(job, 0)]
    return Explanation(
        job=job,
        phase=here.recorded.phase if here.recorded is not None else None,
        headline=headline(decision),
        reason=decision.reason,
        detail=decision.detail,
        checks=tuple(checks.all()),
        ahead=tuple(ahead),
        rank=decision.rank,
        ranked=len(ranks),
        expected=plan.forecast.get(job),
        score=_score(snapshot, here, shapes, checks.agenda.favour),
        apart=checks.apart() if decision.reason is Reason.BETTER_PLACE_SOON else None,
    )


def _score(
    snapshot: Snapshot, here: Standing, shapes: Shapes, favour: Factors
) -> ScoreParts | None:
    pending = Wishes(snapshot, shapes).pending_job(here)
    if pending is None:
        return None
    return score(
        pending,
        now=rank_instant(snapshot.now, snapshot.policy),
        weights=weights_of(pending, snapshot.policy, snapshot.teams),
        heat=snapshot.policy.model_heat,
        favour=factor_of(pending.spec.team, favour),
    )


class _Checks:
    """The checks of one job, in the order in which the planner asks them."""

    def __init__(self, snapshot: Snapshot, plan: Plan, here: Standing, shapes: Shapes) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._here = here
        self._shapes = shapes
        self._books = open_books(snapshot, shapes)
        share_power(snapshot, shapes, self._books)
        self.agenda = keep_agenda(snapshot, shapes, self._books)

    def all(self) -> Iterator[Check]:
        here = self._here
        yield self._document()
        if here.spec is None or here.status is None or here.is_finished:
            return
        if here.live is not None:
            yield self._runs(here.live)
            return
        yield from self._dependencies(here.spec)
        yield self._tries(here.status)
        yield self._nodes(here.spec)
        yield self._quota(here.spec)
        yield from self._agenda(here.spec, here.status)
        yield self._gpus(here.spec)

    def _document(self) -> Check:
        wanted = self._here.wanted
        if wanted is None:
            return Check(name="document", is_met=False, words="its file is not on main")
        if wanted.problems:
            return Check(name="document", is_met=False, words=refusal(wanted))
        if wanted.spec is not None and wanted.spec.suspend:
            return Check(name="document", is_met=False, words="it says suspend: true")
        return Check(name="document", is_met=True, words="it is valid")

    def _runs(self, live: Attempt) -> Check:
        nodes = [share.node for share in live.allocation.shares]
        said = f"attempt {live.number} is {live.phase.value} on {', '.join(nodes)}"
        if self._here.spec is not None:
            cached = cached_words(self._here.spec.facts, nodes, self._shapes.where.caches)
            said += f", {cached}" if cached else ""
        return Check(name="attempt", is_met=True, words=said)

    def _dependencies(self, spec: JobSpec) -> Iterator[Check]:
        if not spec.after:
            return
        jobs = standings(self._snapshot)
        for job in spec.after:
            other = jobs.get(job)
            if other is None:
                yield Check(name="after", is_met=False, words=f"{job} does not exist")
                continue
            phase = other.status.phase if other.status is not None else JobPhase.INVALID
            done = phase is JobPhase.SUCCEEDED
            yield Check(name="after", is_met=done, words=f"{job} is {phase.value}")

    def _tries(self, status: JobStatus) -> Check:
        retry = self._snapshot.policy.retry
        waits = status.retry_at is not None and status.retry_at > self._snapshot.now
        said = f"{status.tries_used} of {retry.max_tries} tries used, {status.lost} lost"
        return Check(name="tries", is_met=not waits and status.lost <= retry.max_lost, words=said)

    def _nodes(self, spec: JobSpec) -> Check:
        where, shape = self._shapes.where, self._shapes.of(spec.gpus)
        if not self._shapes.can_ever_fit(spec.gpus):
            said = f"the cluster has no place for {words(spec.gpus, where.unit)}"
            return Check(name="cluster", is_met=False, words=said)
        ready = fits(shape, where.ahead, where)
        said = "ready nodes have" if ready else "only nodes that are not ready have"
        return Check(name="cluster", is_met=ready, words=f"{said} {words(spec.gpus, where.unit)}")

    def _quota(self, spec: JobSpec) -> Check:
        team = self._snapshot.teams.get(spec.team)
        quota = team.quota_gpus if team is not None else {}
        if not quota:
            return Check(name="quota", is_met=True, words=f"team {spec.team} has no quota")
        where, shape = self._shapes.where, self._shapes.of(spec.gpus)
        use, now = self._board().use, self._snapshot.now
        parts = []
        for name in sorted(quota):
            kind = f"{where.unit}s" if name == ALL_TYPES else name
            parts.append(f"{use.held(spec.team, name, now)} of {quota[name]} {kind}")
        allowed = use.allowed(spec.team, spec.gpus.count, now, Instant(now + 1))
        said = f"team {spec.team} holds {', '.join(parts)}; this asks for {spec.gpus.count}"
        return Check(name="quota", is_met=fits(shape, where.up & allowed, where), words=said)

    def _agenda(self, spec: JobSpec, status: JobStatus) -> Iterator[Check]:
        """Yield what budgets and reservations say; nothing where there are none."""
        snapshot, shapes, agenda = self._snapshot, self._shapes, self.agenda
        if agenda.favour:
            said = fair_use_words(snapshot, self._books.live, spec.team, agenda.favour)
            yield Check(name="fair use", is_met=True, words=said)
        bar = agenda.bars.get(spec.id)
        use = next((use for use in agenda.uses if use.name == spec.budget_group), None)
        if use is not None:
            over = bar is not None and bar.reason is Reason.BUDGET_EXCEEDED
            left = f"budget {use.name} has {hours(max(use.left_gpu_s, 0))} GPU-hours left"
            yield Check(name="budget", is_met=not over, words=bar.detail if over and bar else left)
        if not agenda.calendar.windows:
            return
        if bar is not None and bar.reason is Reason.RESERVATION_PLANNED:
            yield Check(name="reservation", is_met=False, words=f"it {bar.detail}, not open yet")
            return
        left_s = remaining.of_pending(
            status, spec, remaining.total(spec, snapshot.sizes.get(spec.id, ()), snapshot.policy)
        )
        reach = reach_s(spec, left_s, ran_s=status.ran_s, policy=snapshot.policy)
        where, shape = shapes.where, shapes.of(spec.gpus)
        open_to = where.up & agenda.calendar.open_to(spec, snapshot.now, reach, where)
        kept = counted((where.up & ~open_to).bit_count(), where.unit)
        said = f"{kept} kept from it by reservations, open or opening before it could leave"
        yield Check(name="reservation", is_met=fits(shape, open_to, where), words=said)

    def _gpus(self, spec: JobSpec) -> Check:
        where, shape = self._shapes.where, self._shapes.of(spec.gpus)
        free = self._board().timeline.free_at(self._snapshot.now)
        wanted = 0
        for _, fitting in shape.per_type:
            wanted |= fitting
        most = max(((free & wanted & node.all).bit_count() for node in where.nodes), default=0)
        number = (free & wanted).bit_count()
        said = (
            f"needs {words(spec.gpus, where.unit)}; {counted(number, where.unit)} of the kind"
            f" {'is' if number == 1 else 'are'} free, at most {most} on a node"
        )
        dark = where.up & ~where.ready & wanted
        if dark:
            said += f"; the power of their racks keeps {counted(dark.bit_count(), where.unit)} idle"
        return Check(name="gpus", is_met=fits(shape, free, where), words=said)

    def apart(self) -> Apart | None:
        """Return what the job could start on now; None where those pieces are gone by now."""
        snapshot, where = self._snapshot, self._shapes.where
        spec, status = self._here.spec, self._here.status
        if spec is None or status is None:
            return None
        free = self._board().timeline.free_at(snapshot.now)
        devices = place(self._shapes.of(spec.gpus), free, where)
        if devices is None:
            return None
        whole = remaining.total(spec, snapshot.sizes.get(spec.id, ()), snapshot.policy)
        spread = Spread(self._shapes, slowdown_at(snapshot))
        placed = spread.placed(spec.gpus, devices)
        factor = times_as_long(spread.slowdown, placed)
        left = remaining.of_pending(status, spec, whole).times(factor)
        return Apart(
            allocation=allocation_of(devices, where),
            end_p50=Instant(snapshot.now + left.p50),
            slowdown=factor,
            runs=runs_behind(snapshot.measured_spread, placed),
        )

    def _board(self) -> Board:
        """Return what is held at this instant by others: attempts, and holds of other jobs."""
        snapshot, where = self._snapshot, self._shapes.where
        board = Board(snapshot.now, where, snapshot.teams)
        for job, status in sorted(snapshot.statuses.items()):
            live = status.live_attempt
            held = [live.allocation] if live is not None else []
            held += [hold.devices for hold in status.holds if job != self._here.id]
            devices = 0
            for allocation in held:
                devices |= bits_of(allocation, where)
            board.book(
                Booking(
                    job=job,
                    team=TeamName(job.split("/")[0]),
                    devices=devices,
                    start=snapshot.now,
                    end=Instant(snapshot.now + 1),
                )
            )
        return board
