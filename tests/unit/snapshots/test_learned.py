"""Measured runs move estimates: few a little, many much, and those alike most of all."""

from math import log

import pytest

from reconciler.domain.job import SizeEstimate
from reconciler.snapshots.history import history_to_json
from reconciler.snapshots.learned import NOTHING_LEARNED, learned_from, refined_constants
from reconciler.specs.model_catalogue import shipped_constants
from tests.unit.snapshots.measured import a_run, some_facts


def an_estimate(gpu_type: str = "A100-80GB", *, is_calibrated: bool = True) -> SizeEstimate:
    return SizeEstimate(
        gpus=4,
        gpu_type=gpu_type,
        memory_gib=40.0,
        evidence="variable",
        step_s=2.0,
        is_calibrated=is_calibrated,
        is_cpu=gpu_type == "cpu",
    )


def test_no_file_teaches_nothing() -> None:
    assert learned_from(None) is NOTHING_LEARNED
    assert refined_constants(None) is shipped_constants()


def test_three_runs_do_not_overrule_two_hundred() -> None:
    three = learned_from(history_to_json([a_run(n, memory=1.3) for n in range(3)]))
    kinds = [some_facts(data=(f"data-{n}",)) for n in range(200)]
    many = learned_from(history_to_json([a_run(n, memory=1.3, facts=kinds[n]) for n in range(200)]))

    assert three.memory["variable"] == pytest.approx(1.3 ** (3 / 23), rel=1e-3)
    assert many.memory["variable"] == pytest.approx(1.3 ** (200 / 220), rel=1e-3)
    assert (
        "refined by 3 runs of this fleet"
        in refined_constants(history_to_json([a_run(n, memory=1.3) for n in range(3)])).origin
    )


def test_a_job_like_one_that_ran_is_expected_to_be_as_fast() -> None:
    learned = learned_from(history_to_json([a_run(n, slower=3.0) for n in range(4)]))

    alike = learned.pace(some_facts(), an_estimate())
    other_data = learned.pace(some_facts(data=("other",)), an_estimate())
    other_task = learned.pace(some_facts(task="dpo"), an_estimate())

    assert alike is not None
    assert other_data is not None
    assert other_task is not None
    assert alike.runs == 4
    assert alike.factor == pytest.approx(3 ** (4 / 5), rel=0.05)
    assert other_data.factor == alike.factor
    assert 1 < other_task.factor < 1.2


def test_on_an_uncalibrated_device_only_measured_runs_say_anything() -> None:
    cpu = an_estimate("cpu", is_calibrated=False)
    runs = [
        a_run(n, gpu_type="cpu", is_cpu=True, processes=2, training_s=n * 100.0)
        for n in range(1, 4)
    ]

    assert NOTHING_LEARNED.pace(some_facts(), cpu) is None
    pace = learned_from(history_to_json(runs)).pace(some_facts(), cpu)
    assert pace is not None
    assert pace.p90 > 1.5


def test_memory_of_cpu_slots_is_never_learned_from() -> None:
    runs = [a_run(n, gpu_type="cpu", is_cpu=True, processes=2, memory=9.0) for n in range(5)]

    assert learned_from(history_to_json(runs)).memory == {}


def test_the_steps_of_a_whole_run_are_those_of_runs_alike() -> None:
    learned = learned_from(
        history_to_json(
            [a_run(1, last_step=90), a_run(2, last_step=100), a_run(3, last_step=104),
             a_run(4, last_step=7, outcome="stopped")]
        )
    )  # fmt: skip

    assert learned.whole_steps(some_facts(), "A100-80GB") == 100
    assert learned.whole_steps(some_facts(max_steps=12), "A100-80GB") == 12
    assert learned.whole_steps(some_facts(global_batch=8), "A100-80GB") is None


def test_a_run_that_can_no_longer_be_estimated_is_passed_over() -> None:
    gone = a_run(1, facts=some_facts(model="Qwen/Qwen3-72B"), memory=5.0)

    assert learned_from(history_to_json([gone])).memory == {}


def test_only_jobs_of_the_kind_that_ended_are_sized_again() -> None:
    before = learned_from(history_to_json([a_run(1)]))
    after = learned_from(history_to_json([a_run(1), a_run(2, slower=1.05)]))
    jump = learned_from(history_to_json([a_run(n, memory=1.6) for n in range(8)]))

    assert after.changed_since(before) == frozenset({("Qwen/Qwen3-8B", "sft", "lora")})
    assert after.changed_since(after) == frozenset()
    assert jump.changed_since(before) is None


def test_the_same_bytes_teach_the_same() -> None:
    text = history_to_json([a_run(1, slower=2.0)])

    assert learned_from(bytes(text)) == learned_from(text)
    (ratios,) = learned_from(text).alike.values()
    assert ratios[0] == pytest.approx(log(2.0), abs=0.01)
