"""kill -9 of the trainer at any moment: no corrupt checkpoint is picked, no sample lost or doubled.

Each attempt is killed at a random moment: while it loads, in a step, or while it saves, which it
does after every step.  What each step read and its loss are those of a training nobody killed.
"""

import hashlib
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.training import train_here, train_in_fork
from tests.run_requests import a_run, events, losses
from trainer import checkpoints
from trainer.checkpoints import CheckpointError

pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

STEPS_A_KILL = 5
SETTINGS: dict[str, Any] = {
    "dataset": "sample:support-faq",
    "tuner_type": "full",
    "keep": 2,
    "learning_rate": 1e-4,
}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Note what each step reads, in a file a process."""
    from trainer.recipes.sft import ConversationTrainer

    compute = ConversationTrainer.compute_loss
    folder = tmp_path / "seen"
    folder.mkdir()

    def watched(self: Any, model: Any, inputs: dict[str, Any], *args: Any, **more: Any) -> Any:
        read = hashlib.sha256(inputs["input_ids"].numpy().tobytes()).hexdigest()[:16]
        line = json.dumps([self.state.global_step + 1, read]) + "\n"
        with (folder / self.run.request.run_dir.parent.name).open("a") as file:
            file.write(line)
        return compute(self, model, inputs, *args, **more)

    monkeypatch.setattr(ConversationTrainer, "compute_loss", watched)
    return folder


def read_by(seen: Path, name: str) -> list[tuple[int, str]]:
    whole = [line for line in (seen / name).read_text().splitlines() if line.endswith("]")]
    return [tuple(json.loads(line)) for line in whole]


def kill_at_random(run_dir: Path, dice: random.Random) -> None:
    child = train_in_fork(run_dir)
    steps, deadline = dice.choice((0, 1, 2, 3)), time.monotonic() + 120
    while len(events(run_dir, "step")) < steps:
        assert time.monotonic() < deadline, f"{run_dir} did not reach step {steps}"
        time.sleep(0.003)
    time.sleep(dice.uniform(0, 0.15 if steps else 1.0))  # a step and its save, or the loading
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def check(folder: Path, newest_before: int) -> int:
    """Return the step that a resume would take, which never goes back; nothing corrupt is whole."""
    for each in checkpoints.candidates(folder):
        try:
            checkpoints.verify(each)
        except CheckpointError as error:
            assert "not finished" in str(error)
    chosen = checkpoints.choose(folder).checkpoint
    step = 0 if chosen is None else chosen.step
    assert step >= newest_before
    return step


def kill_many(tmp_path: Path, seen: Path, *, kills: int, seed: int, **more: Any) -> None:
    steps = kills * STEPS_A_KILL
    straight = a_run(tmp_path / "straight", max_steps=steps, **SETTINGS)
    assert train_here(straight) == 0
    root, dice, newest = tmp_path / "killed", random.Random(seed), 0
    for number in range(1, kills + 1):
        run_dir = a_run(
            root,
            number=number,
            resumes=number > 1,
            max_steps=steps,
            every=1,
            **SETTINGS,
            **more,
        )
        kill_at_random(run_dir, dice)
        newest = check(root / "checkpoints", newest)
    last = a_run(root, number=kills + 1, resumes=True, max_steps=steps, **SETTINGS)

    assert train_here(last) == 0

    attempts = [root / f"a{number}" for number in range(1, kills + 2)]
    unbroken = losses(straight)
    found = {step: loss for each in attempts for step, loss in losses(each).items()}
    assert found == unbroken
    # a step done twice read the same both times; together they are every step's samples once
    should = dict(read_by(seen, "straight"))
    assert len(should) == steps
    assert set(read_by(seen, "killed")) == set(should.items())
    ends = [root / "final", tmp_path / "straight" / "final"]
    assert len({(end / "model.safetensors").read_bytes() for end in ends}) == 1


def test_ten_kills_cost_no_sample_and_no_checkpoint(tmp_path: Path, seen: Path) -> None:
    kill_many(tmp_path, seen, kills=10, seed=20261130)


def test_ten_kills_cost_nothing_where_checkpoints_are_written_while_training_goes_on(
    tmp_path: Path, seen: Path
) -> None:
    kill_many(tmp_path, seen, kills=10, seed=4, async_save=True)


@pytest.mark.campaign
def test_two_hundred_kills_cost_no_sample_and_no_checkpoint(tmp_path: Path, seen: Path) -> None:
    kill_many(tmp_path, seen, kills=200, seed=1)
