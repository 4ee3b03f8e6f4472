"""One measured number: what every benchmark returns and ``make bench`` prints and stores."""

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """``value`` in ``unit``; ``target`` is None for a figure that is only reported.

    ``ratio_against`` names what a ratio was measured against, in the same run; None for a
    figure that is no ratio.
    """

    name: str
    value: float
    unit: str
    target: float | None
    better: Literal["lower", "higher"]
    ratio_against: str | None = None

    @property
    def is_reached(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.target is None:
            return None
        return self.value <= self.target if self.better == "lower" else self.value >= self.target

    def write(self, folder: Path) -> Path:
        """Write ``<folder>/<name>.json`` and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        return path


def cpu_seconds(argv: Sequence[str], *, cwd: Path | None = None) -> tuple[float, str]:
    """Run ``argv`` and return its user + system CPU seconds, children included, and its stdout.

    Raises ``RuntimeError`` with the end of stderr when the command fails.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"{argv[:4]} exited {done.returncode}: {done.stderr[-800:]}")
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent, done.stdout


PYTHON = sys.executable
