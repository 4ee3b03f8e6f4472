"""Whatever kills a trainer, what is left behind is whole, and the next attempt goes on from it."""

import json
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.training import train_here, train_in_fork
from tests.run_requests import a_run, events, losses, result
from trainer import checkpoints

pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.mark.parametrize("damage", ["truncated weights", "no manifest", "flipped byte"])
def test_a_damaged_newest_checkpoint_is_skipped_with_the_reason(
    tmp_path: Path, damage: str
) -> None:
    train_here(a_run(tmp_path, max_steps=8, every=2), stop_at=6)
    newest = tmp_path / "checkpoints" / "step-000006"
    weights = newest / "adapter_model.safetensors"
    match damage:
        case "truncated weights":
            weights.write_bytes(weights.read_bytes()[:-100])
        case "no manifest":
            (newest / "manifest.json").unlink()
        case "flipped byte":
            content = bytearray(weights.read_bytes())
            content[-1] ^= 1
            weights.write_bytes(content)
    resumed = a_run(tmp_path, number=2, resumes=True, max_steps=8, every=2)

    code = train_here(resumed)

    assert code == 0
    assert min(losses(resumed)) == 5
    (warning,) = events(resumed, "warning")
    assert "step-000006 skipped" in warning["message"]


def test_without_any_whole_checkpoint_it_starts_again_and_says_so(tmp_path: Path) -> None:
    train_here(a_run(tmp_path, max_steps=4, every=2), stop_at=2)
    shutil.rmtree(tmp_path / "checkpoints" / "step-000002")
    resumed = a_run(tmp_path, number=2, resumes=True, max_steps=4)

    code = train_here(resumed)

    assert code == 0
    assert sorted(losses(resumed)) == [1, 2, 3, 4]
    assert "starting from step 0" in events(resumed, "warning")[0]["message"]


def test_a_full_disk_costs_the_checkpoint_but_not_the_training(tmp_path: Path) -> None:
    kept = a_run(tmp_path, max_steps=6, every=2, tuner_type="full")
    train_here(kept, stop_at=2)
    run_dir = a_run(tmp_path, number=2, resumes=True, max_steps=6, every=2, tuner_type="full")
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # below the weights' size
        os._exit(train_here(run_dir))
    _, status = os.waitpid(child, 0)

    warnings = [event["message"] for event in events(run_dir, "warning")]
    assert [message.split(":")[0] for message in warnings] == [
        "the checkpoint of step 4 could not be saved",
        "the checkpoint of step 6 could not be saved",
    ]
    assert sorted(losses(run_dir)) == [3, 4, 5, 6]
    # the weights of the end do not fit on the disk either, and that is no success
    assert os.waitstatus_to_exitcode(status) == 1
    assert result(run_dir)["outcome"] == "failed"
    assert checkpoints.verify(tmp_path / "checkpoints" / "step-000002").step == 2
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000002"]


def test_two_savers_of_one_step_leave_one_whole_checkpoint(tmp_path: Path) -> None:
    first = a_run(tmp_path, number=1, max_steps=3, every=3)
    second = a_run(tmp_path, number=2, max_steps=3, every=3)
    children = [train_in_fork(first), train_in_fork(second)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

    assert codes == [0, 0]
    assert checkpoints.verify(tmp_path / "checkpoints" / "step-000003").step == 3


def test_the_newest_checkpoints_are_kept_and_older_ones_go(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, max_steps=10, every=2, keep=2)
    (tmp_path / "checkpoints" / "step-000001").mkdir(parents=True)  # what a crash left

    train_here(run_dir)

    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "step-000008",
        "step-000010",
    ]
    manifest = json.loads((tmp_path / "checkpoints/step-000010/manifest.json").read_text())
    assert manifest["samples_seen"] == 10


def test_a_training_that_raises_has_failed_and_leaves_nothing_that_looks_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainer.recipes.sft import ConversationTrainer

    compute = ConversationTrainer.compute_loss

    def breaks(self: ConversationTrainer, *args: object, **kwargs: object) -> object:
        if self.state.global_step == 3:
            raise RuntimeError("no room on the device")
        return compute(self, *args, **kwargs)

    monkeypatch.setattr(ConversationTrainer, "compute_loss", breaks)
    run_dir = a_run(tmp_path, max_steps=6, every=2)

    code = train_here(run_dir)

    assert code == 1
    ended = result(run_dir)
    assert (ended["outcome"], ended["step"]) == ("failed", 3)
    assert "no room on the device" in ended["message"]
    assert not (tmp_path / "final").exists()
    whole = checkpoints.choose(tmp_path / "checkpoints").checkpoint
    assert whole is not None
    assert whole.step == 2
