"""The same findings for people, GitHub, programs and code scanning."""

import json
import os
import re
from pathlib import Path

import pytest

from reconciler.domain.problem import Severity, SpecProblem
from reconciler.specs.codes import TITLES, Code
from reconciler.specs.problems import as_github, as_json, as_sarif, as_text, shown
from tests.unit.specs.fleet_files import ROOT, read

GOLDEN = ROOT / "tests" / "golden" / "problems"
JOB = """\
defaults: [/model: tiny-qwen3, /task: sft, /tuner: lora, /data: support-chats, _self_]
api_version: headway/v1
kind: Job
resources:
  gpus: "*"
  nodes: 2
time: {limit: 72:00:00}
train: {save_steps: 5, system: "客服\uff1a请", lora_rank: 0}
"""
FILES = {"jobs/support/one.yaml": JOB}


def problems() -> tuple[SpecProblem, ...]:
    return read(JOB).problems


def a_problem(**changes: object) -> SpecProblem:
    fields: dict[str, object] = {
        "file": "jobs/a/b.yaml", "line": 1, "column": 1, "code": Code.SYNTAX, "message": "m",
    }  # fmt: skip
    return SpecProblem(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["text", "github", "json", "sarif"])
def test_each_format_is_as_reviewed(form: str) -> None:
    found = problems()
    text = {
        "text": lambda: as_text(found, FILES.get, 37),
        "github": lambda: as_github(found),
        "json": lambda: as_json(found, 37),
        "sarif": lambda: as_sarif(found, "0.0.0"),
    }[form]()
    path = GOLDEN / f"problems.{form}.txt"
    if os.environ.get("HEADWAY_GOLDEN") == "rewrite":
        path.write_text(text + "\n", encoding="utf-8")

    assert text + "\n" == path.read_text(encoding="utf-8"), "`make golden` writes it anew"


def test_carets_stand_under_the_value_also_behind_wide_letters() -> None:
    source = 'a: "客服"; b\n'
    text = as_text([a_problem(column=8)], {"jobs/a/b.yaml": source}.get, 1)

    lines = text.splitlines()
    assert lines[1].index(";") + 2 == lines[2].index("^")  # two wide letters: two columns more


def test_nothing_from_a_file_can_steer_a_terminal() -> None:
    source = "a: \x1b[2J\u202ex\n"
    text = as_text([a_problem(message="got \x1b[31m")], {"jobs/a/b.yaml": source}.get, 1)

    assert text.replace("\n", "").isprintable()
    assert "\\x1b[2J\\u202e" in text
    assert shown("é客") == "é客"


def test_github_s_limits_are_kept_and_what_is_cut_is_said() -> None:
    many = [a_problem(line=number) for number in range(1, 15)]
    warned = [a_problem(line=1, severity=Severity.WARNING)]

    lines = as_github([*warned, *many]).splitlines()

    errors = [line for line in lines if line.startswith("::error")]
    assert len(errors) == 10
    assert errors[-1] == "::error title=headway::5 more are in this step's log"
    assert lines[-1].startswith("::warning")


def test_github_gets_changed_files_first_and_everything_escaped() -> None:
    other = a_problem(file="jobs/a/a.yaml")
    changed = a_problem(file="jobs/z/z,:.yaml", message="50% of\nit", hint="a:b")

    lines = as_github([other, changed], {changed.file}).splitlines()

    assert lines[0] == (
        "::error file=jobs/z/z%2C%3A.yaml,line=1,col=1,title=HW003 not YAML::50%25 of%0Ait%0Aa:b"
    )


def test_sarif_is_valid_and_tags_security() -> None:
    log = json.loads(as_sarif(problems(), "1.2.3"))

    run = log["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    tagged = [each for each in run["results"] if "properties" in each]
    assert [each["ruleId"] for each in tagged] == ["HW069"]


def test_json_names_everything_a_program_needs() -> None:
    document = json.loads(as_json(problems(), 1))

    assert document["summary"] == {"errors": len(document["items"]), "warnings": 0, "files": 1}
    assert {"file", "line", "column", "code", "message", "hint", "is_security_event"} <= set(
        document["items"][0]
    )


def test_every_code_has_a_title_and_prose() -> None:
    prose = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### (HW\d{3})\n(.*?)(?=^##|\Z)", prose, re.M | re.S))

    assert set(TITLES) == set(Code)
    assert set(sections) == {code.value for code in Code}
    for code in Code:
        assert sections[code.value].startswith(f"**{TITLES[code]}.** ")
        assert len(sections[code.value].strip()) > len(TITLES[code]) + 40


def test_every_code_is_reached_by_a_test() -> None:
    tests = "\n".join(
        path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")
    )
    raised = {code for code in Code if f'"{code.value}"' not in tests}

    assert raised == set(), "codes that no test looks for"
