"""Which files of a tree are specs, and whose."""

import pytest

from reconciler.ports import TreeEntry
from reconciler.specs.paths import job_at, spec_paths
from tests.unit.specs.fleet_files import codes, said


def an_entry(mode: str = "100644", size: int = 10) -> TreeEntry:
    return TreeEntry(mode=mode, oid="a" * 40, size=size)


def test_team_and_name_come_from_the_path() -> None:
    found = spec_paths({"jobs/recsys/sft-001.yaml": an_entry(), "conf/headway.yaml": an_entry()})

    assert found.jobs == {"recsys/sft-001": "jobs/recsys/sft-001.yaml"}
    assert found.conf == ["conf/headway.yaml"]
    assert not found.problems


@pytest.mark.parametrize(
    "path",
    [
        "jobs/one.yaml",
        "jobs/a/b/c.yaml",
        "jobs/Team/x.yaml",
        "jobs/a/X.yaml",
        "jobs/a/-rf.yaml",
        "jobs/a/x-.yaml",
        "jobs/a/x.yml",
        "jobs/a/x.json",
        "jobs/a/..yaml",
        "jobs/../x.yaml",
        "jobs/a/a\\nb.yaml",
        "jobs/a/\u0440rod.yaml",
        "jobs/a/" + "x" * 64 + ".yaml",
        "jobs/.git/x.yaml",
    ],
)
def test_any_other_name_is_refused(path: str) -> None:
    found = spec_paths({path: an_entry()})

    assert codes(found.problems)[:1] == ["HW020"], said(found.problems)
    assert not found.jobs


@pytest.mark.parametrize(
    ("mode", "words"),
    [("120000", "a symlink"), ("160000", "a submodule"), ("100755", "an executable file")],
)
def test_only_plain_files_are_read_and_a_refused_one_is_not_absent(mode: str, words: str) -> None:
    found = spec_paths({"jobs/a/x.yaml": an_entry(mode)})

    assert words in said(found.problems)
    assert not found.jobs
    assert found.refused == {"a/x": "jobs/a/x.yaml"}
    assert found.problems[0].is_security_event == (mode != "100755")


def test_a_huge_file_is_refused_before_it_is_read() -> None:
    assert codes(spec_paths({"jobs/a/x.yaml": an_entry(size=70_000)}).problems) == ["HW002"]


def test_names_that_differ_only_in_case_are_both_named() -> None:
    found = spec_paths({"jobs/a/x.yaml": an_entry(), "jobs/A/x.yaml": an_entry()})

    assert codes(found.problems) == ["HW020", "HW022"]
    assert "jobs/a/x.yaml" in said(found.problems)


def test_companions_and_rules_of_other_tools_are_left_alone() -> None:
    found = spec_paths(
        {
            "jobs/a/README.md": an_entry(),
            "conf/monitoring/alerts.yml": an_entry(),
            "conf/README.md": an_entry(),
        }
    )

    assert not found.problems
    assert not found.jobs


def test_a_path_names_its_job() -> None:
    assert job_at("jobs/a/b.yaml") == "a/b"
    assert job_at("conf/a/b.yaml") is None
