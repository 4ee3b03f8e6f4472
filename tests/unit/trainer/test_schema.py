"""The contract that others read is what the trainer declares, and declares without torch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from trainer.config import complete
from trainer.keys import KEYS
from trainer.rules import ABSENT, OWNED, RENAMED, RULES
from trainer.schema import CONTRACT, COPY, contract_files, differences, main, train_schema, write

MINIMAL = {"task": "sft", "model": "random:qwen3-tiny", "dataset": "sample:support-faq"}


@pytest.mark.parametrize("folder", [CONTRACT, COPY], ids=["trainer", "reconciler"])
def test_the_committed_contract_is_what_the_declarations_give(folder: Path) -> None:
    assert differences(folder) == [], "run python -m trainer.schema"


def test_both_sides_hold_the_same_bytes() -> None:
    ours = {path.name: path.read_bytes() for path in CONTRACT.glob("*.json")}
    theirs = {path.name: path.read_bytes() for path in COPY.glob("*.json")}

    assert len(ours) >= 8
    assert ours == theirs


def test_the_check_fails_on_a_stale_or_foreign_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    assert main(["--check", "--copy", str(tmp_path)]) == 0

    (tmp_path / "train.rules.json").write_text("{}")
    (tmp_path / "foreign.json").write_text("{}")

    assert main(["--check", "--copy", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "train.rules.json is stale" in said
    assert "foreign.json is stale" in said


@pytest.mark.parametrize("module", ["trainer.schema", "trainer.config", "trainer.record"])
def test_declarations_are_read_without_torch(module: str) -> None:
    heavy = ("torch", "transformers", "trl", "peft", "numpy", "datasets")
    program = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.parametrize("name", sorted(contract_files()))
def test_every_schema_of_the_contract_is_a_valid_schema(name: str) -> None:
    document = json.loads(contract_files()[name])
    if name.endswith(".schema.json"):
        Draft202012Validator.check_schema(document)
    assert document["description"]


def test_the_completed_defaults_fit_the_schema() -> None:
    filled = {key: value for key, value in complete(MINIMAL).items() if value is not None}

    assert list(Draft202012Validator(train_schema()).iter_errors(filled)) == []


@pytest.mark.parametrize("key", KEYS)
def test_every_key_says_what_it_means_and_has_a_sound_default(key: str) -> None:
    declared = KEYS[key]

    assert declared.text.endswith(".")
    if declared.choices and declared.default is not None:
        assert declared.default in declared.choices
    for other, values in declared.only.items():
        assert set(values) <= (set(KEYS[other].choices) or {True, False})


def test_advice_never_names_a_key_that_does_not_exist() -> None:
    for table in (OWNED, RENAMED, ABSENT):
        assert not table.keys() & KEYS.keys()
    assert set(RENAMED.values()) <= KEYS.keys()
    assert not OWNED.keys() & RENAMED.keys() | OWNED.keys() & ABSENT.keys()


def test_rules_speak_of_declared_keys_with_values_they_can_have() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.refuse in KEYS
        assert rule.refuse in rule.when, f"{rule.id} refuses a key it has no condition on"
        for key, conditions in rule.when.items():
            for operator, operand in conditions.items():
                if operator in ("in", "not_in") and KEYS[key].choices:
                    assert set(operand) <= set(KEYS[key].choices)


def test_every_task_has_a_recipe() -> None:
    from trainer.recipes.table import RECIPES

    assert tuple(RECIPES) == KEYS["task"].choices


def _refused_by(document: dict[str, Any], train: dict[str, Any]) -> list[str]:
    """Apply the rules as a reader of the JSON files alone would."""
    schema = train_schema()["properties"]
    operators = {
        "in": lambda value, operand, _: value in operand,
        "not_in": lambda value, operand, _: value not in operand,
        "set": lambda _, operand, named: named == operand,
        "above": lambda value, operand, _: value is not None and value > operand,
        "below": lambda value, operand, _: value is not None and value < operand,
    }
    return [
        rule["id"]
        for rule in document["rules"]
        if all(
            operators[operator](train.get(key, schema[key].get("default")), operand, key in train)
            for key, conditions in rule["when"].items()
            for operator, operand in conditions.items()
        )
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"use_galore": True},
        {"use_galore": True, "tuner_type": "full"},
        {"galore_rank": 64},
        {"use_galore": True, "tuner_type": "full", "optim": "adafactor", "quant_method": "bnb"},
        {"quant_method": "bnb", "quant_bits": 8},
        {"quant_method": "gptq", "quant_bits": 3, "use_dora": True},
        {"lr_scheduler_type": "constant", "warmup_ratio": 0.1},
        {"beta": 0.2},
        {"task": "dpo", "beta": 0.2, "packing": True},
        {"packing_length": 64},
        {"eval_steps": 3},
        {"eval_steps": 3, "split_dataset_ratio": 0.1, "val_dataset": "x.jsonl"},
        {"lora_rank": 4, "tuner_type": "full"},
        {"task": "dpo", "loss_type": "ipo", "label_smoothing": 0.1},
        {"task": "grpo"},
        {"task": "grpo", "reward_funcs": ["overlap"], "beta": 0, "truncation_strategy": "right"},
        {"task": "embedding", "loss_type": "cosine_similarity", "infonce_temperature": 0.1},
        {"task": "embedding", "loss_type": "sigmoid", "quant_method": "gptq", "pooling": "cls"},
        {"task": "sft", "truncation_strategy": "split", "pooling": "cls"},
    ],
    ids=str,
)
def test_a_reader_of_the_json_refuses_what_the_trainer_refuses(changes: dict[str, Any]) -> None:
    document = json.loads(contract_files()["train.rules.json"])
    train = MINIMAL | changes

    assert _refused_by(document, train) == [rule.id for rule in RULES if rule.refuses(train)]
