"""Traces of every form become one load; mistakes are told with file and line."""

import gzip
import json
from pathlib import Path

import pytest

from reconciler.simulate.load import LoadError, nodes_for, offered_load, select
from reconciler.simulate.readers.files import open_load

CSV = """# a comment
job_id,user,team,submit_s,duration_s,gpus,gpu_type,status,extra
b,u1,vision,100,60,2,,COMPLETED,
a,u2,nlp,40,600,8,V100,,
never,u2,nlp,50,0,8,,,
"""
SWF = """; SWF
1 0 5 100 4 -1 -1 4 300 -1 1 3 7 -1 -1 -1 -1 -1
2 10 -1 50 -1 -1 -1 2 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
"""


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_normalised_csv_is_sorted_and_keeps_what_ran(tmp_path: Path) -> None:
    load = open_load(written(tmp_path, "t.csv", CSV))
    assert [(job.id, job.submit_s, job.gpus, job.team) for job in load] == [
        ("a", 40, 8, "nlp"),
        ("b", 100, 2, "vision"),
    ]


def test_a_gzipped_trace_reads_the_same(tmp_path: Path) -> None:
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(CSV.encode()))
    assert open_load(str(packed)) == open_load(written(tmp_path, "t.csv", CSV))


def test_swf_takes_requested_processors_where_none_were_allocated(tmp_path: Path) -> None:
    first, second = open_load(written(tmp_path, "t.swf", SWF))
    assert (first.gpus, first.duration_s, first.limit_s, first.team) == (4, 100, 300, "g7")
    assert (second.gpus, second.limit_s, second.user) == (2, None, "")


def test_phillys_log_sums_the_attempts_of_a_job(tmp_path: Path) -> None:
    def attempt(start: str, end: str | None, gpus: int) -> dict[str, object]:
        detail = [{"ip": "m1", "gpus": [f"gpu{number}" for number in range(gpus)]}]
        return {"start_time": start, "end_time": end, "detail": detail}

    jobs = [
        {
            "jobid": "application_1",
            "vc": "ee9e8c",
            "user": "0a0b0c",
            "status": "Pass",
            "submitted_time": "2017-10-07 00:59:50",
            "attempts": [
                attempt("2017-10-07 01:00:00", "2017-10-07 01:01:00", 2),
                attempt("2017-10-07 02:00:00", "2017-10-07 02:00:30", 2),
            ],
        },
        {"jobid": "open", "vc": "x", "user": "u", "submitted_time": "None", "attempts": []},
    ]
    (job,) = open_load(written(tmp_path, "cluster_job_log.json", json.dumps(jobs)))
    assert (job.duration_s, job.gpus, job.team, job.submit_s) == (90, 2, "ee9e8c", 0)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("t.csv", "job_id,submit_s\n1,2\n", "no duration_s, gpus"),
        ("t.csv", CSV.replace("600,8", "600,eight"), r"t\.csv:4"),
        ("t.swf", "1 2 3\n", r"t\.swf:1: SWF has 18 columns"),
        ("t.json", "{}", "expected a list"),
        ("t.json", "[{]", "not JSON"),
        ("t.txt", "", "a load is one of"),
        ("t.csv", CSV.splitlines()[1], "no job that ran"),
    ],
)
def test_a_mistake_is_told_where_it_is(tmp_path: Path, name: str, text: str, told: str) -> None:
    with pytest.raises(LoadError, match=told):
        open_load(written(tmp_path, name, text))


def test_a_missing_file_is_told() -> None:
    with pytest.raises(LoadError, match="no such file"):
        open_load("/nowhere/t.csv")


def test_a_part_of_a_load_is_taken_by_time_and_team(tmp_path: Path) -> None:
    load = open_load(written(tmp_path, "t.csv", CSV))
    assert [job.id for job in select(load, since_s=41)] == ["b"]
    assert [job.id for job in select(load, until_s=99, team="nlp")] == ["a"]
    with pytest.raises(LoadError, match="Teams in this trace: nlp, vision"):
        select(load, team="speech")


def test_the_fleet_is_as_large_as_the_load_asked_for(tmp_path: Path) -> None:
    load = open_load("synthetic:400", seed=3)
    nodes = nodes_for(load, rho=0.9, gpus_per_node=8)
    widest = max(job.gpus for job in load)
    assert offered_load(load, 8 * nodes) == pytest.approx(0.9, abs=0.2) or nodes * 8 == widest


def test_a_made_up_load_is_the_same_for_the_same_seed() -> None:
    assert open_load("synthetic:50", seed=1) == open_load("synthetic:50", seed=1)
    assert open_load("synthetic:50", seed=1) != open_load("synthetic:50", seed=2)
    assert max(job.gpus for job in open_load("synthetic:300,widest=4")) == 4


@pytest.mark.parametrize("words", ["synthetic:", "synthetic:0", "synthetic:9,speed=1"])
def test_words_nobody_knows_are_refused(words: str) -> None:
    with pytest.raises(LoadError, match=r"synthetic:"):
        open_load(words)
