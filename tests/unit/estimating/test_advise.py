"""Advice names a layout that divides, that fits, and that is the fastest of those."""

from dataclasses import replace

import pytest

from reconciler.estimating.advise import advise, layout_words, reasons, train_lines
from reconciler.estimating.layouts import Limits, layouts
from reconciler.estimating.margins import Verdict
from reconciler.estimating.rule_of_thumb import RULES, rule_for
from reconciler.estimating.train_section import Setting, training_from
from reconciler.estimating.training import Engine, Sharding, Training
from tests.unit.estimating.trainings import a_gpu, a_model, a_training, constants


def full(name: str, seq_len: int = 8192) -> Training:
    return a_training(name, seq_len=seq_len, packed=True, master=True)


def test_every_layout_divides_evenly() -> None:
    limits = Limits(gpus=16, global_batch=64)
    found = list(layouts(full("Qwen3-30B-A3B"), a_gpu(), limits))

    assert len(found) > 100
    for training in found:
        layout = training.layout
        assert layout.gpus == 16
        assert training.global_batch == 64
        assert 4 % layout.tensor == 0  # key-value heads
        assert 128 % layout.expert == 0
        assert (layout.data * layout.context * layout.tensor) % layout.expert == 0
        if layout.virtual > 1:
            assert 48 % (layout.pipeline * layout.virtual) == 0
            assert training.accumulation % layout.pipeline == 0


def test_tensor_ranks_stay_inside_a_node() -> None:
    limits = Limits(gpus=64, global_batch=64)

    assert max(one.layout.tensor for one in layouts(full("Llama-2-7B"), a_gpu(), limits)) == 8


def test_short_sequences_are_not_split() -> None:
    limits = Limits(gpus=8, global_batch=64)

    def widest(seq_len: int) -> int:
        found = layouts(full("Llama-3.1-8B", seq_len), a_gpu(), limits)
        return max(one.layout.context for one in found)

    assert widest(4096) == 1
    assert widest(32768) == 8


def test_options_surely_fit_and_are_ranked_by_step_time() -> None:
    found = advise(full("Qwen2.5-14B"), a_gpu(), Limits(gpus=8, global_batch=16), constants())

    times = [one.speed.step_s for one in found.options]
    assert all(one.fit.verdict is Verdict.FITS for one in found.options)
    assert times[1:] == sorted(times[1:])
    assert times[0] <= 1.02 * min(times)
    assert found.winner is not None and found.runner_up is not None
    assert found.winner.training.layout != found.runner_up.training.layout


def test_a_14b_on_eight_a800_is_megatron_as_measured() -> None:
    found = advise(
        full("Qwen2.5-14B"), a_gpu("A800-80GB"), Limits(gpus=8, global_batch=16), constants()
    )

    assert found.winner is not None
    assert found.winner.training.engine is Engine.MEGATRON
    assert found.winner.training.layout.tensor > 1


def test_a_small_adapter_over_pcie_is_replicas_as_measured() -> None:
    training = a_training("Llama-2-7B", lora_rank=64, packed=True)

    found = advise(training, a_gpu("RTX4090"), Limits(gpus=2, global_batch=8), constants())

    assert found.winner is not None
    assert found.winner.training.layout.sharding is Sharding.NONE


def test_what_fits_nowhere_names_the_closest() -> None:
    found = advise(full("Qwen2.5-72B"), a_gpu(), Limits(gpus=8, global_batch=128), constants())

    assert found.winner is None and found.options == ()
    assert found.closest is not None
    assert found.closest.p50_gib > 100


def test_fewer_gpus_are_named_where_they_fit() -> None:
    training = a_training("Qwen3-8B", lora_rank=8, packed=True)

    found = advise(training, a_gpu(), Limits(gpus=8, global_batch=64), constants())

    assert found.smaller is not None and found.smaller.gpus == 1


def test_what_the_trainer_cannot_run_is_ranked_but_not_chosen_for_it() -> None:
    training = a_training("Qwen3-8B", lora_rank=8, packed=True)

    found = advise(
        training,
        a_gpu(),
        Limits(gpus=8, global_batch=64),
        constants(),
        lambda one: one.layout.sharding is Sharding.NONE,
    )

    assert found.runnable is not None
    assert found.runnable.training.layout.sharding is Sharding.NONE


def test_the_lines_to_paste_ask_for_the_same_layout() -> None:
    found = advise(full("Qwen2.5-14B"), a_gpu(), Limits(gpus=8, global_batch=16), constants())
    assert found.winner is not None
    winner = found.winner.training

    train = {
        key: int(value) if value.isdigit() else value
        for key, _, value in (line.partition(": ") for line in train_lines(winner))
    }
    back = training_from({**train, "packing": True}, winner.model, Setting(gpus=8))

    assert back.layout == replace(winner.layout, is_ring=back.layout.is_ring)
    assert back.global_batch == winner.global_batch
    assert back.checkpointing is winner.checkpointing


def test_the_winner_is_explained_by_what_the_step_is_spent_on() -> None:
    found = advise(full("Qwen2.5-14B"), a_gpu(), Limits(gpus=8, global_batch=16), constants())
    assert found.winner is not None and found.runner_up is not None

    lines = reasons(found.winner, found.runner_up)

    assert any("s less" in line for line in lines)
    assert layout_words(found.winner.training).startswith("Megatron TP")


@pytest.mark.parametrize(
    ("name", "line"),
    [("Llama-2-13B", 0), ("Qwen3-32B", 1), ("Qwen2.5-72B", 2), ("Qwen3-30B-A3B", 2)],
)
def test_the_rule_of_thumb_goes_by_size_alone(name: str, line: int) -> None:
    assert rule_for(a_model(name)) is RULES[line]
