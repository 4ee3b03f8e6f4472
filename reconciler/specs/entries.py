"""What a read gives: one entry a file, and the whole."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.domain.job import JobSpec
from reconciler.domain.problem import Severity, SpecProblem
from reconciler.domain.reservation import Reservation
from reconciler.domain.units import Digest, JobId
from reconciler.specs.platform import Platform


class LazyDocument(Mapping[str, Any]):
    """A composed document that is read from the cache when somebody looks into it."""

    __slots__ = ("_load", "_value", "_where")

    def __init__(self, load: Callable[..., Mapping[str, Any]], *where: str) -> None:
        self._load = load
        self._where = where
        self._value: Mapping[str, Any] | None = None

    def _loaded(self) -> Mapping[str, Any]:
        if self._value is None:
            self._value = self._load(*self._where)
        return self._value

    def __getitem__(self, key: str) -> Any:
        return self._loaded()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def __repr__(self) -> str:
        return f"LazyDocument({self._value if self._value is not None else '...'})"


@dataclass(frozen=True, slots=True)
class SpecEntry:
    """One file under ``jobs/``.  ``spec`` is None where ``problems`` holds an error."""

    id: JobId
    path: str
    blob: str
    spec: JobSpec | None = None
    document: Mapping[str, Any] | None = field(default=None, compare=False)
    """The composed document without unset keys; loaded when looked into."""
    digest: Digest | None = None
    problems: tuple[SpecProblem, ...] = ()
    reservation: Reservation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecReading:
    """One complete read.  Where a problem of ``conf/`` is an error, ``platform`` may be
    ``platform.NO_PLATFORM``."""

    platform: Platform
    entries: Mapping[JobId, SpecEntry]
    problems: tuple[SpecProblem, ...] = ()
    """All of them: of ``conf/``, of file names and of every entry, sorted."""


def has_errors(problems: Iterable[SpecProblem]) -> bool:
    """Return whether any of them keeps a document from being used."""
    return any(problem.severity is Severity.ERROR for problem in problems)
