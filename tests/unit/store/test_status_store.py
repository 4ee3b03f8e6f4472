from pathlib import Path

import pytest

from reconciler.domain.status import JobPhase
from reconciler.domain.units import CommitId, JobId
from reconciler.errors import BackendError, DeposedError, GitError, StaleRevisionError
from reconciler.specs.serialize import Cursor, LeaseRecord, cursor_to_json
from reconciler.store.status_store import StatusStore
from reconciler.store.status_tree import read_one_status, read_status_tree, status_path
from tests.git_worlds import START, Reconciler, Remote, a_status, run_git

EPOCH = "\n\nHeadway-Epoch: 1\n"


@pytest.fixture
def holder(remote: Remote) -> Reconciler:
    """A reconciler that holds the lease of an empty fleet."""
    reconciler = Reconciler(remote)
    reconciler.acquire()
    return reconciler


def test_what_was_committed_is_read_back(remote: Remote, holder: Reconciler) -> None:
    one, other = a_status("b/one"), a_status("a/other", JobPhase.RUNNING)
    tip = holder.record(one, other)
    cursor = Cursor(desired=CommitId("d" * 40), runs="/runs")
    tip = holder.store.commit(
        tip, {".headway/cursor.json": cursor_to_json(cursor), ".headway/inputs/0001.json": b"x"},
        f"status: cursor{EPOCH}",
    )  # fmt: skip

    tree = holder.store.read(tip)

    assert list(tree.statuses.values()) == [other, one]
    assert tree.cursor == cursor
    assert tree.lease == LeaseRecord(epoch=1, holder="r1")
    assert tree.files[".headway/inputs/0001.json"] == b"x"
    assert tree.inputs is tree.forecast is tree.history is None
    assert remote.tip("status/laptop") == tip == holder.store.seen()
    assert read_one_status(holder.mirror, tip, JobId("b/one")) == one
    assert read_one_status(holder.mirror, tip, JobId("b/two")) is None


def test_the_branch_is_an_orphan_written_by_the_reconciler_alone(
    remote: Remote, holder: Reconciler
) -> None:
    remote.commit({"jobs/a/b.yaml": "x"})
    holder.record(a_status(), at=START)

    log = run_git(remote.path, "log", "--format=%an|%ae|%cn|%ct|%P", "status/laptop")

    assert [line.rsplit("|", 1)[0] for line in log.splitlines()] == [
        f"headway-laptop|headway-laptop@headway.invalid|headway-laptop|{START}"
    ] * 2
    assert log.endswith("|"), "the first commit has no parent"
    assert run_git(remote.path, "fsck", "--strict", "--no-dangling") == ""


def test_the_same_content_again_makes_no_commit(remote: Remote, holder: Reconciler) -> None:
    tip = holder.record(a_status())

    assert holder.record(a_status()) == tip
    assert remote.tip("status/laptop") == tip


def test_a_deleted_status_is_gone_from_the_tip_only(holder: Reconciler) -> None:
    before = holder.record(a_status("a/b"), a_status("a/c"))

    tip = holder.store.commit(before, {status_path(JobId("a/b")): None}, f"status: x{EPOCH}")

    assert list(holder.store.read(tip).statuses) == ["a/c"]
    assert list(read_status_tree(holder.mirror, before).statuses) == ["a/b", "a/c"]


def test_reading_step_by_step_equals_reading_at_once(holder: Reconciler) -> None:
    tips = [holder.record(a_status("b/x"))]
    holder.store.read(tips[0])
    tips.append(holder.record(a_status("b/x", JobPhase.RUNNING), a_status("a/new")))
    tips.append(holder.store.commit(
        tips[-1], {status_path(JobId("b/x")): None, ".headway/inputs.json": b"1"}, f"s{EPOCH}"
    ))  # fmt: skip
    tips.append(holder.record(a_status("c/y")))

    for tip in [*tips, tips[0], tips[2]]:
        stepwise = holder.store.read(tip)
        assert stepwise == read_status_tree(holder.mirror, tip)
        assert list(stepwise.statuses) == sorted(stepwise.statuses)


def test_a_plan_made_on_an_older_commit_is_refused(remote: Remote, holder: Reconciler) -> None:
    old = holder.store.seen()
    tip = holder.record(a_status())
    assert old is not None

    with pytest.raises(StaleRevisionError, match="planned on"):
        holder.store.commit(old, {"status/a/b.json": b"{}"}, "x")

    assert remote.tip("status/laptop") == tip
    assert holder.store.conflicts == 1


