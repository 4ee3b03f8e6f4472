"""Which rows the files of a dataset hold: found, opened, read one after another.

A dataset is a file, a folder of files, a Hub id (``owner/name``) or ``sample:NAME``.  Files are
``.jsonl``, ``.json`` (one list), ``.csv`` (a header first) and ``.parquet``.

Rules kept: a file is never in memory as a whole, so its size does not matter; each row says where
it is (``file:line``, or ``file:row N`` where a format has no lines); reading a bad one raises
RowError and the next one is read.  No torch here.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trainer.config import RequestError

SAMPLES = Path(__file__).parent / "sample_data"
SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")
CHUNK = 1 << 20
"""Characters of a JSON list read at a time."""
BATCH = 512
"""Rows of a parquet file read at a time."""
SPACE = re.compile(r"[ \t\r\n]*")
LONGEST_CELL = 1 << 26
VALUES = ("label", "score")
"""Columns of a CSV file that hold no text."""

Read = Callable[[], Any]
"""Returns the row's value; raises RowError where it has none."""


class RowError(Exception):
    """A row is not what its task needs; the text says why."""


def files_of(name: str, *, root: Path) -> tuple[Path, ...]:
    """Return the files of a dataset name in order; raise RequestError where there are none."""
    if name.startswith("sample:"):
        return (_sample(name),)
    path = root / Path(name).expanduser()
    if path.is_dir():
        return _inside(path)
    if path.is_file():
        if path.suffix not in SUFFIXES:
            raise RequestError(
                f"train.dataset: {path.name}: only {', '.join(SUFFIXES)} files are read"
            )
        return (path,)
    is_hub_id = name.count("/") == 1 and not name.startswith((".", "/", "~"))
    if is_hub_id and path.suffix not in SUFFIXES:
        return _inside(_downloaded(name))
    raise RequestError(f"train.dataset: there is no file {path}")


def _sample(name: str) -> Path:
    path = SAMPLES / f"{name.removeprefix('sample:')}.jsonl"
    if path.parent != SAMPLES or not path.is_file():
        known = ", ".join(f"sample:{path.stem}" for path in sorted(SAMPLES.glob("*.jsonl")))
        raise RequestError(f"train.dataset: {name!r} is not one of {known}")
    return path


def _inside(folder: Path) -> tuple[Path, ...]:
    found = tuple(
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )
    if not found:
        raise RequestError(f"train.dataset: {folder} holds no {', '.join(SUFFIXES)} file")
    return found


def _downloaded(name: str) -> Path:
    """Return the folder of a Hub dataset, from the cache or the Hub (HF_HUB_OFFLINE holds)."""
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                name, repo_type="dataset", allow_patterns=[f"*{suffix}" for suffix in SUFFIXES]
            )
        )
    except (OSError, ValueError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RequestError(
            f"train.dataset: {name} is no file or folder here, and the Hub did not give it: {said}"
        ) from None


def rows_of(path: Path, *, columns: Mapping[str, str] | None = None) -> Iterator[tuple[str, Read]]:
    """Yield where each row is and how to read it; ``columns`` renames its keys.

    Raises RequestError where the file as a whole cannot be read.
    """
    reader = {".jsonl": _lines, ".json": _list, ".csv": _table, ".parquet": _parquet}
    for source, read in reader[path.suffix](path):
        yield source, partial(_renamed, read, columns) if columns else read


def column_names(given: Sequence[str] | None) -> dict[str, str]:
    """Return ``train.columns`` as theirs -> ours; raise RequestError for what is not a pair."""
    found = {}
    for text in given or ():
        theirs, equals, ours = (part.strip() for part in text.partition("="))
        if not (theirs and equals and ours):
            raise RequestError(
                f"train.columns: {text!r} is not THEIRS=OURS, such as question=query"
            )
        found[theirs] = ours
    return found


def _renamed(read: Read, columns: Mapping[str, str]) -> Any:
    value = read()
    if not isinstance(value, dict):
        return value
    missing = [name for name in columns if name not in value]
    if missing:
        raise RowError(
            f"has no column {', '.join(missing)} as train.columns says; it has "
            f"{', '.join(map(str, value)) or 'none'}"
        )
    kept = {key: item for key, item in value.items() if key not in columns}
    return kept | {ours: value[theirs] for theirs, ours in columns.items()}


def _given(value: Any) -> Any:
    return value


def _refused(reason: str) -> Any:
    raise RowError(reason)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise RowError(f"is not JSON: {error}") from None


def _lines(path: Path) -> Iterator[tuple[str, Read]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"{path.name}:{number}", partial(_parsed, line)


def _list(path: Path) -> Iterator[tuple[str, Read]]:
    """Yield the items of a JSON list, decoded one at a time."""
    decode = json.JSONDecoder().raw_decode
    with path.open(encoding="utf-8-sig") as file:
        text, is_all, number = file.read(CHUNK), False, 0
        at = _after_space(text, 0)
        if text[at : at + 1] != "[":
            raise RequestError(f"train.dataset: {path} is not a JSON list of rows")
        at = _after_space(text, at + 1)
        while text[at : at + 1] != "]" or number:
            try:
                value, end = decode(text, at)
                reason = "the list does not end"
            except ValueError as error:
                end, reason = len(text), str(error)
            end = _after_space(text, end)
            if text[end : end + 1] in (",", "]") and end < len(text):
                number += 1
                yield f"{path.name}:row {number}", partial(_given, value)
                if text[end] == "]":
                    return
                at = _after_space(text, end + 1)
            elif is_all or end < len(text):
                raise RequestError(
                    f"train.dataset: {path} is not JSON: after row {number}: {reason}"
                )
            else:  # the row, or what follows it, goes on in the next chunk
                more = file.read(max(CHUNK, len(text) - at))
                is_all = not more
                text = text[at:] + more
                at = _after_space(text, 0)


def _after_space(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return at if found is None else found.end()


def _table(path: Path) -> Iterator[tuple[str, Read]]:
    csv.field_size_limit(LONGEST_CELL)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        header = next(reader, None)
        if not header:
            raise RequestError(f"train.dataset: {path} has no header line")
        line = reader.line_num + 1
        for cells in reader:
            if cells:
                yield f"{path.name}:{line}", partial(_cells, header, cells)
            line = reader.line_num + 1


def _cells(header: Sequence[str], cells: Sequence[str]) -> dict[str, Any]:
    if len(cells) != len(header):
        raise RowError(f"has {len(cells)} cells, not {len(header)} as the header says")
    return {
        name: _cell(name, cell)
        for name, cell in zip(header, cells, strict=True)
        if cell or name == "input"
    }


def _cell(name: str, cell: str) -> Any:
    if name in VALUES or cell[:1] in ("[", "{"):  # numbers, and lists such as messages
        try:
            return json.loads(cell.lower() if name in VALUES else cell)
        except ValueError:
            pass
    return cell


def _parquet(path: Path) -> Iterator[tuple[str, Read]]:
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        number = 0
        for batch in file.iter_batches(batch_size=BATCH):
            for value in batch.to_pylist():
                number += 1
                kept = {key: item for key, item in value.items() if item is not None}
                yield f"{path.name}:row {number}", partial(_given, kept)
    except (pyarrow.ArrowException, OSError) as error:
        raise RequestError(f"train.dataset: {path} is not parquet: {error}") from None
