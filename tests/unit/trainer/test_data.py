"""Rows of every form people have become conversations; the rest is named by file and line."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainer.config import RequestError
from trainer.data import Tally, held_out, source
from trainer.forms import Row
from trainer.reading import files_of

ASK = {"role": "user", "content": "Hello?"}
ANSWER = {"role": "assistant", "content": "Hi."}


def written(folder: Path, rows: list[Any], name: str = "data.jsonl") -> str:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("\n".join(lines) + "\n")
    return name


def loaded(
    names: list[str], root: Path, *, strict: bool = True, **options: Any
) -> tuple[list[Any], Tally]:
    options = {"task": "sft"} | options
    tally = Tally()
    rows = list(source(names, root=root, strict=strict, **options).rows(tally))
    tally.check(names, task=options["task"], strict=strict)
    return rows, tally


def load(folder: Path, rows: list[Any], **options: Any) -> list[Row]:
    return loaded([written(folder, rows)], folder, **options)[0]


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [ASK, ANSWER]},
        {"instruction": "Hello?", "output": "Hi."},
        {"instruction": "Hello?", "input": "", "output": "Hi."},
        {"prompt": "Hello?", "completion": "Hi."},
        {"prompt": [ASK], "completion": [ANSWER]},
        {"prompt": "Hello?", "chosen": "Hi.", "rejected": "No."},
    ],
    ids=lambda row: "+".join(row),
)
def test_every_form_gives_the_same_conversation(tmp_path: Path, row: dict[str, Any]) -> None:
    (found,) = load(tmp_path, [row])

    assert found == Row(source="data.jsonl:1", messages=(ASK, ANSWER))


def test_alpaca_joins_instruction_and_input_under_its_system_text(tmp_path: Path) -> None:
    row = {"instruction": "Add.", "input": "1, 2", "output": "3", "system": "You count."}

    (found,) = load(tmp_path, [row])

    assert [message["role"] for message in found.messages] == ["system", "user", "assistant"]
    assert found.messages[1]["content"] == "Add.\n\n1, 2"


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Hello?", "chosen": "Hi.", "rejected": "No."},
        {"prompt": [ASK], "chosen": [ANSWER], "rejected": [ANSWER | {"content": "No."}]},
        {"messages": [ASK, ANSWER], "rejected_response": "No."},
    ],
    ids=lambda row: "+".join(row),
)
def test_preference_pairs_keep_the_answer_to_prefer_less(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    (found,) = load(tmp_path, [row], task="dpo")

    assert found.messages == (ASK, ANSWER)
    assert found.rejected == "No."


def test_the_system_key_is_for_conversations_that_bring_none(tmp_path: Path) -> None:
    own = {"role": "system", "content": "own"}
    rows = [{"messages": [ASK, ANSWER]}, {"messages": [own, ASK, ANSWER]}]

    found = load(tmp_path, rows, system="given")

    assert [row.messages[0]["content"] for row in found] == ["given", "own"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{nonsense", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ({"text": "x"}, "has the keys text: not messages"),
        ({"messages": []}, "messages must be a list of messages"),
        ({"messages": [ASK]}, "must end with an assistant message"),
        ({"messages": [ANSWER, ASK]}, "must end with an assistant message"),
        ({"messages": [ASK, ASK, ANSWER]}, "turn 2 is by user, not by assistant"),
        ({"messages": [ASK, {"role": "bot", "content": "x"}]}, "has the role 'bot'"),
        ({"messages": [ASK, {"role": "assistant", "content": " "}]}, "content must be text"),
        ({"messages": [ASK, {"role": "assistant", "content": None}]}, "content must be text"),
        ({"prompt": "x", "completion": [ASK]}, "completion must be text or a single assistant"),
    ],
    ids=str,
)
def test_a_row_that_fits_no_form_is_named_and_refused(
    tmp_path: Path, row: Any, reason: str
) -> None:
    with pytest.raises(RequestError) as raised:
        load(tmp_path, [{"messages": [ASK, ANSWER]}, row])

    assert "1 of 2 rows can not be used" in str(raised.value)
    (named,) = [line for line in str(raised.value).splitlines() if line.startswith("data.jsonl:2:")]
    assert reason in named


def test_blank_lines_do_not_shift_the_numbers_of_lines(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"data\.jsonl:4: is not JSON"):
        load(tmp_path, [{"messages": [ASK, ANSWER]}, "", "  ", "x"])


def test_without_strict_bad_rows_are_dropped_and_counted(tmp_path: Path) -> None:
    name = written(tmp_path, [{"messages": [ASK, ANSWER]}, "x", "y"])

    rows, tally = loaded([name], tmp_path, strict=False)

    assert len(rows) == 1
    assert tally.refused == 2
    assert [line.split(":")[1] for line in tally.first_refused] == ["2", "3"]


def test_many_bad_rows_are_counted_not_listed(tmp_path: Path) -> None:
    with pytest.raises(RequestError) as raised:
        load(tmp_path, ["x"] * 25)

    assert "25 of 25 rows" in str(raised.value)
    assert str(raised.value).endswith("+15 more")


def test_dpo_needs_two_different_answers(tmp_path: Path) -> None:
    rows = [
        {"messages": [ASK, ANSWER]},
        {"prompt": "a", "chosen": "same", "rejected": "same"},
    ]

    with pytest.raises(RequestError) as raised:
        load(tmp_path, rows, task="dpo")

    assert "data.jsonl:1: has no answer to prefer less" in str(raised.value)
    assert "data.jsonl:2: has the same text as chosen and rejected" in str(raised.value)


def test_a_json_list_is_read_like_lines(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps([{"messages": [ASK, ANSWER]}] * 2))

    rows, _ = loaded(["data.json"], tmp_path)

    assert [row.source for row in rows] == ["data.json:row 1", "data.json:row 2"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.jsonl", "there is no file"),
        ("sample:nope", "is not one of sample:shop-catalogue"),
        ("sample:../data/x", "is not one of"),
        ("data.txt", r"only \.jsonl, \.json, \.csv, \.parquet files are read"),
        ("empty", r"empty holds no \.jsonl"),
        ("nobody/nothing", "is no file or folder here, and the Hub did not give it"),
    ],
)
def test_a_dataset_that_leads_nowhere_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    (tmp_path / "data.txt").write_text("a,b\n")
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    with pytest.raises(RequestError, match=said):
        files_of(name, root=tmp_path)


@pytest.mark.parametrize(
    ("name", "task", "least"),
    [("support-chats", "sft", 120), ("support-faq", "sft", 40), ("support-pairs", "dpo", 60)],
)
def test_the_shipped_samples_are_sound(tmp_path: Path, name: str, task: str, least: int) -> None:
    rows, _ = loaded([f"sample:{name}"], tmp_path, task=task)

    assert len(rows) >= least
    asked = [row.messages[-2]["content"] for row in rows]
    assert len(set(asked)) == len(asked)


def test_a_split_is_the_same_every_time_and_leaves_rows_on_both_sides() -> None:
    kept_back = held_out(20, ratio=0.1, seed=3)

    assert held_out(20, ratio=0.1, seed=3) == kept_back
    assert len(kept_back) == 2
    assert kept_back < frozenset(range(20))
    assert held_out(20, ratio=0.0, seed=3) == frozenset()
    assert len(held_out(20, ratio=0.001, seed=3)) == 1
    assert len(held_out(2, ratio=0.99, seed=3)) == 1