def test_without_the_lease_nothing_is_written(remote: Remote, holder: Reconciler) -> None:
    tip = holder.record(a_status())
    stranger = Reconciler(remote, "r2")
    stranger.store.fetch()

    with pytest.raises(DeposedError, match=r"held by r1 \(epoch 1\), not by this process"):
        stranger.store.commit(tip, {"status/a/b.json": b"{}"}, "x")

    assert remote.tip("status/laptop") == tip


def test_a_deposed_writer_is_refused_whether_it_fetched_or_not(remote: Remote) -> None:
    first, second = Reconciler(remote, "r1"), Reconciler(remote, "r2", holder="r1")
    first.acquire()
    tip = first.record(a_status("a/b"))
    second.acquire()
    newest = second.record(a_status("a/b", JobPhase.RUNNING))

    with pytest.raises(StaleRevisionError, match="somebody else wrote first"):
        first.store.commit(tip, {"status/a/b.json": b"{}"}, "not fetched")
    assert first.store.fetch() == newest
    with pytest.raises(DeposedError, match="epoch 2"):
        first.store.commit(newest, {"status/a/b.json": b"{}"}, "fetched")

    assert remote.tip("status/laptop") == newest


def test_there_is_no_branch_before_the_first_reconciler(remote: Remote) -> None:
    assert Reconciler(remote).store.fetch() is None


def test_a_rewound_branch_stops_everything_and_says_how_to_go_on(
    remote: Remote, holder: Reconciler
) -> None:
    old = holder.record(a_status("a/b"))
    new = holder.record(a_status("a/c"))
    remote.reset(old, branch="status/laptop")

    for _ in range(2):  # the refusal is not forgotten by asking again
        with pytest.raises(BackendError, match="does not descend") as error:
            holder.store.fetch()
    assert not error.value.retryable
    assert f"{new}:refs/heads/status/laptop" in str(error.value)
    assert remote.tip("status/laptop") == old, "the branch is never put back by itself"

    run_git(
        holder.mirror, "push", "--quiet", "--force", "origin", f"{new}:refs/heads/status/laptop"
    )
    assert holder.store.fetch() == new


def test_a_deleted_branch_is_not_an_empty_fleet(remote: Remote, holder: Reconciler) -> None:
    holder.record(a_status())
    remote.reset(None, branch="status/laptop")

    with pytest.raises(BackendError, match="is gone") as error:
        holder.store.fetch()
    assert not error.value.retryable

    holder.store.accept(None)
    assert holder.store.fetch() is None


def test_a_rewind_is_noticed_after_a_restart_too(remote: Remote, holder: Reconciler) -> None:
    old = holder.record(a_status("a/b"))
    holder.record(a_status("a/c"))
    remote.reset(old, branch="status/laptop")

    with pytest.raises(BackendError, match="does not descend"):
        Reconciler(remote, "r1").acquire()


def test_a_commit_that_no_reconciler_made_stops_everything(
    remote: Remote, holder: Reconciler
) -> None:
    good = holder.record(a_status())
    foreign = remote.commit({"status/team/job.json": b"{}"}, branch="status/laptop")

    with pytest.raises(BackendError, match=f"{foreign}, which headway-laptop did not write"):
        holder.store.fetch()
    assert holder.store.seen() == good
    with pytest.raises(StaleRevisionError):
        holder.record(a_status("a/c"))
    assert remote.tip("status/laptop") == foreign, "it is not overwritten either"
    with pytest.raises(BackendError, match="did not write"):
        Reconciler(remote, "fresh").store.fetch()

    holder.store.accept(foreign)
    assert holder.store.fetch() == foreign


def test_a_merge_on_the_branch_is_looked_into(remote: Remote, holder: Reconciler) -> None:
    tip = holder.record(a_status())
    side = remote.commit({"x": "y"}, branch="side")
    remote.commit(
        {}, f"status: x{EPOCH}", branch="status/laptop", parents=(tip, side),
        author="headway-laptop <headway-laptop@headway.invalid>",
    )  # fmt: skip

    with pytest.raises(BackendError, match=f"{side}, which headway-laptop did not write"):
        holder.store.fetch()


