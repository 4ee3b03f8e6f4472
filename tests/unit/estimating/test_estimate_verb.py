"""What ``headway estimate`` and ``advise`` print, refuse, and write."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.estimating.command_line import estimated, refusal, run
from tests.unit.estimating.test_rows_and_scoring import ROW


def test_an_estimate_shows_parts_a_bar_a_verdict_and_speed() -> None:
    output = run("estimate --model Qwen3-8B max_length=4096 --gpus 4 --gpu-type H100").output

    assert "W weights" in output and "R runtime" in output
    bar = next(line for line in output.splitlines() if line.startswith("["))
    assert bar.index("W") < bar.index("L") < bar.index("R") < bar.index(".")
    assert "Verdict:       fits" in output
    assert "tokens/s a GPU" in output
    assert "published runs on this GPU" in output


def test_what_does_not_fit_runs_over_the_bar_and_exits_with_1() -> None:
    result = run("estimate --model Qwen2.5-72B --gpu-type A100-80GB")

    assert result.exit_code == 1
    bar = next(line for line in result.output.splitlines() if line.startswith("["))
    assert "." not in bar.partition("]")[0]
    assert bar.endswith("%") and "R" in bar.partition("]")[2]


def test_one_estimate_for_each_gpu_type() -> None:
    result = run("estimate --model Qwen3-8B --gpu-type A100-80GB --gpu-type H100-80GB -o json")

    types = [item["gpu_type"] for item in json.loads(result.output)["items"]]
    assert types == ["A100-80GB", "H100-80GB"]


def test_steps_give_duration_gpu_hours_and_cost() -> None:
    course = estimated("estimate --model Qwen3-8B --gpus 2 --steps 500 --price 2")["course"]

    assert course["steps"] == 500
    assert course["duration_p50_s"] < course["duration_p90_s"]
    assert course["cost"] == pytest.approx(2 * course["gpu_hours"], abs=0.02)


def test_max_steps_of_the_section_count_where_no_option_says() -> None:
    assert estimated("estimate --model Qwen3-8B max_steps=10")["course"]["steps"] == 10


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("estimate", "say what runs"),
        ("estimate --model Qwen3-8B lora_rnk=8", "did you mean lora_rank?"),
        ("estimate --model Qwen3-8B cutoff_len=8", "did you mean max_length?"),
        ("estimate --model Qwen3-8B max_length", "is not KEY=VALUE"),
        ("estimate --model Qwen3-8B max_length=long", "must be of type integer"),
        ("estimate --model Qwen3-8B attn_impl=fast", "attn_impl is one of"),
        ("estimate --model Qwen3-8B --gpu-type A100-90GB", "no GPU type named"),
        ("estimate --csv /nowhere.csv", "no such file"),
        ("advise Qwen4-8B --gpus 8 --gpu-type H100", "no model named"),
    ],
)
def test_mistakes_are_refused_with_advice(line: str, words: str) -> None:
    assert words in str(refusal(line))


def test_advice_explains_the_winner_and_prints_lines_to_paste() -> None:
    output = run(
        "advise Qwen2.5-14B tuner_type=full max_length=8192 --global-batch 16 --gpus 8 "
        "--gpu-type A800-80GB"
    ).output

    assert "proposed: FSDP2 DP8" in output
    assert "% slower than Megatron" in output
    assert "fsdp: fsdp2" in output
    assert "note: not proposed: Megatron" in output
    assert "this build's trainer has no Megatron" in output
    assert "tensor_model_parallel_size:" not in output
    assert "rule of thumb for 13B to 70B" in output


def test_advice_where_nothing_fits_says_what_would() -> None:
    result = run("advise Qwen2.5-72B tuner_type=full max_length=8192 --gpus 8 --gpu-type H100")

    assert result.exit_code == 1
    assert "nothing fits on 8 x H100-80GB; the closest needs" in result.output


def table(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_table_is_predicted_column_by_column(tmp_path: Path) -> None:
    source = table(
        tmp_path / "in.csv",
        [
            ROW | {"measured_peak_mem_gb": "", "mem_unit": "GiB", "optimizer": "adamw-8bit"},
            ROW | {"micro_batch": "64"},
        ],
    )

    result = run(f"estimate --csv {source} --out {tmp_path / 'out.csv'}")

    rows = read_rows(tmp_path / "out.csv")
    assert [row["predicted_fits"] for row in rows] == ["yes", "no"]
    assert float(rows[0]["predicted_mem_gb_p50"]) < float(rows[0]["predicted_mem_gb_p90"])
    assert float(rows[0]["predicted_tokens_per_s_per_gpu"]) > 100
    assert rows[0]["model"] == ROW["model"]
    assert "plain formulas" in result.output


def test_a_table_without_any_measured_column_is_predicted_too(tmp_path: Path) -> None:
    few = {key: ROW[key] for key in ("id", "model", "gpu", "gpu_mem_gb", "seq_len")}
    source = table(tmp_path / "in.csv", [few])

    result = run(f"estimate --csv {source} --out {tmp_path / 'out.csv'}")

    assert result.exception is None
    (row,) = read_rows(tmp_path / "out.csv")
    assert row["predicted_fits"] in ("yes", "no")


def test_an_unreadable_row_is_named_by_line(tmp_path: Path) -> None:
    source = table(tmp_path / "in.csv", [ROW, ROW | {"id": "X2", "seq_len": ""}])

    message = str(refusal(f"estimate --csv {source}"))

    assert "line 3" in message and "row X2" in message and "seq_len" in message


def test_scores_are_there_for_machines(tmp_path: Path) -> None:
    source = table(tmp_path / "in.csv", [ROW | {"measured_peak_mem_gb": "60", "mem_unit": "GiB"}])

    document = json.loads(run(f"estimate --csv {source} -o json").output)

    assert document["kind"] == "EstimateScores"
    assert document["memory"]["count"] == 1


def test_an_estimate_without_a_spec_loads_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from reconciler.cli.commands.estimate import estimate\n"
        "try:\n estimate(['--model', 'Qwen3-8B', '-o', 'json'])\n"
        "except SystemExit:\n pass\n"
        "heavy = {'torch', 'numpy', 'hydra', 'omegaconf', 'pydantic', 'git', 'yaml'}\n"
        "sys.exit(' '.join(sorted(heavy & sys.modules.keys())) or 0)\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_a_spec_is_estimated_as_it_composes(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[3]
    monkeypatch.chdir(root)
    file = "jobs/research/qwen3-8b-dpo.yaml"

    plain = estimated(f"estimate {file}")
    longer = estimated(f"estimate {file} train.max_length=8192 resources.gpus=8")

    assert (plain["gpu_type"], plain["gpus"], longer["gpus"]) == ("H100-80GB", 4, 8)
    assert plain["model"] == "Qwen3-8B"
    assert longer["memory"]["p50_gib"] > plain["memory"]["p50_gib"]


def test_a_command_of_the_teams_own_has_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])

    message = str(refusal("estimate jobs/research/tokenise-corpus.yaml"))

    assert "headway cannot know its memory" in message
