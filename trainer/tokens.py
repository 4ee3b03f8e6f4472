"""Rows to token ids: what the model reads, and which tokens it is taught to write.

Rules kept: the model's own chat template writes every conversation; only what an assistant says
has a loss (``train.loss_scale``); a sample with nothing to learn, or too long under
``truncation_strategy: delete``, is dropped and named, never trained on as an empty mask.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.config import RequestError
from trainer.forms import Message, Row
from trainer.rows import QuestionRow, TextRow

IGNORED = -100
"""Label of a token without a loss, in torch's cross entropy."""

Sample = dict[str, Any]
"""Lists of token ids by name; texts instead where a library tokenises as it trains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Samples in the order of their rows, and the sources of rows that gave none."""

    samples: tuple[Sample, ...]
    too_long: tuple[str, ...]
    nothing_to_learn: tuple[str, ...]


def encode_conversations(
    rows: Iterable[Row], *, tokenizer: Any, train: Mapping[str, Any]
) -> Encoded:
    """Return ``input_ids`` and ``labels`` of each conversation."""

    def encode(row: Row) -> Sample:
        return _conversation(row, tokenizer=tokenizer, loss_scale=train["loss_scale"])

    def length(sample: Sample) -> int:
        return len(sample["input_ids"])

    def cut(sample: Sample) -> Sample:
        kept = _kept(train)
        return {name: ids[kept] for name, ids in sample.items()}

    def teaches(sample: Sample) -> bool:
        # the first label has no token before it to be predicted from
        return any(label != IGNORED for label in sample["labels"][1:])

    return _encode(rows, encode, length, cut, teaches, train=train)


def encode_pairs(rows: Iterable[Row], *, tokenizer: Any, train: Mapping[str, Any]) -> Encoded:
    """Return ``prompt_ids``, ``chosen_ids`` and ``rejected_ids`` of each preference pair.

    Longer pairs are cut by TRL's collator, which keeps the same side.
    """

    def encode(row: Row) -> Sample:
        return _pair(row, tokenizer=tokenizer)

    def length(sample: Sample) -> int:
        return len(sample["prompt_ids"]) + max(
            len(sample["chosen_ids"]), len(sample["rejected_ids"])
        )

    def teaches(sample: Sample) -> bool:
        if train["truncation_strategy"] == "right":
            return bool(len(sample["prompt_ids"]) < train["max_length"])
        return True

    return _encode(rows, encode, length, lambda sample: sample, teaches, train=train)


def encode_comparisons(rows: Iterable[Row], *, tokenizer: Any, train: Mapping[str, Any]) -> Encoded:
    """Return ``chosen_ids`` and ``rejected_ids`` of each preference pair, question included."""

    def encode(row: Row) -> Sample:
        answers = {"chosen_ids": row.messages[-1]["content"], "rejected_ids": row.rejected or ""}
        return {
            name: _ids(
                tokenizer,
                _written(
                    tokenizer, [*row.messages[:-1], {"role": "assistant", "content": answer}]
                ).rstrip(),
            )
            for name, answer in answers.items()
        }

    def length(sample: Sample) -> int:
        return max(len(ids) for ids in sample.values())

    def cut(sample: Sample) -> Sample:
        return {name: ids[_kept(train)] for name, ids in sample.items()}

    def teaches(sample: Sample) -> bool:
        return bool(sample["chosen_ids"] != sample["rejected_ids"])

    return _encode(rows, encode, length, cut, teaches, train=train)


def encode_texts(rows: Iterable[TextRow], *, tokenizer: Any, train: Mapping[str, Any]) -> Encoded:
    """Return ``input_ids`` and ``labels`` of each text, an end token after each.

    A long text becomes several samples with ``truncation_strategy: split``.
    """
    samples: list[Sample] = []
    too_long: list[str] = []
    empty: list[str] = []
    for row in rows:
        ids = list(tokenizer(row.text)["input_ids"])
        if tokenizer.eos_token_id is not None and ids[-1:] != [tokenizer.eos_token_id]:
            ids.append(tokenizer.eos_token_id)
        limit = train["max_length"]
        pieces = [ids[start : start + limit] for start in range(0, len(ids), limit)]
        if len(pieces) > 1 and train["truncation_strategy"] == "delete":
            too_long.append(row.source)
            continue
        if len(pieces) > 1 and train["truncation_strategy"] != "split":
            pieces = [ids[_kept(train)]]
        pieces = [piece for piece in pieces if len(piece) > 1]  # a token alone predicts nothing
        if not pieces:
            empty.append(row.source)
        samples += [{"input_ids": piece, "labels": list(piece)} for piece in pieces]
    return Encoded(samples=tuple(samples), too_long=tuple(too_long), nothing_to_learn=tuple(empty))


