"""Several processes of one attempt: launched, stopped, broken and resumed together."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.ranks import agreed, train_ranks, training_ranks
from tests.e2e.training import train_here
from tests.run_requests import a_run, events, losses, result

pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[2]
TOGETHER: dict[str, Any] = {
    "world_size": 2,
    "dataset": "sample:support-faq",
    "max_steps": 60,
    "every": 100,
}
LAUNCHER = [sys.executable, "-m", "trainer.launch"]
ACCELERATE = [
    *(sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"),
    *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"),
    *("--main_process_port", "0", "-m", "trainer"),
]


def start(
    command: list[str], run_dir: Path, *, extra_path: Path | None = None
) -> subprocess.Popen[bytes]:
    paths = [str(path) for path in (extra_path, REPOSITORY) if path is not None]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*command, str(run_dir)], cwd=run_dir, env=environment)


def wait_for_steps(
    has_ended: Callable[[], object], run_dir: Path, count: int, *, limit_s: float = 120
) -> None:
    deadline = time.monotonic() + limit_s
    while len(events(run_dir, "step")) < count:
        assert has_ended() is None, "the trainer left before it was stopped"
        assert time.monotonic() < deadline, f"{run_dir} did not reach step {count}"
        time.sleep(0.01)


def ranks(launcher: subprocess.Popen[bytes]) -> dict[int, psutil.Process]:
    """Return the trainer processes below the launcher, by rank."""
    found = {}
    for child in psutil.Process(launcher.pid).children(recursive=True):
        rank = child.environ().get("RANK")
        if rank is not None and "trainer" in child.cmdline():
            found[int(rank)] = child
    return found


@pytest.fixture
def launched() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Kill what a failed test leaves running."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            process.wait()


def test_two_ranks_stop_together_and_go_on_as_two_or_as_one(
    tmp_path: Path, launched: list[subprocess.Popen[bytes]]
) -> None:
    straight = a_run(tmp_path / "straight", **TOGETHER)
    launched.append(start(ACCELERATE, straight))
    assert launched[-1].wait(timeout=180) == 0

    # the signal reaches one rank only; both must stop, at the same step
    before = a_run(tmp_path / "broken", **TOGETHER)
    with training_ranks(before) as started:
        second = started.processes[1]
        wait_for_steps(lambda: second.exitcode, before, 5)
        assert second.pid is not None
        os.kill(second.pid, signal.SIGUSR1)
        asked = time.monotonic()
        assert agreed(started.wait()) == 83
    assert time.monotonic() - asked < 30
    stopped_at = result(before)["step"]
    assert 5 <= stopped_at < 60

    as_two = a_run(tmp_path / "broken", number=2, resumes=True, **TOGETHER)
    assert train_ranks(as_two) == 0
    assert losses(before) | losses(as_two) == losses(straight)

    # the same global batch from one process: two passes instead of two ranks
    for newer in (tmp_path / "broken" / "checkpoints").glob("step-*"):
        if newer.name != f"step-{stopped_at:06d}":
            newer.rename(tmp_path / newer.name)
    alone = TOGETHER | {"world_size": 1, "accumulation": 2, "lora_dropout": 0.0}
    as_one = a_run(tmp_path / "broken", number=3, resumes=True, **alone)
    assert train_here(as_one) == 0
    assert sorted(losses(as_one)) == list(range(stopped_at + 1, 61))


def test_without_dropout_the_number_of_processes_changes_nothing(tmp_path: Path) -> None:
    settings = TOGETHER | {"lora_dropout": 0.0, "max_steps": 20, "every": 5, "keep": 9}
    alone = settings | {"world_size": 1, "accumulation": 2}
    straight = a_run(tmp_path, **alone)
    assert train_here(straight) == 0
    for step in (15, 20):
        (tmp_path / "checkpoints" / f"step-{step:06d}").rename(tmp_path / f"straight-{step}")

    grown = a_run(tmp_path, number=2, resumes=True, **settings)
    assert train_ranks(grown) == 0
    (tmp_path / "checkpoints" / "step-000020").rename(tmp_path / "grown-20")
    shrunk = a_run(tmp_path, number=3, resumes=True, **alone)
    assert train_here(shrunk) == 0

    unbroken = losses(straight)
    later = {step: unbroken[step] for step in range(11, 21)}
    assert losses(grown) == pytest.approx(later, abs=1e-6)
    last = {step: unbroken[step] for step in range(16, 21)}
    assert losses(shrunk) == pytest.approx(last, abs=1e-6)


def test_four_processes_go_on_as_two(tmp_path: Path) -> None:
    settings = TOGETHER | {"lora_dropout": 0.0, "max_steps": 6, "every": 3}
    four = a_run(tmp_path, **settings | {"world_size": 4})
    assert train_ranks(four) == 0
    (tmp_path / "checkpoints" / "step-000006").rename(tmp_path / "four-6")

    two = a_run(tmp_path, number=2, resumes=True, accumulation=2, **settings)
    assert train_ranks(two) == 0

    later = {step: losses(four)[step] for step in (4, 5, 6)}
    assert losses(two) == pytest.approx(later, abs=1e-6)
    counts = [event["samples_seen"] for event in events(two, "step")]
    assert counts == [16, 20, 24]


def test_ranks_do_not_outlive_a_launcher_that_is_killed(
    tmp_path: Path, launched: list[subprocess.Popen[bytes]]
) -> None:
    run_dir = a_run(tmp_path, **TOGETHER | {"max_steps": 100_000})
    launched.append(start(LAUNCHER, run_dir))
    wait_for_steps(launched[-1].poll, run_dir, 1)
    left = ranks(launched[-1])
    assert sorted(left) == [0, 1]

    launched[-1].kill()
    launched[-1].wait()

    _, alive = psutil.wait_procs(left.values(), timeout=30)
    assert alive == []


def test_a_signal_to_the_launcher_reaches_every_rank_and_its_exit_code_is_honest(
    tmp_path: Path, launched: list[subprocess.Popen[bytes]]
) -> None:
    run_dir = a_run(tmp_path, **TOGETHER)
    launched.append(start(LAUNCHER, run_dir))
    wait_for_steps(launched[-1].poll, run_dir, 3)
    launched[-1].send_signal(signal.SIGTERM)

    assert launched[-1].wait(timeout=60) == 83
    assert result(run_dir)["outcome"] == "stopped"
    step = result(run_dir)["step"]
    assert (tmp_path / "checkpoints" / f"step-{step:06d}" / "rng_state_1.pth").exists()


def test_a_rank_that_dies_fails_the_attempt_and_takes_the_others_along(
    tmp_path: Path, launched: list[subprocess.Popen[bytes]]
) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(
        "import os, sys, threading, time\n"
        "def die():\n"
        "    path = os.path.join(sys.argv[-1], 'events.jsonl')\n"
        '    while not os.path.exists(path) or open(path).read().count(\'"step", "at\') < 3:\n'
        "        time.sleep(0.01)\n"
        "    os._exit(3)\n"
        "if os.environ.get('RANK') == '1':\n"
        "    threading.Thread(target=die, daemon=True).start()\n"
    )
    run_dir = a_run(tmp_path, **TOGETHER | {"max_steps": 5000})
    launched.append(start(LAUNCHER, run_dir, extra_path=tmp_path / "path"))

    assert launched[-1].wait(timeout=90) == 1
    assert result(run_dir)["outcome"] == "failed"
    assert result(run_dir)["reason"] == "error"


def test_fewer_processes_than_the_request_says_are_refused(
    tmp_path: Path, launched: list[subprocess.Popen[bytes]]
) -> None:
    run_dir = a_run(tmp_path, **TOGETHER)
    launched.append(start([sys.executable, "-m", "trainer"], run_dir))

    assert launched[-1].wait(timeout=60) == 1
    assert result(run_dir)["reason"] == "invalid_request"
    assert "asks for 2 processes, but 1 run" in result(run_dir)["message"]
