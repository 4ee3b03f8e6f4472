"""The numbers of events.jsonl on a board for people: TensorBoard's files in the run directory.

events.jsonl stays the record; a board is drawn from the same events.  A board that was asked for
and can not be drawn is refused before anything is loaded.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainer.config import RequestError

Listener = Callable[[Mapping[str, Any]], None]
DRAWN = ("step", "eval", "checkpoint")
NOT_DRAWN = ("at", "step", "event")


def tensorboard(run_dir: Path) -> Listener:
    """Return what draws events under ``run_dir/tensorboard``.

    Raises RequestError where TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise RequestError(
            f"train.report_to: tensorboard is not installed here ({error}): pip install "
            "tensorboard, or remove it: events.jsonl has the same numbers"
        ) from None
    writer = SummaryWriter(log_dir=str(run_dir / "tensorboard"))

    def draw(event: Mapping[str, Any]) -> None:
        if event["event"] == "end":
            writer.close()
        if event["event"] not in DRAWN:
            return
        for name, value in event.items():
            if name not in NOT_DRAWN and isinstance(value, int | float):
                writer.add_scalar(f"{event['event']}/{name}", value, event["step"], event["at"])
        writer.flush()

    return draw
