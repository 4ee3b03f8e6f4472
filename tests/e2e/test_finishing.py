"""What a finished training leaves behind, and what it says of itself."""

import json
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.training import train_here
from tests.run_requests import a_run, events, result
from trainer.export import main as export

pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FAQ: dict[str, Any] = {"dataset": "sample:support-faq", "max_steps": 20, "learning_rate": 1e-2}


def logits(folder: Path) -> Any:
    import torch

    from trainer.answer import load

    model, _ = load(str(folder))
    with torch.no_grad():
        return model(input_ids=torch.arange(5, 40)[None]).logits


def test_merged_weights_are_the_base_with_its_adapter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    run_dir = a_run(tmp_path, merge_lora=True, **FAQ)
    assert train_here(run_dir) == 0

    final = tmp_path / "final"
    assert result(run_dir)["artifacts"] == {
        "adapter": str(final),
        "merged": str(final / "merged"),
    }
    trained = logits(final)
    assert float((logits(final / "merged") - trained).abs().max()) < 1e-4
    assert not (final / "merged" / "adapter_config.json").exists()

    assert export([str(final), str(tmp_path / "later")]) == 0
    torch.testing.assert_close(logits(tmp_path / "later"), logits(final / "merged"))
    assert export([str(final), str(tmp_path / "later")]) == 1
    assert "is already there" in capsys.readouterr().err


def test_the_card_and_the_lineage_name_data_settings_and_weights_by_digest(tmp_path: Path) -> None:
    rows = [{"query": f"What is {number}?", "response": f"It is {number}."} for number in range(20)]
    (tmp_path / "mine.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    run_dir = a_run(tmp_path, **FAQ | {"dataset": "mine.jsonl", "max_steps": 3})

    assert train_here(run_dir) == 0

    final = tmp_path / "final"
    facts = json.loads((final / "lineage.json").read_text())
    weights = final / "adapter_model.safetensors"
    assert facts["data_sha256"] == {
        "mine.jsonl": sha256((tmp_path / "mine.jsonl").read_bytes()).hexdigest()
    }
    assert facts["weights_sha256"] == {weights.name: sha256(weights.read_bytes()).hexdigest()}
    assert (facts["job"], facts["submission"], facts["steps"]) == ("demo/tiny", "0" * 40, 3)
    assert facts["final_loss"] == result(run_dir)["final_loss"]
    card = (final / "README.md").read_text()
    assert card.startswith('---\nlibrary_name: peft\nbase_model: "random:qwen3-tiny"\n')
    for said in (facts["spec_sha256"], facts["samples_digest"], *facts["data_sha256"].values()):
        assert said in card
    assert "max_steps: 3" in card


def test_equal_settings_have_equal_digests_and_others_have_not(tmp_path: Path) -> None:
    from trainer.finishing import digest

    settings = {"task": "sft", "max_steps": 3}

    assert digest(settings) == digest(dict(reversed(settings.items())))
    assert digest(settings) != digest(settings | {"max_steps": 4})


@pytest.mark.parametrize("succeeds", [True, False])
def test_whoever_asked_is_told_of_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, succeeds: bool
) -> None:
    hook = tmp_path / "hook"
    end = "exit 0" if succeeds else "echo no room >&2; exit 3"
    hook.write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path}/told\ntest -f "$1/lineage.json" || exit 9\n{end}\n'
    )
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("HEADWAY_REGISTER", os.fspath(hook))
    run_dir = a_run(tmp_path, **FAQ | {"max_steps": 1})

    assert train_here(run_dir) == 0

    assert (tmp_path / "told").read_text().strip() == str(tmp_path / "final")
    said = [event["message"] for event in events(run_dir, "warning")]
    assert [message.split("hook: ")[1] for message in said] == (
        [] if succeeds else ["exit code 3: no room"]
    )
