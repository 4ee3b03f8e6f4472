"""Training rows: found, read, recognised and brought to one form.

Forms people have, told apart by their keys:
``{"messages": [{"role", "content"}, ...]}``; alpaca ``{"instruction", "input"?, "output"}``;
``{"prompt", "completion"}``; preference ``{"prompt", "chosen", "rejected"}`` or ms-swift's
``{"messages", "rejected_response"}``.  A prompt or answer is text or a list of messages.

Rule kept: a row that fits none of them is named by file and line and refused, never skipped in
silence; ``train.strict: false`` drops such rows and counts them.  No torch here.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trainer.config import RequestError

SAMPLES = Path(__file__).parent / "sample_data"
ROLES = ("system", "user", "assistant")
COMPARING = frozenset({"dpo", "reward"})
"""Tasks that need two answers to each prompt."""
SHOWN = 10
"""Bad rows named in a message; the rest are counted."""

Message = Mapping[str, str]


class RowError(Exception):
    """A row is not what its task needs; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One sample: a conversation, and for a preference pair the answer to prefer less."""

    source: str
    """``file:line``."""
    messages: tuple[Message, ...]
    """Ends with the assistant's answer to learn."""
    rejected: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a dataset key, and the lines that were refused."""

    rows: tuple[Any, ...]
    """``Row`` each, or what the ``parse`` of the task makes; all know their ``source``."""
    refused: tuple[str, ...]


def load_rows(
    names: Sequence[str],
    *,
    root: Path,
    task: str,
    system: str | None = None,
    strict: bool = True,
    parse: Callable[[str, Any], Any] | None = None,
) -> Rows:
    """Return the rows of all datasets in order; raise RequestError where none are left.

    ``parse`` makes a row of (source, value) or raises RowError; None: of conversations and pairs.
    ``strict`` also raises RequestError for any refused row.
    """
    parse = parse or partial(_row, task=task, system=system)
    rows: list[Row] = []
    refused: list[str] = []
    for name in names:
        path = locate(name, root=root)
        for source, read in _lines(path):
            try:
                rows.append(parse(source, read()))
            except RowError as error:
                refused.append(f"{source}: {error}")
    if refused and (strict or not rows):
        shown = "\n".join(refused[:SHOWN])
        more = f"\n+{len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
        raise RequestError(
            f"train.dataset: {len(refused)} of {len(rows) + len(refused)} rows can not be used "
            f"for {task}:\n{shown}{more}"
        )
    if not rows:
        raise RequestError(f"train.dataset: {', '.join(names)} has no rows")
    return Rows(rows=tuple(rows), refused=tuple(refused))


def locate(name: str, *, root: Path) -> Path:
    """Return the file of a dataset name; raise RequestError where there is none."""
    if name.startswith("sample:"):
        path = SAMPLES / f"{name.removeprefix('sample:')}.jsonl"
        if path.parent != SAMPLES or not path.is_file():
            known = ", ".join(f"sample:{path.stem}" for path in sorted(SAMPLES.glob("*.jsonl")))
            raise RequestError(f"train.dataset: {name!r} is not one of {known}")
        return path
    path = root / Path(name).expanduser()
    if not path.is_file():
        raise RequestError(f"train.dataset: there is no file {path}")
    if path.suffix not in (".jsonl", ".json"):
        raise RequestError(f"train.dataset: {path.name}: only .jsonl and .json files are read")
    return path


def _lines(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield for each row where it is and how to read it; reading may raise RowError."""
    if path.suffix == ".json":
        try:
            document = json.loads(path.read_bytes())
        except ValueError as error:
            raise RequestError(f"train.dataset: {path} is not JSON: {error}") from None
        if not isinstance(document, list):
            raise RequestError(f"train.dataset: {path} is not a JSON list of rows")
        for number, value in enumerate(document, start=1):
            yield f"{path.name}:row {number}", partial(_given, value)
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"{path.name}:{number}", partial(_parse, line)


def _given(value: Any) -> Any:
    return value


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise RowError(f"is not JSON: {error}") from None


