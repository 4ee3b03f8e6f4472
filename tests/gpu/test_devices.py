"""NVML and torch speak of the same GPUs: by UUID, with the same memory."""

import os
import subprocess
import sys
import time

import pytest

from reconciler.devices.nvml import TIMEOUT_S, NvmlSource
from reconciler.domain.cluster import DeviceKind, NodeState
from tests.gpu.conftest import Gpus

pytestmark = pytest.mark.gpu


def test_nvml_lists_the_uuids_that_torch_sees_with_their_memory(gpus: Gpus) -> None:
    (seen,) = gpus(1)
    import torch

    survey = NvmlSource().survey()

    assert survey.state is NodeState.READY, survey.message
    offered = {str(device.id): device for device in survey.devices}
    assert seen in offered
    assert offered[seen].kind is DeviceKind.GPU
    assert offered[seen].type
    total_gib = torch.cuda.get_device_properties(0).total_memory / 2**30
    assert offered[seen].memory_gib == pytest.approx(total_gib, rel=0.05)


def test_every_gpu_is_read_within_the_time_limit(gpus: Gpus) -> None:
    gpus(1)
    source = NvmlSource()

    began = time.monotonic()
    survey = source.survey()

    assert time.monotonic() - began < TIMEOUT_S + 1
    assert len(survey.readings) >= len(survey.devices) > 0
    for reading in survey.readings:
        assert reading.utilisation is None or 0 <= reading.utilisation <= 1
        assert reading.temperature_c is None or 0 < reading.temperature_c < 150
        assert reading.memory_used_gib is None or reading.memory_used_gib >= 0


def test_a_process_that_is_given_one_uuid_sees_that_gpu_alone(gpus: Gpus) -> None:
    wanted = gpus(2)[1]
    program = (
        "import torch; assert torch.cuda.device_count() == 1; "
        "print(torch.cuda.get_device_properties(0).uuid)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": wanted},
        capture_output=True,
        text=True,
        check=True,
    )

    assert f"GPU-{done.stdout.strip()}" == wanted
