"""One file as it was read: its value, its problems, and where everything in it stands."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import yaml

from reconciler.domain.problem import SpecProblem

Path: TypeAlias = tuple[str | int, ...]


class Place(NamedTuple):
    """Where a value stands: line and column from 1, and how many characters it has there."""

    line: int
    column: int
    width: int = 0


@dataclass(slots=True)
class Text:
    """One file, read.  ``value`` is None where the problems left nothing to go on with."""

    file: str
    value: dict[str, Any] | None = None
    problems: list[SpecProblem] = field(default_factory=list)
    is_plain: bool = True
    """No value holds an interpolation or the missing mark ``???``."""
    values: dict[Path, Any] = field(default_factory=dict)
    """Path to the event that holds the value; see :meth:`place`."""
    keys: dict[Path, Any] = field(default_factory=dict)

    def place(self, path: Path, *, key: bool = False) -> Place | None:
        """Return where the value (or the key) at ``path`` stands, None where it does not."""
        event = (None if key else self.values.get(path)) or self.keys.get(path)
        return None if event is None else place_of(event)

    def written(self, path: Path) -> str | None:
        """Return a scalar as the file has it, cut at 80 characters; None for other values."""
        event = self.values.get(path)
        if not isinstance(event, yaml.ScalarEvent):
            return None
        quote = event.style if event.style in ("'", '"') else ""
        text = f"{quote}{event.value}{quote}"
        return text if len(text) <= 80 else text[:77] + "..."


def place_of(event: Any) -> Place:
    """Return where a parser event stands."""
    start, end = event.start_mark, event.end_mark
    width = end.column - start.column if end.line == start.line else 0
    return Place(start.line + 1, start.column + 1, max(width, 0))
