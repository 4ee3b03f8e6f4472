"""What becomes of an attempt that its launcher cannot start?

An intent that is recorded is asked for until it runs.  Where the launcher refuses for good (the
devices are gone, the document composes to something else), or fails for longer than
``policy.lost_after``, asking on would hold devices for ever: the attempt counts as lost, with the
launcher's words, and the job is tried anew or held.  Before that the launcher is told to kill it,
so that it cannot start after all.

Only what this process tried and saw fail counts.  After a restart an attempt that was never
launched is asked for like any other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.attempt import Observation, ObservedState
from reconciler.domain.launch import RunRef
from reconciler.domain.units import AttemptId, Seconds
from reconciler.errors import BackendError, LauncherError
from reconciler.ports import Launcher

LONGEST_MESSAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    since_s: float
    words: str
    is_final: bool


class LaunchFailures:
    """Remembers failed launches of this process and judges observations by them."""

    def __init__(self, launcher: Launcher, monotonic_s: Callable[[], float]) -> None:
        self._launcher = launcher
        self._monotonic_s = monotonic_s
        self._failures: dict[AttemptId, _Failure] = {}

    def failed(self, attempt: AttemptId, error: BackendError) -> None:
        """Note that a launch failed just now."""
        before = self._failures.get(attempt)
        self._failures[attempt] = _Failure(
            since_s=before.since_s if before else self._monotonic_s(),
            words=f"could not be launched: {error}"[:LONGEST_MESSAGE],
            is_final=isinstance(error, LauncherError) and not error.retryable,
        )

    def launched(self, attempt: AttemptId) -> None:
        """Forget failures of an attempt whose launch was taken."""
        self._failures.pop(attempt, None)

    def judge(
        self,
        seen: Mapping[AttemptId, Observation],
        runs: Sequence[RunRef],
        lost_after_s: Seconds,
    ) -> dict[AttemptId, Observation]:
        """Return the observations, with hopeless attempts lost and failed ones explained."""
        live = {run.attempt: run for run in runs}
        self._failures = {key: each for key, each in self._failures.items() if key in live}
        judged = dict(seen)
        for attempt, failure in self._failures.items():
            observation = seen.get(attempt)
            if observation is None or observation.state is not ObservedState.ABSENT:
                continue
            judged[attempt] = replace(observation, message=failure.words)
            is_over = failure.is_final or self._monotonic_s() - failure.since_s > lost_after_s
            if is_over and self._is_killed(live[attempt]):
                judged[attempt] = replace(judged[attempt], state=ObservedState.LOST)
        return judged

    def _is_killed(self, run: RunRef) -> bool:
        """Make sure that it does not start later; False where the launcher does not answer."""
        try:
            self._launcher.kill(run)
        except BackendError:
            return False
        return True
