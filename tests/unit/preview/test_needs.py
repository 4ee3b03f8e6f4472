"""A plan says of each changed job what it needs, by the numbers the planner uses."""

import json
from pathlib import Path

import pytest

from reconciler.cli.needs_words import needs_item, needs_line, rests_on
from reconciler.domain.cluster import Cluster, Device, DeviceKind, Node
from reconciler.domain.job import GpuRequest, JobSpec, SizeEstimate, TopologyDomain
from reconciler.domain.policy import Policy
from reconciler.domain.units import DeviceId, JobId, JobName, NodeName, Seconds, TeamName
from reconciler.preview.needs import MemoryVerdict, Needs, needs
from reconciler.snapshots.sizes import gang_sizes
from tests.unit.preview.test_changes import Branch

JOB = JobId("t/j")
A100 = Device(id=DeviceId("gpu-0"), kind=DeviceKind.GPU, type="A100-80GB", memory_gib=79.15)
CLUSTER = Cluster(id="lab", nodes=(Node(name=NodeName("n"), rack="r", devices=(A100,)),))


def needs_of(memory_gib: float, *, is_cpu: bool = False) -> Needs:
    one = SizeEstimate(
        gpus=4, gpu_type="cpu" if is_cpu else "A100-80GB", memory_gib=memory_gib,
        evidence="variable", step_s=1.0, is_cpu=is_cpu,
    )  # fmt: skip
    spec = JobSpec(
        team=TeamName("t"),
        name=JobName("j"),
        gpus=GpuRequest(count=4, within=TopologyDomain.NODE),
        estimate_s=Seconds(7200),
        estimates=(one,),
    )
    found = needs(spec, gang_sizes(spec, Policy()), CLUSTER)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("memory_gib", "verdict"),
    [
        (60.0, MemoryVerdict.FITS),
        (70.0, MemoryVerdict.TIGHT),
        (80.0, MemoryVerdict.DOES_NOT_FIT),
    ],
)
def test_the_verdict_is_that_of_validation(memory_gib: float, verdict: MemoryVerdict) -> None:
    assert needs_of(memory_gib).verdict is verdict


def test_cpu_slots_are_counted_and_not_compared() -> None:
    found = needs_of(3.0, is_cpu=True)

    assert (found.verdict, found.usable_gib) == (MemoryVerdict.COUNTED, None)


def test_a_line_says_memory_verdict_time_and_gpu_hours() -> None:
    assert needs_line(JOB, needs_of(60.0)) == (
        "t/j needs 60.0 of 79.2 GiB a device on 4 x A100-80GB, 70.5 in one of ten such runs: "
        "fits; 2h (p90 3h), 8.0 GPU-h in all"
    )
    assert json.loads(json.dumps(needs_item(needs_of(60.0))))["memory_verdict"] == "fits"


def test_a_plan_says_what_its_estimates_rest_on() -> None:
    found = [needs_of(60.0)]

    assert "shipped constants" in rests_on(found, 0)
    assert "refined by 3 finished runs" in rests_on(found, 3)
    assert rests_on([None], 0) == ""


def test_a_previewed_training_has_its_needs_and_a_command_only_its_time(tmp_path: Path) -> None:
    branch = Branch(tmp_path)
    training = {
        "api_version": "headway/v1",
        "kind": "Job",
        "resources": {"gpus": 2},
        "time": {"estimate": "1h"},
        "train": {"task": "sft", "model": "random:qwen3-tiny", "dataset": "sample:support-chats"},
    }
    files: dict[str, str | None] = {"jobs/team/t.yaml": json.dumps(training)}
    files.update(branch.fleet.job("c", estimate="2h"))
    found = {each.job: each.needs for each in branch.preview(files).jobs}

    trained, command = found[JobId("team/t")], found[JobId("team/c")]
    assert trained is not None
    assert trained.memory_p50_gib is not None
    assert trained.gpu_hours == 2.0
    assert command is not None
    assert command.memory_p50_gib is None
    assert "its memory is not known" in needs_line(JobId("team/c"), command)
