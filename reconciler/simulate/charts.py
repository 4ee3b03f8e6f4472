"""Draws a simulation as inline SVG: waits as a distribution, GPUs held over time, a Gantt chart.

Plain functions from figures to text.  Everything is scaled to a fixed drawing; colours come from
CSS classes ``c0``, ``c1``, ... so that a page decides how they look in light and dark.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import log10

from reconciler.simulate.metrics import wait_s
from reconciler.simulate.outcome import Played, Stay

WIDTH, HEIGHT = 860, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 40
COLOURS = 8
GANTT_NODES = 64
GANTT_STAYS = 3000
POINTS = 300
DAY_S = 86400
TICKS_S = {
    "1s": 1,
    "10s": 10,
    "1m": 60,
    "10m": 600,
    "1h": 3600,
    "6h": 6 * 3600,
    "1d": DAY_S,
    "1w": 7 * DAY_S,
    "4w": 28 * DAY_S,
}


def wait_chart(played: Sequence[Played]) -> str:
    """Return the share of jobs that waited at most so long, one line a policy, log time axis."""
    longest = max((wait_s(o) for each in played for o in each.outcomes), default=1.0)
    top = log10(max(longest, 60) + 1)

    def x(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * log10(seconds + 1) / top

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [_line(LEFT, y(s / 4), WIDTH - RIGHT, y(s / 4)) for s in range(5)]
    parts += [_text(LEFT - 8, y(s / 4) + 4, f"{25 * s}%", "end") for s in range(5)]
    for name, seconds in TICKS_S.items():
        if seconds <= longest:
            parts.append(_line(x(seconds), TOP, x(seconds), HEIGHT - BOTTOM))
            parts.append(_text(x(seconds), HEIGHT - BOTTOM + 16, name, "middle"))
    parts.append(_text((LEFT + WIDTH) / 2, HEIGHT - 6, "waited at most", "middle"))
    for number, each in enumerate(played):
        waits = sorted(wait_s(outcome) for outcome in each.outcomes)
        points = [(x(value), y(share)) for value, share in _steps(waits)]
        parts.append(_path(points, number, f"{each.policy}: share of jobs by wait"))
    return _svg("waits", parts)


def _steps(waits: Sequence[float]) -> list[tuple[float, float]]:
    if not waits:
        return []
    picked = sorted({round(at * (len(waits) - 1) / POINTS) for at in range(POINTS + 1)})
    zeros = sum(value <= 0 for value in waits) / len(waits)
    return [(0.0, zeros), *((waits[at], (at + 1) / len(waits)) for at in picked if waits[at] > 0)]


def use_chart(played: Sequence[Played]) -> str:
    """Return the share of GPUs held over time, one line a policy."""
    first, last = _span(played)

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - first) / (last - first)

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [_line(LEFT, y(s / 4), WIDTH - RIGHT, y(s / 4)) for s in range(5)]
    parts += [_text(LEFT - 8, y(s / 4) + 4, f"{25 * s}%", "end") for s in range(5)]
    parts += _days(x, first, last, HEIGHT - BOTTOM)
    for number, each in enumerate(played):
        held = held_share(each, first, last)
        points = [(x(at), y(share)) for at, share in held]
        parts.append(_path(points, number, f"{each.policy}: GPUs held"))
    return _svg("GPUs held", parts)


def held_share(played: Played, first: float, last: float) -> list[tuple[float, float]]:
    """Return (instant, mean share of the GPUs held around it) at equal distances."""
    cell = (last - first) / POINTS
    held = [0.0] * (POINTS + 1)
    for stay in played.stays:
        begin, end = (stay.began_s - first) / cell, (stay.ended_s - first) / cell
        for at in range(max(int(begin), 0), min(int(end), POINTS) + 1):
            held[at] += stay.gpus * max(min(end, at + 1) - max(begin, at), 0)
    return [(first + (at + 0.5) * cell, min(held[at] / played.gpus, 1.0)) for at in range(POINTS)]


def gantt_chart(played: Played) -> str:
    """Return who held which GPUs when: a row a node, at most 64 nodes and 3,000 runs of them."""
    rows = min(played.nodes, GANTT_NODES)
    stays = sorted(
        (stay for stay in played.stays if any(node < rows for node, _ in stay.nodes)),
        key=lambda stay: (stay.began_s, stay.job),
    )[:GANTT_STAYS]
    if not stays:
        return ""
    first, last = stays[0].began_s, max(max(stay.ended_s for stay in stays), stays[0].began_s + 1)
    row = max(min(560 / rows, 28), 7)
    height = TOP + BOTTOM + row * rows
    per_node = played.gpus / played.nodes

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - first) / (last - first)

    parts = _days(x, first, last, height - BOTTOM)
    for node in range(0, rows, max(rows // 16, 1)):
        parts.append(_text(LEFT - 8, TOP + row * node + row * 0.75, f"{node}", "end"))
    used = _Lanes(rows)
    for stay in stays:
        for node, gpus in stay.nodes:
            if node >= rows:
                continue
            offset = used.take(node, stay, gpus, per_node)
            parts.append(
                f'<rect class="c{stay.job % COLOURS}" x="{x(stay.began_s):.1f}" '
                f'y="{TOP + row * (node + offset / per_node):.1f}" '
                f'width="{max(x(stay.ended_s) - x(stay.began_s), 0.4):.1f}" '
                f'height="{max(row * gpus / per_node - 0.4, 0.4):.1f}">'
                f"<title>{_told(played, stay, gpus)}</title></rect>"
            )
    return _svg(f"{played.policy}: who held which GPUs", parts, height)


class _Lanes:
    """Which GPUs of a node a run is drawn on: the lowest that are free then."""

    def __init__(self, nodes: int) -> None:
        self._busy: list[list[tuple[float, int, int]]] = [[] for _ in range(nodes)]

    def take(self, node: int, stay: Stay, gpus: int, per_node: float) -> int:
        """Return the first GPU of the lane."""
        busy = [each for each in self._busy[node] if each[0] > stay.began_s]
        offset = 0
        for _, begin, end in sorted(busy, key=lambda each: each[1]):
            if begin - offset >= gpus:
                break
            offset = max(offset, end)
        offset = max(min(offset, round(per_node) - gpus), 0)
        busy.append((stay.ended_s, offset, offset + gpus))
        self._busy[node] = busy
        return offset


def _told(played: Played, stay: Stay, gpus: int) -> str:
    ask = played.outcomes[stay.job].ask
    hours = (stay.ended_s - stay.began_s) / 3600
    return escape(f"{ask.id} ({ask.team}): {gpus} of {stay.gpus} GPUs for {hours:.2f} h")


def legend(names: Sequence[str]) -> str:
    """Return which colour is which policy."""
    marks = "".join(
        f'<span class="mark"><i class="b{number % COLOURS}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return f'<p class="legend">{marks}</p>'


def _span(played: Sequence[Played]) -> tuple[float, float]:
    stays = [stay for each in played for stay in each.stays]
    if not stays:
        return 0.0, 1.0
    first = min(stay.began_s for stay in stays)
    return first, max(max(stay.ended_s for stay in stays), first + 1)


def _days(x: Callable[[float], float], first: float, last: float, bottom: float) -> list[str]:
    units: Mapping[str, int] = {"d": DAY_S, "h": 3600, "m": 60}
    unit, size = next(((u, s) for u, s in units.items() if last - first >= 3 * s), ("m", 60))
    step = max(round((last - first) / size / 10), 1) * size
    parts, at = [], 0.0
    while first + at <= last:
        parts.append(_line(x(first + at), TOP, x(first + at), bottom))
        parts.append(_text(x(first + at), bottom + 16, f"{at / size:.0f}{unit}", "middle"))
        at += step
    return parts


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _path(points: Sequence[tuple[float, float]], number: int, title: str) -> str:
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline class="l{number % COLOURS}" points="{drawn}">'
        f"<title>{escape(title)}</title></polyline>"
    )


def _svg(title: str, parts: Sequence[str], height: float = HEIGHT) -> str:
    body = "".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{body}</svg>"
    )
