"""The rows of a dataset key, in order, and what became of those that could not be used.

Rule kept: a row that fits no form of its task is named by file and line and refused, never skipped
in silence; ``train.strict: false`` drops such rows and counts them.  Rows are read one at a time.
No torch here.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from trainer.config import RequestError
from trainer.forms import RowSetAsideError, conversation_row
from trainer.reading import RowError, column_names, files_of, rows_of

SHOWN = 10
"""Bad rows named in a message; the rest are counted."""

Parse = Callable[[str, Any], Any]
"""(source, value) -> a row with its ``source``; raises RowError."""


@dataclass(slots=True)
class Tally:
    """Rows by what became of them, counted while they are read."""

    used: int = 0
    refused: int = 0
    set_aside: int = 0
    first_refused: list[str] = field(default_factory=list)
    first_set_aside: list[str] = field(default_factory=list)

    def refuse(self, source: str, error: RowError) -> None:
        """Count a row that was not used."""
        if isinstance(error, RowSetAsideError):
            self.set_aside += 1
            shown = self.first_set_aside
        else:
            self.refused += 1
            shown = self.first_refused
        if len(shown) < SHOWN:
            shown.append(f"{source}: {error}")

    def check(self, names: Sequence[str], *, task: str, strict: bool) -> None:
        """Raise RequestError where no rows are left, or any was refused and that is not allowed."""
        if self.refused and (strict or not self.used):
            more = self.refused - len(self.first_refused)
            shown = "\n".join([*self.first_refused, *([f"+{more} more"] if more else [])])
            every = self.used + self.refused + self.set_aside
            raise RequestError(
                f"train.dataset: {self.refused} of {every} rows can not be used for {task}:\n"
                f"{shown}"
            )
        if not self.used:
            raise RequestError(f"train.dataset: {', '.join(names)} has no rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where rows come from and what makes them rows of a task."""

    names: tuple[str, ...]
    files: tuple[Path, ...]
    columns: Mapping[str, str]
    parse: Parse
    task: str
    strict: bool

    def rows(self, tally: Tally) -> Iterator[Any]:
        """Yield the rows that can be used, counting all; check the tally at the end."""
        for path in self.files:
            for where, read in rows_of(path, columns=self.columns):
                try:
                    row = self.parse(where, read())
                except RowError as error:
                    tally.refuse(where, error)
                else:
                    tally.used += 1
                    yield row


def source(
    names: Sequence[str],
    *,
    root: Path,
    task: str,
    system: str | None = None,
    strict: bool = True,
    columns: Sequence[str] | None = None,
    parse: Parse | None = None,
) -> Source:
    """Return the rows' source; raise RequestError where a name leads nowhere.

    ``parse`` None: rows are conversations and pairs.
    """
    return Source(
        names=tuple(names),
        files=tuple(path for name in names for path in files_of(name, root=root)),
        columns=column_names(columns),
        parse=parse or partial(conversation_row, task=task, system=system),
        task=task,
        strict=strict,
    )


def held_out(count: int, *, ratio: float, seed: int) -> frozenset[int]:
    """Return the numbers of the rows to evaluate on: at least one, never all, none for 0."""
    if ratio <= 0 or count < 2:
        return frozenset()
    some = min(max(round(count * ratio), 1), count - 1)
    return frozenset(random.Random(seed).sample(range(count), some))  # noqa: S311
