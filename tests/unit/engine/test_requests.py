"""request.json from a document and an attempt."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from reconciler.domain.attempt import Attempt, AttemptPhase, attempt_id
from reconciler.domain.cluster import Allocation, DeviceKind, NodeShare
from reconciler.domain.job import GpuRequest, JobSpec, TopologyDomain, WorkloadFacts
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import (
    CommitId,
    DeviceId,
    Digest,
    Instant,
    JobId,
    JobName,
    NodeName,
    TeamName,
)
from reconciler.engine.requests import Place, launch_request, process_count, seed_of
from reconciler.errors import LauncherError

SCHEMA = Path(__file__).parents[3] / "trainer" / "contract" / "request.schema.json"
PLACE = Place(runs_dir="/var/runs", data_root="/data")
JOB = JobId("t/j")
COMMIT = CommitId("c" * 40)


def spec_of(
    *, gpus: int = 4, global_batch: int | None = 8, per_device: int | None = 2, run: bool = False
) -> JobSpec:
    return JobSpec(
        team=TeamName("t"),
        name=JobName("j"),
        gpus=GpuRequest(count=gpus, within=TopologyDomain.NODE),
        facts=WorkloadFacts(global_batch=global_batch, per_device_batch=per_device),
        runs_command=run,
    )


def attempt_of(number: int = 1, gpus: int = 4) -> Attempt:
    return Attempt(
        id=attempt_id(cluster="c", job=JOB, submission=COMMIT, generation=2, number=number),
        number=number,
        phase=AttemptPhase.LAUNCHING,
        commit=COMMIT,
        spec_digest=Digest("sha256:1"),
        allocation=Allocation(
            shares=(
                NodeShare(
                    node=NodeName("n1"),
                    devices=tuple(DeviceId(f"cpu-{n}") for n in range(gpus)),
                ),
            )
        ),
        decided_at=Instant(10),
    )


STATUS = JobStatus(
    job=JOB, phase=JobPhase.RUNNING, reason=Reason.GPUS_FREE, generation=2, submission=COMMIT
)
DOCUMENT: dict[str, Any] = {
    "train": {"task": "sft", "model": "random:qwen3-tiny", "dataset": ["sample:x"]},
    "checkpoint": {"every_steps": 5, "keep": 2},
}


def ask(
    spec: JobSpec, *, number: int = 1, kind: DeviceKind = DeviceKind.CPU_SLOT, **document: Any
) -> Any:
    return launch_request(
        spec=spec,
        document=DOCUMENT | document,
        status=STATUS,
        attempt=attempt_of(number, spec.gpus.count),
        device_kind=kind,
        place=PLACE,
    )


@pytest.mark.parametrize("kind", list(DeviceKind))
@pytest.mark.parametrize("number", [1, 2])
def test_the_request_is_what_the_contract_says(kind: DeviceKind, number: int) -> None:
    request = ask(spec_of(), number=number, kind=kind).request

    errors = list(Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(request))
    assert errors == []


def test_four_cpu_slots_are_two_processes_and_the_global_batch_stays() -> None:
    launch = ask(spec_of(gpus=4, global_batch=8, per_device=2))

    assert launch.processes == 2
    assert launch.request["world_size"] == 2
    assert launch.request["accumulation"] == 2
    assert launch.request["per_device_batch"] == 2


def test_a_batch_that_two_processes_cannot_share_runs_in_one() -> None:
    launch = ask(spec_of(gpus=3, global_batch=3, per_device=1))

    assert (launch.processes, launch.request["accumulation"]) == (1, 3)


def test_one_slot_is_one_process() -> None:
    assert process_count(spec_of(gpus=1), 1, DeviceKind.CPU_SLOT) == 1


def test_every_gpu_has_a_process() -> None:
    launch = ask(spec_of(gpus=4, global_batch=16, per_device=2), kind=DeviceKind.GPU)

    assert (launch.processes, launch.request["accumulation"]) == (4, 2)


def test_a_batch_that_the_gpus_cannot_share_is_refused_by_name() -> None:
    with pytest.raises(LauncherError, match="does not divide into 3 processes") as caught:
        ask(spec_of(gpus=3, global_batch=8, per_device=2), kind=DeviceKind.GPU)
    assert not caught.value.retryable


def test_a_first_attempt_starts_from_step_zero_and_a_later_one_resumes() -> None:
    assert ask(spec_of()).request["resume_from"] is None

    request = ask(spec_of(), number=2).request
    assert request["resume_from"] == "/var/runs/t/j/cccccccccc-g2/checkpoints"
    assert request["checkpoint"] == {
        "every_steps": 5,
        "keep": 2,
        "dir": "/var/runs/t/j/cccccccccc-g2/checkpoints",
    }


def test_attempts_of_a_generation_share_a_seed_and_generations_do_not() -> None:
    assert ask(spec_of()).request["seed"] == ask(spec_of(), number=2).request["seed"]
    assert seed_of(JOB, 1) != seed_of(JOB, 2)
    assert 0 <= seed_of(JOB, 1) < 2**31


def test_a_command_runs_once_with_no_train_section() -> None:
    spec = spec_of(run=True, global_batch=None, per_device=None)
    launch = ask(spec, train=None, run={"command": ["sleep", "1"]}, checkpoint=None)

    assert launch.command == ("sleep", "1")
    assert launch.processes == 1
    assert launch.request["train"] == {}
    assert launch.request["global_batch"] is None
    errors = Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(launch.request)
    assert list(errors) == []


def test_the_run_directory_is_the_generations_folder_and_the_attempts_number() -> None:
    assert ask(spec_of(), number=2).run.path == "t/j/cccccccccc-g2/a2"


def test_a_train_job_has_no_command() -> None:
    assert ask(replace(spec_of(), runs_command=False)).command is None


@pytest.mark.parametrize("kind", list(DeviceKind))
def test_processes_that_share_rows_are_all_started_and_count_once(kind: DeviceKind) -> None:
    spec = spec_of(gpus=4, global_batch=8, per_device=2)
    spec = replace(spec, facts=replace(spec.facts, model_parallel=2))

    launch = ask(spec, kind=kind)

    assert (launch.processes, launch.request["accumulation"]) == (4, 2)
