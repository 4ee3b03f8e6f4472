"""Only what an assistant says is learnt, and no sample is trained on without a token to learn."""

from typing import Any

import pytest

from trainer.config import RequestError, complete
from trainer.forms import Row
from trainer.random_models import CHAT_TEMPLATE, make_tokenizer
from trainer.tokens import IGNORED, encode_conversations, encode_pairs

pytest.importorskip("transformers")

MINIMAL = {"task": "sft", "model": "random:qwen3-tiny", "dataset": "sample:support-faq"}
TALK = Row(
    source="data.jsonl:1",
    messages=(
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "What does delivery cost?"},
        {"role": "assistant", "content": "4.90 euro."},
        {"role": "user", "content": "And express?"},
        {"role": "assistant", "content": "9.90 euro."},
    ),
)
PAIR = Row(
    source="data.jsonl:1",
    messages=(
        {"role": "user", "content": "What does delivery cost?"},
        {"role": "assistant", "content": "4.90 euro."},
    ),
    rejected="No idea.",
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer()


def learnt(tokenizer: Any, **changes: Any) -> str:
    train = complete(MINIMAL | changes)
    (sample,) = encode_conversations([TALK], tokenizer=tokenizer, train=train).samples
    return str(tokenizer.decode([label for label in sample["labels"] if label != IGNORED]))


def test_every_assistant_turn_is_learnt_up_to_its_end_token(tokenizer: Any) -> None:
    assert learnt(tokenizer) == "4.90 euro.<|im_end|>9.90 euro.<|im_end|>"


def test_the_last_round_alone_can_be_learnt(tokenizer: Any) -> None:
    assert learnt(tokenizer, loss_scale="last_round") == "9.90 euro.<|im_end|>"


def test_all_tokens_can_be_learnt(tokenizer: Any) -> None:
    whole = learnt(tokenizer, loss_scale="all")

    assert whole.startswith("<|im_start|>system\nBe kind.<|im_end|>")
    assert whole.endswith("9.90 euro.<|im_end|>\n")


def test_the_model_reads_the_whole_conversation(tokenizer: Any) -> None:
    (sample,) = encode_conversations([TALK], tokenizer=tokenizer, train=complete(MINIMAL)).samples

    assert tokenizer.decode(sample["input_ids"]) == tokenizer.apply_chat_template(
        list(TALK.messages), tokenize=False
    )
    assert len(sample["labels"]) == len(sample["input_ids"])


def test_samples_that_are_too_long_are_dropped_and_named(tokenizer: Any) -> None:
    short = Row(source="data.jsonl:2", messages=PAIR.messages)
    train = complete(MINIMAL | {"max_length": 30})

    encoded = encode_conversations([TALK, short], tokenizer=tokenizer, train=train)

    assert encoded.too_long == ("data.jsonl:1",)
    assert len(encoded.samples) == 1


@pytest.mark.parametrize(
    ("side", "start", "end"), [("right", 0, 40), ("left", -40, None)], ids=["right", "left"]
)
def test_or_they_are_cut_on_the_side_asked_for(
    tokenizer: Any, side: str, start: int, end: int | None
) -> None:
    whole = encode_conversations([TALK], tokenizer=tokenizer, train=complete(MINIMAL)).samples[0]
    train = complete(MINIMAL | {"max_length": 40, "truncation_strategy": side})

    (cut,) = encode_conversations([TALK], tokenizer=tokenizer, train=train).samples

    assert len(whole["input_ids"]) > 40
    assert cut == {name: ids[start:end] for name, ids in whole.items()}


def test_a_sample_whose_answer_was_cut_off_is_dropped_and_named(tokenizer: Any) -> None:
    long_question = Row(
        source="data.jsonl:2",
        messages=({"role": "user", "content": "delivery? " * 50}, PAIR.messages[-1]),
    )
    train = complete(MINIMAL | {"max_length": 40, "truncation_strategy": "right"})

    encoded = encode_conversations([TALK, long_question], tokenizer=tokenizer, train=train)

    assert encoded.nothing_to_learn == ("data.jsonl:2",)


def test_a_sample_that_is_too_long_is_named_and_left_out(tokenizer: Any) -> None:
    encoded = encode_conversations(
        [TALK], tokenizer=tokenizer, train=complete(MINIMAL | {"max_length": 8})
    )

    assert encoded.samples == ()
    assert encoded.too_long == (TALK.source,)
    assert encoded.nothing_to_learn == ()


def test_a_pair_shares_its_prompt_and_ends_each_answer(tokenizer: Any) -> None:
    (sample,) = encode_pairs(
        [PAIR], tokenizer=tokenizer, train=complete(MINIMAL | {"task": "dpo"})
    ).samples

    texts = {name: tokenizer.decode(ids) for name, ids in sample.items()}
    assert texts["prompt_ids"].endswith("<|im_start|>assistant\n")
    assert texts["chosen_ids"] == "4.90 euro.<|im_end|>"
    assert texts["rejected_ids"] == "No idea.<|im_end|>"


def test_a_template_that_takes_thinking_out_of_earlier_turns_leaves_them_unlearnt(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewriting = CHAT_TEMPLATE.replace(
        "{{ message['content'] }}",
        "{% if message['role'] == 'assistant' and loop.last %}<think>{% endif %}"
        "{{ message['content'] }}",
    )
    monkeypatch.setattr(tokenizer, "chat_template", rewriting)

    assert learnt(tokenizer) == "<think>9.90 euro.<|im_end|>"


def test_a_template_that_hides_where_the_answer_begins_is_refused(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "chat_template", "{{ messages | length }}{{ messages }}")

    with pytest.raises(RequestError, match=r"data\.jsonl:1: the model's chat template"):
        learnt(tokenizer)
    assert learnt(tokenizer, loss_scale="all")
