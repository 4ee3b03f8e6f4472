"""What this attempt was asked to do: ``request.json``, read, checked and completed.

Rule kept: nothing in a request is ignored.  A key the trainer does not read, a value out of
range, a refused combination or batch sizes that do not multiply up end the attempt before any
model is loaded, with every problem in one message.  No torch here.
"""

import json
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from trainer.files import read_json
from trainer.keys import KEYS, Key, default_of
from trainer.optimizers.table import request_problems
from trainer.parallel.layout import Layout, layout_of
from trainer.parallel.layout import request_problems as layout_problems
from trainer.recipes.keys import BY_TASK
from trainer.rules import ABSENT, OWNED, RENAMED, refusals

VERSION = "headway.run/v1"
CPU_SLOT = "cpu_slot"
SCHEMA = Path(__file__).parent / "contract" / "request.schema.json"
LEARNING_RATES = {"lora": 1e-4, "full": 1e-5}


class RequestError(Exception):
    """The request asks for something this trainer does not do; the text says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRequest:
    """Where checkpoints go, how often (None: only on a stop) and how many stay."""

    every_steps: int | None
    keep: int
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One attempt's work, complete: every ``train:`` key has its value."""

    run_dir: Path
    attempt: str
    job: str
    world_size: int
    device_kind: str
    devices: tuple[str, ...]
    global_batch: int
    """Samples per optimizer step = data-parallel size x per_device_batch x accumulation."""
    per_device_batch: int
    accumulation: int
    train: Mapping[str, Any]
    data_root: Path
    checkpoint: CheckpointRequest
    resume_from: Path | None
    grace_s: int
    seed: int

    @property
    def on_cpu(self) -> bool:
        """True where CPU slots stand in for GPUs."""
        return self.device_kind == CPU_SLOT

    @property
    def layout(self) -> Layout:
        """How the processes divide the work."""
        return layout_of(self.train, self.world_size)

    @property
    def final(self) -> Path:
        """Folder of the finished weights, beside the checkpoints of this generation."""
        return self.checkpoint.folder.parent / "final"


def load_request(run_dir: Path) -> Request:
    """Return the checked request of ``run_dir``; raise RequestError with every problem."""
    path = run_dir / "request.json"
    document = read_json(path)
    if document is None:
        raise RequestError(f"{path} is missing or is not a JSON object")
    problems = list(_shape_problems(document))
    if isinstance(document.get("train"), dict):
        problems += train_problems(document["train"])
    if problems:
        raise RequestError("\n".join(f"{path}: {problem}" for problem in problems))
    per_device, accumulation, global_batch = _batch(path, document)
    train = complete(document["train"])
    _check_optimizer(path, document, train, accumulation)
    checkpoint = document["checkpoint"]
    folder = Path(checkpoint["dir"])
    return Request(
        run_dir=run_dir,
        attempt=document["attempt"],
        job=document["job"],
        world_size=document["world_size"],
        device_kind=document["device_kind"],
        devices=tuple(document["devices"]),
        global_batch=global_batch,
        per_device_batch=per_device,
        accumulation=accumulation,
        train=train,
        data_root=Path(document["data_root"] or run_dir),
        checkpoint=CheckpointRequest(
            every_steps=checkpoint["every_steps"],
            keep=checkpoint["keep"],
            folder=folder if folder.is_absolute() else (run_dir / folder).resolve(),
        ),
        resume_from=None if document["resume_from"] is None else Path(document["resume_from"]),
        grace_s=document["grace_s"],
        seed=document["seed"],
    )


def _shape_problems(document: Mapping[str, Any]) -> Iterator[str]:
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(json.loads(SCHEMA.read_bytes()))
    errors = sorted(validator.iter_errors(document), key=lambda error: error.json_path)
    for error in errors:
        yield f"{error.json_path.removeprefix('$.')}: {error.message}"