def encode_questions(
    rows: Iterable[QuestionRow], *, tokenizer: Any, train: Mapping[str, Any]
) -> Encoded:
    """Return ``prompt`` (messages) and ``reference`` of each question."""
    samples: list[dict[str, Any]] = []
    too_long: list[str] = []
    for row in rows:
        messages = [dict(message) for message in row.messages]
        if train["system"] is not None and messages[0]["role"] != "system":
            messages.insert(0, {"role": "system", "content": train["system"]})
        if len(_ids(tokenizer, _written(tokenizer, messages, asks=True))) > train["max_length"]:
            too_long.append(row.source)
        else:
            samples.append({"prompt": messages, "reference": row.reference})
    return Encoded(samples=tuple(samples), too_long=tuple(too_long), nothing_to_learn=())


def _encode(
    rows: Iterable[Row],
    encode: Callable[[Row], Sample],
    length: Callable[[Sample], int],
    cut: Callable[[Sample], Sample],
    teaches: Callable[[Sample], bool],
    *,
    train: Mapping[str, Any],
) -> Encoded:
    samples: list[Sample] = []
    too_long: list[str] = []
    empty: list[str] = []
    for row in rows:
        sample = encode(row)
        if length(sample) > train["max_length"]:
            if train["truncation_strategy"] == "delete":
                too_long.append(row.source)
                continue
            sample = cut(sample)
        if teaches(sample):
            samples.append(sample)
        else:
            empty.append(row.source)
    return Encoded(samples=tuple(samples), too_long=tuple(too_long), nothing_to_learn=tuple(empty))


def _kept(train: Mapping[str, Any]) -> slice:
    if train["truncation_strategy"] == "left":
        return slice(-train["max_length"], None)
    return slice(None, train["max_length"])


def _conversation(row: Row, *, tokenizer: Any, loss_scale: str) -> Sample:
    text = _written(tokenizer, row.messages)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = list(encoded["input_ids"])
    if loss_scale == "all":
        return {"input_ids": ids, "labels": list(ids)}
    spans = _answers(row, text, tokenizer=tokenizer)
    if loss_scale == "last_round":
        spans = spans[-1:]
    labels = [
        token if any(start <= first and last <= end for start, end in spans) else IGNORED
        for token, (first, last) in zip(ids, encoded["offset_mapping"], strict=True)
    ]
    return {"input_ids": ids, "labels": labels}


def _answers(row: Row, text: str, *, tokenizer: Any) -> list[tuple[int, int]]:
    """Return where in ``text`` each assistant turn is, up to its end token.

    An earlier turn that the template writes differently once more follows (such as thinking that
    is taken out) is left out: its tokens are not what the model would have written.
    """
    spans = []
    for number, message in enumerate(row.messages):
        if message["role"] != "assistant":
            continue
        before = _written(tokenizer, row.messages[:number], asks=True)
        until = _written(tokenizer, row.messages[: number + 1])
        if text.startswith(until) and until.startswith(before):
            spans.append((len(before), len(until.rstrip())))
    if not spans:
        raise RequestError(
            f"train.dataset: {row.source}: the model's chat template writes a question alone "
            "otherwise than in front of its answer, so the answer can not be told apart; "
            "set loss_scale: all"
        )
    return spans


def _pair(row: Row, *, tokenizer: Any) -> Sample:
    prompt = row.messages[:-1]
    asked = _written(tokenizer, prompt, asks=True)
    sample = {"prompt_ids": _ids(tokenizer, asked)}
    answers = {"chosen_ids": row.messages[-1]["content"], "rejected_ids": row.rejected or ""}
    for name, answer in answers.items():
        whole = _written(tokenizer, [*prompt, {"role": "assistant", "content": answer}])
        if not whole.startswith(asked):
            raise RequestError(
                f"train.dataset: {row.source}: the model's chat template writes a question alone "
                "otherwise than in front of its answer; take another model"
            )
        # apart from the prompt, as it is when the model generates
        sample[name] = _ids(tokenizer, whole[len(asked) :].rstrip())
    return sample


def _written(tokenizer: Any, messages: Sequence[Message], *, asks: bool = False) -> str:
    return str(
        tokenizer.apply_chat_template(
            [dict(message) for message in messages], tokenize=False, add_generation_prompt=asks
        )
    )


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])