@pytest.mark.parametrize(
    ("mode", "name", "content", "message"),
    [
        ("100644", "bad.json", b"{}", r"holds status/bad\.json, which no reconciler writes"),
        ("100644", "README", b"hello", "holds status/README, which no reconciler writes"),
        ("120000", "link.json", b"/etc/passwd", "holds status/link.json, which no reconciler"),
        ("100755", "team/x.json", b"{}", r"holds status/team/x\.json, which no reconciler"),
        ("100644", "team/x.json", b"{}", r"status/team/x\.json at [0-9a-f]{40}: .*headway/v1"),
        ("100644", "team/x.json", b"\xff", r"status/team/x\.json at [0-9a-f]{40}: .*not JSON"),
    ],
)
def test_what_no_reconciler_writes_raises_and_never_reads_as_no_job(
    remote: Remote, holder: Reconciler, mode: str, name: str, content: bytes, message: str
) -> None:
    good = holder.record(a_status("z/z"))
    bad = remote.plant([(mode, f"status/{name}", content)], branch="status/laptop")
    run_git(holder.mirror, "fetch", "--quiet", "origin", "refs/heads/status/laptop")

    holder.store.read(good)
    for read in (holder.store.read, lambda commit: read_status_tree(holder.mirror, commit)):
        with pytest.raises(BackendError, match=message) as error:
            read(bad)
        assert not error.value.retryable


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "status/../x", ".git/config", "a/.git/x", "status/a b", "", "A"]
)
def test_only_plain_paths_can_be_written(holder: Reconciler, path: str) -> None:
    tip = holder.store.seen()
    assert tip is not None

    with pytest.raises(GitError, match="is no path this may write"):
        holder.store.commit(tip, {path: b"x"}, "x")


@pytest.mark.parametrize("cluster", ["", "../main", "a/b", "Laptop", "x" * 65, "-x", "a..b"])
def test_a_cluster_id_that_cannot_name_a_branch_is_refused(tmp_path: Path, cluster: str) -> None:
    with pytest.raises(BackendError, match="cannot name a branch"):
        StatusStore(tmp_path, "origin", cluster)


def test_a_hostile_message_stays_one_message(remote: Remote, holder: Reconciler) -> None:
    tip = holder.store.seen()
    assert tip is not None
    text = "status: x\n\nfrom nobody\nM 100644 inline evil\ndata 3\n\udc80\n\nHeadway-Epoch: 1\n"

    new = holder.store.commit(tip, {"status/a/b.json": b"{}"}, text)

    assert run_git(remote.path, "log", "-1", "--format=%B", new).startswith("status: x\n\nfrom nob")
    assert "evil" not in run_git(remote.path, "ls-tree", "-r", "--name-only", new)


def test_a_hook_that_declines_is_told_apart_from_a_lost_race(
    remote: Remote, holder: Reconciler
) -> None:
    tip = holder.record(a_status())
    remote.hook("pre-receive", "echo 'status is frozen by ops' >&2; exit 1")

    with pytest.raises(GitError, match="status is frozen by ops") as error:
        holder.record(a_status("a/new"))

    assert "pre-receive hook declined" in str(error.value)
    assert not error.value.retryable
    assert holder.store.conflicts == 0
    assert remote.tip("status/laptop") == tip == holder.store.seen()


def test_a_remote_that_lets_nobody_write_is_no_lost_race(
    remote: Remote, holder: Reconciler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "ssh"
    script.write_text("#!/bin/sh\necho 'git@host: Permission denied (publickey).' >&2\nexit 255\n")
    script.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(script))
    run_git(holder.mirror, "remote", "set-url", "origin", "ssh://git@host/fleet.git")

    with pytest.raises(GitError, match="Permission denied") as error:
        holder.record(a_status())
    assert not error.value.retryable
    with pytest.raises(GitError, match="Permission denied") as error:
        holder.store.fetch()
    assert not error.value.retryable


def test_a_remote_that_is_away_may_come_back(remote: Remote, holder: Reconciler) -> None:
    tip = holder.record(a_status())
    away = remote.path.rename(remote.path.with_suffix(".away"))

    for call in (holder.store.fetch, lambda: holder.record(a_status("a/new"))):
        with pytest.raises(GitError) as error:
            call()
        assert error.value.retryable

    away.rename(remote.path)
    assert holder.store.fetch() == tip
    holder.record(a_status("a/new"))


def test_people_pushing_to_main_never_conflict_with_status(
    remote: Remote, holder: Reconciler
) -> None:
    remote.commit({"jobs/a/b.yaml": "x"})
    ada = remote.clone("Ada")
    holder.store.fetch()

    for number in range(3):
        ada.write(f"jobs/a/job-{number}.yaml", "x")
        ada.commit()
        ada.push()
        holder.record(a_status(f"a/job-{number}"))

    assert holder.store.conflicts == 0
    assert len(holder.store.read(holder.store.fetch() or CommitId("")).statuses) == 3
