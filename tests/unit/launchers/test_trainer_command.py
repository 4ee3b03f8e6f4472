"""Which command an attempt runs, and what is in its environment."""

from pathlib import Path

import pytest

from reconciler.domain.cluster import DeviceKind
from reconciler.launchers.trainer_command import command, environment, tells_leader_only
from tests.contract.runs import a_launch

RUN_DIR = Path("/runs/t/j/a1")


def test_a_training_runs_the_trainer_on_its_run_directory() -> None:
    argv = command(a_launch(), RUN_DIR, "/venv/bin/python")

    assert argv == ("/venv/bin/python", "-m", "trainer.launch", "/runs/t/j/a1")


def test_a_command_is_run_as_it_is_written() -> None:
    assert command(a_launch("python", "x.py"), RUN_DIR, "python") == ("python", "x.py")


@pytest.mark.parametrize("shell", ["bash", "/bin/bash", "/usr/bin/bash"])
def test_a_bash_script_runs_with_pipefail(shell: str) -> None:
    argv = command(a_launch(shell, "-c", "a | b", "name"), RUN_DIR, "python")

    assert argv == (shell, "-o", "pipefail", "-c", "a | b", "name")


def test_only_the_trainer_tells_its_own_processes() -> None:
    assert tells_leader_only(a_launch())
    assert not tells_leader_only(a_launch("bash", "-c", "a | b"))


def test_gpus_are_named_by_uuid() -> None:
    request = a_launch("x", devices=("GPU-1", "GPU-7"), kind=DeviceKind.GPU)
    variables = environment(request, RUN_DIR, {}, python="/venv/bin/python")

    assert variables["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-7"
    assert "OMP_NUM_THREADS" not in variables


def test_cpu_slots_hide_every_gpu_and_take_one_thread() -> None:
    inherited = {"CUDA_VISIBLE_DEVICES": "0"}
    variables = environment(a_launch("x"), RUN_DIR, inherited, python="python")

    assert (variables["CUDA_VISIBLE_DEVICES"], variables["MKL_NUM_THREADS"]) == ("", "1")


def test_the_environment_is_an_allow_list() -> None:
    inherited = {
        "PATH": "/bin",
        "HF_HOME": "/hub",
        "NCCL_DEBUG": "INFO",
        "HF_TOKEN": "hush",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "HEADWAY_SINK_KEY": "hush",
        "HEADWAY_ATTEMPT_ID": "of the attempt we run in",
        "SITE_DATA": "/data",
    }
    variables = environment(
        a_launch("x"), RUN_DIR, inherited, python="/v/bin/python", extra=["SITE_DATA"]
    )

    assert "hush" not in variables.values()
    assert variables["HEADWAY_ATTEMPT_ID"] == "t.j-g1-a1-0123456789"
    assert [variables[name] for name in ("PATH", "HF_HOME", "NCCL_DEBUG", "SITE_DATA")] == [
        "/bin:/v/bin",
        "/hub",
        "INFO",
        "/data",
    ]


def test_a_command_can_find_its_checkpoints() -> None:
    request = a_launch("x")
    variables = environment(request, RUN_DIR, {}, python="/venv/bin/python")

    assert variables["HEADWAY_CHECKPOINT_DIR"] == request.request["checkpoint"]["dir"]
    assert variables["HEADWAY_RESUME_FROM"] == ""
    assert variables["HEADWAY_RUN_DIR"] == "/runs/t/j/a1"
