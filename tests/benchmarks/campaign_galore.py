"""``python -m tests.benchmarks.campaign_galore``: does GaLore learn what AdamW learns?

A model of 20 million parameters is trained for 300 steps by AdamW, GaLore and Q-GaLore, at the
shipped rank and gap.  AdamW and GaLore are tuned with equal budgets: the same twelve short
trials over the learning rate and a factor for the inner matrices, which is GaLore's scale and,
for AdamW, the learning rate of the same matrices.  (Without that factor AdamW would be the
weaker one: its best plain trial is reported beside it.)  Q-GaLore takes GaLore's choice.

Resumable: each finished run is written at once, and found runs are not run again; the campaign
takes some hours of one core.  Results with seed and commit go to ``results/galore.json``, every
loss to ``results/galore_curves.csv``, and what came of it to ``results/galore.md``; with ``report``
as its argument the program writes the last of what is there and runs nothing.
"""

import csv
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks import galore_model as world
from trainer.optimizers import building, grouping

RESULTS = Path(__file__).parent / "results"
TABLE, CURVES, REPORT = (RESULTS / f"galore{end}" for end in (".json", "_curves.csv", ".md"))
TRIAL_STEPS, STEPS = 50, 300
TRIAL_SEED = 0
SEEDS = (1, 2)
RATES = (1e-3, 2e-3, 4e-3, 8e-3)
FACTORS = (1.0, 0.25, 0.1)
WARMUP = 0.1
MOST_ABOVE = 0.03
"""Accepted excess of GaLore's held-out loss over AdamW's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One training."""

    optimizer: str
    rate: float
    factor: float
    steps: int
    seed: int

    @property
    def name(self) -> str:
        """A key for the files."""
        return f"{self.optimizer} {self.rate:g} x{self.factor:g} {self.steps}s seed{self.seed}"


def run(cell: Cell) -> tuple[dict[str, Any], list[float]]:
    """Train, and return what is kept of it and the loss of each step."""
    model = world.model(cell.seed)
    optimizer = _optimizer(cell, model)
    rates = [group["lr"] for group in optimizer.param_groups]
    losses: list[float] = []
    started = time.process_time()
    for step in range(cell.steps):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * _course(step, cell.steps)
        loss = world.loss(model, world.batch(step, cell.seed))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
    spent_s = time.process_time() - started
    return {
        "optimizer": cell.optimizer,
        "learning_rate": cell.rate,
        "factor": cell.factor,
        "steps": cell.steps,
        "seed": cell.seed,
        "held_out_loss": round(world.held_out_loss(model), 5),
        "training_loss_of_the_last_tenth": round(_tail(losses), 5),
        "cpu_s_per_step": round(spent_s / len(losses), 3),
        "commit": _commit(),
    }, losses


def _optimizer(cell: Cell, model: Any) -> Any:
    keys: dict[str, Any] = {"learning_rate": cell.rate, "use_galore": True}
    if cell.optimizer != "adamw":
        keys["galore_scale"] = cell.factor
        keys["galore_quantization"] = cell.optimizer == "q_galore"
    section = world.section(**keys)
    decaying = {name for name, parameter in model.named_parameters() if parameter.dim() == 2}
    if cell.optimizer == "adamw":
        groups = grouping.parameter_groups(model, section, decaying=decaying)
        for group in groups:
            group["lr"] = cell.rate * (cell.factor if "rank" in group else 1.0)
        return torch.optim.AdamW(groups, lr=cell.rate, betas=(0.9, 0.95))
    building.prepare_model(model, section)
    return building.build(model, section, decaying=decaying, seed=cell.seed)


def _course(step: int, steps: int) -> float:
    warmup = max(round(WARMUP * steps), 1)
    return min((step + 1) / warmup, 1.0) * 0.5 * (1 + math.cos(math.pi * step / steps))


