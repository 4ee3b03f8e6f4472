"""The table names one maker for each choice, loads no torch, and refuses what can not work."""

import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from trainer.optimizers import table
from trainer.optimizers.table import OPTIMIZERS, REFUSALS, name_of, request_problems


def _chosen(optim: str, *, galore: bool = False, quantised: bool = False) -> dict[str, Any]:
    return {
        "optim": optim,
        "use_galore": galore,
        "galore_quantization": quantised,
        "lorap_lr_ratio": None,
    }


def test_reading_the_table_loads_no_torch() -> None:
    program = "import sys, trainer.optimizers.table; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_each_choice_leads_to_the_row_that_says_so() -> None:
    for name, row in OPTIMIZERS.items():
        for optim in row.optim:
            section = _chosen(optim, galore=row.galore, quantised=row.quantised)
            found = name_of(section | {"lorap_lr_ratio": 16 if row.lora_plus else None})
            assert found == name


def test_a_choice_that_the_rules_refuse_has_no_row() -> None:
    with pytest.raises(LookupError, match="adafactor"):
        name_of(_chosen("adafactor", galore=True))


def test_each_row_is_made_by_the_library_or_by_a_function_that_exists() -> None:
    pytest.importorskip("torch")
    for row in OPTIMIZERS.values():
        assert (row.transformers_name is None) != (row.builder is None)
        if row.builder is not None:
            module, _, function = row.builder.partition(":")
            assert callable(getattr(import_module(module), function))


def test_each_refusal_says_why_and_what_works() -> None:
    for refusal in REFUSALS:
        assert refusal.keys() == {"id", "when", "refuse", "reason", "nearest"}
        assert refusal["reason"]
        assert refusal["nearest"]


def _problems(train: dict[str, Any], **attempt: Any) -> list[str]:
    settings = {"world_size": 1, "accumulation": 1, "on_cpu": True} | attempt
    return list(request_problems(train | {"galore_optim_per_parameter": False}, **settings))


def test_a_missing_package_is_refused_and_ours_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "find_spec", lambda name: None)

    (problem,) = _problems(_chosen("adamw_8bit"))

    assert "needs the package bitsandbytes" in problem
    assert _problems(_chosen("adamw_8bit", galore=True), world_size=2) == []


def test_q_galore_is_refused_on_several_processes() -> None:
    (problem,) = _problems(_chosen("adamw_torch", galore=True, quantised=True), world_size=2)

    assert "has 2 processes" in problem


def test_paging_is_refused_where_nothing_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "find_spec", lambda name: name)

    (problem,) = _problems(_chosen("paged_adamw_8bit"))

    assert problem.endswith("nearest: optim: adamw_8bit")
    assert _problems(_chosen("paged_adamw_8bit"), on_cpu=False) == []


@pytest.mark.parametrize("attempt", [{"accumulation": 2}, {"world_size": 4}], ids=str)
def test_updates_in_the_backward_pass_are_refused_where_gradients_are_summed(
    attempt: dict[str, int],
) -> None:
    train = _chosen("adamw_torch", galore=True) | {"galore_optim_per_parameter": True}
    alone = {"world_size": 1, "accumulation": 1, "on_cpu": True}

    (problem,) = request_problems(train, **alone | attempt)

    assert "none can be summed" in problem
    assert list(request_problems(train, **alone)) == []
