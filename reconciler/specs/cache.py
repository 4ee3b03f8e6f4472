"""What was judged before?  Kept as JSON on disk, never pickled, and never trusted to be whole.

A row is found by path, blob and overrides, and holds only while the group files it loaded and the
folders it looked into are unchanged.  The version is a digest of the sources that judge, so an
updated headway starts afresh.  A file that is missing, torn or strange is an empty one: the
worst a cache can do is cost time.  Writers replace whole files by rename and keep what another
process added meanwhile.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

from reconciler.specs.version import judging_version

SHARDS = 16
ROWS_PER_PATH = 4
VERDICTS_PER_ROW = 2
SHARED_KEPT = 64
STRANGERS_KEPT = 256

Row: TypeAlias = list[Any]
"""blob, overrides, dependencies' id, kind, digest, problems, {platform: verdict}."""
BLOB, OVERRIDES, DEPENDENCIES, KIND, DIGEST, PROBLEMS, VERDICTS = range(7)


@dataclass(slots=True)
class _File:
    """One JSON file: an object of named tables."""

    path: Path
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    stamp: tuple[int, int, int] | None = None
    is_changed: bool = False
    asked: set[str] = field(default_factory=set)
    """Paths somebody asked for: the others go when they are too many."""

    def table(self, name: str) -> dict[str, Any]:
        return self.tables.setdefault(name, {})


class SpecCache:
    """A folder of judged documents, shared by any number of processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = judging_version()
        self._files: dict[str, _File] = {}
        self._rows: list[_File | None] = [None] * SHARDS
        """The files of rows by number, to find ten thousand paths quickly."""

    def find(
        self,
        path: str,
        blob: str,
        overrides: str,
        are_current: Callable[[str, Sequence[Mapping[str, str]]], bool],
    ) -> Row | None:
        """Return the row of a blob whose dependencies ``are_current``, None where there is none."""
        shard = self._rows[crc32(path.encode()) % SHARDS] or self._file(_shard("rows", path))
        shard.asked.add(path)
        for row in reversed(shard.table("rows").get(path, ())):
            if row[BLOB] == blob and row[OVERRIDES] == overrides:
                name = row[DEPENDENCIES]
                if are_current(name, shard.tables["dependencies"][name]):
                    return row  # type: ignore[no-any-return]
        return None

    def add(self, path: str, row: Row, dependencies: Sequence[Mapping[str, str]]) -> None:
        """Keep a new row; its dependencies' id is filled in here."""
        shard = self._file(_shard("rows", path))
        name = sha256(json.dumps(dependencies, sort_keys=True).encode()).hexdigest()[:20]
        row[DEPENDENCIES] = name
        shard.table("dependencies")[name] = dependencies
        rows = shard.table("rows").setdefault(path, [])
        others = [old for old in rows if old[:3] != row[:3]]
        rows[:] = [*others[1 - ROWS_PER_PATH :], row]
        shard.asked.add(path)
        shard.is_changed = True

    def add_verdict(self, path: str, row: Row, platform: str, verdict: Any) -> None:
        """Keep what one platform says of a row."""
        verdicts = row[VERDICTS]
        verdicts.pop(platform, None)
        while len(verdicts) >= VERDICTS_PER_ROW:
            del verdicts[next(iter(verdicts))]
        verdicts[platform] = verdict
        self._file(_shard("rows", path)).is_changed = True

    def document(self, path: str, digest: str) -> Mapping[str, Any] | None:
        """Return a composed document by its digest."""
        found = self._file(_shard("documents", path)).table("documents").get(digest)
        return found if isinstance(found, dict) else None

    def add_document(self, path: str, digest: str, document: Mapping[str, Any]) -> None:
        """Keep a composed document."""
        documents = self._file(_shard("documents", path))
        if digest not in documents.table("documents"):
            documents.table("documents")[digest] = document
            documents.is_changed = True

    def shared(self, table: str, key: str) -> Any:
        """Return something that is not one job's: a platform, a composed prefix."""
        return self._file("shared").table(table).get(key)

    def add_shared(self, table: str, key: str, value: Any) -> None:
        """Keep something that is not one job's; the oldest goes when there are many."""
        shared = self._file("shared")
        rows = shared.table(table)
        rows.pop(key, None)
        while len(rows) >= SHARED_KEPT:
            del rows[next(iter(rows))]
        rows[key] = value
        shared.is_changed = True

    def save(self) -> None:
        """Write what changed.  A folder that cannot be written to is no error."""
        try:
            for name, file in self._files.items():
                if file.is_changed:
                    self._drop_unused(name, file)
                    self._write(file)
        except OSError:
            return

    def _drop_unused(self, name: str, file: _File) -> None:
        """Keep the cache from growing for ever: paths nobody asks for, documents of no row."""
        kind, _, number = name.partition("-")
        if kind == "rows":
            rows = file.table("rows")
            if len(rows) > 2 * len(file.asked) + STRANGERS_KEPT:
                file.tables["rows"] = rows = {path: rows[path] for path in rows.keys() & file.asked}
            used = {row[DEPENDENCIES] for those in rows.values() for row in those}
            kept = file.table("dependencies")
            file.tables["dependencies"] = {key: kept[key] for key in kept if key in used}
        elif kind == "documents":
            rows = self._file(f"rows-{number}").table("rows")
            digests = {row[DIGEST] for those in rows.values() for row in those}
            kept = file.table("documents")
            file.tables["documents"] = {key: kept[key] for key in kept if key in digests}

    def _file(self, name: str) -> _File:
        found = self._files.get(name)
        if found is None:
            found = self._files[name] = _File(self._folder / f"{name}.json")
            found.tables = self._read(found)
            kind, _, number = name.partition("-")
            if kind == "rows":
                self._rows[int(number)] = found
        return found

    def _read(self, file: _File) -> dict[str, dict[str, Any]]:
        """Return the tables on disk, none where the file is not one of ours, whole and current."""
        try:
            with file.path.open("rb") as stream:
                file.stamp = _stamp(os.fstat(stream.fileno()))
                content = json.loads(stream.read())
            if content["version"] != self._version:
                return {}
            tables = content["tables"]
            if all(isinstance(table, dict) for table in tables.values()):
                return tables  # type: ignore[no-any-return]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            file.stamp = None
        return {}

    def _write(self, file: _File) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            is_theirs = _stamp(file.path.stat()) != file.stamp
        except OSError:
            is_theirs = False
        if is_theirs:
            for name, rows in self._read(_File(file.path)).items():
                file.tables[name] = rows | file.table(name)
        content = {"version": self._version, "tables": file.tables}
        part = self._folder / f".{file.path.name}.{os.getpid()}.{os.urandom(4).hex()}.part"
        try:
            with part.open("xb") as stream:
                stream.write(json.dumps(content, separators=(",", ":")).encode())
                stream.flush()
                file.stamp = _stamp(os.fstat(stream.fileno()))
            part.replace(file.path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        file.is_changed = False


def user_folder() -> Path:
    """Return where one person's commands keep judged documents between calls."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~").expanduser() / ".cache") / "headway" / "specs"


def _shard(kind: str, path: str) -> str:
    return f"{kind}-{crc32(path.encode()) % SHARDS:02d}"


def _stamp(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns
