"""``python -m tests.benchmarks.campaign_matrix [TASK...]``: does each task work with each tuner?

A cell trains a small random model of a real architecture on shipped data, and passes where the
loss falls (GRPO: where every step has a finite reward, since its loss starts at 0), the weights
are written, and a fresh process loads them and predicts.  A cell that the rules refuse is kept
with the reason they give.

Resumable: each cell is written to ``results/matrix.json`` at once with the digest of the trainer's
sources, and is not run again while they are the same.  ``results/matrix.md`` is the table.
"""

import contextlib
import hashlib
import io
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from tests.benchmarks.campaign import commit
from tests.e2e.tasks import TASKS, ask
from tests.e2e.training import train_here
from tests.run_requests import a_run, events, losses, result
from trainer.config import train_problems

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
TABLE, PAGE = RESULTS / "matrix.json", RESULTS / "matrix.md"
STEPS = 30
SEED = 7
GALORE: Mapping[str, Any] = {
    "tuner_type": "full",
    "use_galore": True,
    "galore_rank": 16,
    "galore_update_proj_gap": 10,
    "learning_rate": 5e-3,
}
TUNERS: Mapping[str, Mapping[str, Any]] = {
    "full": {"tuner_type": "full"},
    "full, AdamW 8 bit": {"tuner_type": "full", "optim": "adamw_8bit"},
    "GaLore": GALORE,
    "Q-GaLore": {**GALORE, "galore_quantization": True},
    "LoRA": {"learning_rate": 5e-3},
    "DoRA": {"learning_rate": 5e-3, "use_dora": True},
    "LoRA on NF4": {"learning_rate": 5e-3, "quant_method": "bnb"},
    "LoRA on GPTQ": {"learning_rate": 5e-3, "quant_method": "gptq"},
}


def sources() -> str:
    """Return a digest of the trainer and of what the cells are made from."""
    digest = hashlib.sha256()
    tests = (Path(__file__), ROOT / "tests" / "e2e" / "tasks.py")
    for path in (*sorted((ROOT / "trainer").rglob("*.py")), *tests):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def run(task: str, tuner: str) -> dict[str, Any]:
    """Train one cell and return its verdict with what was seen."""
    row = TASKS[task]
    train = {"task": task, "max_length": 256, "learning_rate": 2e-3, **row.train, **TUNERS[tuner]}
    refused = train_problems({"model": "random:qwen3-tiny", **train})
    if refused:
        return {"verdict": "refused", "why": "; ".join(refused)}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if train.get("quant_method") == "gptq":
            train["model"] = _gptq(root)
        run_dir = a_run(root, per_device=row.per_device, max_steps=STEPS, seed=SEED, **train)
        with contextlib.redirect_stderr(io.StringIO()):
            code = train_here(run_dir)
        if code != 0:
            return {"verdict": "failed", "why": result(run_dir)["message"]}
        said = ask(task, root / "final")
        return _verdict(task, run_dir, said)


def _verdict(task: str, run_dir: Path, said: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    curve = list(losses(run_dir).values())
    first, last = mean(curve[:5]), mean(curve[-5:])
    seen: dict[str, Any] = {"first_loss": round(first, 4), "last_loss": round(last, 4)}
    if task == "grpo":
        rewards = [event["reward"] for event in events(run_dir, "step")]
        seen |= {"reward": round(mean(rewards), 4)}
        learns = all(math.isfinite(reward) for reward in rewards)
    else:
        learns = last < first
    if said.returncode != 0 or not said.stdout.strip():
        return {"verdict": "failed", "why": f"loads not again: {said.stderr[-300:]}"} | seen
    return {"verdict": "works" if learns else "does not learn"} | seen


def _gptq(root: Path) -> str:
    from tests.unit.trainer.quantised.gptq_writer import write_model
    from trainer.models import resolve

    return str(write_model(Path(resolve("random:qwen3-tiny")), root / "gptq", act_order=True))


def read() -> dict[str, Any]:
    """Return the cells that were run, by ``task, tuner``."""
    if not TABLE.exists():
        return {}
    cells: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))["cells"]
    return cells


def write(cells: Mapping[str, Any]) -> None:
    """Write the cells and their table."""
    RESULTS.mkdir(exist_ok=True)
    document = {"steps": STEPS, "seed": SEED, "cells": dict(sorted(cells.items()))}
    TABLE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(cells), encoding="utf-8")


def page(cells: Mapping[str, Any]) -> str:
    """Return the table as Markdown: a row a task, a column a tuner."""
    lines = [
        "# Tasks and tuners",
        "",
        f"`python -m tests.benchmarks.campaign_matrix`: {STEPS} steps of a random model of 0.36 "
        "million parameters on one CPU. Loss: mean of the first five steps and of the last five; "
        "GRPO: the mean reward. Each was loaded again by a fresh process, which predicted with it.",
        "",
        "| task | " + " | ".join(TUNERS) + " |",
        "| --- |" + " --- |" * len(TUNERS),
    ]
    for task in TASKS:
        shown = [_shown(cells.get(f"{task}, {tuner}")) for tuner in TUNERS]
        lines.append(f"| {task} | " + " | ".join(shown) + " |")
    told = {
        cell["why"]: name
        for name, cell in cells.items()
        if cell["verdict"] in ("refused", "failed")
    }
    lines += ["", *(f"* {name}: {why}" for why, name in sorted(told.items()))]
    return "\n".join(lines).rstrip() + "\n"


def _shown(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "not run"
    if cell["verdict"] != "works":
        return str(cell["verdict"])
    if "reward" in cell:
        return f"reward {cell['reward']:.2f}"
    return f"{cell['first_loss']:.2f} to {cell['last_loss']:.2f}"


def main(tasks: list[str]) -> int:
    """Run the cells that are missing, of the tasks named or of all; 1 where one failed."""
    cells, digest, at = read(), sources(), commit()
    for tuner in TUNERS:
        for task in tasks or list(TASKS):
            name = f"{task}, {tuner}"
            if name in cells and cells[name]["sources"] == digest:
                continue
            began = time.process_time()
            cells[name] = run(task, tuner) | {"sources": digest, "commit": at}
            cells[name]["cpu_s"] = round(time.process_time() - began, 1)
            print(f"{name}: {cells[name]}", flush=True)
            write(cells)
    return 0 if all(cell["verdict"] in ("works", "refused") for cell in cells.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
