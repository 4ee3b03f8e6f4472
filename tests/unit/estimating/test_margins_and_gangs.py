"""Verdicts rest on measured margins; gang sizes keep the global batch and must fit."""

from dataclasses import replace

import pytest

from reconciler.estimating.constants import Constants, Margin, Margins, constants_from
from reconciler.estimating.estimate import course, estimate, resized
from reconciler.estimating.gangs import legal_sizes, sizes, smallest_gang
from reconciler.estimating.hardware import CPU
from reconciler.estimating.margins import Evidence, Verdict, evidence, fit
from reconciler.estimating.memory import memory
from reconciler.estimating.training import Engine, Layout, Lengths, Precision, Sharding
from tests.unit.estimating.trainings import a_gpu, a_training, constants


@pytest.mark.parametrize(
    ("usable", "verdict"),
    [(200.0, Verdict.FITS), (105.0, Verdict.TIGHT), (95.0, Verdict.DOES_NOT_FIT)],
)
def test_the_verdict_compares_both_quantiles_with_usable_memory(
    usable: float, verdict: Verdict
) -> None:
    training = a_training()
    peak = replace(memory(training, constants().memory), device_gib=100.0)
    margins = Margins(single=Margin(p90=1.2, fits=1.0))

    found = fit(training, peak, replace(a_gpu(), memory_gib=usable), margins)

    assert found.verdict is verdict
    assert found.p90_gib == pytest.approx(120)


def test_a_factor_above_one_refuses_what_only_just_fits() -> None:
    training = a_training(layout=Layout(data=2, sharding=Sharding.ZERO2))
    peak = replace(memory(training, constants().memory), device_gib=100.0)

    found = fit(
        training,
        peak,
        replace(a_gpu(), memory_gib=105.0),
        Margins(sharded=Margin(p90=1.3, fits=1.1)),
    )

    assert not found.fits


@pytest.mark.parametrize(
    ("kind", "training"),
    [
        (Evidence.SINGLE, a_training()),
        (Evidence.EXACT, a_training(layout=Layout(data=8, sharding=Sharding.FSDP))),
        (Evidence.SHARDED, a_training(layout=Layout(data=8, sharding=Sharding.ZERO3))),
        (Evidence.VARIABLE, a_training(lengths=Lengths.VARIABLE)),
    ],
)
def test_errors_were_measured_apart_by_class(kind: Evidence, training: object) -> None:
    assert evidence(training) is kind  # type: ignore[arg-type]


def test_the_shipped_margins_are_measured_ones() -> None:
    margins = constants().margins

    for kind in Evidence:
        one: Margin = getattr(margins, kind.value)
        assert 1.0 < one.p90 < 1.5
        assert 0.8 < one.fits < 1.3
    assert constants().measured["A100-80GB"] > 50


def test_a_gpu_nobody_measured_is_called_uncalibrated() -> None:
    for name in ("T4", "L4", "V100-32GB", "MI300X"):
        found = estimate(a_training(lora_rank=8), a_gpu(name), constants())
        assert not found.is_calibrated
        assert any("uncalibrated" in note for note in found.notes)
    assert estimate(a_training(lora_rank=8), a_gpu(), constants()).is_calibrated


def test_a_gpu_without_bfloat16_says_so() -> None:
    found = estimate(a_training(lora_rank=8), a_gpu("T4"), constants())

    assert any("no bfloat16" in note for note in found.notes)


def test_cpu_memory_is_counted_but_never_too_small() -> None:
    found = estimate(a_training(precision=Precision.FP32), CPU, constants())

    assert found.fit.verdict is Verdict.FITS
    assert found.p50_gib > 100


def test_legal_sizes_divide_the_batch_and_hold_the_parallel_ranks() -> None:
    plain = a_training(micro_batch=2, accumulation=4, layout=Layout(data=4))
    split = a_training(
        micro_batch=1,
        accumulation=8,
        engine=Engine.MEGATRON,
        layout=Layout(tensor=2, pipeline=2, sharding=Sharding.DISTRIBUTED_OPTIMIZER),
    )

    assert plain.global_batch == 32
    assert legal_sizes(plain, smallest=1, largest=16) == (1, 2, 4, 8, 16)
    assert legal_sizes(split, smallest=1, largest=16) == (4, 8, 16)


def test_expert_ranks_multiply_into_the_smallest_legal_gang() -> None:
    training = a_training(
        "Qwen3-30B-A3B",
        accumulation=64,
        layout=Layout(data=8, pipeline=2, expert=8, sharding=Sharding.DISTRIBUTED_OPTIMIZER),
    )

    assert legal_sizes(training, smallest=1, largest=32) == (16, 32)


def test_another_size_keeps_the_global_batch_by_accumulation() -> None:
    training = a_training(micro_batch=2, accumulation=4, layout=Layout(data=4))

    smaller = resized(training, 1)

    assert (smaller.global_batch, smaller.accumulation) == (32, 16)
    with pytest.raises(ValueError, match="global batch of 32 does not divide into 3"):
        resized(training, 3)


def test_the_seeds_tp4_pp2_on_four_gpus_is_refused() -> None:
    training = a_training(layout=Layout(tensor=4, pipeline=2), accumulation=8)

    with pytest.raises(ValueError, match="a multiple of 8 is needed"):
        resized(training, 4)


def test_the_smallest_gang_is_the_first_that_fits() -> None:
    training = a_training(
        "Qwen2.5-14B",
        master=True,
        seq_len=4096,
        accumulation=64,
        layout=Layout(sharding=Sharding.ZERO3),
    )

    found = smallest_gang(training, a_gpu(), constants(), largest=64)

    assert found is not None
    assert found.gpus == 8
    smaller = estimate(resized(training, 4), a_gpu(), constants())
    assert not smaller.fit.fits


def test_no_gang_fits_where_every_gpu_holds_the_whole() -> None:
    training = a_training("Qwen2.5-72B", accumulation=64)

    assert smallest_gang(training, a_gpu(), constants(), largest=64) is None


def test_sizes_leave_out_gangs_that_do_not_fit() -> None:
    training = a_training(
        "Qwen2.5-14B",
        master=True,
        seq_len=4096,
        accumulation=64,
        layout=Layout(sharding=Sharding.ZERO3),
    )

    found = sizes(training, a_gpu(), constants(), range(1, 17))

    assert [one.gpus for one in found] == [8, 16]
    assert found[0].estimate.speed.step_s > found[1].estimate.speed.step_s


def test_a_course_has_duration_gpu_hours_and_cost() -> None:
    one = estimate(a_training(lora_rank=8, layout=Layout(data=4)), a_gpu(), constants())

    found = course(one, 100, constants(), price_per_gpu_hour=2.0)

    assert found.duration_p50_s == pytest.approx(100 * one.speed.step_s)
    assert found.duration_p90_s > found.duration_p50_s
    assert found.gpu_hours == pytest.approx(found.duration_p50_s * 4 / 3600)
    assert found.cost == pytest.approx(2 * found.gpu_hours)


def test_a_constants_file_with_an_unknown_number_is_refused() -> None:
    with pytest.raises(ValueError, match="memory has no luck"):
        constants_from({"memory": {"luck": 1.0}})


def test_a_constants_file_that_lacks_a_number_keeps_the_default() -> None:
    assert constants_from({"memory": {"churn": 2.0}}).memory.workspace_gib == (
        Constants().memory.workspace_gib
    )
