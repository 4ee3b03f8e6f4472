"""The numbers of events.jsonl on a board for people: TensorBoard's or trackio's files.

events.jsonl stays the record; a board is drawn from the same events.  A board that was asked for
and can not be drawn is refused before anything is loaded.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from trainer.config import Request, RequestError

Listener = Callable[[Mapping[str, Any]], None]
DRAWN = ("step", "eval", "checkpoint")
NOT_DRAWN = ("at", "step", "event")


def board(request: Request) -> Listener:
    """Return what draws the events of a request on the board that ``report_to`` names.

    Raises RequestError where its package is not installed.
    """
    if request.train["report_to"] == "trackio":
        return trackio(request.run_dir, project=request.job, name=request.attempt)
    return tensorboard(request.run_dir)


def tensorboard(run_dir: Path) -> Listener:
    """Return what draws events under ``run_dir/tensorboard``.

    Raises RequestError where TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise _missing("tensorboard", error) from None
    writer = SummaryWriter(log_dir=str(run_dir / "tensorboard"))

    def draw(event: Mapping[str, Any]) -> None:
        if event["event"] == "end":
            writer.close()
        if event["event"] not in DRAWN:
            return
        for name, value in _numbers(event):
            writer.add_scalar(name, value, event["step"], event["at"])
        writer.flush()

    return draw


def trackio(run_dir: Path, *, project: str, name: str) -> Listener:
    """Return what draws events under ``run_dir/trackio``, one run of the job's project.

    Raises RequestError where trackio is not installed.
    """
    folder = run_dir / "trackio"
    os.environ["TRACKIO_DIR"] = str(folder)  # read when it is imported
    try:
        library: Any = import_module("trackio")
    except ImportError as error:
        raise _missing("trackio", error) from None
    run = library.init(
        project=project.replace("/", "-"),
        name=name,
        embed=False,
        auto_log_gpu=False,
        auto_log_cpu=False,
    )

    def draw(event: Mapping[str, Any]) -> None:
        if event["event"] == "end":
            run.finish()
        elif event["event"] in DRAWN:
            run.log(dict(_numbers(event)), step=event["step"])

    return draw


def _numbers(event: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in event.items():
        if name not in NOT_DRAWN and isinstance(value, int | float):
            yield f"{event['event']}/{name}", value


def _missing(package: str, error: ImportError) -> RequestError:
    return RequestError(
        f"train.report_to: {package} is not installed here ({error}): pip install {package}, or "
        "remove it: events.jsonl has the same numbers"
    )
