"""Attempts that run on virtual time: work, checkpoints, grace, and failures on demand.

A run is a function of time.  Nothing ticks: what a launcher would see at an instant is computed
from when the run began, what it resumed from, and what was asked of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.domain.attempt import Observation, ObservedState, Outcome
from reconciler.domain.units import AttemptId, Instant, JobId, Seconds

SIGKILL = 9


class Fault(StrEnum):
    """What can go wrong with an attempt."""

    FAILS = "fails"
    KILLED = "killed"
    NO_RESULT = "no_result"
    DIVERGES = "diverges"
    LOST = "lost"
    IGNORES_STOP = "ignores_stop"
    SURVIVES_GRACE = "survives_grace"
    """Even the launcher's kill at the end of the grace does nothing; only ``kill`` helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A fault of one attempt, ``after_s`` into it."""

    fault: Fault
    after_s: Seconds = Seconds(60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How the attempts of one job behave, whatever anybody estimated."""

    work_s: Seconds
    """Running time of a whole generation without interruption."""
    checkpoint_every_s: Seconds = Seconds(300)
    save_s: Seconds = Seconds(5)
    """From a stop request to a durable checkpoint and exit."""
    troubles: Mapping[int, Trouble] = field(default_factory=dict)
    """By how many attempts the job made before, over all generations, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How and when a run ends, if nothing else is asked of it."""

    at: Instant
    state: ObservedState = ObservedState.ENDED
    exit_status: int | None = 0
    outcome: Outcome | None = None
    saved_s: Seconds
    """Work that checkpoints keep."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One attempt on virtual time."""

    attempt: AttemptId
    job: JobId
    began_at: Instant
    resumed_s: Seconds
    """Work of earlier attempts it starts from."""
    behaviour: Behaviour
    runs_command: bool
    trouble: Trouble | None = None
    stop_at: Instant | None = None
    grace_s: Seconds = Seconds(0)
    kill_at: Instant | None = None
    lost_at: Instant | None = None

    def ending(self) -> Ending:
        """Return the first thing that ends it, as far as is known now."""
        endings = [self._finished(), *self._by_trouble(), *self._by_request()]
        return min(endings, key=lambda ending: ending.at)

    def observe(self, now: Instant) -> Observation:
        """Return what a launcher sees at ``now``."""
        ending = self.ending()
        done = self.done_s(min(now, ending.at))
        saved = self.saved_s(min(now, ending.at))
        seen = Observation(
            attempt=self.attempt,
            state=ObservedState.RUNNING,
            started_at=self.began_at,
            step=done,
            total_steps=self.behaviour.work_s,
            checkpoint_step=saved if saved else None,
            checkpoint_at=self._checkpoint_at(saved),
        )
        if now < ending.at:
            return seen
        return Observation(
            attempt=self.attempt,
            state=ending.state,
            started_at=self.began_at,
            ended_at=ending.at,
            exit_status=ending.exit_status,
            outcome=ending.outcome,
            step=done,
            total_steps=self.behaviour.work_s,
            checkpoint_step=ending.saved_s if ending.saved_s else None,
            checkpoint_at=(
                ending.at if ending.saved_s > saved else self._checkpoint_at(ending.saved_s)
            ),
        )

    def done_s(self, at: Instant) -> Seconds:
        """Return the work done by ``at``, earlier attempts included."""
        ran = max(at - self.began_at, 0)
        return Seconds(min(self.resumed_s + ran, self.behaviour.work_s))

    def saved_s(self, at: Instant) -> Seconds:
        """Return the work kept by periodic checkpoints at ``at``; a command keeps none."""
        if self.runs_command:
            return Seconds(0)
        every = self.behaviour.checkpoint_every_s
        ran = max(at - self.began_at, 0)
        return Seconds(min(self.resumed_s + ran // every * every, self.behaviour.work_s))

    def _checkpoint_at(self, saved: Seconds) -> Instant | None:
        own = saved - self.resumed_s
        return Instant(self.began_at + own) if own > 0 else None

    def _finished(self) -> Ending:
        at = Instant(self.began_at + max(self.behaviour.work_s - self.resumed_s, 1))
        return Ending(
            at=at,
            outcome=None if self.runs_command else Outcome.SUCCEEDED,
            saved_s=self.behaviour.work_s,
        )

    def _by_trouble(self) -> list[Ending]:
        if self.trouble is None or self.trouble.fault in _ABOUT_STOPS:
            return []
        at = Instant(self.began_at + self.trouble.after_s)
        state, exit_status, outcome = _FAULTS[self.trouble.fault]
        if self.runs_command:
            outcome = None
            exit_status = 1 if exit_status == 0 else exit_status
        return [
            Ending(
                at=at,
                state=state,
                exit_status=exit_status,
                outcome=outcome,
                saved_s=self.saved_s(at),
            )
        ]

    def _by_request(self) -> list[Ending]:
        found = []
        if self.lost_at is not None:
            found.append(
                Ending(
                    at=self.lost_at,
                    state=ObservedState.LOST,
                    exit_status=None,
                    saved_s=self.saved_s(self.lost_at),
                )
            )
        if self.kill_at is not None:
            found.append(self._killed(self.kill_at))
        if self.stop_at is not None:
            found += self._stopped(self.stop_at)
        return found

    def _stopped(self, stop_at: Instant) -> list[Ending]:
        fault = None if self.trouble is None else self.trouble.fault
        left_at = Instant(stop_at + self.behaviour.save_s)
        ends_of_grace = Instant(stop_at + self.grace_s)
        if fault is Fault.SURVIVES_GRACE:
            return []
        if fault is Fault.IGNORES_STOP or left_at > ends_of_grace:
            return [self._killed(ends_of_grace)]
        if self.runs_command:
            return [Ending(at=left_at, exit_status=143, saved_s=Seconds(0))]
        return [
            Ending(
                at=left_at,
                exit_status=83,
                outcome=Outcome.STOPPED,
                saved_s=self.done_s(stop_at),
            )
        ]

    def _killed(self, at: Instant) -> Ending:
        return Ending(at=at, exit_status=-SIGKILL, saved_s=self.saved_s(at))


_ABOUT_STOPS = (Fault.IGNORES_STOP, Fault.SURVIVES_GRACE)
_FAULTS: Mapping[Fault, tuple[ObservedState, int | None, Outcome | None]] = {
    Fault.FAILS: (ObservedState.ENDED, 1, Outcome.FAILED),
    Fault.KILLED: (ObservedState.ENDED, -SIGKILL, None),
    Fault.NO_RESULT: (ObservedState.ENDED, 0, None),
    Fault.DIVERGES: (ObservedState.ENDED, 84, Outcome.DIVERGED),
    Fault.LOST: (ObservedState.LOST, None, None),
}
