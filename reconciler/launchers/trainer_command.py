"""Which command runs an attempt, and in which environment?  Pure.

A job's ``train:`` section runs the trainer, its ``run:`` section the command it names.  The
environment is an allow-list, so that no secret of the reconciler reaches a job; what a job may
know about itself is in ``HEADWAY_`` variables.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from reconciler.domain.cluster import DeviceKind
from reconciler.domain.launch import LaunchRequest
from reconciler.launchers.processes import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE

PASSED = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
        *("TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_HOME"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "XDG_CACHE_HOME"),
        *("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "TORCH_HOME", "TRITON_CACHE_DIR"),
        *("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"),
        *("TOKENIZERS_PARALLELISM", "HEADWAY_CACHE"),
    )
)
"""Names a job inherits from the reconciler where they are set."""

_PASSED_FAMILIES = ("NCCL_", "GLOO_")
_SHELLS = ("bash", "/bin/bash", "/usr/bin/bash")


def command(request: LaunchRequest, run_dir: Path, python: str) -> tuple[str, ...]:
    """Return the argv: the trainer on ``run_dir``, or the job's own command.

    ``bash -c SCRIPT`` runs with ``pipefail``, so that ``train | tee log`` fails when train does.
    """
    if request.command is None:
        return (python, "-m", "trainer.launch", str(run_dir))
    if request.command[0] in _SHELLS and request.command[1:2] == ("-c",):
        return (request.command[0], "-o", "pipefail", *request.command[1:])
    return request.command


def tells_leader_only(request: LaunchRequest) -> bool:
    """Return whether SIGTERM goes to the first process alone: the trainer tells its own ranks.

    Its data loading processes, which share its group, must outlive the last checkpoint.
    """
    return request.command is None


def environment(
    request: LaunchRequest,
    run_dir: Path,
    inherited: Mapping[str, str],
    *,
    python: str,
    extra: Collection[str] = (),
) -> dict[str, str]:
    """Return the whole environment of the wrapper and of everything it starts.

    ``inherited`` is the reconciler's own; ``extra`` names more of it to pass.  The
    folder of ``python`` ends the PATH, so that a command finds some ``python`` everywhere.
    """
    devices = [device for _, device in request.allocation.devices()]
    variables = {name: value for name, value in inherited.items() if _is_passed(name, extra)}
    folders = (inherited.get("PATH", ""), str(Path(python).parent))
    variables |= {
        "PATH": os.pathsep.join(folder for folder in folders if folder),
        ATTEMPT_VARIABLE: request.run.attempt,
        RUN_DIR_VARIABLE: str(run_dir),
        "HEADWAY_JOB": request.job,
        "HEADWAY_DEVICES": ",".join(devices),
        "HEADWAY_DEVICE_KIND": request.device_kind.value,
        "HEADWAY_PROCESSES": str(request.processes),
        "HEADWAY_CHECKPOINT_DIR": str(request.request.get("checkpoint", {}).get("dir") or ""),
        "HEADWAY_RESUME_FROM": str(request.request.get("resume_from") or ""),
        "PYTHONUNBUFFERED": "1",
        **_device_variables(request.device_kind, devices),
    }
    return variables


def _is_passed(name: str, extra: Collection[str]) -> bool:
    return name in PASSED or name in extra or name.startswith(_PASSED_FAMILIES)


def _device_variables(kind: DeviceKind, devices: Sequence[str]) -> dict[str, str]:
    if kind is DeviceKind.GPU:
        return {"CUDA_VISIBLE_DEVICES": ",".join(devices), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    one = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return {"CUDA_VISIBLE_DEVICES": "", **dict.fromkeys(one, "1")}
