from pathlib import Path

import pytest

from reconciler.domain.units import CommitId
from reconciler.errors import GitError
from reconciler.store.git.history import (
    author_of,
    first_parents_reach,
    is_ancestor,
    landed,
    merge_base,
    refuse_shallow,
    trailed,
)
from tests.git_worlds import ADA, GRACE, Remote, run_git


def test_first_parent_commits_come_newest_first_with_what_they_changed(remote: Remote) -> None:
    one = remote.commit({"jobs/a/x.yaml": "1", "README.md": "r"}, at=1000)
    remote.commit({"README.md": "again"}, at=2000)
    three = remote.commit({"jobs/a/x.yaml": "2", "jobs/a/y.yaml": "3"}, at=3000)
    four = remote.commit({"jobs/a/x.yaml": None}, at=2500)

    found = list(landed(remote.path, four))

    assert [(each.commit, each.committed_at) for each in found] == [
        (four, 2500), (three, 3000), (one, 1000),
    ]  # fmt: skip
    changes = [[(c.path, bool(c.before), bool(c.after)) for c in each.changes] for each in found]
    assert changes == [
        [("jobs/a/x.yaml", True, False)],
        [("jobs/a/x.yaml", True, True), ("jobs/a/y.yaml", False, True)],
        [("jobs/a/x.yaml", False, True)],
    ]
    assert [each.commit for each in landed(remote.path, four, since=one)] == [four, three]
    assert [each.commit for each in landed(remote.path, four, limit=1)] == [four]
    assert list(landed(remote.path, four, since=four)) == []


def test_a_merge_shows_what_it_brought_to_the_first_parent(remote: Remote) -> None:
    base = remote.commit({"jobs/a/x.yaml": "1"})
    side = remote.commit({"jobs/a/y.yaml": "2"}, branch="side", parents=(base,))
    here = remote.commit({"jobs/a/z.yaml": "3"})
    merge = remote.commit({"jobs/a/y.yaml": "2"}, parents=(here, side))

    found = list(landed(remote.path, merge, since=base))

    assert [each.commit for each in found] == [merge, here]
    assert [change.path for change in found[0].changes] == ["jobs/a/y.yaml"]


def test_names_that_look_like_output_do_not_confuse_the_log(remote: Remote) -> None:
    names = ["jobs/a/:100644 x", "jobs/a/\n:000000", "jobs/\x02\x03", "jobs/" + "a" * 40 + " 12"]
    commit = remote.plant([("100644", name, b"x") for name in names])

    (found,) = landed(remote.path, commit)

    assert found.commit == commit
    assert len(found.changes) == len(names)


def test_a_descendant_is_told_from_a_rewrite(remote: Remote) -> None:
    old = remote.commit({"a": "1"})
    new = remote.commit({"a": "2"})
    rewritten = remote.commit({"a": "3"}, parents=(old,))

    assert is_ancestor(remote.path, old, new)
    assert is_ancestor(remote.path, new, new)
    assert not is_ancestor(remote.path, new, old)
    assert not is_ancestor(remote.path, new, rewritten)
    assert not is_ancestor(remote.path, CommitId("f" * 40), new), "a lost commit is no ancestor"
    with pytest.raises(GitError, match="cannot compare"):
        is_ancestor(remote.path, old, CommitId("f" * 40))
    assert merge_base(remote.path, new, rewritten) == old


def test_histories_without_a_common_commit_have_no_merge_base(remote: Remote) -> None:
    one = remote.commit({"a": "1"})
    other = remote.commit({"b": "1"}, branch="other", parents=())

    with pytest.raises(GitError, match="share no history"):
        merge_base(remote.path, one, other)


def test_a_shallow_clone_is_refused_with_the_fix(remote: Remote, tmp_path: Path) -> None:
    for number in range(3):
        tip = remote.commit({"a": str(number)})
    run_git(tmp_path, "clone", "--quiet", "--depth=1", remote.url, "shallow")
    shallow = tmp_path / "shallow"

    for ask in (
        lambda: refuse_shallow(shallow),
        lambda: is_ancestor(shallow, CommitId("f" * 40), tip),
        lambda: merge_base(shallow, tip, tip),
    ):
        with pytest.raises(GitError, match="fetch --unshallow") as error:
            ask()
        assert not error.value.retryable

    run_git(shallow, "fetch", "--quiet", "--unshallow")
    refuse_shallow(shallow)


def test_the_first_parent_line_is_told_from_the_rest_of_history(remote: Remote) -> None:
    base = remote.commit({"a": "1"})
    old_main = remote.commit({"a": "2"})
    side = remote.commit({"b": "1"}, branch="side", parents=(base,))
    foxtrot = remote.commit({"a": "2"}, branch="side", parents=(side, old_main))

    assert first_parents_reach(remote.path, base, foxtrot)
    assert first_parents_reach(remote.path, side, foxtrot)
    assert is_ancestor(remote.path, old_main, foxtrot)
    assert not first_parents_reach(remote.path, old_main, foxtrot)
    assert not first_parents_reach(remote.path, foxtrot, base)


def test_the_author_is_who_wrote_it_and_not_who_merged_it(remote: Remote) -> None:
    base = remote.commit({"jobs/a/x.yaml": "1"}, author=ADA)
    side = remote.commit({"jobs/a/x.yaml": "bad"}, author=GRACE, branch="side", parents=(base,))
    other = remote.commit({"README.md": "x"}, author=ADA)
    merge = remote.commit({"jobs/a/x.yaml": "bad"}, author=ADA, parents=(other, side))

    assert author_of(remote.path, "jobs/a/x.yaml", merge) == GRACE
    assert author_of(remote.path, "jobs/a/x.yaml", base) == ADA
    assert author_of(remote.path, "jobs/a/none.yaml", merge) == ""
    assert author_of(remote.path, ":(glob)**", merge) == "", "a path is never a pattern"


def test_trailers_come_with_their_people(remote: Remote) -> None:
    base = remote.commit({"a": "1"}, "No trailer\n")
    both = remote.commit(
        {"a": "2"}, "Clean\n\nHeadway-X: one\nHeadway-X: two\nOther: no\n", author="B <B@X.ORG>"
    )
    inside = remote.commit({"a": "3"}, "Headway-X: in the subject\n\nHeadway-X: body\n\nThe end.\n")

    found = trailed(remote.path, inside, trailer="Headway-X", since=base)

    assert [(each.commit, each.author_email, each.values) for each in found] == [
        (inside, "ada@example.org", ()),
        (both, "b@x.org", ("one", "two")),
    ]
    assert found[1].parents == (base,)
    assert len(trailed(remote.path, inside, trailer="Headway-X", since=None)) == 3
