"""A board shows the numbers of the events, and is refused where it can not be drawn."""

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.run_requests import a_run
from trainer import boards
from trainer.config import RequestError, load_request

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


def test_trackio_gets_the_same_numbers_as_a_run_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", "elsewhere")
    drawn: list[Any] = []

    class Run:
        def log(self, numbers: dict[str, float], *, step: int) -> None:
            drawn.append((numbers, step))

        def finish(self) -> None:
            drawn.append("finished")

    library = ModuleType("trackio")

    def init(**given: Any) -> Run:
        drawn.append((os.environ["TRACKIO_DIR"], given))
        return Run()

    library.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trackio", library)

    draw = boards.board(load_request(a_run(tmp_path, report_to="trackio")))
    for event in (STEP, {"event": "warning", "at": 8.0, "step": 3, "message": "x"}):
        draw(event)
    draw({"event": "end", "at": 9.0, "step": 3, "outcome": "succeeded"})

    folder, given = drawn[0]
    assert folder == str(tmp_path / "a1" / "trackio")
    assert (given["project"], given["name"]) == ("demo-tiny", "demo.tiny-g1-a1-0123456789")
    assert drawn[1:] == [({"step/loss": 1.5, "step/samples_seen": 6}, 3), "finished"]


@pytest.mark.parametrize("name", ["tensorboard", "trackio"])
def test_without_the_package_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", "elsewhere")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setitem(sys.modules, "trackio", None)
    request = load_request(a_run(tmp_path, report_to=name))

    with pytest.raises(RequestError, match=rf"train\.report_to: {name} is not installed"):
        boards.board(request)


def test_the_real_trackio_keeps_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trackio")
    monkeypatch.setenv("TRACKIO_DIR", "elsewhere")

    draw = boards.trackio(tmp_path, project="p", name="n")
    draw(STEP)
    draw({"event": "end", "at": 9.0, "step": 3})

    assert any(path.is_file() for path in (tmp_path / "trackio").rglob("*"))
