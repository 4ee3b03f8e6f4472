"""Samples of a row are kept apart, and whatever lets them see each other is found and refused."""

from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

import torch
from datasets import Dataset
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForCausalLM
from trl import pack_dataset
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from trainer.config import RequestError
from trainer.isolation import LEAK, measure, prove, reader
from trainer.models import resolve
from trainer.packing import STRATEGY

pytestmark = pytest.mark.slow
BACKENDS = ("eager", "sdpa")
MODELS = ("random:qwen3-tiny", "random:llama-tiny")


def load(name: str, attention: str, dtype: torch.dtype = torch.float32) -> Any:
    return AutoModelForCausalLM.from_pretrained(
        resolve(name), dtype=dtype, attn_implementation=attention
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("attention", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_each_backend_keeps_samples_apart(name: str, attention: str, dtype: torch.dtype) -> None:
    found = prove(load(name, attention, dtype), attention=attention)

    assert found.leak < LEAK
    assert found.mixed > 0.1  # what the measure says where samples are not apart


@pytest.fixture
def blind() -> Iterator[str]:
    """An attention that is causal and looks at no mask, as some fast kernels are."""

    def attend(module: Any, query: Any, key: Any, value: Any, *_: Any, **more: Any) -> Any:
        groups = query.shape[1] // key.shape[1]
        out = torch.nn.functional.scaled_dot_product_attention(
            query,
            key.repeat_interleave(groups, 1),
            value.repeat_interleave(groups, 1),
            is_causal=True,
            scale=more["scaling"],
        )
        return out.transpose(1, 2).contiguous(), None

    AttentionInterface.register("blind", attend)
    AttentionMaskInterface.register("blind", lambda *_, **__: None)
    yield "blind"
    for registry in (AttentionInterface(), AttentionMaskInterface()):
        registry._global_mapping.pop("blind", None)


def test_an_attention_that_ignores_the_borders_is_refused(blind: str) -> None:
    model = load("random:qwen3-tiny", blind)

    with pytest.raises(RequestError, match=r"train\.packing: with attn_impl blind .* not keep"):
        prove(model, attention=blind)


def test_a_model_with_a_state_along_the_row_is_refused() -> None:
    class Running(torch.nn.Module):
        """Adds the mean of all tokens before, as a recurrent layer carries its state on."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(64, 16)
            self.head = torch.nn.Linear(16, 64)
            self.config = SimpleNamespace(
                model_type="running", get_text_config=lambda: SimpleNamespace(vocab_size=64)
            )

        def forward(self, input_ids: Any, **_: Any) -> Any:
            hidden = self.embed(input_ids)
            count = torch.arange(1, hidden.shape[1] + 1)[None, :, None]
            return SimpleNamespace(logits=self.head(hidden + hidden.cumsum(1) / count))

    with pytest.raises(RequestError, match="this running model does not keep"):
        prove(Running(), attention="sdpa")


def through_the_collator(strategy: str, samples: list[list[int]], rows_of: int) -> Any:
    """Return the batch TRL's own packing and collator make of two samples."""
    dataset = Dataset.from_list([{"input_ids": each, "labels": each} for each in samples])
    packed = pack_dataset(dataset, rows_of, strategy)
    collator = DataCollatorForLanguageModeling(pad_token_id=0, padding_free=strategy == STRATEGY)
    return collator([packed[number] for number in range(len(packed))])


@pytest.mark.parametrize(("strategy", "is_apart"), [(STRATEGY, True), ("wrapped", False)])
def test_rows_packed_without_borders_fail_the_measure(strategy: str, is_apart: bool) -> None:
    model = load("random:qwen3-tiny", "sdpa").eval()

    def read(ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        starts = [*(positions == 0).nonzero().flatten().tolist(), len(ids)]
        samples = [ids[a:b].tolist() for a, b in pairwise(starts)]
        batch = through_the_collator(strategy, samples, len(ids))
        more = {name: batch[name] for name in ("position_ids", "attention_mask") if name in batch}
        logits = model(input_ids=batch["input_ids"], use_cache=False, **more).logits[0]
        return logits.float()

    with torch.no_grad():
        found = measure(read, 2000)

    assert (found.leak < LEAK) is is_apart
    assert found.holds is is_apart
    if not is_apart:
        assert found.leak > 1e-3


def test_any_attention_mask_switches_the_separation_off() -> None:
    model = load("random:qwen3-tiny", "sdpa").eval()

    def read(ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        mask = torch.ones_like(ids)[None]
        return model(
            input_ids=ids[None], position_ids=positions[None], attention_mask=mask, use_cache=False
        ).logits[0]

    with torch.no_grad():
        assert not measure(read, 2000).holds
        assert measure(reader(model), 2000).holds
