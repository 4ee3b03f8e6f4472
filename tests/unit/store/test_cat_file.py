from pathlib import Path

import pytest

from reconciler.domain.units import CommitId
from reconciler.errors import GitError
from reconciler.store.git.cat_file import GitTree, list_tree, read_blobs, read_files, shown_path
from tests.git_worlds import Remote, run_git


def test_a_tree_lists_the_files_under_its_roots_and_nothing_else(remote: Remote) -> None:
    commit = remote.commit(
        {"jobs/b/x.yaml": "12345", "jobs/a/y.yaml": "1", "conf/z.yaml": "", "jobs2/no.yaml": "n"}
    )

    tree = GitTree(remote.path, commit)

    assert list(tree.entries) == ["conf/z.yaml", "jobs/a/y.yaml", "jobs/b/x.yaml"]
    entry = tree.entries["jobs/b/x.yaml"]
    assert (entry.mode, entry.size) == ("100644", 5)
    assert tree.read([entry.oid]) == {entry.oid: b"12345"}
    assert tree.commit == commit


def test_blobs_come_back_byte_for_byte(remote: Remote) -> None:
    contents = [b"", b"\n", b"no newline", b"\0\xff\n\n", b"x" * 100_000, b"a blob 3\nabc"]
    commit = remote.commit({f"jobs/f{n}": content for n, content in enumerate(contents)})
    entries = list_tree(remote.path, commit, ("jobs",))

    blobs = read_blobs(remote.path, (entry.oid for entry in entries.values()))

    assert [blobs[entries[f"jobs/f{n}"].oid] for n in range(len(contents))] == contents


def test_a_work_tree_attribute_does_not_change_what_is_read(remote: Remote) -> None:
    commit = remote.commit({".gitattributes": "* eol=crlf export-ignore\n", "jobs/a/b.yaml": "x\n"})

    assert read_files(remote.path, commit, ("jobs",)) == {"jobs/a/b.yaml": b"x\n"}


def test_symlinks_and_submodules_show_their_mode_and_are_never_followed(
    remote: Remote, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("s3cret")
    commit = remote.plant(
        [
            ("120000", "jobs/a/link.yaml", str(tmp_path / "secret").encode()),
            ("160000", "jobs/a/module", b""),
            ("100755", "jobs/a/run.yaml", b"x"),
        ]
    )

    tree = GitTree(remote.path, commit)

    assert {path: entry.mode for path, entry in tree.entries.items()} == {
        "jobs/a/link.yaml": "120000",
        "jobs/a/module": "160000",
        "jobs/a/run.yaml": "100755",
    }
    assert tree.entries["jobs/a/module"].size == 0
    link = tree.entries["jobs/a/link.yaml"].oid
    assert tree.read([link])[link] == str(tmp_path / "secret").encode()
    assert list(read_files(remote.path, commit, ("jobs",))) == []


def test_a_root_that_is_a_symlink_is_an_entry_of_its_own(remote: Remote) -> None:
    commit = remote.plant([("120000", "jobs", b"/etc")])

    assert {path: entry.mode for path, entry in GitTree(remote.path, commit).entries.items()} == {
        "jobs": "120000"
    }


def test_names_of_odd_bytes_are_shown_escaped_and_stay_apart(remote: Remote) -> None:
    names = ["jobs/a/\udcff.yaml", "jobs/a/\\xff.yaml", "jobs/a/n\nl", "jobs/a/\x1b[2J", "jobs/ä"]
    commit = remote.plant([("100644", name, b"x") for name in names])

    shown = list(GitTree(remote.path, commit).entries)

    assert sorted(shown) == sorted(
        ["jobs/a/\\xff.yaml", "jobs/a/\\\\xff.yaml", "jobs/a/n\\x0al", "jobs/a/\\x1b[2J", "jobs/ä"]
    )
    assert all(name.isprintable() for name in shown)


def test_a_tree_that_lists_one_path_twice_is_refused(remote: Remote) -> None:
    blob = run_git(remote.path, "hash-object", "-w", "--stdin", stdin=b"x")
    twice = b"".join(b"100644 a.yaml\0" + bytes.fromhex(blob) for _ in range(2))
    tree = run_git(remote.path, "hash-object", "-t", "tree", "-w", "--literally", "--stdin",
                   stdin=twice)  # fmt: skip
    root = run_git(remote.path, "mktree", stdin=f"040000 tree {tree}\tjobs\n".encode())
    commit = run_git(
        remote.path, "commit-tree", root, "-m", "x", GIT_AUTHOR_NAME="m", GIT_AUTHOR_EMAIL="m@x",
        GIT_COMMITTER_NAME="m", GIT_COMMITTER_EMAIL="m@x",
    )  # fmt: skip

    with pytest.raises(GitError, match=r"lists 'jobs/a\.yaml' twice"):
        list_tree(remote.path, CommitId(commit), ("jobs",))


def test_a_missing_blob_raises_and_never_reads_as_empty(remote: Remote) -> None:
    commit = remote.commit({"jobs/a/b.yaml": "unique content"})
    oid = list_tree(remote.path, commit, ("jobs",))["jobs/a/b.yaml"].oid
    loose = remote.path / "objects" / oid[:2] / oid[2:]
    loose.unlink()

    with pytest.raises(GitError, match="missing"):
        GitTree(remote.path, commit).read([oid])
    with pytest.raises(GitError, match=r"jobs/a/b\.yaml .* is missing"):
        list_tree(remote.path, commit, ("jobs",))


def test_a_commit_that_is_not_there_raises(remote: Remote) -> None:
    remote.commit({"jobs/a/b.yaml": "x"})

    with pytest.raises(GitError):
        _ = GitTree(remote.path, CommitId("f" * 40)).entries
    with pytest.raises(GitError, match="not a full object id"):
        GitTree(remote.path, CommitId("main"))


def test_a_tree_asked_for_as_a_blob_is_refused(remote: Remote) -> None:
    remote.commit({"jobs/a/b.yaml": "x"})
    tree = run_git(remote.path, "rev-parse", "main^{tree}")

    with pytest.raises(GitError, match="cannot be read"):
        read_blobs(remote.path, [tree])
    with pytest.raises(GitError, match="not a full object id"):
        read_blobs(remote.path, ["main:jobs/a/b.yaml"])


def test_a_root_without_files_is_empty(remote: Remote) -> None:
    commit = remote.commit({"README.md": "x"})

    assert GitTree(remote.path, commit).entries == {}
    assert read_blobs(remote.path, []) == {}


def test_every_spelling_of_a_path_is_unique() -> None:
    raws = [b"a", b"\\x61", b"\xff", b"\\xff", b"\\\\xff", b"\xc3\xa4", b"\xc3", b"\t", b"\\x09"]

    assert len({shown_path(raw) for raw in raws}) == len(raws)
