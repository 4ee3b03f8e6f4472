"""Who is told what, and when?  Turns recorded commits into notifications and alarms.

Only what is recorded is told.  The commit up to which the outbox was filled is remembered in the
state folder, so after a crash the difference to the tip is told, and nothing is skipped.
"""

from collections.abc import Callable, Mapping

from reconciler.domain.job import JobSpec
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobStatus
from reconciler.domain.units import CommitId, JobId
from reconciler.engine.events import notifications, security_notification
from reconciler.engine.logging import Log
from reconciler.engine.main_reader import Look
from reconciler.engine.sinks import Courier, Outbox
from reconciler.engine.state_dir import StateDir
from reconciler.errors import BackendError
from reconciler.specs.reading import SpecReading
from reconciler.store.status_tree import StatusTree


class Notifier:
    """Fills the outbox; the courier empties it."""

    def __init__(
        self,
        *,
        outbox: Outbox,
        courier: Courier,
        state: StateDir,
        read: Callable[[CommitId], StatusTree],
        brought_by: Callable[[CommitId, str], tuple[CommitId, str]],
        log: Log,
    ) -> None:
        self._outbox = outbox
        self._courier = courier
        self._state = state
        self._read = read
        self._brought_by = brought_by
        self._log = log
        self._alarmed: set[tuple[str, str]] | None = None
        self._has_caught_up = False

    def look(self, look: Look, tree: StatusTree) -> None:
        """Use the sinks of this conf, catch up after a restart, alarm about new requests."""
        self._courier.use(look.reading.platform.sinks)
        if not self._has_caught_up:
            self._catch_up(tree, look.reading)
        self._alarm(look, tree)

    def recorded(self, before: StatusTree, after: StatusTree, reading: SpecReading) -> None:
        """Tell the sinks what one commit, or several, changed."""
        told = [
            each
            for job, status in after.statuses.items()
            if before.statuses.get(job) is not status
            for each in notifications(before.statuses.get(job), status, _spec(reading, job))
        ]
        self._outbox.put(told)
        self._state.hand_on(after.commit)
        if told:
            self._courier.wake()

    def _catch_up(self, tree: StatusTree, reading: SpecReading) -> None:
        """Tell what was recorded before a crash and not told; a first start tells nothing old."""
        self._has_caught_up = True
        last = self._state.handed_on()
        if last is None:
            self._state.hand_on(tree.commit)
        elif last != tree.commit:
            try:
                self.recorded(self._read(last), tree, reading)
            except BackendError as error:
                self._log.event("notify-gap", since=last, why=error)
                self._state.hand_on(tree.commit)

    def _alarm(self, look: Look, tree: StatusTree) -> None:
        """Say each wildcard, negative or absurd request once, with who brought it."""
        found = {
            (entry.path, entry.blob): entry
            for entry in look.reading.entries.values()
            if any(problem.is_security_event for problem in entry.problems)
        }
        if self._alarmed is None:
            self._alarmed = {
                key for key, entry in found.items() if _is_known(tree.statuses, entry.id)
            }
        for key, entry in sorted(found.items()):
            if key in self._alarmed:
                continue
            commit, author = self._brought_by(look.commit, entry.path)
            for problem in entry.problems:
                if problem.is_security_event:
                    self._log.security(
                        file=f"{problem.file}:{problem.line}", code=problem.code,
                        author=author, commit=commit, what=problem.message,
                    )  # fmt: skip
                    if "security" in look.reading.platform.sinks:
                        self._outbox.put(
                            [security_notification(problem, author=author, commit=commit)]
                        )
            self._courier.wake()
        self._alarmed = set(found)


def _is_known(statuses: Mapping[JobId, JobStatus], job: JobId) -> bool:
    status = statuses.get(job)
    return status is not None and status.reason is Reason.WILDCARD_REQUEST


def _spec(reading: SpecReading, job: JobId) -> JobSpec | None:
    entry = reading.entries.get(job)
    return None if entry is None else entry.spec
