"""The decisions of one plan, most of them the same as in the plan before.

A plan decides about every job, and nearly all of it is "keep" and "wait".  What is settled is
kept from cycle to cycle; a place in the ranking is put into a decision when somebody reads it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from reconciler.domain.plan import Decision
from reconciler.domain.units import JobId

Value = TypeVar("Value")

Places = Mapping[JobId, tuple[int, float]]
"""Rank, from 1, and score of each ranked job."""


class Decisions(Mapping[JobId, Decision]):
    """One decision a job, sorted by job."""

    def __init__(
        self,
        settled: Mapping[JobId, Decision],
        decided: Mapping[JobId, Decision],
        places: Callable[[], Places],
    ) -> None:
        """``decided`` is of jobs compared with others and goes before ``settled``."""
        self._settled = settled
        self._decided = decided
        self._make_places = places
        self._places: Places | None = None
        self._order: list[JobId] | None = None

    def bare(self, job: JobId) -> Decision:
        """Return the decision without the job's place in the ranking."""
        return self._decided[job] if job in self._decided else self._settled[job]

    def __getitem__(self, job: JobId) -> Decision:
        decision = self.bare(job)
        if job in self._settled and job not in self._decided:
            return decision
        if self._places is None:
            self._places = self._make_places()
        place = self._places.get(job)
        return decision if place is None else replace(decision, rank=place[0], score=place[1])

    def __contains__(self, job: object) -> bool:
        return job in self._decided or job in self._settled

    def __iter__(self) -> Iterator[JobId]:
        if self._order is None:
            self._order = sorted(self._settled.keys() | self._decided.keys())
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._settled) + len(self._decided.keys() - self._settled.keys())

    def __repr__(self) -> str:
        return f"Decisions({dict(self)!r})"


class Lazy(Mapping[JobId, Value], Generic[Value]):
    """A mapping made when somebody first reads it."""

    def __init__(self, make: Callable[[], Mapping[JobId, Value]]) -> None:
        self._make: Callable[[], Mapping[JobId, Value]] | None = make
        self._made: Mapping[JobId, Value] = {}

    def _all(self) -> Mapping[JobId, Value]:
        if self._make is not None:
            self._made, self._make = self._make(), None
        return self._made

    @property
    def is_made(self) -> bool:
        """True once it was read."""
        return self._make is None

    def __getitem__(self, job: JobId) -> Value:
        return self._all()[job]

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self._all())
