"""``headway simulate``: what it takes, what it prints, what it refuses."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.command_line import Headway, in_process

CSV = "\n".join(
    (
        "job_id,user,team,submit_s,duration_s,gpus,gpu_type,status,extra",
        "a,u,vision,0,100,8,,,",
        "b,u,nlp,10,50,8,,,",
        "c,u,nlp,20,50,64,,,",
        "",
    )
)
ROOT = Path(__file__).parents[3]


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "tiny.csv"
    path.write_text(CSV, encoding="utf-8")
    return str(path)


@pytest.fixture
def headway(capsys: pytest.CaptureFixture[str]) -> Headway:
    return in_process(capsys, None)


def test_a_trace_is_played_by_headway_and_beside_it_by_others(
    headway: Headway, trace: str, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "out.json"
    said = headway(
        "simulate", trace, "--nodes", "1", "--policy", "headway", "--policy", "easy",
        "--bound", "--json", str(out),
    )  # fmt: skip
    assert said.code == 0
    assert said.lines[0].startswith("tiny: 2 jobs on 1 nodes x 8 GPUs")
    assert any(line.startswith("headway") for line in said.lines)
    assert "note: 1 jobs are wider than the cluster and were left out" in said.lines
    written = json.loads(out.read_text(encoding="utf-8"))
    assert [each["policy"] for each in written["policies"]] == ["headway", "easy", "easy-e2"]
    assert all(each["bound_jct_mean_s"] > 0 for each in written["policies"])
    assert written["policies"][1]["wait_max_s"] == 90


def test_json_and_html_go_to_standard_output(headway: Headway, trace: str) -> None:
    said = headway("simulate", trace, "--nodes", "1", "--policy", "fifo", "-o", "json")
    assert json.loads(said.out)["kind"] == "Simulation"
    said = headway("simulate", trace, "--nodes", "1", "--policy", "fifo", "-o", "html")
    assert said.out.startswith("<!doctype html>")
    assert said.out.count("<svg") == 3


def test_the_fleet_is_as_large_as_the_load_asked_for(headway: Headway) -> None:
    said = headway("simulate", "synthetic:60", "--load", "0.9", "--policy", "fifo", "-o", "json")
    assert said.code == 0
    assert json.loads(said.out)["setup"]["nodes"] >= 1


def test_a_cluster_of_conf_and_a_policy_file_are_taken(
    capsys: pytest.CaptureFixture[str], trace: str, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("order: score\ncycle: 30s\n", encoding="utf-8")
    said = in_process(capsys, ROOT)(
        "simulate", trace, "--cluster", "dgx_rack", "--policy-file", str(policy), "-o", "json"
    )
    assert said.code == 0, said.err
    assert json.loads(said.out)["setup"]["nodes"] == 5


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--policy", "fifo"), "one of --nodes N, --load RHO, --cluster NAME"),
        (("--nodes", "1", "--load", "0.9"), "one of --nodes N"),
        (("--nodes", "1", "--team", "speech"), "Teams in this trace: nlp, vision"),
        (("--nodes", "1", "--restart-cost", "much"), "flat as 60s"),
        (("--load", "0"), "must be above 0"),
        (("--nodes", "1", "--policy-file", "/nowhere.yaml"), "/nowhere.yaml"),
    ],
)
def test_what_makes_no_sense_is_refused_with_advice(
    headway: Headway, trace: str, words: tuple[str, ...], told: str
) -> None:
    said = headway("simulate", trace, *words)
    assert said.code == 64
    assert told in said.err


def test_a_mistake_in_a_policy_file_names_the_key(
    headway: Headway, trace: str, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("cicle: 30s\n", encoding="utf-8")
    said = headway("simulate", trace, "--nodes", "1", "--policy-file", str(policy))
    assert said.code == 64
    assert "cicle" in said.err


def test_nodes_of_different_sizes_are_for_headway_alone(
    capsys: pytest.CaptureFixture[str], trace: str
) -> None:
    said = in_process(capsys, ROOT)("simulate", trace, "--cluster", "dgx_rack", "--policy", "fifo")
    assert said.code == 64
    assert "only --policy headway" in said.err