def _row(source: str, value: Any, *, task: str, system: str | None) -> Row:
    if not isinstance(value, dict):
        raise RowError("is not a JSON object")
    keys = value.keys()
    rejected: str | None = None
    if {"chosen", "rejected"} <= keys:
        messages = [*_prompt(value), _answer(value, "chosen")]
        rejected = _answer(value, "rejected")["content"]
    elif "messages" in keys:
        messages = _messages(value["messages"], "messages")
        if "rejected_response" in keys:
            rejected = _text(value, "rejected_response")
    elif {"instruction", "output"} <= keys:
        asked = "\n\n".join(
            part for part in (_text(value, "instruction"), value.get("input") or "") if part
        )
        messages = [{"role": "user", "content": asked}, _answer(value, "output")]
        if value.get("system"):
            messages.insert(0, {"role": "system", "content": _text(value, "system")})
    elif {"prompt", "completion"} <= keys:
        messages = [*_prompt(value), _answer(value, "completion")]
    else:
        raise RowError(
            f"has the keys {', '.join(sorted(keys)) or '(none)'}: not messages, instruction and "
            "output, prompt and completion, or prompt, chosen and rejected"
        )
    _check_turns(messages)
    compares = task in COMPARING
    if compares and rejected is None:
        raise RowError(f"has no answer to prefer less: {task} needs chosen and rejected")
    if compares and rejected == messages[-1]["content"]:
        raise RowError("has the same text as chosen and rejected")
    if system is not None and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": system})
    return Row(
        source=source,
        messages=tuple(messages),
        rejected=rejected if compares else None,
    )


def _prompt(value: Mapping[str, Any]) -> list[Message]:
    prompt = value.get("prompt")
    if isinstance(prompt, list):
        return _messages(prompt, "prompt")
    return [{"role": "user", "content": _text(value, "prompt")}]


def _answer(value: Mapping[str, Any], key: str) -> Message:
    answer = value[key]
    if isinstance(answer, list):
        messages = _messages(answer, key)
        if len(messages) != 1 or messages[0]["role"] != "assistant":
            raise RowError(f"{key} must be text or a single assistant message")
        return messages[0]
    return {"role": "assistant", "content": _text(value, key)}


def _messages(value: Any, key: str) -> list[Message]:
    if not isinstance(value, list) or not value:
        raise RowError(f"{key} must be a list of messages")
    messages: list[Message] = []
    for number, message in enumerate(value, start=1):
        if not isinstance(message, dict):
            raise RowError(f"{key}: message {number} is not an object with role and content")
        if message.get("role") not in ROLES:
            raise RowError(
                f"{key}: message {number} has the role {message.get('role')!r}, "
                f"not {', '.join(ROLES)}"
            )
        messages.append({"role": message["role"], "content": _text(message, "content")})
    return messages


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    if not isinstance(text, str) or not text.strip():
        raise RowError(f"{key} must be text that is not empty")
    return text


def _check_turns(messages: Sequence[Message]) -> None:
    turns = messages[1:] if messages[0]["role"] == "system" else messages
    if len(turns) < 2 or turns[-1]["role"] != "assistant":
        raise RowError("must end with an assistant message that answers a user message")
    for number, message in enumerate(turns):
        wanted = ("user", "assistant")[number % 2]
        if message["role"] != wanted:
            raise RowError(f"turn {number + 1} is by {message['role']}, not by {wanted}")


def split(rows: Sequence[Any], *, ratio: float, seed: int) -> tuple[list[Any], list[Any]]:
    """Return rows to train on and rows to evaluate on (at least one each), order kept."""
    if ratio <= 0 or len(rows) < 2:
        return list(rows), []
    count = min(max(round(len(rows) * ratio), 1), len(rows) - 1)
    chosen = frozenset(random.Random(seed).sample(range(len(rows)), count))  # noqa: S311
    return (
        [row for number, row in enumerate(rows) if number not in chosen],
        [row for number, row in enumerate(rows) if number in chosen],
    )