def _batch(path: Path, document: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return (per-device batch, accumulation, global batch), each from the request or train."""
    train = document["train"]
    layout = layout_of(train, document["world_size"])
    if text := "\n".join(f"{path}: {problem}" for problem in layout_problems(layout)):
        raise RequestError(text)
    per_device = document["per_device_batch"] or train.get("per_device_train_batch_size", 1)
    accumulation = document["accumulation"] or train.get("gradient_accumulation_steps", 1)
    if accumulation < layout.pipeline:
        raise RequestError(
            f"{path}: {layout.pipeline} stages of a pipeline need as many micro-batches a step or "
            f"more, not {accumulation}; nearest: gradient_accumulation_steps: {layout.pipeline}"
        )
    product = layout.data * per_device * accumulation
    global_batch = document["global_batch"] or product
    if product != global_batch:
        groups = "world_size" if layout.data == layout.world_size else "data-parallel size"
        raise RequestError(
            f"{path}: {groups} {layout.data} x per_device_batch {per_device} x accumulation "
            f"{accumulation} is {product}, not the global_batch {global_batch}"
        )
    return per_device, accumulation, global_batch


def _check_optimizer(
    path: Path, document: Mapping[str, Any], train: Mapping[str, Any], accumulation: int
) -> None:
    problems = request_problems(
        train,
        world_size=document["world_size"],
        accumulation=accumulation,
        on_cpu=document["device_kind"] == CPU_SLOT,
    )
    if text := "\n".join(f"{path}: {problem}" for problem in problems):
        raise RequestError(text)


def complete(train: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section with every absent key at its default, lists where a key takes several."""
    filled = {name: train.get(name, default_of(name)) for name in KEYS}
    for name, key in KEYS.items():
        if key.type in ("strings", "numbers") and isinstance(filled[name], str | int | float):
            filled[name] = [filled[name]]
    for name, of_task in BY_TASK.items():
        if filled[name] is None:
            filled[name] = of_task.get(filled["task"])
    if filled["learning_rate"] is None:
        filled["learning_rate"] = LEARNING_RATES[filled["tuner_type"]]
    return filled


def train_problems(train: Mapping[str, Any]) -> list[str]:
    """Return every mistake in a ``train:`` section, each with what to write instead."""
    problems = []
    for name in train:
        if name not in KEYS:
            problems.append(f"train.{name}: {_unknown(name)}")
        elif problem := _value_problem(KEYS[name], train[name]):
            problems.append(f"train.{name}: {problem}")
    problems += [
        f"train.{name}: is required"
        for name, key in KEYS.items()
        if key.required and name not in train
    ]
    if not problems:  # rules compare values, so they wait until each value is sound
        problems = [
            f"train.{rule.refuse}: {rule.reason}; nearest: {rule.nearest}"
            for rule in refusals(train)
        ]
    return problems


def _unknown(name: str) -> str:
    if name in OWNED:
        return f"is decided by headway: {OWNED[name]}"
    if name in RENAMED:
        return f"is not a key; did you mean {RENAMED[name]}?"
    if name in ABSENT:
        reason, nearest = ABSENT[name]
        return f"is not supported: {reason}; nearest: {nearest}"
    close = get_close_matches(name, KEYS, n=1)
    return f"is not a key; did you mean {close[0]}?" if close else "is not a key of this trainer"


def _value_problem(key: Key, value: Any) -> str | None:
    if not _has_type(key, value):
        words = {
            "strings": "text or a list of texts",
            "numbers": "a number or a list of numbers",
            "string": "text",
        }
        return f"{json.dumps(value)} is not {words.get(key.type, f'of type {key.type}')}"
    for each in value if isinstance(value, list) else [value]:
        if key.choices and each not in key.choices:
            return f"{each!r} is not one of {', '.join(key.choices)}"
    bounds = (
        ("at least", key.minimum, operator.ge),
        ("above", key.above, operator.gt),
        ("at most", key.maximum, operator.le),
        ("below", key.below, operator.lt),
    )
    for relation, bound, holds in bounds:
        if bound is not None and not holds(value, bound):
            return f"{value} must be {relation} {bound:g}"
    return None


def _has_type(key: Key, value: Any) -> bool:
    match key.type:
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return _is_number(value)
        case "numbers":
            numbers = value if isinstance(value, list) else [value]
            return bool(numbers) and all(_is_number(number) for number in numbers)
        case "string":
            return isinstance(value, str) and bool(value)
        case "strings":
            texts = value if isinstance(value, list) else [value]
            return bool(texts) and all(isinstance(text, str) and text for text in texts)


def _is_number(value: Any) -> bool:
    # `value == value` keeps NaN out, which Python's JSON reader lets through
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
