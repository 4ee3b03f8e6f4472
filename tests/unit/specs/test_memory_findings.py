"""A job that would run out of memory is refused with the smallest gang that fits."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.job import JobSpec
from reconciler.domain.problem import Severity
from reconciler.specs.cache import SpecCache
from reconciler.specs.entries import SpecEntry
from reconciler.specs.estimates import needed_gib
from reconciler.specs.reading import read_specs
from tests.unit.specs.fleet_files import MemoryTree, conf_files

ON_THE_RACK = "jobs/research/one.yaml"
"""Judged against ``dgx_rack``: H100-80GB, A100-80GB and a few RTX3090-24GB."""
ON_SLOTS = "jobs/support/one.yaml"
JOB = """\
api_version: headway/v1
kind: Job
resources: {gpus: 8, gpu_type: A100-80GB}
train:
  task: sft
  model: Qwen/Qwen3-8B
  dataset: sample:support-chats
  tuner_type: lora
  max_length: 2048
  max_steps: 100
"""


def judged(*overrides: str, path: str = ON_THE_RACK) -> SpecEntry:
    tree = MemoryTree(conf_files() | {path: JOB.encode()})
    (entry,) = read_specs(tree, paths=(path,), overrides=overrides).entries.values()
    return entry


def said(entry: SpecEntry) -> list[tuple[str, str]]:
    return [(problem.code, problem.severity.value) for problem in entry.problems]


def spec_of(entry: SpecEntry) -> JobSpec:
    assert entry.spec is not None, entry.problems
    return entry.spec


def test_a_run_that_surely_fails_is_refused_with_the_smallest_gang_that_fits() -> None:
    entry = judged("train.model=Qwen/Qwen3-14B", "resources.gpus=4",
                   "resources.gpu_type=RTX3090-24GB")  # fmt: skip

    (problem,) = entry.problems
    assert (problem.code, problem.severity) == ("HW071", Severity.ERROR)
    assert "4 x RTX3090-24GB" in problem.message
    assert problem.hint == "the smallest gang that fits is 1 x A100-80GB"
    assert entry.spec is None


def test_a_layout_that_no_number_of_gpus_saves_is_sent_to_the_advisor() -> None:
    (problem,) = judged("train.model=Qwen/Qwen3-32B", "train.tuner_type=full").problems

    assert problem.code == "HW071"
    assert "headway advise Qwen/Qwen3-32B --gpus 8 --type A100-80GB" in problem.hint


def test_one_type_that_fits_is_enough_and_the_others_are_not_used() -> None:
    entry = judged("train.model=Qwen/Qwen3-14B", "resources.gpus=4",
                   "resources.gpu_type=[RTX3090-24GB,A100-80GB]")  # fmt: skip

    assert said(entry) == []
    spec = spec_of(entry)
    assert 23.7 < spec.gpus.min_memory_gib < 79.15
    assert {one.gpu_type for one in spec.estimates} == {"RTX3090-24GB", "A100-80GB"}


def test_a_run_inside_the_margin_is_warned_of() -> None:
    entry = judged("train.tuner_type=full", "train.optim=adamw_8bit", "train.max_length=4608")

    assert said(entry) == [("HW072", "warning")]
    assert spec_of(entry).gpus.min_memory_gib <= 79.15


def test_devices_that_are_too_small_never_get_the_job_and_a_larger_wish_stays() -> None:
    spec = spec_of(judged())
    wish = spec_of(judged("resources.min_gpu_memory=75GiB"))

    assert spec.gpus.min_memory_gib == needed_gib(spec.estimates[0])
    assert wish.gpus.min_memory_gib == 75


def test_cpu_slots_are_compared_with_nothing() -> None:
    entry = judged("resources.gpu_type=null", path=ON_SLOTS)

    spec = spec_of(entry)
    assert spec.gpus.min_memory_gib == 0
    assert [(one.gpu_type, one.is_cpu) for one in spec.estimates] == [("cpu", True)]


def test_elastic_sizes_are_estimated_with_the_requested_one_first() -> None:
    spec = spec_of(
        judged(
            "train.gradient_accumulation_steps=4",
            "elastic={min_gpus: 2, max_gpus: 16}",
        )
    )

    assert [one.gpus for one in spec.estimates] == [8, 2, 4, 16]
    by_size = {one.gpus: one.step_s for one in spec.estimates}
    assert by_size[2] > by_size[4] > by_size[8] > by_size[16]


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("Qwen/Qwen3-72B", "Qwen2.5-72B"),
        ("qwen3-70b", "Qwen3-32B"),
        ("random:qwen3-tinny", "random:qwen3-tiny"),
        ("package:smollm2", "./models/mine"),
    ],
)
def test_a_model_nobody_knows_is_refused_with_the_nearest(model: str, hint: str) -> None:
    (problem,) = judged(f"train.model={model}", path=ON_SLOTS).problems

    assert (problem.code, problem.severity) == ("HW070", Severity.ERROR)
    assert model in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize("model", ["./models/mine", "/srv/models/mine", "~/mine", "a/b/c"])
def test_a_folder_has_no_verdict(model: str) -> None:
    entry = judged(f"train.model='{model}'")

    assert said(entry) == []
    assert spec_of(entry).estimates == ()


def test_a_rank_above_the_smaller_side_of_a_matrix_is_refused() -> None:
    (problem,) = judged(
        "train.tuner_type=full", "train.use_galore=true", "train.galore_rank=2000"
    ).problems

    assert problem.code == "HW060"
    assert "above the smaller side of k_proj, 1024" in problem.message
    assert problem.hint == "write galore_rank: 512"


@pytest.mark.parametrize(
    "override",
    [
        "train.max_length=1000000000",
        "train.per_device_train_batch_size=1000000",
        "train.lora_rank=1000000",
        "train.gradient_accumulation_steps=1000000",
    ],
)
def test_absurd_values_are_judged_and_never_crash(override: str) -> None:
    entry = judged(override)

    assert all(isinstance(problem.message, str) for problem in entry.problems)


def test_estimates_survive_the_cache_and_a_changed_quota(tmp_path: Path, monkeypatch: Any) -> None:
    path = ON_THE_RACK
    files = conf_files() | {path: JOB.encode()}
    first = read_specs(MemoryTree(files), cache=SpecCache(tmp_path)).entries
    second = read_specs(MemoryTree(files), cache=SpecCache(tmp_path)).entries
    quota = files["conf/teams/research.yaml"].replace(b"any: 24", b"any: 23")

    def refuse(*_: Any) -> None:
        raise AssertionError("estimated again")

    monkeypatch.setattr("reconciler.specs.memory_findings.estimates", refuse)
    third = read_specs(
        MemoryTree(files | {"conf/teams/research.yaml": quota}), cache=SpecCache(tmp_path)
    ).entries

    estimates = [each["research/one"].spec for each in (first, second, third)]  # type: ignore[index]
    assert estimates[0] is not None
    assert estimates[0].estimates
    assert estimates[0] == estimates[1] == estimates[2]
