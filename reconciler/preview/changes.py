"""What does a change do to the schedule?  plan(base) and plan(head), at one instant.

Both sides are assembled from the same statuses and planned by the planner that runs live; the
difference is what people are told.  Advisory: everything is planned again after the merge.

What is known of the machines is what the newest decision recorded.  A run is taken to go on as it
was last seen; nothing that is only in a run directory is looked at.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.domain.attempt import ObservedState
from reconciler.domain.budget import BudgetUse
from reconciler.domain.job import JobSpec
from reconciler.domain.plan import Expectation, Plan
from reconciler.domain.problem import SpecProblem
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import CommitId, Instant, JobId
from reconciler.planning.compare import Comparison, Preempted, Shift, compare
from reconciler.planning.counterfactual import Suggestion, suggestions
from reconciler.planning.memo import Memo
from reconciler.planning.plan import plan
from reconciler.preview.calendar import (
    ReservationChange,
    budgets_after,
    is_job,
    reservation_changes,
)
from reconciler.preview.edits import spec_edits
from reconciler.preview.head_history import HeadHistory
from reconciler.preview.needs import Needs, needs
from reconciler.preview.revisions import Change
from reconciler.snapshots.assemble import Assembler
from reconciler.snapshots.inputs import INPUTS_FILE, Inputs
from reconciler.snapshots.learned import learned_from
from reconciler.snapshots.recorded import recorded_at
from reconciler.specs.cache import SpecCache
from reconciler.specs.entries import SpecEntry, has_errors
from reconciler.specs.reading import SpecReading, read_specs
from reconciler.specs.submission import submission_problems
from reconciler.store.spec_source import SpecSource
from reconciler.store.status_tree import StatusTree, read_status_tree

SUGGESTED_FOR = 3
"""Jobs of one change that suggestions are made for: each suggestion is a plan."""
LIVE_FIELDS = frozenset(("priority", "suspend", "limit_s"))
"""What an edit changes of a job that runs; the rest waits for its next attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Command line overrides of one document, tried as if they were committed."""

    path: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two plans."""

    snapshot: Snapshot
    plan: Plan
    memo: Memo


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """One job that the change adds, changes or removes."""

    job: JobId
    sign: str
    """``+``, ``~`` or ``-``."""
    before: JobSpec | None
    after: JobSpec | None
    was: Expectation | None
    expected: Expectation | None
    edits: tuple[str, ...] = ()
    """``priority P2 -> P1`` and the like, of a changed job."""
    note: str = ""
    suggestions: tuple[Suggestion, ...] = ()
    """Changes of it that would start it sooner, each planned."""
    needs: Needs | None = None
    """Memory and time of the whole job; None for one that is removed."""

    @property
    def gpu_hours(self) -> float | None:
        """Expected GPU-hours of what is still to run, p50; None without a forecast."""
        spec, when = self.after, self.expected
        if spec is None or when is None:
            return None
        return spec.gpus.count * (when.end_p50 - when.start_p50) / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A run that the change asks to leave."""

    preempted: Preempted
    cost_gpu_s: int
    """GPU-seconds: work since the last durable checkpoint, and the restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Everything a change does."""

    now: Instant
    change: Change
    problems: tuple[SpecProblem, ...]
    """Of the files that the change touches; with errors among them nothing was planned."""
    before: Side | None = None
    after: Side | None = None
    jobs: tuple[JobChange, ...] = ()
    displaced: tuple[Shift, ...] = ()
    """Other people's jobs that start or end later."""
    sooner: tuple[Shift, ...] = ()
    stopped: tuple[Stopped, ...] = ()
    without_place: tuple[JobId, ...] = ()
    reservations: tuple[ReservationChange, ...] = ()
    budgets: tuple[BudgetUse, ...] = ()
    """Those that the change touches, as they stand with it."""
    learned_runs: int = 0
    """Finished runs of this fleet that refined the estimates; 0: the shipped constants alone."""

    @property
    def is_refused(self) -> bool:
        return has_errors(self.problems)

    def __bool__(self) -> bool:
        """True if the change does anything."""
        moved = self.displaced or self.sooner or self.stopped or self.without_place
        return bool(self.jobs or self.reservations or moved)

    def count(self, sign: str) -> int:
        """Return how many documents the change adds (``+``), changes (``~``) or removes (``-``)."""
        signs = [each.sign for each in self.jobs] + [each.sign for each in self.reservations]
        return signs.count(sign)


