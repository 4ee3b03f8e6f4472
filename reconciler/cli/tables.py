"""Plain tables: upper-case heads, columns two blanks apart, no borders, nothing hidden.

The rule it keeps: on anything but a terminal every cell is whole.  On a terminal the last column
is cut to fit, with a mark; before that, columns that only repeat another one are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reconciler.cli.terminal import Terminal, cut, width_of

GAP = "  "
NARROWEST_LAST = 12
"""Below this many columns the last cell is left whole for the terminal to wrap."""
COMFORTABLE_LAST = 40


@dataclass(frozen=True, slots=True)
class Cell:
    """Text, and the style it has where colour is on."""

    text: str
    style: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    head: str
    align: Literal["left", "right"] = "left"
    is_repeated: bool = False
    """Another column says the same: left out where a terminal is too narrow for the last one."""


def render(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str | Cell]],
    terminal: Terminal,
    *,
    heads: bool = True,
) -> str:
    """Return the table, one line a row, without a line end after the last row.

    An empty cell is shown as ``-``.  Without rows and heads the text is empty.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [
        max([width_of(column.head) if heads else 0, *(width_of(row[at].text) for row in cells)])
        for at, column in enumerate(columns)
    ]
    if terminal.width is not None and _room(widths, terminal.width) < COMFORTABLE_LAST:
        kept = [at for at, column in enumerate(columns) if not column.is_repeated]
        columns, widths = [columns[at] for at in kept], [widths[at] for at in kept]
        cells = [[row[at] for at in kept] for row in cells]
    room = _room_for_last(widths, terminal.width)
    lines = []
    if heads:
        head = [Cell(column.head, "head") for column in columns]
        lines.append(_line(columns, head, widths, room, terminal))
    lines += [_line(columns, row, widths, room, terminal) for row in cells]
    return "\n".join(lines)


def _cell(value: str | Cell) -> Cell:
    cell = value if isinstance(value, Cell) else Cell(value)
    return cell if cell.text else Cell("-", cell.style)


def _room_for_last(widths: Sequence[int], width: int | None) -> int | None:
    if width is None:
        return None
    room = _room(widths, width)
    return room if room >= NARROWEST_LAST else None


def _room(widths: Sequence[int], width: int) -> int:
    return width - sum(widths[:-1]) - len(GAP) * (len(widths) - 1)


def _line(
    columns: Sequence[Column],
    row: Sequence[Cell],
    widths: Sequence[int],
    room: int | None,
    terminal: Terminal,
) -> str:
    parts = []
    last = len(row) - 1
    for at, (column, cell, width) in enumerate(zip(columns, row, widths, strict=True)):
        text = cut(cell.text, room) if at == last and room is not None else cell.text
        padding = " " * max(width - width_of(text), 0)
        painted = terminal.paint(text, cell.style)
        if column.align == "right":
            parts.append(padding + painted)
        else:
            parts.append(painted if at == last else painted + padding)
    return GAP.join(parts)


def fields(pairs: Sequence[tuple[str, str]], *, indent: str = "") -> str:
    """Return ``Name:  value`` lines with the values in one column."""
    widest = max((width_of(name) for name, _ in pairs), default=0) + 1
    return "\n".join(
        f"{indent}{name}:{' ' * (widest - width_of(name))}{value or '-'}" for name, value in pairs
    )
