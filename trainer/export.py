"""``python -m trainer.export WEIGHTS TO``: what a training left as one ordinary model.

``WEIGHTS`` is an adapter, which is added to its base, or with ``TO`` a GGUF file also a model
folder.  Refused on a quantised base: an adapter added to rounded weights is another one.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from trainer import gguf_files
from trainer.config import RequestError
from trainer.files import publish
from trainer.tuners import ADAPTER


def export(weights: Path, to: Path, *, kind: str = "bf16") -> None:
    """Write a model folder, or a GGUF file of ``kind``; raise RequestError where it can not be."""
    is_adapter = (weights / ADAPTER).is_file()
    if not is_adapter and (to.suffix != ".gguf" or not (weights / "config.json").is_file()):
        raise RequestError(f"{weights} holds no adapter")
    if to.exists():
        raise RequestError(f"{to} is already there")
    temporary = to.with_name(f".{to.name}-{os.getpid()}")
    part = to.with_name(f".{to.name}-{os.getpid()}.part")
    try:
        if is_adapter:
            _merge(weights, temporary)
        if to.suffix != ".gguf":
            publish(temporary, to)
            return
        gguf_files.write(temporary if is_adapter else weights, part, kind=kind)
        part.replace(to)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        part.unlink(missing_ok=True)


def _merge(adapter: Path, folder: Path) -> None:
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
    merge(model, AutoTokenizer.from_pretrained(adapter, trust_remote_code=False), folder)


def main(argv: list[str] | None = None) -> int:
    """Export one training's weights; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer.export", description=__doc__)
    parser.add_argument("weights", type=Path, help="folder a training left")
    parser.add_argument("to", type=Path, help="folder, or file ending in .gguf, to write")
    parser.add_argument("--type", choices=gguf_files.TYPES, default="bf16", help="of GGUF matrices")
    options = parser.parse_args(argv)
    from trainer.training import quieten

    quieten()
    try:
        export(options.weights.resolve(), options.to.resolve(), kind=options.type)
    except RequestError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{options.to}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
