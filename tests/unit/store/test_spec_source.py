import pytest

from reconciler.domain.units import CommitId
from reconciler.errors import GitError
from reconciler.store.git import repository
from reconciler.store.spec_source import SpecSource
from tests.git_worlds import ADA, GRACE, Reconciler, Remote, run_git

JOB = "jobs/team/job.yaml"


@pytest.fixture
def source(remote: Remote) -> SpecSource:
    return SpecSource(Reconciler(remote).mirror, "origin")


def is_admin(email: str) -> bool:
    return email == "ada@example.org"


def test_a_fetch_returns_the_newest_tip_and_its_files(remote: Remote, source: SpecSource) -> None:
    remote.commit({JOB: "x"})
    tip = remote.commit({"conf/policy/a.yaml": "y", "docs/z.md": "z"})

    assert source.fetch() == tip
    assert list(source.tree(tip).entries) == ["conf/policy/a.yaml", JOB]


def test_a_remote_without_the_branch_is_an_error_and_not_an_empty_fleet(
    remote: Remote, source: SpecSource
) -> None:
    with pytest.raises(GitError, match="no branch main") as error:
        source.fetch()
    assert not error.value.retryable

    remote.commit({JOB: "x"})
    source.fetch()
    remote.reset(None)
    with pytest.raises(GitError, match="no branch main"):
        source.fetch()


def test_a_remote_that_is_away_raises_and_keeps_nothing(remote: Remote, source: SpecSource) -> None:
    tip = remote.commit({JOB: "x"})
    away = remote.path.rename(remote.path.with_suffix(".away"))

    with pytest.raises(GitError) as error:
        source.fetch()
    assert error.value.retryable

    away.rename(remote.path)
    assert source.fetch() == tip


def test_a_fetch_that_breaks_half_way_is_no_read(remote: Remote, source: SpecSource) -> None:
    remote.commit({JOB: "x"})
    source.fetch()
    remote.commit({JOB: "y", "jobs/team/big.yaml": "z" * 1000})
    for pack in (remote.path / "objects").rglob("??????????????????????????????????????"):
        if pack.stat().st_size > 40:
            pack.chmod(0o600)
            pack.write_bytes(pack.read_bytes()[:-10])

    with pytest.raises(GitError):
        source.fetch()


@pytest.mark.parametrize(
    "name", ["jobs/team/../../evil.yaml", "jobs/.git/config", "jobs/./x.yaml", "jobs/.GIT/config"]
)
def test_a_tree_that_could_escape_is_refused_on_arrival(
    remote: Remote, source: SpecSource, name: str
) -> None:
    remote.commit({JOB: "x"})
    good = source.fetch()
    remote.plant([("100644", name, b"x")])

    with pytest.raises(GitError):
        source.fetch()
    assert list(source.tree(good).entries) == [JOB]


def test_a_rewritten_main_is_fetched_and_told(remote: Remote, source: SpecSource) -> None:
    old = remote.commit({JOB: "1"})
    cursor = remote.commit({JOB: "2"})
    source.fetch()
    remote.reset(old)
    rewritten = remote.commit({JOB: "3"})

    assert source.fetch() == rewritten
    assert source.is_rewritten(cursor, rewritten)
    assert not source.is_rewritten(old, rewritten)
    assert not source.is_rewritten(None, rewritten)
    assert source.tree(cursor).read([]) == {}, "the commit left behind can still be read"


def test_a_commit_that_main_left_behind_outlives_maintenance(
    remote: Remote, source: SpecSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = remote.commit({JOB: "1"})
    left = remote.commit({JOB: "2"})
    source.fetch()
    remote.reset(None)
    with pytest.raises(GitError):
        source.fetch()
    remote.reset(old)
    remote.commit({JOB: "3"})
    source.fetch()
    monkeypatch.setattr(repository, "EXPIRE", "now")

    repository.maintain(source.repo)

    entry = source.tree(left).entries[JOB]
    assert source.tree(left).read([entry.oid]) == {entry.oid: b"2"}


def test_a_rewind_to_an_older_commit_is_a_rewrite(remote: Remote, source: SpecSource) -> None:
    old = remote.commit({JOB: "1"})
    cursor = remote.commit({JOB: "2"})
    source.fetch()
    remote.reset(old)

    assert source.is_rewritten(cursor, source.fetch())


def test_a_cursor_that_a_new_mirror_cannot_have_is_a_rewrite(
    remote: Remote, source: SpecSource
) -> None:
    tip = remote.commit({JOB: "1"})
    source.fetch()

    assert source.is_rewritten(CommitId("f" * 40), tip)


def test_only_an_admin_allows_pruning_and_the_largest_number_counts(
    remote: Remote, source: SpecSource
) -> None:
    cursor = remote.commit({JOB: "1"}, "Old\n\nHeadway-Allow-Prune: 99\n", author=ADA)
    remote.commit({JOB: "2"}, "By a member\n\nHeadway-Allow-Prune: 50\n", author=GRACE)
    remote.commit({JOB: "3"}, "By an admin\n\nHeadway-Allow-Prune: 12\n", author=ADA)
    remote.commit({JOB: "4"}, "Nonsense\n\nHeadway-Allow-Prune: all\n", author=ADA)
    remote.commit({JOB: "5"}, "By an admin\n\nHeadway-Allow-Prune: 7\n", author=ADA)
    tip = source.fetch()

    assert source.allowed_prune(cursor, tip, is_admin) == 12
    assert source.allowed_prune(cursor, tip, lambda email: False) == 0
    assert source.allowed_prune(tip, tip, is_admin) == 0
    assert source.allowed_prune(None, tip, is_admin) == 0


def test_an_allowance_inside_a_merged_branch_counts_for_its_author(
    remote: Remote, source: SpecSource
) -> None:
    cursor = remote.commit({JOB: "1"})
    side = remote.commit(
        {JOB: None}, "Remove\n\nHeadway-Allow-Prune: 3\n", branch="side", parents=(cursor,),
        author=ADA,
    )  # fmt: skip
    remote.commit({JOB: None}, "Merge", parents=(cursor, side), author=GRACE)

    assert source.allowed_prune(cursor, source.fetch(), is_admin) == 3


def test_submissions_and_authors_are_asked_of_the_mirror(
    remote: Remote, source: SpecSource
) -> None:
    remote.commit({"README.md": "x"})
    added = remote.commit({JOB: "x: y\n"}, author=GRACE)
    tip = source.fetch()

    assert source.submissions_between(None, tip)["team/job"].commit == added
    assert source.author(tip, JOB) == GRACE


def test_the_other_branches_of_the_remote_stay_there(remote: Remote, source: SpecSource) -> None:
    remote.commit({JOB: "x"})
    remote.commit({JOB: "y"}, branch="secret-branch")
    run_git(remote.path, "tag", "v1", "main")
    run_git(remote.path, "update-ref", "refs/replace/" + "1" * 40, "main")
    source.fetch()

    names = run_git(source.repo, "for-each-ref", "--format=%(refname)").splitlines()

    assert names == ["refs/headway/fetched/main", "refs/headway/seen/main"]
