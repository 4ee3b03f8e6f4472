"""What differs between two specs of one job, in words."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.job import (
    GpuRequest,
    JobSpec,
    PriorityClass,
    TopologyDomain,
    WorkloadFacts,
)
from reconciler.domain.units import Digest, JobId, JobName, Seconds, TeamName
from reconciler.preview.edits import request_words, spec_edits

SPEC = JobSpec(
    team=TeamName("t"),
    name=JobName("j"),
    gpus=GpuRequest(count=4, within=TopologyDomain.NODE),
    facts=WorkloadFacts(model="a/b", global_batch=8),
)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"priority": PriorityClass.P1}, "priority P2 -> P1"),
        ({"suspend": True}, "suspend no -> yes"),
        ({"limit_s": Seconds(60)}, "limit none -> 60"),
        ({"after": (JobId("t/x"), JobId("t/y"))}, "after none -> t/x, t/y"),
        ({"facts": WorkloadFacts(model="a/c", global_batch=8)}, "model a/b -> a/c"),
        ({"spec_digest": Digest("sha256:2")}, "other keys of train or run"),
        (
            {"gpus": GpuRequest(count=1, within=TopologyDomain.NODE, types=("H200", "H100"))},
            "4 GPUs -> 1x H200/H100",
        ),
    ],
)
def test_an_edit_is_named_with_what_was_and_what_is(changed: dict[str, Any], words: str) -> None:
    assert [each for _, each in spec_edits(SPEC, replace(SPEC, **changed))] == [words]


def test_a_job_that_is_new_or_gone_has_no_edits() -> None:
    assert spec_edits(None, SPEC) == []
    assert spec_edits(SPEC, None) == []


def test_one_gpu_is_not_many() -> None:
    assert request_words(replace(SPEC, gpus=replace(SPEC.gpus, count=1))) == "1 GPU"
