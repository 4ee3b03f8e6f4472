"""The table names one maker for each choice, loads no torch, and refuses what can not work."""

import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from trainer.optimizers.table import OPTIMIZERS, REFUSALS, name_of


def _chosen(optim: str, *, galore: bool = False, quantised: bool = False) -> dict[str, Any]:
    return {"optim": optim, "use_galore": galore, "galore_quantization": quantised}


def test_reading_the_table_loads_no_torch() -> None:
    program = "import sys, trainer.optimizers.table; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_each_choice_leads_to_the_row_that_says_so() -> None:
    for name, row in OPTIMIZERS.items():
        for optim in row.optim:
            found = name_of(_chosen(optim, galore=row.galore, quantised=row.quantised))
            assert found == name


def test_a_choice_that_the_rules_refuse_has_no_row() -> None:
    with pytest.raises(LookupError, match="adafactor"):
        name_of(_chosen("adafactor", galore=True))


def test_each_row_is_made_by_the_library_or_by_a_function_that_exists() -> None:
    pytest.importorskip("torch")
    for row in OPTIMIZERS.values():
        assert (row.library_name is None) != (row.builder is None)
        if row.builder is not None:
            module, _, function = row.builder.partition(":")
            assert callable(getattr(import_module(module), function))


def test_each_refusal_says_why_and_what_works() -> None:
    for refusal in REFUSALS:
        assert refusal.keys() == {"id", "when", "refuse", "reason", "nearest"}
        assert refusal["reason"]
        assert refusal["nearest"]


def test_a_missing_package_and_too_many_processes_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("torch")
    from trainer.config import RequestError
    from trainer.optimizers import building

    monkeypatch.setattr(building, "find_spec", lambda name: None)
    with pytest.raises(RequestError, match="needs the package bitsandbytes"):
        building.check_available(_chosen("adamw_8bit"), world_size=1, on_cpu=True)
    building.check_available(_chosen("adamw_8bit", galore=True), world_size=2, on_cpu=True)
    quantised = _chosen("adamw_torch", galore=True, quantised=True)
    with pytest.raises(RequestError, match="2 processes"):
        building.check_available(quantised, world_size=2, on_cpu=True)


def test_paging_is_refused_where_nothing_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from trainer.config import RequestError
    from trainer.optimizers import building

    monkeypatch.setattr(building, "find_spec", lambda name: name)
    with pytest.raises(RequestError, match=r"CPU slots.*nearest: optim: adamw_8bit"):
        building.check_available(_chosen("paged_adamw_8bit"), world_size=1, on_cpu=True)
    building.check_available(_chosen("paged_adamw_8bit"), world_size=1, on_cpu=False)
