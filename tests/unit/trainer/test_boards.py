"""A board shows the numbers of the events, and is refused where it can not be drawn."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")

from trainer import boards
from trainer.config import RequestError

STEP = {"event": "step", "at": 7.0, "step": 3, "loss": 1.5, "mfu": None, "samples_seen": 6}


def test_the_numbers_of_steps_are_drawn_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[Any, ...]] = []

    class Writer:
        def __init__(self, log_dir: str) -> None:
            drawn.append((log_dir,))

        def add_scalar(self, *scalar: Any) -> None:
            drawn.append(scalar)

        def flush(self) -> None: ...

        def close(self) -> None:
            drawn.append(("closed",))

    library = ModuleType("torch.utils.tensorboard")
    library.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", library)

    draw = boards.tensorboard(tmp_path)
    for event in (STEP, {"event": "warning", "at": 8.0, "step": 3, "message": "x"}):
        draw(event)
    draw({"event": "end", "at": 9.0, "step": 3, "outcome": "succeeded"})

    assert drawn == [
        (str(tmp_path / "tensorboard"),),
        ("step/loss", 1.5, 3, 7.0),
        ("step/samples_seen", 6, 3, 7.0),
        ("closed",),
    ]


def test_without_the_package_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)

    with pytest.raises(RequestError, match=r"train\.report_to: tensorboard is not installed"):
        boards.tensorboard(tmp_path)
