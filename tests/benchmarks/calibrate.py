"""``make calibrate``: fits the constants of estimating to published measurements.

``HEADWAY_MEASUREMENTS`` names the folder with ``public.csv``; measured data are never
committed.  Writes ``reconciler/estimating/data/constants.json`` and the table of results in
``tests/benchmarks/results/``.  ``--check`` writes nothing and fails if the constants differ.
"""

import argparse
import csv
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from reconciler.estimating.constants import (
    Constants,
    Margin,
    Margins,
    MemoryConstants,
    SpeedConstants,
)
from reconciler.estimating.margins import Evidence
from reconciler.estimating.memory import memory
from reconciler.estimating.scoring import (
    Case,
    Errors,
    case,
    errors,
    instrument,
    larger,
    repredict,
    scores,
)
from reconciler.estimating.throughput import speed
from reconciler.specs.model_catalogue import shipped_gpus, shipped_models
from tests.benchmarks.calibration_report import report
from tests.benchmarks.fitting import fit, log_ratio, numbers_of, quantile
from tests.benchmarks.verdicts import choose

ROOT = Path(__file__).parents[2]
CONSTANTS = ROOT / "reconciler" / "estimating" / "data" / "constants.json"
RESULTS = Path(__file__).parent / "results" / "estimating.md"

MEMORY_WIDTHS = {"context_gib": 0.3, "logit_overlap": 0.15, "churn_tokens": 0.2}
"""How far a number may move for its price, in logarithms; 0.5 where nothing is said."""
SPEED_WIDTHS = {"fp8_gain": 0.15, "attention": 0.2, "variable_fill": 0.3, "dequantise_bytes": 0.3}
P90_SHARE = 0.92
"""Share of left-out rows that p90 covers: a little more than nine of ten."""


def measurements() -> list[dict[str, str]]:
    """Return the rows of the public table.  Raises ``SystemExit`` where there is none."""
    folder = os.environ.get("HEADWAY_MEASUREMENTS")
    if not folder or not (Path(folder) / "public.csv").is_file():
        raise SystemExit("set HEADWAY_MEASUREMENTS to the folder that holds public.csv")
    with (Path(folder) / "public.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def cases_of(rows: Sequence[Mapping[str, str]], constants: Constants) -> list[Case]:
    """Return every row of quality A and B with its prediction."""
    found = [case(row, shipped_models(), shipped_gpus(), constants) for row in rows]
    return [one for one in found if one.quality in ("A", "B")]


def fit_memory(cases: Sequence[Case]) -> MemoryConstants:
    """Return the memory constants that suit the measured peaks of ``cases``."""
    measured = [one for one in cases if one.peak_gib]

    def residuals(values: Mapping[str, float]) -> list[float]:
        constants = replace(MemoryConstants(), **values)
        return [
            log_ratio(
                min(
                    getattr(memory(one.run.training, constants), f"{one.run.kind}_gib"),
                    one.gpu.memory_gib,
                ),
                one.peak_gib or 1.0,
            )
            for one in measured
        ]

    found = fit(numbers_of(MemoryConstants()), MEMORY_WIDTHS, residuals)
    return MemoryConstants(**{name: _short(value) for name, value in found.values.items()})


def fit_speed(cases: Sequence[Case], held: MemoryConstants) -> SpeedConstants:
    """Return the speed constants that suit the measured throughput of ``cases``."""
    measured = [one for one in cases if one.tokens_per_s]

    def residuals(values: Mapping[str, float]) -> list[float]:
        constants = Constants(memory=held, speed=replace(SpeedConstants(), **values))
        return [
            log_ratio(
                speed(one.run.training, one.gpu, constants).tokens_per_s_per_gpu,
                one.tokens_per_s or 1.0,
            )
            for one in measured
        ]

    found = fit(numbers_of(SpeedConstants()), SPEED_WIDTHS, residuals)
    return SpeedConstants(**{name: _short(value) for name, value in found.values.items()})


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def left_out(cases: Sequence[Case], log: bool = True) -> list[Case]:
    """Return every case predicted by constants fitted without its source."""
    found: list[Case] = []
    for source in sorted({one.run.source for one in cases}):
        others = [one for one in cases if one.run.source != source]
        held = fit_memory(others)
        constants = Constants(memory=held, speed=fit_speed(others, held))
        found += [repredict(one, constants) for one in cases if one.run.source == source]
        if log:
            sys.stderr.write(f"left out: {source}\n")
    return found


def margins(cases: Sequence[Case], outside: Sequence[Case], constants: Constants) -> Margins:
    """Return p90 factors from left-out errors, and k by class."""
    factors = choose(cases, larger(cases, constants))
    by_class = {}
    for kind in Evidence:
        ratios = [
            (one.peak_gib or 0) / instrument(one.estimate, one.run.kind)
            for one in outside
            if one.peak_gib and one.estimate.evidence is kind
        ]
        p90 = max(1.05, _short(quantile(ratios, P90_SHARE)))
        by_class[kind.value] = Margin(p90=p90, fits=factors[kind.value])
    slow = [
        one.estimate.speed.tokens_per_s_per_gpu / one.tokens_per_s
        for one in outside
        if one.tokens_per_s
    ]
    return Margins(**by_class, duration_p90=_short(quantile(slow, 0.9)))


def document(constants: Constants) -> str:
    """Return the text of ``constants.json``."""
    value = {
        "version": 1,
        "origin": constants.origin,
        "memory": asdict(constants.memory),
        "margins": asdict(constants.margins),
        "speed": asdict(constants.speed),
        "measured": dict(sorted(constants.measured.items())),
    }
    return json.dumps(value, indent=2) + "\n"


def calibrate(rows: Sequence[Mapping[str, str]]) -> tuple[Constants, list[Case], list[Case]]:
    """Return fitted constants, all cases under them, and all cases predicted from outside."""
    cases = cases_of(rows, Constants())
    held = fit_memory(cases)
    counts = Counter(one.gpu.name for one in cases if one.gpu.name.casefold() in shipped_gpus())
    constants = Constants(
        memory=held,
        speed=fit_speed(cases, held),
        measured=dict(counts),
        origin=f"fitted to {len(cases)} published runs by tests/benchmarks/calibrate.py",
    )
    cases = [repredict(one, constants) for one in cases]
    outside = left_out(cases)
    constants = replace(constants, margins=margins(cases, outside, constants))
    return constants, [repredict(one, constants) for one in cases], outside


def outside_errors(outside: Sequence[Case]) -> tuple[Errors, Errors]:
    """Return memory and throughput errors of left-out predictions."""
    return errors(one.memory_error for one in outside), errors(one.speed_error for one in outside)


def main(argv: list[str] | None = None) -> int:
    """Calibrate; return 1 with ``--check`` where the committed constants differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.calibrate")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(argv)
    constants, cases, outside = calibrate(measurements())
    text = report(constants, scores(cases, constants), cases, outside_errors(outside), outside)
    sys.stdout.write(text)
    if options.check:
        same = CONSTANTS.read_text(encoding="utf-8") == document(constants)
        sys.stderr.write("" if same else f"{CONSTANTS} differs: run make calibrate\n")
        return 0 if same else 1
    CONSTANTS.write_text(document(constants), encoding="utf-8")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
