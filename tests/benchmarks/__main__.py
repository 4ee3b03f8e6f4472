"""``make bench``: every ``bench_*.py`` beside this file, one JSON a figure, one table.

``python -m tests.benchmarks [NAME...]`` runs only the modules named, such as ``specs``.
"""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.figure import Figure

HERE = Path(__file__).parent
OUT = HERE.parent.parent / "build" / "bench"


def modules(names: list[str]) -> Iterator[str]:
    """Yield the benchmark modules asked for, or all of them, sorted."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise SystemExit(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(known)}")
    yield from (name for name in known if not names or name in names)


def row(figure: Figure) -> str:
    """Return one line of the table."""
    if figure.target is None:
        target, verdict = "-", "reported"
    else:
        sign = "<=" if figure.better == "lower" else ">="
        target = f"{sign} {figure.target:g}"
        verdict = "reached" if figure.is_reached else "MISSED"
    against = f"  against {figure.ratio_against}" if figure.ratio_against else ""
    return (
        f"{figure.name:<44} {figure.value:>12.4g} {figure.unit:<10} {target:<12} {verdict}{against}"
    )


def main(names: list[str]) -> int:
    """Run the benchmarks; 1 when a figure misses its target."""
    print(f"{'FIGURE':<44} {'VALUE':>12} {'UNIT':<10} {'TARGET':<12} VERDICT", flush=True)
    missed = 0
    for name in modules(names):
        module = importlib.import_module(f"tests.benchmarks.bench_{name}")
        for figure in module.figures():
            figure.write(OUT)
            missed += figure.is_reached is False
            print(row(figure), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