def preview(
    repo: Path,
    change: Change,
    *,
    status_commit: CommitId | None,
    now: Instant,
    override: Override | None = None,
    cache: SpecCache | None = None,
) -> Preview:
    """Return what ``change`` does, planned at ``now`` over the statuses of ``status_commit``.

    Raises ``GitError`` where a commit it rests on is not in ``repo``.
    """
    base = read_specs(change.base_tree, cache=cache)
    head = _head_reading(change, override, cache)
    problems = _problems(change, override, base, head, now)
    if has_errors(problems) or not base.platform.cluster.nodes:
        return Preview(now=now, change=change, problems=problems)
    source = SpecSource(repo, remote="unused")
    statuses = read_status_tree(repo, status_commit) if status_commit else None
    inputs = _inputs(repo, statuses, change.base, now)
    before = _side(Assembler(source, cache), base, statuses, inputs)
    history = HeadHistory(source, change, override.path if override else None, now)
    after = _side(Assembler(history, cache), head, statuses, inputs)
    jobs = _with_suggestions(tuple(_changes(base, head, before, after)), after)
    compared = _compared(change, problems, before, after, jobs)
    held = tuple(reservation_changes(base.entries, head.entries, after.plan))
    groups = {each.after.budget_group for each in jobs if each.after}
    groups |= {each.after.budget_group for each in held if each.after}
    return replace(
        compared,
        reservations=held,
        budgets=budgets_after(groups, after.plan),
        learned_runs=learned_from(statuses.history if statuses else None).runs,
    )


def _head_reading(
    change: Change, override: Override | None, cache: SpecCache | None
) -> SpecReading:
    head = read_specs(change.head_tree, cache=cache)
    if override is None:
        return head
    tried = read_specs(
        change.head_tree, cache=cache, paths=(override.path,), overrides=override.words
    )
    entries = dict(sorted({**head.entries, **tried.entries}.items()))
    return replace(head, entries=entries, problems=tuple(sorted({*head.problems, *tried.problems})))


def _problems(
    change: Change, override: Override | None, base: SpecReading, head: SpecReading, now: Instant
) -> tuple[SpecProblem, ...]:
    """Return problems of files that the change touches, and those that it brings elsewhere.

    What is judged when a job is submitted is judged as if it were submitted at ``now``.

    Without a conf on the base there is nothing to plan with: then its problems count too.
    """
    touched = {*change.edited, *([override.path] if override else ())}
    old = set(base.problems) if base.platform.cluster.nodes else set()
    found = [each for each in head.problems if each.file in touched or each not in old]
    for job, entry in head.entries.items():
        before = base.entries.get(job)
        was_p0 = before is not None and before.spec is not None and before.spec.priority == 0
        if entry.path in touched and entry.spec is not None and not was_p0:
            data = change.head_tree.read((entry.blob,))[entry.blob]
            found += submission_problems(entry.spec, entry.path, now, data)
    return tuple(sorted(found))


def _inputs(repo: Path, statuses: StatusTree | None, base: CommitId, now: Instant) -> Inputs:
    """Return the newest recorded inputs, moved on to ``now``."""
    if statuses is None or INPUTS_FILE not in statuses.files:
        return Inputs(desired=base, now=now, looked_at=now)
    recorded = recorded_at(repo, statuses.commit).inputs()
    running = {
        attempt: seen
        for attempt, seen in recorded.observations.items()
        if seen.state is ObservedState.RUNNING
    }
    return replace(
        recorded,
        desired=base,
        now=Instant(max(now, recorded.now)),
        previous_look_at=recorded.looked_at,
        cursor=statuses.cursor.desired if statuses.cursor else None,
        is_rewritten=False,
        allowed_prune=0,
        observations=running,
        planner_state=recorded.next_planner_state,
    )


