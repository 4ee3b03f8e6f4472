"""What does main say, and may it be acted on?

A read is whole or it is not used: a fetch or a blob that fails raises, and nothing is inferred
from it.  Main is acted on only where it descends from the commit acted on before, and only with
a conf that is valid: a broken conf would change quotas, nodes and policy of everyone, so the
last good commit stays in force, with its jobs, until main is repaired.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from reconciler.domain.problem import Severity, SpecProblem
from reconciler.domain.units import CommitId
from reconciler.engine.logging import Log
from reconciler.errors import BackendError
from reconciler.ports import Tree
from reconciler.snapshots.assemble import History
from reconciler.specs.cache import SpecCache
from reconciler.specs.reading import SpecReading, read_specs

ADMIN = "admin"
"""The role whose members may allow a mass deletion."""


class MainSource(History, Protocol):
    """Main of the fleet's repository (``reconciler.store.spec_source``)."""

    def fetch(self) -> CommitId:
        """Return main's tip on the remote.  Raises ``GitError``."""
        ...

    def is_rewritten(self, cursor: CommitId | None, tip: CommitId) -> bool:
        """Return whether ``tip`` does not descend from ``cursor``."""
        ...

    def allowed_prune(
        self, cursor: CommitId | None, tip: CommitId, is_admin: Callable[[str], bool]
    ) -> int:
        """Return how many absent jobs an admin's trailer since ``cursor`` allows to cancel."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One complete read of main."""

    commit: CommitId
    """The commit to act on: the tip, or the one before a broken conf."""
    tip: CommitId
    reading: SpecReading
    is_rewritten: bool
    allowed_prune: int


class MainReader:
    """Reads main; converts each commit once."""

    def __init__(self, source: MainSource, *, cache: SpecCache | None, log: Log) -> None:
        self._source = source
        self._cache = cache
        self._log = log
        self._readings: dict[CommitId, SpecReading] = {}
        self._told: CommitId | None = None

    def look(self, cursor: CommitId | None) -> Look:
        """Return what main says now; ``cursor`` is the commit acted on before.

        Raises ``GitError`` when main cannot be read whole, and ``BackendError`` when its conf is
        invalid and there is no earlier one to go by.
        """
        tip = self._source.fetch()
        is_rewritten = self._source.is_rewritten(cursor, tip)
        commit, reading = tip, self._read(tip)
        broken = conf_errors(reading)
        if broken:
            commit, reading = self._last_good(cursor, tip, broken)
        self._readings = {commit: reading, tip: self._readings[tip]}
        allowed = 0
        if cursor is not None and not is_rewritten:
            allowed = self._source.allowed_prune(cursor, commit, self._admins(cursor))
        return Look(
            commit=commit,
            tip=tip,
            reading=reading,
            is_rewritten=is_rewritten,
            allowed_prune=allowed,
        )

    def known(self, commit: CommitId) -> SpecReading | None:
        """Return the reading of a commit that was read already; None where it was not."""
        return self._readings.get(commit)

    def _admins(self, cursor: CommitId) -> Callable[[str], bool]:
        """Return who counts as an admin: by the conf acted on before, not the one to judge."""

        def is_admin(email: str) -> bool:
            return any(
                member.role == ADMIN and email in member.emails
                for team in self._read(cursor).platform.teams.values()
                for member in team.members
            )

        return is_admin

    def _read(self, commit: CommitId) -> SpecReading:
        if commit not in self._readings:
            tree: Tree = self._source.tree(commit)
            self._readings[commit] = read_specs(tree, cache=self._cache)
        return self._readings[commit]

    def _last_good(
        self, cursor: CommitId | None, tip: CommitId, broken: tuple[SpecProblem, ...]
    ) -> tuple[CommitId, SpecReading]:
        first = broken[0]
        said = f"{first.file}:{first.line}: {first.code} {first.message}"
        if cursor is None:
            raise BackendError(f"conf of main at {tip} is invalid: {said}; nothing runs until then")
        reading = self._read(cursor)
        if conf_errors(reading):
            raise BackendError(f"conf is invalid at {tip} and at {cursor} before it: {said}")
        if self._told != tip:
            self._told = tip
            self._log.event("conf-invalid", commit=tip, acting_on=cursor, why=said)
        return cursor, reading


def conf_errors(reading: SpecReading) -> tuple[SpecProblem, ...]:
    """Return the errors that are everyone's: of ``conf/``, and of no job in particular."""
    of_jobs = {problem for entry in reading.entries.values() for problem in entry.problems}
    return tuple(
        problem
        for problem in reading.problems
        if problem.severity is Severity.ERROR
        and problem.file.startswith("conf/")
        and problem not in of_jobs
    )
