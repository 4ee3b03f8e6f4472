"""Words scores as the table people read, beside what others reach on the same rows.

The anchors are other estimators' results on the same public table: LLaMA-Factory's hardware
table, accelerate's ``estimate-memory`` rule, DeepSpeed's ``estimate_zero*``, llm-analysis
0.2.2, plain formulas with two overheads, and the same calibrated.
"""

from collections.abc import Iterator

from reconciler.estimating.scoring import Errors, Scores

ANCHORS = (
    ("LLaMA-Factory's table", "53.8 %", "4 %", "7 %", "5 of 5"),
    ("accelerate estimate-memory", "135 %", "6 %", "10 %", "0 of 5"),
    ("DeepSpeed estimate_zero (26 rows)", "58.6 %", "8 %", "8 %", "0 of 1"),
    ("llm-analysis (43 rows)", "44.3 %", "5 %", "7 %", "-"),
    ("plain formulas", "13.3 %", "37.5 %", "55.6 %", "0 of 5"),
    ("plain formulas, calibrated", "9.8 %", "51.4 %", "66.0 %", "0 of 5"),
)


def percent(share: float) -> str:
    """Return a share of 1 as ``12.3 %``."""
    return f"{100 * share:.1f} %"


def lines(scores: Scores) -> Iterator[str]:
    """Yield the report line by line."""
    head = ("MEMORY", "ROWS", "MEDIAN", "IN 10 %", "IN 15 %", "BIAS", "OOM FITS")
    rows = [
        _memory("headway, class E", scores.memory_exact, ""),
        _memory("headway, class V", scores.memory_variable, ""),
        _memory(
            "headway, all",
            scores.memory,
            f"{len(scores.oom_called_fitting)} of {scores.oom_rows}",
        ),
        *((name, "", median, ten, fifteen, "", oom) for name, median, ten, fifteen, oom in ANCHORS),
    ]
    yield from table((head, *rows))
    yield ""
    yield from _verdicts(scores)
    yield ""
    yield _speed(scores)
    yield (
        f"order of {scores.order_pairs} pairs of published alternatives: "
        f"{percent(scores.order_right)} right (target 80 %)"
    )


def _memory(name: str, one: Errors, oom: str) -> tuple[str, ...]:
    return (
        name,
        str(one.count),
        percent(one.median),
        percent(one.within_10),
        percent(one.within_15),
        f"{100 * one.bias:+.1f} %",
        oom,
    )


def _verdicts(scores: Scores) -> Iterator[str]:
    larger = len(scores.larger_called_fitting)
    yield f"next-larger runs called fitting: {larger} of {scores.larger_rows} (target 0)" + _names(
        scores.larger_called_fitting
    )
    sure = len(scores.sure_called_fitting)
    yield (
        f"of these, those that cannot fit with fixed costs left as they are: {sure} of "
        f"{scores.sure_rows} (target 0)" + _names(scores.sure_called_fitting)
    )
    share = len(scores.fitting_refused) / scores.fitting_rows if scores.fitting_rows else 0.0
    yield (
        f"fitting rows refused: {len(scores.fitting_refused)} of {scores.fitting_rows}, "
        f"{percent(share)} (target 5 %)" + _names(scores.fitting_refused)
    )
    yield (
        f"p90 covers {percent(scores.p90_coverage)} (target 88 %), "
        f"median p90/p50 {scores.p90_ratio:.2f} (target 1.3)"
    )


def _names(names: tuple[str, ...]) -> str:
    return f": {', '.join(names)}" if names else ""


def _speed(scores: Scores) -> str:
    one = scores.speed
    return (
        f"tokens/s: {one.count} rows, median error {percent(one.median)} (target 18 %; a constant "
        f"50 % of the peak: 25.2 %), within 20 %: {percent(one.within_20)} (44 %), "
        f"bias {100 * one.bias:+.1f} %"
    )


def table(rows: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    """Yield rows as aligned columns, the first to the left, numbers to the right."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()
