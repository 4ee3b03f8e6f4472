"""``python -m tests.benchmarks.campaign_matrix [TASK...]``: does each task work with each tuner?

A cell trains a small random model of a real architecture on shipped data, and passes where the
loss falls (grpo, whose loss says nothing: where the reward of its answers rises, from a model that
has imitated the shop for forty steps), the weights are written, and a process that has trained
nothing loads them and predicts.  A cell that the rules refuse is kept with the reason they give.

Resumable: each cell is written to ``results/matrix.json`` at once with a digest of its settings and
of the sources it rests on, and is not run again while they are the same.  The table is written to
``results/matrix.md`` and into ``docs/tasks.md``.
"""

import contextlib
import hashlib
import io
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from tests.benchmarks.campaign import commit
from tests.e2e.asker import Asker
from tests.e2e.tasks import POLICY, TASKS, ask, taught
from tests.e2e.training import train_here
from tests.run_requests import a_run, events, losses, result
from trainer.config import train_problems
from trainer.keys import KEYS

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
TABLE, PAGE = RESULTS / "matrix.json", RESULTS / "matrix.md"
DOCS = ROOT / "docs" / "tasks.md"
BEGIN, END = "<!-- matrix -->\n", "\n<!-- end -->\n"
"""Between them, ``docs/tasks.md`` has the table."""
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


NOT_LOADED = frozenset(
    ("__main__", "boards", "exact_memory", "export", "launch", "packaged_models", "schema")
)
"""Modules of the trainer that no cell loads; a run that finds one loaded fails."""


def sources(task: str, tuner: str) -> str:
    """Return a digest of a cell's settings and of the trainer's modules it may load."""
    digest = hashlib.sha256(repr((settings(task, tuner), STEPS, SEED)).encode())
    for path in sorted((ROOT / "trainer").rglob("*.py")):
        if path.stem not in NOT_LOADED:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def settings(task: str, tuner: str) -> dict[str, Any]:
    """Return what ``a_run`` is given for a cell."""
    row = TASKS[task]
    common = {"task": task, "max_length": 256, "learning_rate": 2e-3, "per_device": row.per_device}
    more = POLICY if task == "grpo" else {}
    return {**common, "model": "random:qwen3-tiny", **row.train, **TUNERS[tuner], **more}


def run(task: str, tuner: str, asker: Asker) -> dict[str, Any]:
    """Train one cell and return its verdict with what was seen."""
    given = settings(task, tuner)
    refused = train_problems(
        {key: value for key, value in given.items() if key in KEYS and value is not None}
    )
    if refused:
        return {"verdict": "refused", "why": "; ".join(refused)}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        root = Path(folder)
        if task == "grpo":
            given["model"] = taught(root / "taught")
        if given.get("quant_method") == "gptq":
            given["model"] = _gptq(root, given["model"])
        run_dir = a_run(root, max_steps=STEPS, seed=SEED, **given)
        if train_here(run_dir) != 0:
            return {"verdict": "failed", "why": result(run_dir)["message"]}
        seen = _seen(task, run_dir)
        try:
            said = ask(asker, task, root / "final")
        except RuntimeError as error:
            return seen | {"verdict": "failed", "why": f"does not load: {str(error)[-300:]}"}
    return seen | _verdict(task, seen, said)


def _seen(task: str, run_dir: Path) -> dict[str, Any]:
    measured: dict[str, list[float]] = {"loss": list(losses(run_dir).values())}
    if task == "grpo":
        measured["reward"] = [event["reward"] for event in events(run_dir, "step")]
    return {
        f"{end}_{name}": round(mean(values[:5] if end == "first" else values[-5:]), 4)
        for name, values in measured.items()
        for end in ("first", "last")
    }


def _verdict(task: str, seen: Mapping[str, Any], said: str) -> dict[str, Any]:
    learns = seen["last_loss"] < seen["first_loss"]
    if task == "grpo":
        learns = seen["last_reward"] > seen["first_reward"]
    if task == "pretrain":  # what the reloaded model makes of its texts
        learns = learns and float(said) < seen["first_loss"]
    if not said:
        return {"verdict": "failed", "why": "loads, but predicts nothing"}
    return {"verdict": "works" if learns else "does not learn"}


def _gptq(root: Path, model: str) -> str:
    from tests.unit.trainer.quantised.gptq_writer import write_model
    from trainer.models import resolve

    return str(write_model(Path(resolve(model)), root / "gptq", act_order=True))


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
    told = DOCS.read_text(encoding="utf-8")
    before, rest = told.split(BEGIN)
    after = rest.split(END)[1]
    DOCS.write_text(before + BEGIN + "\n".join(table(cells)) + END + after, encoding="utf-8")


def table(cells: Mapping[str, Any]) -> list[str]:
    """Return the lines of the table."""
    lines = [
        "| task | " + " | ".join(TUNERS) + " |",
        "| --- |" + " --- |" * len(TUNERS),
    ]
    for task in TASKS:
        shown = [_shown(cells.get(f"{task}, {tuner}")) for tuner in TUNERS]
        lines.append(f"| {task} | " + " | ".join(shown) + " |")
    return lines


def page(cells: Mapping[str, Any]) -> str:
    """Return the table as Markdown: a row a task, a column a tuner."""
    lines = [
        "# Tasks and tuners",
        "",
        f"`python -m tests.benchmarks.campaign_matrix`: {STEPS} steps of a random model of 0.36 "
        "million parameters on one CPU. Loss, for grpo the reward: mean of the first five steps "
        "and of the last five. Each was loaded again by a process that trained nothing, and "
        "predicted.",
        "",
        *table(cells),
    ]
    told = {
        cell["why"]: name
        for name, cell in cells.items()
        if cell["verdict"] in ("refused", "failed")
    }
    lines += ["", *(f"* {name}: {why}" for why, name in sorted(told.items()))]
    at = sorted({cell["commit"][:10] for cell in cells.values()})
    lines += ["", f"{len(cells)} cells at {', '.join(at)}."]
    return "\n".join(lines).rstrip() + "\n"


def _shown(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "not run"
    if cell["verdict"] != "works":
        return str(cell["verdict"])
    if "first_reward" in cell:
        return f"reward {cell['first_reward']:.2f} to {cell['last_reward']:.2f}"
    return f"{cell['first_loss']:.2f} to {cell['last_loss']:.2f}"


def main(tasks: list[str]) -> int:
    """Run the cells that are missing, of the tasks named or of all; 1 where one failed."""
    cells, at = read(), commit()
    with Asker() as asker:
        for tuner in TUNERS:
            for task in tasks or list(TASKS):
                name, digest = f"{task}, {tuner}", sources(task, tuner)
                if name in cells and cells[name]["sources"] == digest:
                    continue
                began = time.process_time()
                cells[name] = run(task, tuner, asker) | {"sources": digest, "commit": at}
                cells[name]["cpu_s"] = round(time.process_time() - began, 1)
                print(f"{name}: {cells[name]}", flush=True)
                write(cells)
    loaded = {name for name in sys.modules if name.startswith("trainer.")}
    unexpected = {name for name in loaded if name.rpartition(".")[2] in NOT_LOADED}
    if unexpected:
        raise RuntimeError(f"a cell loaded {sorted(unexpected)}: take it out of NOT_LOADED")
    return 0 if all(cell["verdict"] in ("works", "refused") for cell in cells.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
