"""A checkpoint exists when its manifest checks; nothing else is ever resumed."""

import os
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from trainer import checkpoints
from trainer.checkpoints import CheckpointError

ATTEMPT = "demo.tiny-g1-a1-0123456789"


def save(root: Path, step: int, content: bytes = b"weights", attempt: str = ATTEMPT) -> Path:
    temporary = checkpoints.temporary_path(root, step, attempt)
    (temporary / "ref").mkdir(parents=True)
    (temporary / "model.bin").write_bytes(content)
    (temporary / "ref" / "state.json").write_text("{}")
    return checkpoints.finish(
        temporary,
        root=root,
        step=step,
        samples_seen=step * 4,
        global_batch=4,
        world_size=1,
        attempt=attempt,
    ).folder


def test_a_saved_checkpoint_is_found_with_what_its_manifest_says(tmp_path: Path) -> None:
    save(tmp_path, 20)

    choice = checkpoints.choose(tmp_path)

    assert choice.skipped == ()
    assert choice.checkpoint is not None
    assert choice.checkpoint.folder == tmp_path / "step-000020"
    assert choice.checkpoint.samples_seen == 80
    assert sorted(choice.checkpoint.files) == ["model.bin", "ref/state.json"]


def test_the_newest_step_wins_by_number_not_by_name(tmp_path: Path) -> None:
    for step in (999_999, 1_000_000, 20):
        save(tmp_path, step)

    choice = checkpoints.choose(tmp_path)

    assert choice.checkpoint is not None
    assert choice.checkpoint.step == 1_000_000


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), "was not finished"),
        (lambda folder: (folder / "manifest.json").write_text("{}"), "manifest.json is damaged"),
        (lambda folder: (folder / "model.bin").unlink(), "model.bin is missing"),
        (lambda folder: (folder / "model.bin").write_bytes(b"weigh"), "has 5 bytes, not 7"),
        (lambda folder: (folder / "model.bin").write_bytes(b"wEights"), "not have the digest"),
    ],
    ids=["no manifest", "empty manifest", "file missing", "file cut", "file changed"],
)
def test_a_damaged_checkpoint_is_skipped_for_an_older_whole_one(
    tmp_path: Path, damage: object, reason: str
) -> None:
    save(tmp_path, 10)
    damage(save(tmp_path, 20))  # type: ignore[operator]

    choice = checkpoints.choose(tmp_path)

    assert choice.checkpoint is not None
    assert choice.checkpoint.step == 10
    (skipped,) = choice.skipped
    assert skipped.startswith("step-000020 skipped: ")
    assert reason in skipped


def test_half_saved_folders_are_no_candidates(tmp_path: Path) -> None:
    checkpoints.temporary_path(tmp_path, 30, ATTEMPT).mkdir()
    (tmp_path / "step-x").mkdir()

    assert checkpoints.choose(tmp_path).checkpoint is None
    assert checkpoints.choose(tmp_path / "nothing").checkpoint is None


def test_a_whole_checkpoint_of_the_same_step_is_kept(tmp_path: Path) -> None:
    first = save(tmp_path, 10, b"first")
    save(tmp_path, 10, b"second", attempt="demo.tiny-g1-a2-0123456789")

    assert (first / "model.bin").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["step-000010"]


def save_many(root: Path, saver: int) -> None:
    for step in range(50):
        folder = save(root, step, b"weights of %d" % saver, attempt=f"demo.tiny-g1-a{saver}-0")
        assert checkpoints.verify(folder).step == step


def test_savers_of_the_same_steps_at_once_each_find_a_whole_checkpoint(tmp_path: Path) -> None:
    for step in range(0, 50, 2):  # every other step a broken one is in the way
        (tmp_path / f"step-{step:06d}").mkdir()
        (tmp_path / f"step-{step:06d}" / "model.bin").write_text("half")
    children = [
        get_context("fork").Process(target=save_many, args=(tmp_path, saver)) for saver in range(3)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()

    assert [child.exitcode for child in children] == [0, 0, 0]
    assert len([checkpoints.verify(folder) for folder in checkpoints.candidates(tmp_path)]) == 50
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_broken_checkpoint_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    folder = save(tmp_path, 10, b"first")
    (folder / "manifest.json").unlink()

    save(tmp_path, 10, b"second")

    assert (folder / "model.bin").read_bytes() == b"second"
    assert checkpoints.verify(folder).step == 10
    assert [path.name for path in tmp_path.iterdir()] == ["step-000010"]


def test_pruning_keeps_the_newest_whole_ones_and_clears_what_crashes_left(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        save(tmp_path, step)
    (tmp_path / "step-000020" / "manifest.json").unlink()
    (tmp_path / "step-000050").mkdir()  # newer and unfinished: another attempt may be at it
    own = checkpoints.temporary_path(tmp_path, 45, ATTEMPT)
    foreign = checkpoints.temporary_path(tmp_path, 45, "demo.tiny-g1-a9-0123456789")
    old = checkpoints.temporary_path(tmp_path, 5, "demo.tiny-g1-a8-0123456789")
    for folder in (own, foreign, old):
        folder.mkdir()
    long_ago = time.time() - checkpoints.ABANDONED_AFTER_S - 60
    os.utime(old, (long_ago, long_ago))

    checkpoints.prune(tmp_path, keep=2, attempt=ATTEMPT)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        foreign.name,
        "step-000030",
        "step-000040",
        "step-000050",
    ]


def test_reading_a_manifest_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no readable manifest"):
        checkpoints.read_manifest(tmp_path)
