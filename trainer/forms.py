"""Conversations and preference pairs in the forms people have, told apart by their keys.

``messages``        ``[{"role", "content"}, ...]``; content is text or a list of parts
ShareGPT            ``conversations: [{"from", "value"}, ...]``, ``system``
alpaca              ``instruction``, ``input``, ``output``, ``system``, ``history``
ms-swift            ``query``, ``response``, ``system``, ``history``
prompt, completion  each text or messages
pairs               ``chosen`` and ``rejected`` after a ``prompt``, ``conversations`` or
                    ``messages``; or ``messages`` with ``rejected_response``
KTO                 ``prompt`` and ``completion``, or ``messages``, with ``label`` (true: good)
images              ``images`` (or ``image``): one path for each ``<image>`` in the messages

Rule kept: a row that fits none is refused with what is wrong with it; the keys it has are named.
No torch here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.reading import RowError

ROLES = ("system", "user", "assistant")
SPEAKERS: Mapping[str, str] = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
}
"""ShareGPT's names and ours."""
IMAGE = "<image>"
COMPARING = frozenset({"dpo", "reward"})
"""Tasks that need two answers to each prompt."""

Message = Mapping[str, str]


class RowSetAsideError(RowError):
    """A sound row that its task has no use for: counted and told, but never a reason to refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One sample: a conversation, and for a preference pair the answer to prefer less."""

    source: str
    """``file:line``."""
    messages: tuple[Message, ...]
    """Ends with the assistant's answer to learn."""
    rejected: str | None = None
    images: tuple[str, ...] = ()
    """Paths, in the order of the ``<image>`` tags in the messages."""


def conversation_row(
    source: str,
    value: Any,
    *,
    task: str = "sft",
    system: str | None = None,
    sees: bool = False,
) -> Row:
    """Return the row of a conversation or pair; raise RowError where it is neither.

    ``sees``: the task reads images; elsewhere a row with images is refused.
    """
    if not isinstance(value, dict):
        raise RowError("is not a JSON object")
    messages, rejected = _turns(value)
    _check_turns(messages)
    images = _images(value, messages)
    if images and not sees:
        raise RowError(f"has {len(images)} images, and {task} with this model reads text alone")
    compares = task in COMPARING
    if compares and rejected is None:
        labelled = " (a label says good or bad, not which of two is better)" * ("label" in value)
        raise RowError(f"has no answer to prefer less: {task} needs chosen and rejected{labelled}")
    if compares and rejected == messages[-1]["content"]:
        raise RowError("has the same text as chosen and rejected")
    if "label" in value and not _is_good(value["label"]):
        raise RowSetAsideError("is labelled as a bad answer, which is not imitated")
    if system is not None and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": system})
    return Row(
        source=source,
        messages=tuple(messages),
        rejected=rejected if compares else None,
        images=images,
    )


def _turns(value: Mapping[str, Any]) -> tuple[list[Message], str | None]:
    """Return the conversation with its answer, and the answer to prefer less, if any."""
    keys = value.keys()
    if {"chosen", "rejected"} <= keys:
        rejected = _answer(value, "rejected")["content"]
        return [*_before_answer(value), _answer(value, "chosen")], rejected
    if "messages" in keys:
        messages = _messages(value["messages"], "messages")
        if "rejected_response" in keys:
            return messages, _text(value, "rejected_response")
        return messages, None
    if "conversations" in keys:
        return [*_system(value), *_spoken(value["conversations"])], None
    if {"instruction", "output"} <= keys:
        parts = (_text(value, "instruction"), value.get("input") or "")
        asked = "\n\n".join(part for part in parts if part)
        return [*_opening(value), _user(asked), _answer(value, "output")], None
    if {"query", "response"} <= keys:
        return [*_opening(value), _user(_text(value, "query")), _answer(value, "response")], None
    if {"prompt", "completion"} <= keys:
        return [*_prompt(value), _answer(value, "completion")], None
    raise RowError(
        f"has the keys {', '.join(sorted(map(str, keys))) or '(none)'}: not messages, "
        "conversations, instruction and output, query and response, prompt and completion, or "
        "prompt, chosen and rejected; name other columns with train.columns"
    )


