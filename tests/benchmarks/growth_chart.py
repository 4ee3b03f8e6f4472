"""A log-log chart of planning cost against fleet size, as an SVG without any library."""

from collections.abc import Sequence
from math import floor, log10

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 400, 70, 50, 30, 20
TEXT = 'font-family="sans-serif" font-size="12" fill="#333"'


def growth_svg(rows: Sequence[tuple[int, float]]) -> str:
    """Return the chart of (pending jobs, CPU seconds), with what linear growth would be."""
    xs = [log10(jobs) for jobs, _ in rows]
    ys = [log10(max(seconds, 1e-5)) for _, seconds in rows]
    low_x, high_x = floor(min(xs)), -floor(-max(xs))
    low_y, high_y = floor(min(ys)), -floor(-max(ys))

    def at(x: float, y: float) -> tuple[float, float]:
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return (
            LEFT + wide * (x - low_x) / (high_x - low_x),
            HEIGHT - BOTTOM - high * (y - low_y) / (high_y - low_y),
        )

    def line(points: Sequence[tuple[float, float]], look: str) -> str:
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in (at(x, y) for x, y in points))
        return f'<polyline points="{path}" fill="none" {look}/>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="18" {TEXT}>Plan of everybody: CPU seconds against pending jobs '
        "(as many GPUs); dashed: linear</text>",
    ]
    for power in range(low_x, high_x + 1):
        x, y = at(power, low_y)
        parts.append(line([(power, low_y), (power, high_y)], 'stroke="#ddd"'))
        parts.append(f'<text x="{x:.0f}" y="{y + 18:.0f}" text-anchor="middle" {TEXT}>')
        parts.append(f"{10**power:,}</text>")
    for power in range(low_y, high_y + 1):
        x, y = at(low_x, power)
        parts.append(line([(low_x, power), (high_x, power)], 'stroke="#ddd"'))
        parts.append(f'<text x="{x - 8:.0f}" y="{y + 4:.0f}" text-anchor="end" {TEXT}>')
        parts.append(f"{10.0**power:g} s</text>")
    linear = [(xs[-1], ys[-1]), (xs[0], max(ys[-1] - (xs[-1] - xs[0]), low_y))]
    parts.append(line(linear, 'stroke="#999" stroke-dasharray="5 4"'))
    parts.append(line(list(zip(xs, ys, strict=True)), 'stroke="#06c" stroke-width="2"'))
    for x, y, (_, seconds) in zip(xs, ys, rows, strict=True):
        a, b = at(x, y)
        parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="#06c"/>')
        parts.append(f'<text x="{a - 4:.0f}" y="{b - 8:.0f}" text-anchor="end" {TEXT}>')
        parts.append(f"{seconds:.3g} s</text>")
    return "\n".join([*parts, "</svg>", ""])
