"""The committed table of what a calibration reached: in sample, left out, by source."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from reconciler.estimating.constants import Constants
from reconciler.estimating.score_text import lines, percent, table
from reconciler.estimating.scoring import Case, Errors, Scores, errors


def report(
    constants: Constants,
    scores: Scores,
    cases: Sequence[Case],
    outside: tuple[Errors, Errors],
    left_out: Sequence[Case],
) -> str:
    """Return the whole report as Markdown."""
    return "\n".join(_report(constants, scores, cases, outside, left_out)) + "\n"


def _report(
    constants: Constants,
    scores: Scores,
    cases: Sequence[Case],
    outside: tuple[Errors, Errors],
    left_out: Sequence[Case],
) -> Iterator[str]:
    yield "# Estimating: what the calibration reached"
    yield ""
    yield f"`make calibrate`; {constants.origin}. No measured value is stored here."
    yield ""
    yield "## In sample"
    yield ""
    yield "```"
    yield from lines(scores)
    yield "```"
    yield ""
    yield "## Leave one source out"
    yield ""
    memory, speed = outside
    ratio = memory.median / scores.memory.median if scores.memory.median else 0.0
    yield (
        f"Memory: median error {percent(memory.median)}, {ratio:.2f} x in sample (target 1.5); "
        f"{percent(memory.within_10)} within 10 %, {percent(memory.within_15)} within 15 %."
    )
    yield (
        f"Tokens/s: median error {percent(speed.median)}, {percent(speed.within_20)} within 20 %."
    )
    yield ""
    yield "```"
    yield from table(tuple(_by_source(cases, left_out)))
    yield "```"
    yield ""
    yield "## Constants"
    yield ""
    yield "```"
    rows: list[tuple[str, ...]] = [("NAME", "FITTED")]
    for part in (constants.memory, constants.speed):
        rows += [(name, f"{value:g}") for name, value in asdict(part).items()]
    for name, margin in asdict(constants.margins).items():
        if isinstance(margin, dict):
            rows += [(f"{name}.{key}", f"{value:g}") for key, value in margin.items()]
        else:
            rows.append((name, f"{margin:g}"))
    yield from table(tuple(rows))
    yield "```"


def _by_source(cases: Sequence[Case], left_out: Sequence[Case]) -> Iterator[tuple[str, ...]]:
    yield ("SOURCE", "PEAKS", "IN SAMPLE", "LEFT OUT", "RATES", "IN SAMPLE", "LEFT OUT")
    for source in sorted({one.run.source for one in cases}):
        inside = [one for one in cases if one.run.source == source]
        without = [one for one in left_out if one.run.source == source]
        peaks = errors(one.memory_error for one in inside)
        rates = errors(one.speed_error for one in inside)
        yield (
            source,
            str(peaks.count),
            percent(peaks.median) if peaks.count else "",
            percent(errors(one.memory_error for one in without).median) if peaks.count else "",
            str(rates.count),
            percent(rates.median) if rates.count else "",
            percent(errors(one.speed_error for one in without).median) if rates.count else "",
        )
