"""A loss curve in plain characters, over the attempts of one job."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MARKS = "ox+*"


@dataclass(frozen=True, slots=True)
class Point:
    """The loss at one optimizer step; ``attempt`` counts from 1."""

    step: int
    loss: float
    attempt: int


def read_points(run_dirs: Sequence[Path]) -> tuple[Point, ...]:
    """Return the losses that the attempts logged, in the order they were logged."""
    points: list[Point] = []
    for number, folder in enumerate(run_dirs, start=1):
        events = folder / "events.jsonl"
        if not events.exists():
            continue
        for line in events.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["event"] == "step" and event.get("loss") is not None:
                points.append(Point(event["step"], event["loss"], number))
    return tuple(points)


def held_out(run_dirs: Sequence[Path]) -> list[tuple[str, float]]:
    """Return what the last evaluation of the attempts measured, by name, its time left out."""
    found: dict[str, float] = {}
    for folder in run_dirs:
        for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["event"] == "eval":
                found = {
                    name.removeprefix("eval_"): value
                    for name, value in event.items()
                    if name.startswith("eval_") and name != "eval_runtime"
                }
    return sorted(found.items())


def is_continuous(points: Sequence[Point]) -> bool:
    """True when every step from 1 to the last is there once, in order, over all attempts."""
    steps = [point.step for point in points]
    return bool(steps) and steps == list(range(1, len(steps) + 1))


def smoothed(points: Sequence[Point], width: int) -> list[tuple[float, int]]:
    """Return ``width`` (mean loss, attempt) pairs, one a column."""
    columns = []
    for column in range(width):
        first = column * len(points) // width
        last = max((column + 1) * len(points) // width, first + 1)
        part = points[first:last]
        columns.append((sum(point.loss for point in part) / len(part), part[-1].attempt))
    return columns


def draw(points: Sequence[Point], *, width: int = 60, height: int = 10) -> str:
    """Return the curve as text; each attempt has a mark of its own."""
    columns = smoothed(points, min(width, len(points)))
    top = max(loss for loss, _ in columns)
    bottom = min(loss for loss, _ in columns)
    span = max(top - bottom, 1e-9)
    grid = [[" "] * len(columns) for _ in range(height)]
    for column, (loss, attempt) in enumerate(columns):
        row = round((top - loss) / span * (height - 1))
        grid[row][column] = MARKS[(attempt - 1) % len(MARKS)]
    lines = []
    for row, cells in enumerate(grid):
        label = top - span * row / (height - 1)
        lines.append(f"  {label:7.3f} |{''.join(cells)}")
    lines.append(f"          +{'-' * len(columns)}")
    lines.append(f"           step 1{f'step {points[-1].step}':>{max(len(columns) - 6, 1)}}")
    for number in sorted({attempt for _, attempt in columns}):
        lines.append(f"           {MARKS[(number - 1) % len(MARKS)]} attempt {number}")
    return "\n".join(lines)
