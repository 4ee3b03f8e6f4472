"""Every form and file people keep conversations in gives the same rows; the rest is named."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trainer.test_data import ANSWER, ASK, load, loaded
from trainer.config import RequestError
from trainer.forms import Row, conversation_row
from trainer.reading import RowError

SYSTEM = {"role": "system", "content": "Be kind."}


@pytest.mark.parametrize(
    "row",
    [
        {
            "system": "Be kind.",
            "conversations": [
                {"from": "human", "value": "Hello?"},
                {"from": "gpt", "value": "Hi."},
            ],
        },
        {"query": "Hello?", "response": "Hi.", "system": "Be kind."},
        {"prompt": "Hello?", "completion": "Hi.", "label": True, "system": "Be kind."},
        {"messages": [SYSTEM, ASK, {"role": "assistant", "content": [
            {"type": "text", "text": "Hi."}]}]},
    ],
    ids=lambda row: "+".join(row),
)  # fmt: skip
def test_other_trainers_forms_give_the_same_conversation(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    (found,) = load(tmp_path, [row])

    assert found.messages == (SYSTEM, ASK, ANSWER)


def test_earlier_turns_of_alpaca_come_first(tmp_path: Path) -> None:
    row = {"instruction": "And now?", "output": "Now.", "history": [["Hello?", "Hi."]]}

    (found,) = load(tmp_path, [row])

    assert [message["content"] for message in found.messages] == [
        "Hello?",
        "Hi.",
        "And now?",
        "Now.",
    ]


@pytest.mark.parametrize(
    "row",
    [
        {
            "conversations": [{"from": "human", "value": "Hello?"}],
            "chosen": {"from": "gpt", "value": "Hi."},
            "rejected": {"from": "gpt", "value": "No."},
        },
        {"instruction": "Hello?", "chosen": "Hi.", "rejected": "No."},
        {"messages": [ASK], "chosen": ANSWER, "rejected": ANSWER | {"content": "No."}},
    ],
    ids=lambda row: "+".join(row),
)
def test_pairs_after_other_forms(tmp_path: Path, row: dict[str, Any]) -> None:
    (found,) = load(tmp_path, [row], task="dpo")

    assert (found.messages, found.rejected) == ((ASK, ANSWER), "No.")


def test_answers_labelled_bad_are_left_out_and_counted(tmp_path: Path) -> None:
    good = {"prompt": "Hello?", "completion": "Hi.", "label": True}
    (tmp_path / "kto.jsonl").write_text(
        "\n".join(json.dumps(row) for row in (good, good | {"label": False}, good))
    )

    rows, tally = loaded(["kto.jsonl"], tmp_path)

    assert [row.source for row in rows] == ["kto.jsonl:1", "kto.jsonl:3"]
    assert (tally.refused, tally.set_aside) == (0, 1)
    assert tally.first_set_aside == [
        "kto.jsonl:2: is labelled as a bad answer, which is not imitated"
    ]
    with pytest.raises(RequestError, match="a label says good or bad, not which of two"):
        loaded(["kto.jsonl"], tmp_path, task="dpo")


def test_images_are_counted_against_their_tags() -> None:
    row = {"messages": [ASK | {"content": "<image>What is it?"}, ANSWER], "images": ["a.png"]}
    parts = [{"type": "image"}, {"type": "text", "text": "What is it?"}]

    found = conversation_row("x:1", row, sees=True)
    in_parts = conversation_row(
        "x:1", row | {"messages": [ASK | {"content": parts}, ANSWER]}, sees=True
    )

    assert found.images == ("a.png",)
    assert found == in_parts
    with pytest.raises(RowError, match=r"has 2 images, but 1 <image> tags"):
        conversation_row("x:1", row | {"images": ["a.png", "b.png"]}, sees=True)
    with pytest.raises(RowError, match="has 1 images, and sft with this model reads text alone"):
        conversation_row("x:1", row)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"conversations": [{"from": "tool", "value": "x"}]}, "turn 1 is from 'tool'"),
        ({"conversations": "x"}, "conversations must be a list of turns"),
        ({"instruction": "a", "output": "b", "history": ["x"]}, "history: turn 1 is not a pair"),
        ({"prompt": "a", "completion": "b", "label": "yes"}, "label is 'yes', not true or false"),
        ({"messages": [ASK | {"content": [{"type": "audio"}]}, ANSWER]}, "of type 'audio'"),
        ({"messages": [ASK, ANSWER], "images": [3]}, "images: 1 is not the path of a file"),
        ({"question": "a", "reply": "b"}, "keys question, reply: not messages"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_row_is_said(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowError) as raised:
        conversation_row("x:1", row)

    assert reason in str(raised.value)


def table(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows(rows)


def test_a_csv_file_is_read_by_its_header_with_the_line_of_each_row(tmp_path: Path) -> None:
    table(
        tmp_path / "a.csv",
        [["instruction", "input", "output"], ["Say\nhello", "", "Hi."], ["Add", "1,2", "3"], ["x"]],
    )

    rows, tally = loaded(["a.csv"], tmp_path, strict=False)

    assert [(row.source, row.messages[0]["content"]) for row in rows] == [
        ("a.csv:2", "Say\nhello"),
        ("a.csv:4", "Add\n\n1,2"),
    ]
    assert tally.first_refused == ["a.csv:5: has 1 cells, not 3 as the header says"]


def test_labels_in_a_csv_file_are_no_text(tmp_path: Path) -> None:
    table(
        tmp_path / "kto.csv",
        [["prompt", "completion", "label"], ["a", "b", "True"], ["a", "c", "0"]],
    )

    rows, tally = loaded(["kto.csv"], tmp_path)

    assert (len(rows), tally.set_aside) == (1, 1)


def test_a_parquet_file_is_read_by_its_columns(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"messages": [ASK, ANSWER], "system": None}, {"messages": [ASK], "system": None}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1nonsense")

    found, tally = loaded(["a.parquet"], tmp_path, strict=False)

    assert found == [Row(source="a.parquet:row 1", messages=(ASK, ANSWER))]
    assert tally.first_refused[0].startswith("a.parquet:row 2: must end with an assistant")
    with pytest.raises(RequestError, match=r"broken\.parquet is not parquet"):
        loaded(["broken.parquet"], tmp_path)


def test_all_files_of_a_folder_are_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    (folder / "deep").mkdir(parents=True)
    line = json.dumps({"messages": [ASK, ANSWER]})
    (folder / "b.jsonl").write_text(line)
    (folder / "a.json").write_text(f"[{line}]")
    (folder / "deep" / "c.jsonl").write_text(line)
    (folder / "README.md").write_text("about")
    (folder / ".hidden.jsonl").write_text("x")

    rows, _ = loaded(["set"], tmp_path)

    assert [row.source for row in rows] == ["a.json:row 1", "b.jsonl:1", "c.jsonl:1"]


def test_a_hub_id_is_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = tmp_path / "hub"
    held.mkdir()
    (held / "train.jsonl").write_text(json.dumps({"messages": [ASK, ANSWER]}))
    asked = []

    def download(name: str, **options: Any) -> str:
        asked.append((name, options["repo_type"]))
        return str(held)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)

    rows, _ = loaded(["owner/set"], tmp_path)

    assert [row.source for row in rows] == ["train.jsonl:1"]
    assert asked == [("owner/set", "dataset")]


def test_columns_are_named_and_a_missing_one_is_said(tmp_path: Path) -> None:
    table(tmp_path / "a.csv", [["question", "reply", "id"], ["Hello?", "Hi.", "7"]])

    rows, _ = loaded(["a.csv"], tmp_path, columns=["question=query", "reply = response"])

    assert rows[0].messages == (ASK, ANSWER)
    with pytest.raises(RequestError, match=r"has no column answer as train.columns says; it has q"):
        loaded(["a.csv"], tmp_path, columns=["question=query", "answer=response"])
    with pytest.raises(RequestError, match="'question' is not THEIRS=OURS"):
        loaded(["a.csv"], tmp_path, columns=["question"])


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 20])
def test_a_json_list_is_decoded_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr("trainer.reading.CHUNK", chunk)
    rows = [{"messages": [ASK | {"content": f'{number} ]}}, "é'}, ANSWER]} for number in range(9)]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n ")

    found, _ = loaded(["a.json"], tmp_path)

    assert [row.messages[0]["content"] for row in found] == [
        row["messages"][0]["content"] for row in rows
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1}', "is not a JSON list of rows"),
        ("", "is not a JSON list of rows"),
        ('[{"a": 1}, {"b"', "is not JSON: after row 1"),
        ('[{"a": 1} {"b": 2}]', "is not JSON: after row 0"),
        ('[{"a": 1}', "is not JSON: after row 0: the list does not end"),
        ("[]", "has no rows"),
    ],
)
def test_a_broken_json_list_says_where(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.json").write_text(text)

    with pytest.raises(RequestError, match=said):
        loaded(["a.json"], tmp_path, strict=False)