def _before_answer(value: Mapping[str, Any]) -> list[Message]:
    if "prompt" in value:
        return _prompt(value)
    if "conversations" in value:
        return [*_system(value), *_spoken(value["conversations"])]
    if "messages" in value:
        return _messages(value["messages"], "messages")
    key = "instruction" if "instruction" in value else "query"
    return [*_opening(value), _user(_text(value, key))]


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _system(value: Mapping[str, Any]) -> list[Message]:
    return [{"role": "system", "content": _text(value, "system")}] if value.get("system") else []


def _opening(value: Mapping[str, Any]) -> list[Message]:
    """Return the system message and the earlier turns of alpaca's ``history``."""
    messages = _system(value)
    for number, turn in enumerate(value.get("history") or (), start=1):
        if not (isinstance(turn, list | tuple) and len(turn) == 2):
            raise RowError(f"history: turn {number} is not a pair of question and answer")
        for role, text in zip(("user", "assistant"), turn, strict=True):
            if not isinstance(text, str) or not text.strip():
                raise RowError(f"history: turn {number} must be two texts that are not empty")
            messages.append({"role": role, "content": text})
    return messages


def _prompt(value: Mapping[str, Any]) -> list[Message]:
    prompt = value.get("prompt")
    if isinstance(prompt, list):
        return _messages(prompt, "prompt")
    return [*_system(value), _user(_text(value, "prompt"))]


def _answer(value: Mapping[str, Any], key: str) -> Message:
    answer = value[key]
    if isinstance(answer, dict):
        answer = [answer]
    if isinstance(answer, list):
        spoken = all(isinstance(each, dict) and "from" in each for each in answer)
        messages = _spoken(answer, key) if spoken and answer else _messages(answer, key)
        if len(messages) != 1 or messages[0]["role"] != "assistant":
            raise RowError(f"{key} must be text or a single assistant message")
        return messages[0]
    return {"role": "assistant", "content": _text(value, key)}


def _spoken(value: Any, key: str = "conversations") -> list[Message]:
    """Return ShareGPT's turns as messages."""
    if not isinstance(value, list) or not value:
        raise RowError(f"{key} must be a list of turns")
    messages: list[Message] = []
    for number, turn in enumerate(value, start=1):
        if not isinstance(turn, dict):
            raise RowError(f"{key}: turn {number} is not an object with from and value")
        role = SPEAKERS.get(str(turn.get("from")))
        if role is None:
            raise RowError(
                f"{key}: turn {number} is from {turn.get('from')!r}, not {', '.join(SPEAKERS)}"
            )
        messages.append({"role": role, "content": _text(turn, "value")})
    return messages


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
        content = message.get("content")
        text = _joined(content) if isinstance(content, list) else _text(message, "content")
        messages.append({"role": message["role"], "content": text})
    return messages


def _joined(parts: Sequence[Any]) -> str:
    """Return content that comes in parts as text, each image as its tag."""
    texts = []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            texts.append(_text(part, "text"))
        elif kind == "image":
            texts.append(IMAGE)
        else:
            raise RowError(f"content has a part of type {kind!r}, not text or image")
    if not texts:
        raise RowError("content must be text that is not empty")
    return "".join(texts)


def _images(value: Mapping[str, Any], messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the paths of the images, as many as there are tags."""
    given = value.get("images") if value.get("images") is not None else value.get("image")
    listed = [] if given is None else given if isinstance(given, list) else [given]
    for number, path in enumerate(listed, start=1):
        if not isinstance(path, str) or not path:
            raise RowError(f"images: {number} is not the path of a file")
    tags = sum(message["content"].count(IMAGE) for message in messages)
    if listed and tags != len(listed):
        raise RowError(f"has {len(listed)} images, but {tags} {IMAGE} tags in its messages")
    return tuple(listed)


def _is_good(label: Any) -> bool:
    if isinstance(label, bool) or label in (0, 1):
        return bool(label)
    raise RowError(f"label is {label!r}, not true or false")


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
