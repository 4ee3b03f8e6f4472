"""What did an attempt measure of itself?  The numbers of its result, read with suspicion.

They were written by a job: only finite numbers of a whole, valid ``result.json`` of that very
attempt count, and nothing here is ever executed or followed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from reconciler.domain.units import AttemptId
from reconciler.launchers import run_files
from reconciler.launchers.contract_check import first_problem

LARGEST = 1e18


@dataclass(frozen=True, slots=True)
class Measurements:
    """Outcome, last step and metrics (``trainer/contract/result.schema.json``)."""

    outcome: str
    step: int
    metrics: Mapping[str, float]


def measurements(path: Path, attempt: AttemptId) -> Measurements | None:
    """Return what the run directory at ``path`` says; None where there is no valid result.

    Raises ``OSError`` where storage fails.
    """
    try:
        result = run_files.read_object(path / run_files.RESULT)
    except run_files.UnreadableError:
        return None
    if result is None or first_problem("result", result) or result["attempt"] != attempt:
        return None
    metrics = {
        name: float(value)
        for name, value in result["metrics"].items()
        if isinstance(value, int | float) and isfinite(value) and 0 <= value < LARGEST
    }
    return Measurements(result["outcome"], int(result["step"]), metrics)