def _tail(losses: list[float]) -> float:
    tail = losses[-max(len(losses) // 10, 1) :]
    return sum(tail) / len(tail)


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, cwd=RESULTS.parent
    )
    return done.stdout.strip()


def trials(optimizer: str) -> list[Cell]:
    """Return the twelve short runs one optimizer is tuned with."""
    return [
        Cell(optimizer=optimizer, rate=rate, factor=factor, steps=TRIAL_STEPS, seed=TRIAL_SEED)
        for rate in RATES
        for factor in FACTORS
    ]


def tried(optimizer: str, done: dict[str, Any]) -> list[Cell]:
    """Return the trials that were run."""
    return [cell for cell in trials(optimizer) if cell.name in done]


def chosen(optimizer: str, done: dict[str, Any], *, plain: bool = False) -> Cell:
    """Return the trial with the least held-out loss; ``plain``: of those with a factor of 1."""
    cells = [cell for cell in tried(optimizer, done) if not plain or cell.factor == 1.0]
    return min(cells, key=lambda cell: (_held_out(done, cell), cell.name))


def _held_out(done: dict[str, Any], cell: Cell) -> float:
    value = float(done[cell.name]["held_out_loss"])
    return value if math.isfinite(value) else math.inf


def finals(done: dict[str, Any]) -> Iterator[tuple[str, Cell]]:
    """Yield what is compared, by name, best known settings at full length."""
    picks = {
        "adamw": ("adamw", chosen("adamw", done)),
        "galore": ("galore", chosen("galore", done)),
        "q_galore": ("q_galore", chosen("galore", done)),
        "adamw_plain": ("adamw", chosen("adamw", done, plain=True)),
    }
    for seed in SEEDS:
        for name, (optimizer, cell) in picks.items():
            yield (
                name,
                Cell(
                    optimizer=optimizer,
                    rate=cell.rate,
                    factor=cell.factor,
                    steps=STEPS,
                    seed=seed,
                ),
            )


def _complete(cell: Cell, done: dict[str, Any]) -> None:
    if cell.name in done:
        return
    kept, losses = run(cell)
    done[cell.name] = kept
    print(f"{cell.name:<44} held out {kept['held_out_loss']:.4f}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    is_new = not CURVES.exists()
    with CURVES.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(("run", "step", "loss"))
        writer.writerows((cell.name, step, f"{loss:.4f}") for step, loss in enumerate(losses, 1))
    _write(done)


def _write(done: dict[str, Any], summary: dict[str, Any] | None = None) -> None:
    parameters = sum(parameter.numel() for parameter in world.model(0).parameters())
    document = {
        "model": {"kind": "qwen3", "parameters": parameters, **world.SHAPE},
        "tokens_per_step": world.BATCH * world.LENGTH,
        "summary": summary,
        "runs": done,
    }
    temporary = TABLE.with_suffix(".part")
    temporary.write_text(json.dumps(document, indent=1) + "\n")
    temporary.replace(TABLE)


def summary(done: dict[str, Any]) -> dict[str, Any]:
    """Return each one's held-out losses, and their mean over tuned AdamW's on the same seeds.

    What has not been run yet is left out; without AdamW nothing can be said.
    """
    losses: dict[str, dict[int, float]] = {}
    for name, cell in finals(done):
        if cell.name in done:
            losses.setdefault(name, {})[cell.seed] = _held_out(done, cell)
    found = {}
    for name, by_seed in losses.items():
        both = by_seed.keys() & losses.get("adamw", {}).keys()
        if both:
            theirs = sum(losses["adamw"][seed] for seed in both)
            found[name] = {
                "held_out_loss": round(sum(by_seed[seed] for seed in both) / len(both), 4),
                "against_adamw": round(sum(by_seed[seed] for seed in both) / theirs, 4),
                "by_seed": by_seed,
                "trials": len(tried("adamw" if name.startswith("adamw") else "galore", done)),
            }
    return found


def report(done: dict[str, Any], found: dict[str, Any]) -> str:
    """Return the results as a page."""
    parameters = json.loads(TABLE.read_text())["model"]["parameters"]
    lines = [
        "# GaLore against AdamW",
        "",
        "Written by `python -m tests.benchmarks.campaign_galore`. A model of Qwen3's kind with "
        f"{parameters:,} parameters,",
        f"{STEPS} steps of {world.BATCH * world.LENGTH} tokens, rank 128 and gap 50 as shipped. "
        f"Chosen by trials of {TRIAL_STEPS} steps.",
        "`adamw_plain` is AdamW with one learning rate for all weights.",
        "",
        "| | trials | learning rate | factor | seeds | held-out loss | against adamw "
        "| CPU s a step |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    cells = {name: cell for name, cell in finals(done) if cell.name in done and name in found}
    for name, row in found.items():
        cell, seeds = cells[name], ", ".join(map(str, row["by_seed"]))
        lines.append(
            f"| {name} | {row['trials']} | {cell.rate:g} | {cell.factor:g} | {seeds} "
            f"| {row['held_out_loss']:.4f} | {row['against_adamw']:.4f} "
            f"| {done[cell.name]['cpu_s_per_step']:.2f} |"
        )
    missing = sorted({name for name, cell in finals(done) if cell.name not in done})
    if missing:
        lines += ["", f"Not run yet with every seed: {', '.join(missing)}."]
    if cells:
        lines += ["", *_curves(cells)]
    return "\n".join([*lines, "", *_trials(done), ""])


def _curves(cells: dict[str, Cell]) -> list[str]:
    losses: dict[str, list[float]] = {}
    with CURVES.open(newline="") as file:
        for row in csv.DictReader(file):
            losses.setdefault(row["run"], []).append(float(row["loss"]))
    lines = [
        "Training loss, mean of 30 steps, of the last seed run:",
        "",
        "| steps | " + " | ".join(cells) + " |",
        "| --- |" + " --- |" * len(cells),
    ]
    for first in range(0, STEPS, 30):
        means = [sum(losses[cell.name][first : first + 30]) / 30 for cell in cells.values()]
        row = " | ".join(f"{mean:.3f}" for mean in means)
        lines.append(f"| {first + 1}-{first + 30} | {row} |")
    return lines


def _trials(done: dict[str, Any]) -> list[str]:
    lines = [
        f"Held-out loss of the trials ({TRIAL_STEPS} steps, seed {TRIAL_SEED}):",
        "",
        "| learning rate | factor | adamw | galore |",
        "| --- | --- | --- | --- |",
    ]
    for ours, theirs in zip(trials("galore"), trials("adamw"), strict=True):
        cells = (
            f"{_held_out(done, cell):.4f}" if cell.name in done else "not run"
            for cell in (theirs, ours)
        )
        lines.append(f"| {ours.rate:g} | {ours.factor:g} | {' | '.join(cells)} |")
    return lines


def main(arguments: list[str]) -> int:
    """Run what is missing, or only report; 1 where GaLore stays too far behind."""
    torch.set_num_threads(1)
    done: dict[str, Any] = json.loads(TABLE.read_text())["runs"] if TABLE.exists() else {}
    if arguments != ["report"]:
        for optimizer in ("adamw", "galore"):
            for cell in trials(optimizer):
                _complete(cell, done)
        for _, cell in list(finals(done)):
            _complete(cell, done)
    found = summary(done)
    _write(done, found)
    REPORT.write_text(report(done, found))
    for name, row in found.items():
        print(f"{name:<12} {row['held_out_loss']:.4f}  x{row['against_adamw']:.4f}")
    return 0 if found["galore"]["against_adamw"] <= 1 + MOST_ABOVE else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
