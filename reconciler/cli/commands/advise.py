"""``headway advise``: how to share GPUs for a model, and what to write to get it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import click

from reconciler.cli.commands.estimate import gpu_types
from reconciler.cli.estimates import item, options_table, training_words
from reconciler.cli.fleet_constants import fleet_constants
from reconciler.cli.output import emit, output_option
from reconciler.cli.terminal import Terminal, find_terminal, wrap
from reconciler.cli.train_words import refused_here, train_of
from reconciler.errors import NotFoundError, UsageError
from reconciler.estimating.advise import SAME, Advice, layout_words, reasons, train_lines
from reconciler.estimating.advise import advise as find_layouts
from reconciler.estimating.estimate import Estimate
from reconciler.estimating.layouts import Limits
from reconciler.estimating.naming import UnknownNameError
from reconciler.estimating.rule_of_thumb import rule_for
from reconciler.estimating.train_section import Setting, training_from
from reconciler.estimating.training import Engine, Precision, Training
from reconciler.specs.model_catalogue import model_at

Refused = Callable[[Training], Mapping[str, str]]
"""Why the trainer would not take the lines of a layout, by key; empty where it would."""
DEFAULT_BATCH = 64
"""Samples a step where neither the words nor the option say."""


@click.command()
@click.argument("model", metavar="MODEL")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--gpus", type=click.IntRange(min=1), required=True, help="GPUs to share.")
@click.option(
    "--type", "--gpu-type", "gpu_type", required=True, metavar="TYPE", help="Such as A100-80GB."
)
@click.option("--global-batch", type=click.IntRange(min=1), help="Samples a step.  [64]")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour the words.",
)
@output_option("table", "json")
@click.pass_context
def advise(
    ctx: click.Context,
    model: str,
    words: tuple[str, ...],
    gpus: int,
    gpu_type: str,
    global_batch: int | None,
    color: str,
    output: str,
) -> None:
    """Rank the valid layouts for MODEL by predicted step time and print the `train:` lines.

    KEY=VALUE are `train:` keys: `headway advise Qwen2.5-14B tuner_type=full max_length=8192
    --gpus 8 --type A100-80GB`.  Layouts whose memory may not fit are dropped.
    """
    (gpu,) = gpu_types((gpu_type,))
    train = train_of(words)
    training = _training(model, train)
    batch = global_batch or training.global_batch
    if global_batch is None and training.global_batch == 1:
        batch = max(DEFAULT_BATCH, gpus)
    limits = Limits(gpus=gpus, global_batch=batch)
    constants = fleet_constants(None)

    def refused(one: Training) -> dict[str, str]:
        return refused_here(train, _section(one), one.layout.gpus)

    found = find_layouts(training, gpu, limits, constants, lambda one: not refused(one))
    if output == "json":
        emit({**_item(found, refused), "constants": constants.origin}, "json")
    else:
        terminal = find_terminal(color)
        click.echo(_text(found, refused, training, gpus, gpu.name, batch, terminal))
        click.echo(wrap(f"rests on: {constants.origin}", terminal.width, "          "))
    if found.winner is None:
        ctx.exit(1)


def _training(model: str, train: dict[str, Any]) -> Training:
    try:
        shape = model_at(model)
        given = {"attn_impl": "flash", "packing": True, **train, "model": model}
        training = training_from(given, shape, Setting(gpus=1))
    except UnknownNameError as error:
        raise NotFoundError(str(error)) from error
    except ValueError as error:
        raise UsageError(f"{error} (the advisor chooses parallel sizes itself)") from error
    if training.is_adapter or training.precision is Precision.FP32:
        return training
    return replace(training, master=True)  # every layout alike: 32-bit sums, as is usual


def _section(training: Training) -> dict[str, Any]:
    """Return the lines that ask for a layout as a document would hold them."""
    pairs = (line.split(": ") for line in train_lines(training))
    return {key: yaml_value(value) for key, value in pairs}


def yaml_value(text: str) -> Any:
    """Return what a value of ``train_lines`` is in YAML."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text


