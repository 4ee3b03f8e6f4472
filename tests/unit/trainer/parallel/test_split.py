"""Models that are split, or said to be: what is checked, joined, clipped and given out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import torch
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh
from transformers import LlamaConfig, LlamaForCausalLM

from trainer.config import RequestError, complete
from trainer.parallel import pipeline, split
from trainer.parallel.layout import Layout

MINIMAL = {"task": "sft", "model": "random:llama-tiny", "dataset": "sample:support-faq"}


@pytest.fixture(autouse=True)
def alone_in_a_group(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


def a_model(**changes: Any) -> Any:
    sizes: dict[str, Any] = {
        "vocab_size": 32,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**sizes | {"tie_word_embeddings": False} | changes))


def asked(**keys: Any) -> dict[str, Any]:
    return complete(MINIMAL | keys)


def a_layout(**sizes: int) -> Layout:
    return Layout(world_size=2, sequence=1, sharding=None, **sizes)


@pytest.mark.parametrize(
    ("keys", "changes", "said"),
    [
        ({"tensor_model_parallel_size": 2}, {}, None),
        ({"tensor_model_parallel_size": 4}, {}, "2 key-value heads"),
        (
            {"tensor_model_parallel_size": 2, "expert_model_parallel_size": 2},
            {},
            "has no experts",
        ),
    ],
)
def test_a_model_whose_heads_or_experts_do_not_divide_is_not_loaded(
    keys: dict[str, int], changes: dict[str, Any], said: str | None
) -> None:
    config = a_model(**changes).config
    if said is None:
        split.check_config(config, asked(**keys))
        return
    with pytest.raises(RequestError, match=said):
        split.check_config(config, asked(**keys))


def test_a_model_that_was_loaded_whole_is_not_taken_for_a_split_one() -> None:
    with pytest.raises(RequestError, match="23 of 23 planned weights are whole"):
        split.check_model(a_model(), a_layout(tensor=2))


def test_one_weight_that_is_whole_among_parts_is_noticed() -> None:
    model = a_model()
    mesh = init_device_mesh("cpu", (1,))
    planned = set(split._planned(model, with_experts=False))
    for name, weight in list(model.named_parameters()):
        if name in planned and name != "lm_head.weight":
            module, _, last = name.rpartition(".")
            part = distribute_tensor(weight.detach(), mesh, [Shard(0)])
            setattr(model.get_submodule(module), last, torch.nn.Parameter(part))

    alone = Layout(world_size=1, sequence=1, sharding=None, tensor=1)
    with pytest.raises(RequestError, match="1 of 23 planned weights are whole, such as lm_head"):
        split.check_model(model, alone)


def test_states_come_back_by_name_whatever_their_order() -> None:
    first, second = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    optimizers = [torch.optim.AdamW(each.parameters(), lr=0.1) for each in (first, second)]
    first(torch.ones(1, 3)).sum().backward()
    optimizers[0].step()

    split.give_states(optimizers[1], second, split.states_of(optimizers[0], first))

    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        mine, theirs = optimizers[0].state[one], optimizers[1].state[other]
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)


def test_a_part_of_a_state_lies_where_its_weight_lies() -> None:
    mesh = init_device_mesh("cpu", (1,))
    weight = torch.nn.Parameter(distribute_tensor(torch.zeros(4, 2), mesh, [Shard(0)]))

    part = split._part(torch.ones(4, 2), weight)

    assert isinstance(part, DTensor) and part.placements == weight.placements


def test_micro_batches_are_joined_with_labels_shifted_and_nothing_learnt_of_the_filling() -> None:
    rows = [torch.tensor([[5, 6, 7]]), torch.tensor([[8, 9, 3, 4]])]
    found = pipeline._joined([{"input_ids": row, "labels": row} for row in rows])

    assert found["input_ids"].tolist() == [[5, 6, 7, 0], [8, 9, 3, 4]]
    assert found["labels"].tolist() == [[6, 7, -100, -100], [9, 3, 4, -100]]
    assert found["position_ids"].tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tie_word_embeddings": True}, "would lie in two stages"),
        ({"num_hidden_layers": 1}, "1 layers can not be dealt to 2 stages"),
    ],
)
def test_a_model_that_can_not_be_cut_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        pipeline.install(a_model(**changes), size=2)


def test_a_stage_missing_is_noticed() -> None:
    stages = pipeline.install(a_model(), size=2)  # the first of two, and nobody has the second
    stages.size = 1

    with pytest.raises(RequestError, match=r"asked for 2 stages, but 1 have the layers \[0\]"):
        pipeline.check_model(stages, a_layout(pipeline=2))


def test_a_stage_keeps_its_layers_and_gives_what_the_next_one_takes() -> None:
    model = a_model()
    kept = sum(each.numel() for each in model.parameters())

    stages = pipeline.install(model, size=3)

    assert stages.layers == range(1)
    assert sum(each.numel() for each in stages.stage.parameters()) < kept / 2
    hidden = stages.stage(torch.tensor([[1, 2]]), torch.arange(2)[None])
    assert hidden.shape == (1, 2, 16)


def test_gradients_of_all_stages_are_scaled_together() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])

    assert float(pipeline.clip([weight], 1.0)) == pytest.approx(5.0)
    assert weight.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)
    assert float(pipeline.clip([weight], 0.0)) == pytest.approx(1.0, rel=1e-5)
