"""Opens a load: which reader a file's name asks for, and what the name of a made-up load means.

========================  =================================================
``*.csv``, ``*.csv.gz``   the normalised CSV
``*.swf``, ``*.swf.gz``   the SWF of the Parallel archive (18 columns)
``*.json``, ``*.json.gz`` Philly's job log
``*.yaml``                the generator file of Kueue's performance tests; a
                          millisecond becomes a second
``synthetic:JOBS``        made up: see ``synthetic``
========================  =================================================
"""

import gzip
import io
from collections.abc import Callable, Mapping
from pathlib import Path

from reconciler.simulate import kueue_yaml
from reconciler.simulate.load import Load, LoadError
from reconciler.simulate.readers import normalised, philly, swf
from reconciler.simulate.synthetic import MADE_UP, made_up

LARGEST_BYTES = 1 << 30
"""What a file may unpack to."""

READERS: Mapping[str, Callable[[str, str], Load]] = {
    ".csv": lambda text, name: normalised.read(io.StringIO(text), name),
    ".swf": lambda text, name: swf.read(io.StringIO(text), name),
    ".json": philly.read,
    ".yaml": lambda text, name: kueue_yaml.read(text, name).load(),
}


def open_load(where: str, *, seed: int = 1) -> Load:
    """Return the load a person means by ``where``.  Raises ``LoadError`` saying what is wrong."""
    if where.startswith(MADE_UP):
        return made_up(where, seed=seed)
    path = Path(where)
    suffix = next((s for s in reversed(path.suffixes) if s in READERS), None)
    if suffix is None:
        known = ", ".join((*READERS, f"{MADE_UP}JOBS"))
        raise LoadError(f"{where}: a load is one of {known} (the first two also with .gz)")
    load = READERS[suffix](_text(path), path.name)
    if not load:
        raise LoadError(f"{where}: the file has no job that ran")
    return load


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            if path.suffix == ".gz":
                with gzip.open(file) as unpacked:
                    data = unpacked.read(LARGEST_BYTES + 1)
            else:
                data = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise LoadError(f"{path}: no such file") from None
    except (OSError, EOFError) as error:
        raise LoadError(f"{path}: cannot be read: {error}") from None
    if len(data) > LARGEST_BYTES:
        raise LoadError(f"{path}: more than {LARGEST_BYTES >> 20} MiB; select a part of it first")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError(f"{path}: is not UTF-8 text: {error}") from None
