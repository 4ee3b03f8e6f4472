"""Trainings on GPUs: bfloat16, 4-bit bases, paged states, and a resume that goes on."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tests.gpu.conftest import Gpus
from tests.run_requests import a_run, events, losses, result

pytestmark = pytest.mark.gpu

REPOSITORY = Path(__file__).parents[2]
FAQ: dict[str, Any] = {
    "dataset": "sample:support-faq",
    "torch_dtype": "bfloat16",
    "learning_rate": 5e-3,
    "per_device": 4,
    "max_steps": 30,
}
WAYS: dict[str, dict[str, Any]] = {
    "full in bfloat16": {"tuner_type": "full", "learning_rate": 2e-3},
    "lora in bfloat16": {},
    "lora on nf4": {"quant_method": "bnb", "bnb_4bit_compute_dtype": "bfloat16"},
    "paged states in 8 bits": {"tuner_type": "full", "optim": "paged_adamw_8bit"},
    "galore": {"tuner_type": "full", "use_galore": True, "galore_rank": 16},
}


def launched(run_dir: Path) -> int:
    command = [sys.executable, "-m", "trainer.launch", str(run_dir)]
    return subprocess.run(command, cwd=REPOSITORY, check=False, timeout=300).returncode


@pytest.mark.parametrize("way", WAYS)
def test_the_loss_falls_on_a_gpu(tmp_path: Path, gpus: Gpus, way: str) -> None:
    if "nf4" in way or "8 bits" in way:
        pytest.importorskip("bitsandbytes")
    run_dir = a_run(tmp_path, gpus=gpus(1), **FAQ | WAYS[way])

    assert launched(run_dir) == 0, result(run_dir)["message"]

    found = list(losses(run_dir).values())
    assert mean(found[-5:]) < mean(found[:5]) - 0.25
    assert result(run_dir)["metrics"]["peak_memory_bytes"] > 0


def test_a_stop_and_a_resume_go_on_where_an_unbroken_run_is(tmp_path: Path, gpus: Gpus) -> None:
    (card,) = gpus(1)
    settings = FAQ | {"max_steps": 200, "every": 500, "lora_dropout": 0.0, "gpus": [card]}
    straight = a_run(tmp_path / "straight", **settings)
    before = a_run(tmp_path / "broken", **settings)
    after = a_run(tmp_path / "broken", number=2, resumes=True, **settings)
    running = subprocess.Popen(
        [sys.executable, "-m", "trainer.launch", str(before)], cwd=REPOSITORY
    )
    try:
        deadline = time.monotonic() + 300
        while len(events(before, "step")) < 5:
            assert running.poll() is None, "the training ended before it was stopped"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (before / "stop").touch()

        codes = [running.wait(timeout=120), launched(after), launched(straight)]
    finally:
        running.kill()

    assert codes == [83, 0, 0]
    both = losses(before) | losses(after)
    assert sorted(both) == list(range(1, 201))
    assert min(losses(after)) == result(before)["step"] + 1
    # kernels of a GPU may add in another order, so equal within bfloat16, not bit for bit
    assert both == pytest.approx(losses(straight), abs=0.1)
