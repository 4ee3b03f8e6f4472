"""How long an estimate takes, and how right it is where the published runs are at hand."""

import csv
import os
import time
from collections.abc import Iterator
from pathlib import Path

from reconciler.estimating.estimate import estimate
from reconciler.estimating.naming import gpu_named
from reconciler.estimating.scoring import case, scores
from reconciler.estimating.training import Layout, Sharding, Training
from reconciler.specs.model_catalogue import (
    model_at,
    shipped_constants,
    shipped_gpus,
    shipped_models,
)
from tests.benchmarks.figure import PYTHON, Figure, cpu_seconds

STARTS = 5
ESTIMATES = 10_000
SCRIPT = (
    "from reconciler.cli.commands.estimate import estimate;"
    "estimate(['--model', 'Qwen3-8B', 'max_length=4096', '--gpus', '4'])"
)


def figures() -> Iterator[Figure]:
    """Yield start-up, bulk speed, and the scores where ``HEADWAY_MEASUREMENTS`` is set."""
    spent = min(cpu_seconds([PYTHON, "-c", SCRIPT])[0] for _ in range(STARTS))
    yield Figure(name="estimate_start_up", value=spent, unit="s CPU", target=0.3, better="lower")
    yield Figure(name="estimates_10000", value=_bulk(), unit="s CPU", target=10.0, better="lower")
    yield from _scores()


def _bulk() -> float:
    constants, gpu = shipped_constants(), gpu_named("A100-80GB", shipped_gpus())
    models = [model_at(name) for name in ("Qwen3-8B", "Qwen3-30B-A3B", "DeepSeek-V3")]
    started = time.process_time()
    for index in range(ESTIMATES):
        training = Training(
            model=models[index % 3],
            seq_len=512 * (1 + index % 16),
            lora_rank=8 * (index % 2),
            layout=Layout(data=1 + index % 8, sharding=Sharding.ZERO3),
        )
        estimate(training, gpu, constants)
    return time.process_time() - started


def _scores() -> Iterator[Figure]:
    folder = os.environ.get("HEADWAY_MEASUREMENTS")
    table = Path(folder or "") / "public.csv"
    if not folder or not table.is_file():
        return
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    constants = shipped_constants()
    found = scores(
        [case(row, shipped_models(), shipped_gpus(), constants) for row in rows], constants
    )
    for name, value, target, better in (
        ("memory_median_error", found.memory.median, 0.085, "lower"),
        ("memory_within_10", found.memory.within_10, 0.57, "higher"),
        ("memory_within_15", found.memory.within_15, 0.72, "higher"),
        ("oom_called_fitting", float(len(found.oom_called_fitting)), 0.0, "lower"),
        ("fitting_refused", len(found.fitting_refused) / found.fitting_rows, 0.05, "lower"),
        ("throughput_median_error", found.speed.median, 0.18, "lower"),
        ("published_orders_right", found.order_right, 0.80, "higher"),
    ):
        yield Figure(
            name=f"estimate_{name}",
            value=value,
            unit="rows" if name.startswith("oom") else "share",
            target=target,
            better="lower" if better == "lower" else "higher",
        )
