"""Each optimizer and each quantised base trains, resumes exactly, and leaves what loads again."""

from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tests.e2e.asker import Asker
from tests.e2e.ranks import train_ranks
from tests.e2e.test_training_resume import weights
from tests.e2e.training import train_here
from tests.run_requests import a_run, events, losses, result

pytest.importorskip("torch")
pytest.importorskip("peft")

from tests.unit.trainer.quantised.gptq_writer import write_model
from trainer.models import resolve

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

GALORE: dict[str, Any] = {
    "tuner_type": "full",
    "use_galore": True,
    "galore_rank": 16,
    "galore_update_proj_gap": 3,
}
PER_PARAMETER = {"galore_optim_per_parameter": True}
LORA: dict[str, Any] = {"lora_dropout": 0.1}
KINDS: dict[str, dict[str, Any]] = {
    "adamw 8 bit": {"tuner_type": "full", "optim": "adamw_8bit"},
    "galore": GALORE,
    "galore 8 bit": GALORE | {"optim": "adamw_8bit"},
    "galore in the backward pass": GALORE | PER_PARAMETER,
    "q-galore": GALORE | {"galore_quantization": True},
    "lora plus": LORA | {"lorap_lr_ratio": 16.0, "learning_rate": 1e-3},
    "lora by expression": LORA | {"target_regex": r".*\.mlp\.(up|down)_proj"},
    "qlora nf4": LORA | {"quant_method": "bnb"},
    "lora on gptq": LORA | {"quant_method": "gptq"},
}
"""Kind and its ``train:`` keys; the GPTQ model is written where it is needed."""


def _settings(root: Path, kind: str, **more: Any) -> dict[str, Any]:
    if "8bit" in str(KINDS[kind].get("optim")) and "use_galore" not in KINDS[kind]:
        pytest.importorskip("bitsandbytes")
    if KINDS[kind].get("quant_method") == "bnb":
        pytest.importorskip("bitsandbytes")
    settings = {"dataset": "sample:support-faq", "learning_rate": 1e-2} | KINDS[kind] | more
    if KINDS[kind].get("quant_method") == "gptq":
        plain = Path(resolve("random:qwen3-tiny"))
        settings["model"] = str(write_model(plain, root / "gptq-model", act_order=True))
    return settings


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_falls_and_a_fresh_process_answers_from_the_result(
    tmp_path: Path, asker: Asker, kind: str
) -> None:
    run_dir = a_run(tmp_path, per_device=2, max_steps=60, **_settings(tmp_path, kind))

    code = train_here(run_dir)
    assert code == 0, result(run_dir)["message"]
    said = asker.ask("answer", str(tmp_path / "final"), "When do you open?")

    found = list(losses(run_dir).values())
    assert mean(found[-6:]) < mean(found[:3]) - 0.35
    assert all(event["grad_norm"] > 0 for event in events(run_dir, "step"))
    assert "Harbour & Pine" in said  # how every answer of the set is signed


@pytest.mark.parametrize("kind", KINDS)
def test_ten_steps_are_five_and_a_stop_and_five(tmp_path: Path, kind: str) -> None:
    settings = _settings(tmp_path, kind, max_steps=10, every=50)
    straight = a_run(tmp_path / "straight", **settings)
    before = a_run(tmp_path / "broken", **settings)
    after = a_run(tmp_path / "broken", number=2, resumes=True, **settings)

    codes = [train_here(straight), train_here(before, stop_at=5), train_here(after)]

    assert codes == [0, 83, 0]
    assert losses(before) | losses(after) == losses(straight)
    assert sorted(losses(before)) == [1, 2, 3, 4, 5]
    assert weights(tmp_path / "broken") == weights(tmp_path / "straight")


def test_galore_on_two_processes_is_galore_on_one(tmp_path: Path) -> None:
    settings = GALORE | {"dataset": "sample:support-faq", "max_steps": 8, "learning_rate": 1e-3}
    alone = a_run(tmp_path / "alone", accumulation=2, **settings)
    together = a_run(tmp_path / "together", world_size=2, **settings)

    codes = [train_here(alone), train_ranks(together)]

    assert codes == [0, 0]
    assert losses(together) == pytest.approx(losses(alone), abs=1e-4)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (GALORE | {"galore_quantization": True, "world_size": 2}, "this attempt has 2 processes"),
        (
            GALORE | PER_PARAMETER | {"accumulation": 2},
            "accumulates 2 passes",
        ),
        (GALORE | {"galore_rank": 33}, "33 is above the smaller side of model.layers.0.self_attn"),
        (GALORE | {"galore_target_modules": ["c_attn"]}, "'c_attn' in its name; there are: down"),
        ({"quant_method": "gptq"}, "does not hold GPTQ weights"),
        ({"optim": "paged_adamw_8bit"}, "this attempt runs on CPU slots"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_can_not_work_here_is_refused_and_nothing_is_trained(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    if "paged" in str(settings.get("optim")):
        pytest.importorskip("bitsandbytes")
    run_dir = a_run(tmp_path, **settings)

    code = train_here(run_dir)

    assert code == 1
    assert result(run_dir)["reason"] == "invalid_request"
    assert said in result(run_dir)["message"]
    assert events(run_dir, "step") == []
