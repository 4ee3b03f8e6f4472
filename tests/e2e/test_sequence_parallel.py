"""Rows shared by several processes: the losses are those of one process, and memory is shared."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ranks import in_ranks, train_ranks
from tests.e2e.training import launch, train_here
from tests.run_requests import a_run, events, losses, result

pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS: dict[str, Any] = {
    "dataset": "sample:support-faq",
    "tuner_type": "full",
    "max_length": 256,
    "max_steps": 4,
}
PACKED = SETTINGS | {"packing": True, "packing_length": 250}


def shared(root: Path, size: int, attention: str, world_size: int = 0, **settings: Any) -> Path:
    return a_run(
        root,
        world_size=world_size or size,
        sequence_parallel_size=size,
        sequence_parallel_attention=attention,
        **settings,
    )


@pytest.mark.parametrize(("size", "attention"), [(2, "ulysses"), (4, "all_gather")])
def test_packed_rows_shared_by_processes_give_the_losses_of_one(
    tmp_path: Path, size: int, attention: str
) -> None:
    alone = a_run(tmp_path / "alone", **PACKED)
    together = shared(tmp_path / "together", size, attention, **PACKED)

    assert [train_here(alone), train_ranks(together)] == [0, 0]

    assert losses(together) == pytest.approx(losses(alone), abs=1e-5)
    (proven,) = [event for event in events(together, "phase") if "leak" in event]
    assert proven["leak"] < 1e-6
    steps, before = events(together, "step"), events(alone, "step")
    assert [each["samples_seen"] for each in steps] == [each["samples_seen"] for each in before]
    assert [each["grad_norm"] for each in steps] == pytest.approx(
        [each["grad_norm"] for each in before], rel=1e-4
    )


def test_two_groups_of_two_read_rows_of_their_own(tmp_path: Path) -> None:
    settings = SETTINGS | {"split_dataset_ratio": 0.1, "per_device_eval_batch_size": 3}
    alone = a_run(tmp_path / "alone", accumulation=2, per_device=2, **settings)
    together = shared(tmp_path / "together", 2, "ulysses", 4, per_device=2, **settings)

    assert [train_here(alone), train_ranks(together)] == [0, 0]

    assert losses(together) == pytest.approx(losses(alone), abs=1e-5)
    assert events(together, "eval")[0]["eval_loss"] == pytest.approx(
        events(alone, "eval")[0]["eval_loss"], abs=0.1
    )


def test_a_size_that_does_not_divide_the_processes_is_refused(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, world_size=2, sequence_parallel_size=3)

    assert launch(run_dir) == 1
    assert "3 does not divide the 2 processes" in result(run_dir)["message"]


def kept_by_most(attention: str) -> int:
    """Return the bytes that the rank with most keeps between forward and backward pass."""
    import torch
    import torch.distributed as dist
    from transformers import AutoModelForCausalLM

    from trainer.models import resolve
    from trainer.parallel import sequence

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    size = dist.get_world_size()
    model = AutoModelForCausalLM.from_pretrained(resolve("random:llama-tiny"), dtype=torch.float32)
    model.train()
    if size > 1:
        sequence.install(model, size=size, attention=attention)
    kept: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    weights = {each.untyped_storage().data_ptr() for each in model.parameters()}
    lengths = (300, 212, 512)
    ids = torch.randint(2000, (1, sum(lengths)), generator=torch.Generator().manual_seed(1))
    positions = torch.cat([torch.arange(each) for each in lengths])[None]
    batch = {"input_ids": ids, "labels": ids, "position_ids": positions}
    if size > 1:
        batch = sequence.enter(sequence.split(batch, rank=dist.get_rank(), size=size))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(**batch, use_cache=False).loss
    most = torch.tensor([sum(held for at, held in kept.items() if at not in weights)])
    loss.backward()
    dist.all_reduce(most, dist.ReduceOp.MAX)
    dist.barrier()
    return int(most)


def test_each_process_keeps_its_share_of_the_activations() -> None:
    alone = in_ranks(1, kept_by_most, "none")[0]
    shares = {
        (size, attention): in_ranks(size, kept_by_most, attention)[0] / alone
        for size, attention in ((2, "ulysses"), (4, "ulysses"), (4, "all_gather"))
    }

    assert shares[2, "ulysses"] < 0.5
    assert shares[4, "ulysses"] < 0.25
    # keys and values of the whole row stay with every process
    assert shares[4, "all_gather"] < 0.33
