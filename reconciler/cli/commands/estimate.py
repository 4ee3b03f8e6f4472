"""``headway estimate``: what a run needs, before a GPU is taken.

Three ways to say what runs: a spec, ``--model`` with ``train:`` words, or a table of measured
runs to be scored.  Nothing is loaded that the way does not need: no torch, and Hydra only for a
spec that is not in the cache.
"""

from pathlib import Path
from typing import Any

import click

from reconciler.cli.estimates import item, text
from reconciler.cli.fleet_constants import fleet_constants
from reconciler.cli.output import emit, output_option
from reconciler.cli.terminal import find_terminal
from reconciler.errors import NotFoundError, UsageError
from reconciler.estimating.constants import Constants
from reconciler.estimating.estimate import Course, Estimate, course
from reconciler.estimating.estimate import estimate as estimate_run
from reconciler.estimating.gangs import smallest_gang
from reconciler.estimating.hardware import CPU, Gpu
from reconciler.estimating.naming import UnknownNameError, gpu_named
from reconciler.estimating.train_section import Setting, training_from
from reconciler.specs.model_catalogue import model_at, shipped_gpus

LARGEST_GANG = 64
"""How far the smallest fitting gang is looked for, or twice the gang asked for."""


@click.command()
@click.argument("words", nargs=-1, metavar="[FILE] [KEY=VALUE]...")
@click.option("--model", metavar="NAME", help="Catalogue name, Hub id or folder, without a FILE.")
@click.option("--gpus", type=click.IntRange(min=1), help="Size of the gang.  [spec, or 1]")
@click.option(
    "--type", "--gpu-type", "types", multiple=True, metavar="TYPE", help="May be given again."
)
@click.option("--steps", type=click.IntRange(min=1), help="Optimizer steps, for the duration.")
@click.option("--price", type=float, metavar="X", help="Cost of one GPU-hour, in your currency.")
@click.option("--csv", "table", type=click.Path(path_type=Path), help="Score a table of runs.")
@click.option("--out", type=click.Path(path_type=Path), help="Where --csv writes predictions.")
@click.option("--exact", is_flag=True, help="Also trace the real model with torch (slow).")
@click.option("--repo", metavar="PATH", envvar="HEADWAY_REPO", help="The fleet's repository.")
@click.option("--at", metavar="REF", help="Read FILE at a commit.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour the words.",
)
@output_option("table", "json")
@click.pass_context
def estimate(
    ctx: click.Context,
    words: tuple[str, ...],
    model: str | None,
    gpus: int | None,
    types: tuple[str, ...],
    steps: int | None,
    price: float | None,
    table: Path | None,
    out: Path | None,
    exact: bool,
    repo: str | None,
    at: str | None,
    color: str,
    output: str,
) -> None:
    """Show memory, speed and the smallest gang of a training run.

    FILE is a job; KEY=VALUE lays over it as in `render`.  With --model the words are `train:`
    keys: `headway estimate --model Qwen2.5-72B max_length=8192 tuner_type=full deepspeed=zero3
    --gpus 8 --gpu-type A100-80GB`.  With --csv a table of measured runs is predicted and scored.
    """
    if table is not None:
        from reconciler.cli.scored_table import score_table

        score_table(table, out, output)
        return
    if model is None and (not words or "=" in words[0]):
        raise UsageError("say what runs: FILE, or --model NAME, or --csv TABLE")
    found = (
        _of_model(model, words, gpus, types) if model else _of_file(words, gpus, types, repo, at)
    )
    constants = fleet_constants(repo)
    shown: list[tuple[Estimate, int | None, Course | None]] = []
    for train, name, gang, gpu in found:
        one = _estimated(train, name, gang, gpu, constants)
        smallest = smallest_gang(one.training, gpu, constants, largest=max(2 * gang, LARGEST_GANG))
        run = _course(one, train, steps, price, constants)
        shown.append((one, smallest.gpus if smallest else None, run))
    if output == "json":
        items = [
            item(one, smallest=least, course=run, constants=constants.origin)
            for one, least, run in shown
        ]
        emit({"kind": "Estimates", "items": items}, "json")
    else:
        terminal = find_terminal(color)
        texts = [
            text(one, terminal, smallest=least, course=run, constants=constants.origin)
            for one, least, run in shown
        ]
        click.echo("\n\n".join(texts))
    if exact:
        from reconciler.cli.exact import exact_text

        click.echo(exact_text(shown[0][0]), err=output == "json")
    if not any(one.fit.fits for one, _, _ in shown):
        ctx.exit(1)


Asked = tuple[dict[str, Any], str, int, Gpu]
"""The ``train:`` section, the model as named, the gang, the GPU type."""


def gpu_types(names: tuple[str, ...]) -> list[Gpu]:
    """Return the GPU types of that name.  Raises ``NotFoundError`` with the nearest."""
    try:
        return [gpu_named(name, shipped_gpus()) for name in names]
    except UnknownNameError as error:
        raise NotFoundError(str(error)) from error


def _of_model(
    model: str, words: tuple[str, ...], gpus: int | None, types: tuple[str, ...]
) -> list[Asked]:
    from reconciler.cli.train_words import train_of

    train = train_of(words)
    return [(train, model, gpus or 1, gpu) for gpu in gpu_types(types or ("A100-80GB",))]


def _of_file(
    words: tuple[str, ...],
    gpus: int | None,
    types: tuple[str, ...],
    repo: str | None,
    at: str | None,
) -> list[Asked]:
    from reconciler.cli.asked_spec import document_of

    document = document_of(words[0], words[1:], repo, at)
    train = document.get("train")
    if train is None:
        raise UsageError(f"{words[0]} runs a command (`run:`): headway cannot know its memory")
    resources = document.get("resources", {})
    named = types or _texts(resources.get("gpu_type")) or ("A100-80GB",)
    gang = gpus or int(resources.get("gpus", 1))
    return [(dict(train), str(train["model"]), gang, gpu) for gpu in gpu_types(named)]


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(str(one) for one in value)


def _estimated(
    train: dict[str, Any], name: str, gang: int, gpu: Gpu, constants: Constants
) -> Estimate:
    is_cpu = gpu is CPU
    try:
        shape = model_at(name)
        training = training_from(
            {**train, "model": name},
            shape,
            Setting(gpus=min(gang, 2) if is_cpu else gang, is_cpu=is_cpu),
        )
    except UnknownNameError as error:
        raise NotFoundError(str(error)) from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    return estimate_run(training, gpu, constants)


def _course(
    one: Estimate,
    train: dict[str, Any],
    steps: int | None,
    price: float | None,
    constants: Constants,
) -> Course | None:
    count = steps or train.get("max_steps")
    if count is None:
        return None
    return course(one, int(count), constants, price_per_gpu_hour=price)


command = estimate
