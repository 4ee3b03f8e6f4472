"""Rows that are not conversations: plain texts, searches with their answers, questions.

Forms people have, told apart by their keys:

pretrain    ``{"text"}``
embedding   ``{"query", "positive", "negative"?}``; ``{"query", "positives", "negatives"?}`` with
            lists; ``{"anchor", ...}`` for query; two texts and how alike they are, ``{"sentence1",
            "sentence2", "score"}`` with a score from 0 to 1
reranker    the same with a negative each; or ``{"query", "document", "label"}``, label 0 or 1
grpo        any conversation (the last answer is the reference), or ``{"prompt"}`` (text or
            messages) with ``"solution"`` or ``"answer"`` as the reference, or without

Rule kept: as in ``trainer.data``, a row that fits none is refused with what is wrong with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer.forms import ROLES, Message, conversation_row
from trainer.reading import RowError

PAIR = ("sentence1", "sentence2")
NAMES = {"anchor": "query", "question": "query", "pos": "positives", "neg": "negatives"}
"""Other names for the keys of a search, and ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRow:
    """A text to continue."""

    source: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRow:
    """A query with texts that answer it and texts that do not, or two texts and a score."""

    source: str
    query: str
    positives: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    score: float | None = None
    """How alike query and the only positive are, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow:
    """Messages that end with a question, and what a good answer says, if anybody knows."""

    source: str
    messages: tuple[Message, ...]
    reference: str | None


def text_row(source: str, value: Any) -> TextRow:
    """Return the row of a text to pretrain on; raise RowError where it is none."""
    if set(_object(value)) != {"text"}:
        raise RowError(f"has the keys {_keys(value)}: pretraining reads rows of text alone")
    return TextRow(source=source, text=_text(value, "text"))


def search_row(source: str, value: Any) -> SearchRow:
    """Return the row of a search or of two alike texts; raise RowError where it is neither."""
    found = {NAMES.get(key, key): item for key, item in _object(value).items()}
    if set(PAIR) <= found.keys():
        return SearchRow(
            source=source,
            query=_text(found, PAIR[0]),
            positives=(_text(found, PAIR[1]),),
            score=_share(found, "score"),
        )
    if {"query", "document", "label"} <= found.keys():
        label = found["label"]
        if label not in (0, 1):
            raise RowError(f"label is {label!r}, not 0 or 1")
        texts = (_text(found, "document"),)
        return SearchRow(
            source=source,
            query=_text(found, "query"),
            positives=texts if label else (),
            negatives=() if label else texts,
        )
    positives = _several(found, "positive")
    if "query" not in found or not positives:
        raise RowError(
            f"has the keys {_keys(value)}: not query and positive, sentence1, sentence2 and score, "
            "or query, document and label"
        )
    return SearchRow(
        source=source,
        query=_text(found, "query"),
        positives=positives,
        negatives=_several(found, "negative"),
    )


def question_row(source: str, value: Any) -> QuestionRow:
    """Return the row of a question to answer; raise RowError where it is none."""
    found = _object(value)
    given = next((found[key] for key in ("solution", "answer") if key in found), None)
    asked = found.get("messages") or found.get("prompt")
    if "completion" not in found and "chosen" not in found and _ends_with_a_question(asked):
        messages = (
            [dict(message) for message in asked]
            if isinstance(asked, list)
            else [{"role": "user", "content": _checked(asked, "prompt")}]
        )
        for message in messages:
            if message.get("role") not in ROLES:
                raise RowError(f"a message has the role {message.get('role')!r}")
            _checked(message.get("content"), "content")
        return QuestionRow(source=source, messages=tuple(messages), reference=_reference(given))
    row = conversation_row(source, value)
    said = row.messages[-1]["content"] if given is None else given
    return QuestionRow(source=source, messages=row.messages[:-1], reference=_reference(said))


def _ends_with_a_question(asked: Any) -> bool:
    if isinstance(asked, list):
        return bool(asked) and isinstance(asked[-1], dict) and asked[-1].get("role") == "user"
    return isinstance(asked, str)


def _reference(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise RowError("the reference answer must be text or a number")


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RowError("is not a JSON object")
    return value


def _keys(value: Mapping[str, Any]) -> str:
    return ", ".join(sorted(value)) or "(none)"


def _text(value: Mapping[str, Any], key: str) -> str:
    return _checked(value.get(key), key)


def _checked(text: Any, key: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise RowError(f"{key} must be text that is not empty")
    return text


def _several(value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return the texts under ``key`` and under its plural, each a text or a list of texts."""
    given = {name: value.get(name, []) for name in (key, f"{key}s")}
    return tuple(
        _checked(text, name)
        for name, texts in given.items()
        for text in (texts if isinstance(texts, list) else [texts])
    )


def _share(value: Mapping[str, Any], key: str) -> float:
    number = value.get(key)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise RowError(f"{key} must be a number from 0 to 1")
    return float(number)
