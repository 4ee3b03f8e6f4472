"""When may time alone change what is settled about a job: at its limit, once its pause is over?

Rule kept: each job has one such instant or none, that of when it was last looked at, whatever
books these grew from.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from reconciler.domain.units import Instant, JobId
from reconciler.planning.table import Draft, Table

DUE_OF_EACH = 4
"""Entries a job has in the heap of due times before those out of date are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """When time alone may change what is settled."""

    at: Table[JobId, Instant]
    heap: list[tuple[Instant, JobId]]
    """Every entry of ``at``, and some that are out of date.  Shared with the books that grow from
    these, which may take entries out: it is only good while it stands for ``at``."""
    stands_for: list[Table[JobId, Instant]]
    """The one table that the shared heap has all entries of."""


class Times:
    """The due times while books are made."""

    def __init__(self, before: Due | None) -> None:
        self._at = Draft(None if before is None else before.at)
        if before is None:
            self._heap: list[tuple[Instant, JobId]] = []
            self._stands_for: list[Table[JobId, Instant]] = []
            return
        self._heap, self._stands_for = before.heap, before.stands_for
        if not (self._stands_for and self._stands_for[0] is before.at):
            self._make()  # other books grew from those before and took the heap along
        self._stands_for.clear()

    def _make(self) -> None:
        self._heap, self._stands_for = [(at, job) for job, at in self._at.items()], []
        heapify(self._heap)

    def until(self, now: Instant) -> set[JobId]:
        """Take out and return the jobs whose time has come."""
        found: set[JobId] = set()
        heap, at_of = self._heap, self._at.get
        while heap and heap[0][0] <= now:
            at, job = heappop(heap)
            if at_of(job) == at:
                found.add(job)
        for job in found:
            self._at.pop(job)
        return found

    def put(self, job: JobId, at: Instant) -> None:
        """Look at a job again at that instant, and not at another one."""
        self._at[job] = at
        heappush(self._heap, (at, job))

    def drop(self, job: JobId) -> None:
        """Do not look at a job again because of time."""
        self._at.pop(job)

    def done(self) -> Due:
        """Return the due times."""
        if len(self._heap) > DUE_OF_EACH * len(self._at) + DUE_OF_EACH:
            self._make()
        at = self._at.done()
        self._stands_for.append(at)
        return Due(at=at, heap=self._heap, stands_for=self._stands_for)
