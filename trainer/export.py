"""``python -m trainer.export ADAPTER FOLDER``: an adapter and its base as one ordinary model.

Refused on a quantised base: an adapter added to rounded weights is another one.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from trainer.config import RequestError
from trainer.files import publish
from trainer.tuners import ADAPTER


def export(adapter: Path, folder: Path) -> None:
    """Write the merged model to ``folder``; raise RequestError where it can not be."""
    if not (adapter / ADAPTER).is_file():
        raise RequestError(f"{adapter} holds no adapter")
    if folder.exists():
        raise RequestError(f"{folder} is already there")
    from transformers import AutoTokenizer

    from trainer.finishing import merge
    from trainer.quantised.adapters import base_of, with_saved_adapter
    from trainer.quantised.loading import load_as_held

    base = load_as_held(base_of(adapter))
    if getattr(base, "is_quantized", False):
        raise RequestError(
            f"the base of {adapter} is quantised: merge into a base with ordinary weights"
        )
    model = with_saved_adapter(base, adapter, trains=False)
    temporary = folder.with_name(f".{folder.name}-{os.getpid()}")
    try:
        merge(model, AutoTokenizer.from_pretrained(adapter, trust_remote_code=False), temporary)
        publish(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def main(argv: list[str] | None = None) -> int:
    """Export one adapter; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer.export", description=__doc__)
    parser.add_argument("adapter", type=Path, help="folder a training left")
    parser.add_argument("folder", type=Path, help="folder to write, not there yet")
    options = parser.parse_args(argv)
    from trainer.training import quieten

    quieten()
    try:
        export(options.adapter.resolve(), options.folder.resolve())
    except RequestError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{options.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