def _side(
    assembler: Assembler, reading: SpecReading, statuses: StatusTree | None, inputs: Inputs
) -> Side:
    snapshot = assembler.assemble(reading, statuses, inputs)
    planned, memo = plan(snapshot)
    return Side(snapshot=snapshot, plan=planned, memo=memo)


def _changes(
    base: SpecReading, head: SpecReading, before: Side, after: Side
) -> Iterable[JobChange]:
    for job in sorted(base.entries.keys() | head.entries.keys()):
        old, new = base.entries.get(job), head.entries.get(job)
        if _is_same(old, new) or not is_job(old, new):
            continue
        old_spec, new_spec = old.spec if old else None, new.spec if new else None
        sign = "~"
        if new is None:
            sign = "-"
        elif old is None:
            sign = "+"
        edits = spec_edits(old_spec, new_spec)
        yield JobChange(
            job=job,
            sign=sign,
            before=old_spec,
            after=new_spec,
            was=before.plan.forecast.get(job),
            expected=after.plan.forecast.get(job) if new else None,
            edits=tuple(words for _, words in edits),
            needs=_needs(new_spec, after.snapshot),
            note=_note(job, after.snapshot, new, [name for name, _ in edits]),
        )


def _with_suggestions(jobs: tuple[JobChange, ...], after: Side) -> tuple[JobChange, ...]:
    """Return the changes, the first of those that would wait with what would start it sooner."""
    asked = [each.job for each in jobs if each.after is not None][:SUGGESTED_FOR]
    return tuple(
        replace(each, suggestions=suggestions(after.snapshot, after.plan, each.job, after.memo))
        if each.job in asked
        else each
        for each in jobs
    )


def _needs(spec: JobSpec | None, snapshot: Snapshot) -> Needs | None:
    if spec is None:
        return None
    return needs(spec, snapshot.sizes.get(spec.id, ()), snapshot.cluster)


def _is_same(old: SpecEntry | None, new: SpecEntry | None) -> bool:
    if old is None or new is None:
        return old is new
    return (old.digest, old.problems) == (new.digest, new.problems)


def _note(job: JobId, snapshot: Snapshot, new: SpecEntry | None, edited: Sequence[str]) -> str:
    status = snapshot.statuses.get(job)
    if status is None or status.live_attempt is None:
        return ""
    done_gpu_s = status.gpu_seconds + (
        status.live_attempt.running_s(snapshot.now) * status.live_attempt.gpus
    )
    if new is None:
        return (
            f"this will stop a running job after a checkpoint, {done_gpu_s / 3600:.1f} GPU-h done"
        )
    if edited and not LIVE_FIELDS.issuperset(edited):
        return "runs on as it is; all but priority, suspend and limit apply to its next attempt"
    return ""


def _compared(
    change: Change,
    problems: tuple[SpecProblem, ...],
    before: Side,
    after: Side,
    jobs: tuple[JobChange, ...],
) -> Preview:
    compared: Comparison = compare(before.plan, after.plan)
    own = {each.job for each in jobs}
    asked = {each.job for each in compared.preempted}
    return Preview(
        now=after.snapshot.now,
        change=change,
        problems=problems,
        before=before,
        after=after,
        jobs=jobs,
        displaced=tuple(each for each in compared.delayed if each.job not in own | asked),
        sooner=tuple(each for each in compared.sooner if each.job not in own),
        stopped=tuple(
            Stopped(preempted=each, cost_gpu_s=_cost_gpu_s(each.job, after.snapshot))
            for each in compared.preempted
        ),
        without_place=tuple(job for job in compared.without_place if job not in own),
    )


def _cost_gpu_s(job: JobId, snapshot: Snapshot) -> int:
    """Return (work since the last durable checkpoint + restart) x GPUs, in GPU-seconds."""
    live = snapshot.statuses[job].live_attempt
    if live is None:
        return 0
    seen = snapshot.observations.get(live.id)
    kept = [live.started_at or live.decided_at, live.checkpoint_at]
    kept.append(seen.checkpoint_at if seen else None)
    lost_s = max(snapshot.now - max(at for at in kept if at is not None), 0)
    return (lost_s + snapshot.policy.preemption.restart_s) * live.gpus
