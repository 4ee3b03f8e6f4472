"""What a branch changes, over the newest base, and clones that cannot know it."""

import subprocess
from pathlib import Path

import pytest

from reconciler.cli.working_tree import WorkingTree
from reconciler.errors import GitError, NotFoundError
from reconciler.ports import Tree
from reconciler.preview.revisions import open_change


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@x", "-c", "protocol.file.allow=always",
         *words],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


def commit(folder: Path, **files: str) -> str:
    for name, text in files.items():
        write(folder, f"jobs/t/{name}.yaml", text)
    run(folder, "add", "-A")
    run(folder, "commit", "-q", "--allow-empty", "-m", "change")
    return run(folder, "rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository on a branch ``change`` that left ``main`` two commits ago."""
    folder = tmp_path / "clone"
    folder.mkdir()
    run(folder, "init", "-q", "-b", "main")
    commit(folder, a="a1", b="b1", c="c1")
    run(folder, "checkout", "-q", "-b", "change")
    commit(folder, b="b2", d="d1")
    run(folder, "checkout", "-q", "main")
    commit(folder, a="a2")
    run(folder, "checkout", "-q", "change")
    return folder


def contents(tree: Tree, folder: Path) -> dict[str, str]:
    blobs = tree.read(entry.oid for entry in tree.entries.values())
    return {
        path.removeprefix("jobs/t/").removesuffix(".yaml"): blobs[entry.oid].decode()
        for path, entry in tree.entries.items()
    }


def test_the_change_is_laid_over_the_newest_base(clone: Path) -> None:
    change = open_change(clone, "main")

    assert contents(change.base_tree, clone) == {"a": "a2", "b": "b1", "c": "c1"}
    assert contents(change.head_tree, clone) == {"a": "a2", "b": "b2", "c": "c1", "d": "d1"}
    assert change.edited == ("jobs/t/b.yaml", "jobs/t/d.yaml")
    assert change.contested == ()


def test_work_tree_edits_deletions_and_new_files_count(clone: Path) -> None:
    write(clone, "jobs/t/b.yaml", "b3")
    write(clone, "jobs/t/e.yaml", "e1")
    (clone / "jobs/t/c.yaml").unlink()
    work_tree = WorkingTree(clone)
    change = open_change(clone, "main", work_tree=work_tree, changed=work_tree.changed)

    assert contents(change.head_tree, clone) == {"a": "a2", "b": "b3", "d": "d1", "e": "e1"}
    assert change.edited == tuple(f"jobs/t/{name}.yaml" for name in "bcde")


def test_a_path_that_both_sides_changed_is_named(clone: Path) -> None:
    commit(clone, a="mine")

    assert open_change(clone, "main").contested == ("jobs/t/a.yaml",)


def test_a_shallow_clone_without_the_merge_base_is_an_error_that_says_what_to_do(
    clone: Path, tmp_path: Path
) -> None:
    shallow = tmp_path / "shallow"
    run(tmp_path, "clone", "-q", "--depth", "1", "--no-single-branch", "-b", "change",
        f"file://{clone}", str(shallow))  # fmt: skip

    with pytest.raises(GitError, match="git fetch --unshallow") as caught:
        open_change(shallow, "origin/main")
    assert caught.value.exit_code == 5


def test_a_shallow_clone_that_could_hide_a_better_merge_base_is_refused_too(
    clone: Path, tmp_path: Path
) -> None:
    run(clone, "merge", "-q", "--no-edit", "main")
    for number in range(3):
        commit(clone, b=f"b{number + 10}")
    shallow = tmp_path / "shallow"
    run(tmp_path, "clone", "-q", "--depth", "4", "--no-single-branch", "-b", "change",
        f"file://{clone}", str(shallow))  # fmt: skip

    with pytest.raises(GitError, match="too shallow"):
        open_change(shallow, "origin/main")


def test_a_shallow_clone_that_holds_everything_needed_will_do(clone: Path, tmp_path: Path) -> None:
    run(clone, "checkout", "-q", "main")
    for number in range(5):
        commit(clone, a=f"a{number + 10}")
    run(clone, "checkout", "-q", "-B", "change", "main~1")
    commit(clone, d="d2")
    shallow = tmp_path / "shallow"
    run(tmp_path, "clone", "-q", "--depth", "4", "--no-single-branch", "-b", "change",
        f"file://{clone}", str(shallow))  # fmt: skip

    assert open_change(shallow, "origin/main").edited == ("jobs/t/d.yaml",)


def test_unrelated_histories_are_an_error(clone: Path) -> None:
    run(clone, "checkout", "-q", "--orphan", "other")
    commit(clone, z="z")

    with pytest.raises(GitError, match="no common ancestor"):
        open_change(clone, "main")


def test_a_base_that_is_not_here_says_what_to_fetch(clone: Path) -> None:
    with pytest.raises(NotFoundError, match="git fetch origin main"):
        open_change(clone, "origin/main")
