"""What runs is compared with what was asked for; what can not run is refused."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("accelerate")

import torch
from accelerate.utils import DistributedType
from torch.distributed.fsdp import fully_shard

from trainer.config import RequestError, train_problems
from trainer.parallel import plan
from trainer.parallel.layout import Layout, layout_of, request_problems

TENSOR = {"tensor_model_parallel_size": 2}
PIPELINE = {"pipeline_model_parallel_size": 2}
MINIMAL = {"task": "sft", "model": "random:qwen3-tiny", "dataset": "sample:support-faq"}


def layout(world_size: int = 2, sharding: str | None = None, sequence: int = 1) -> Layout:
    return Layout(world_size=world_size, sequence=sequence, sharding=sharding)


@pytest.fixture
def alone_in_a_group(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


class Layer(torch.nn.Linear):  # type: ignore[misc]
    """A repeated layer."""


class Model(torch.nn.Sequential):  # type: ignore[misc]
    """Two of them."""

    _no_split_modules = ("Layer",)


@pytest.mark.usefixtures("alone_in_a_group")
@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_weights_kept_between_the_passes_are_told_from_weights_freed(
    runs: bool, asked: bool
) -> None:
    model = Model(Layer(2, 2), Layer(2, 2))
    for each in (*model, model):
        fully_shard(each, reshard_after_forward=runs)
    wanted = Layout(world_size=1, sequence=1, sharding="fsdp2", reshards=asked)

    if asked is runs:
        assert ("kept" in plan.check_model(model, wanted)) is not runs
        return
    with pytest.raises(RequestError, match="but what runs is fsdp2"):
        plan.check_model(model, wanted)


def accelerator(kind: DistributedType, is_fsdp2: bool = False) -> Any:
    return SimpleNamespace(distributed_type=kind, is_fsdp2=is_fsdp2)


@pytest.mark.parametrize(
    ("kind", "asked", "is_right"),
    [
        (DistributedType.MULTI_CPU, layout(), True),
        (DistributedType.NO, layout(1), True),
        (DistributedType.NO, layout(), False),
        (DistributedType.MULTI_CPU, layout(sharding="fsdp2"), False),  # what accelerate really does
        (DistributedType.FSDP, layout(sharding="fsdp2"), True),
        (DistributedType.FSDP, layout(), False),
    ],
)
def test_the_kind_accelerate_chose_is_compared(
    kind: DistributedType, asked: Layout, is_right: bool
) -> None:
    started = accelerator(kind, is_fsdp2=kind is DistributedType.FSDP)
    if is_right:
        plan.check_kind(started, asked)
        return
    with pytest.raises(RequestError, match=f"but accelerate runs {kind.value}"):
        plan.check_kind(started, asked)


def test_the_first_kind_of_fsdp_is_not_the_second() -> None:
    with pytest.raises(RequestError, match="but accelerate runs FSDP"):
        plan.check_kind(accelerator(DistributedType.FSDP), layout(sharding="fsdp2"))


@pytest.mark.parametrize("asked", [layout(), layout(sharding="fsdp2")])
def test_a_model_that_nobody_wrapped_is_noticed(asked: Layout) -> None:
    model = torch.nn.Linear(2, 2)

    assert plan.check_model(model, layout(1)) == "one process"
    with pytest.raises(RequestError, match="but what runs is one process"):
        plan.check_model(model, asked)


def test_a_model_that_does_not_name_its_layers_is_not_split() -> None:
    model = torch.nn.Linear(2, 2)
    model._no_split_modules = ["Decoder"]

    with pytest.raises(RequestError, match="does not say which of its layers"):
        plan.layer_classes(model)


@pytest.mark.parametrize(
    ("train", "world_size", "said"),
    [
        ({"sequence_parallel_size": 2}, 4, None),
        ({"sequence_parallel_size": 4}, 6, "4 does not divide the 6 processes"),
        ({"fsdp": "fsdp2"}, 1, "has one; it would be ignored"),
        ({"fsdp": "fsdp2", "sequence_parallel_size": 2}, 2, None),
        ({"tensor_model_parallel_size": 2}, 2, None),
        ({"tensor_model_parallel_size": 2}, 4, "replicas of a split model are not offered"),
        ({"pipeline_model_parallel_size": 4}, 4, None),
        ({"pipeline_model_parallel_size": 3}, 4, "this attempt has 4"),
        (TENSOR | {"expert_model_parallel_size": 2}, 2, None),
        ({"tensor_model_parallel_size": 4, "expert_model_parallel_size": 2}, 4, "which are 4"),
    ],
)
def test_sizes_multiply_up(train: dict[str, Any], world_size: int, said: str | None) -> None:
    problems = list(request_problems(layout_of(train, world_size)))

    assert [said in problem for problem in problems] == ([] if said is None else [True])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fsdp": "fsdp2", "quant_method": "bnb"}, "can not be split among devices"),
        ({"fsdp": "fsdp2", "optim": "adafactor"}, "looks at whole matrices"),
        ({"fsdp": "fsdp2", "use_galore": True, "tuner_type": "full"}, "GaLore projects whole"),
        ({"fsdp": "fsdp2", "task": "dpo"}, "a second model"),
        ({"fsdp": "full_shard"}, "'full_shard' is not one of fsdp2"),
        ({"sequence_parallel_size": 2, "task": "dpo"}, "a loss of each token by itself"),
        ({"sequence_parallel_size": 2, "attn_impl": "eager"}, "an attention of its own"),
        ({"sequence_parallel_attention": "ulysses"}, "it would be ignored"),
        ({"deepspeed": "zero3"}, "nearest: fsdp: fsdp2"),
        ({"context_parallel_size": 2}, "nearest: sequence_parallel_size"),
        ({"expert_model_parallel_size": 2}, "deals experts to devices that split"),
        (TENSOR | {"pipeline_model_parallel_size": 2}, "by matrices or by layers"),
        (TENSOR | {"expert_model_parallel_size": 2}, "adapters beside experts"),
        (TENSOR | {"fsdp": "fsdp2"}, "replicas of it are not offered"),
        (TENSOR | {"sequence_parallel_size": 2}, "its rows are not"),
        (TENSOR | {"task": "dpo"}, "the loss of each token by itself"),
        (TENSOR | {"quant_method": "bnb"}, "packed 4-bit weights"),
        (TENSOR | {"optim": "adafactor"}, "this optimizer looks at whole matrices"),
        (TENSOR | {"use_galore": True, "tuner_type": "full"}, "GaLore projects whole"),
        (TENSOR | {"lorap_lr_ratio": 16}, "the two rates of LoRA+"),
        (TENSOR | {"use_dora": True}, "DoRA measures whole"),
        (TENSOR | {"modules_to_save": ["lm_head"]}, "not put together again"),
        (TENSOR | {"lora_bias": "all"}, "not put together again"),
        (TENSOR | {"init_from": "earlier"}, "a model that is not split yet"),
        (TENSOR | {"merge_lora": True}, "each device has a part"),
        (PIPELINE | {"async_save": True}, "a save is never put off"),
        (PIPELINE | {"packing": True}, "not proven through the stages"),
        (PIPELINE | {"val_dataset": "sample:support-faq"}, "does not evaluate"),
        (PIPELINE | {"split_dataset_ratio": 0.1}, "does not evaluate"),
    ],
    ids=str,
)
def test_what_this_build_does_not_do_is_refused_with_what_it_does(
    changes: dict[str, Any], said: str
) -> None:
    problems = train_problems(MINIMAL | changes)

    assert any(said in problem for problem in problems), problems