def _item(found: Advice, refused: Refused) -> dict[str, Any]:
    rule = None
    if found.winner is not None:
        one = rule_for(found.winner.training.model)
        rule = {"models": one.models, "strategy": one.strategy, "measured": one.measured}
    return {
        "kind": "Advice",
        "options": [_option(one, refused) for one in found.options],
        "looked_at": found.looked_at,
        "fitting": found.fitting,
        "runnable": None if found.runnable is None else _option(found.runnable, refused),
        "smaller": None if found.smaller is None else _option(found.smaller, refused),
        "closest": None if found.closest is None else item(found.closest),
        "rule_of_thumb": rule,
    }


def _option(one: Estimate, refused: Refused) -> dict[str, Any]:
    """Return an option; only one that the trainer takes has lines to write."""
    why = refused(one.training)
    lines = [] if why else list(train_lines(one.training))
    return {**item(one), "train": lines, "refused": why}


def _text(
    found: Advice,
    refused: Refused,
    training: Training,
    gpus: int,
    gpu: str,
    batch: int,
    terminal: Terminal,
) -> str:
    lines = [
        training_words(training).rpartition(",")[0]
        + f", {training.seq_len} tokens, {batch} samples a step",
        f"{found.looked_at} layouts on {gpus} x {gpu}, {found.fitting} surely fit",
        "",
    ]
    if found.winner is None:
        lines += _nothing(found, gpus, gpu)
    else:
        lines += [options_table(found.options, terminal), ""]
        lines += _proposal(found, refused, terminal)
    rule = rule_for(training.model)
    lines += ["", f"rule of thumb for {rule.models}: {rule.strategy}"]
    lines.append(wrap(f"measured: {rule.measured}", terminal.width, "          "))
    return "\n".join(lines)


def _nothing(found: Advice, gpus: int, gpu: str) -> list[str]:
    closest = found.closest
    if closest is None:
        return [f"no layout divides evenly over {gpus} GPUs: try another --global-batch"]
    return [
        f"nothing fits on {gpus} x {gpu}; the closest needs {closest.p50_gib:.1f} GiB a GPU "
        f"of {closest.fit.usable_gib:.1f}: {layout_words(closest.training)}",
        "take more GPUs, an adapter (tuner_type=lora), a shorter max_length, or offload the "
        "optimizer (optimizer_cpu_offload=true with `headway estimate`)",
    ]


def _proposal(found: Advice, refused: Refused, terminal: Terminal) -> list[str]:
    """Return the layout to take: the fastest that the trainer runs, and what it leaves aside."""
    chosen, fastest = found.runnable, found.winner
    lines = []
    if fastest is not None and fastest is not chosen:
        key, why = next(iter(refused(fastest.training).items()))
        reason = "has no Megatron" if _is_megatron(fastest) else f"refuses {key}: {why}"
        words = f"{layout_words(fastest.training)}, {fastest.speed.step_s:.2f} s a step"
        note = f"note: not proposed: {words}; this build's trainer {reason}"
        lines.append(wrap(note, terminal.width, "  "))
    if chosen is None:
        return [*lines, "none of the fitting layouts runs with this build's trainer"]
    lines = [*_why(found, chosen, terminal), *lines, "", "train:"]
    return [*lines, *(f"  {line}" for line in train_lines(chosen.training))]


def _is_megatron(one: Estimate) -> bool:
    return one.training.engine is Engine.MEGATRON


def _why(found: Advice, chosen: Estimate, terminal: Terminal) -> list[str]:
    lines = [f"proposed: {layout_words(chosen.training)}, {chosen.speed.step_s:.2f} s a step"]
    other = found.next_to(chosen)
    if other is not None:
        ratio = other.speed.step_s / chosen.speed.step_s
        causes = ", ".join(reasons(chosen, other)) or "too close to tell apart"
        if ratio > SAME:
            words = f"{100 * (ratio - 1):.0f} % faster than"
        elif ratio < 1 / SAME:
            words = f"{100 * (1 / ratio - 1):.0f} % slower than"
        else:
            words = "as fast as, and plainer than," if ratio < 1 else "as fast as"
        lines.append(
            wrap(f"{words} {layout_words(other.training)}: {causes}", terminal.width, "  ")
        )
    if found.smaller is not None:
        lines.append(
            f"fits on {found.smaller.gpus} GPU{'s' if found.smaller.gpus > 1 else ''} too: "
            f"{layout_words(found.smaller.training)}, {found.smaller.speed.step_s:.2f} s a step"
        )
    lines += [f"note: {note}" for note in chosen.notes]
    return lines


command = advise
