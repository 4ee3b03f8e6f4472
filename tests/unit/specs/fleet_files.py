"""A small fleet in memory: files as a tree of one commit, with quiet defaults."""

import atexit
import hashlib
import tempfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from reconciler.domain.problem import SpecProblem
from reconciler.domain.units import CommitId, JobId
from reconciler.ports import TreeEntry
from reconciler.specs.cache import SpecCache
from reconciler.specs.entries import SpecEntry, SpecReading
from reconciler.specs.reading import read_specs

ROOT = Path(__file__).parents[3]


class MemoryTree:
    """A tree of one commit; counts the blobs that were read."""

    def __init__(self, files: Mapping[str, bytes], modes: Mapping[str, str] | None = None) -> None:
        self.commit = CommitId("c" * 40)
        self.blobs: dict[str, bytes] = {}
        self.reads = 0
        self.entries: Mapping[str, TreeEntry] = {}
        entries = {}
        for path, data in files.items():
            oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            self.blobs[oid] = data
            mode = (modes or {}).get(path, "100644")
            entries[path] = TreeEntry(mode=mode, oid=oid, size=len(data))
        self.entries = dict(sorted(entries.items()))

    def read(self, oids: Iterable[str]) -> Mapping[str, bytes]:
        wanted = list(oids)
        self.reads += len(wanted)
        return {oid: self.blobs[oid] for oid in wanted}


def conf_files() -> dict[str, bytes]:
    """Return this project's own ``conf/``."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in (ROOT / "conf").rglob("*.yaml")
    }


def sample_files() -> dict[str, bytes]:
    """Return this project's own fleet: ``conf/`` and ``jobs/``."""
    jobs = {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in (ROOT / "jobs").rglob("*.yaml")
    }
    return conf_files() | jobs


JOB = """\
defaults: [/model: tiny-qwen3, /task: sft, /tuner: lora, /data: support-chats, _self_]
api_version: headway/v1
kind: Job
resources: {gpus: 2}
"""
"""A valid job of team support; more lines may follow."""

PLAIN_JOB = """\
defaults: [/model: tiny-qwen3, /task: sft, /tuner: lora, /data: support-chats, _self_]
api_version: headway/v1
kind: Job
"""
"""The same without ``resources``."""


def read(
    job: str | bytes,
    *overrides: str,
    path: str = "jobs/support/one.yaml",
    files: Mapping[str, str | bytes] | None = None,
    **settings: Any,
) -> SpecReading:
    """Read one job text over this project's ``conf/``; ``files`` are added or replace."""
    given: dict[str, str | bytes] = {path: job, **(files or {})}
    tree = MemoryTree(
        conf_files()
        | {name: text.encode() if isinstance(text, str) else text for name, text in given.items()}
    )
    settings.setdefault("cache", shared_cache())
    return read_specs(tree, overrides=overrides, **settings)


@lru_cache(maxsize=1)
def shared_cache() -> SpecCache:
    """Return one cache for all tests of a process: this project's ``conf/`` is composed once."""
    folder = tempfile.TemporaryDirectory(prefix="headway-specs-")
    atexit.register(folder.cleanup)
    return SpecCache(Path(folder.name))


def entry(job: str | bytes, *overrides: str, **settings: Any) -> SpecEntry:
    """Return the entry of one job text at ``jobs/support/one.yaml``."""
    path = settings.get("path", "jobs/support/one.yaml")
    name = JobId(path.removeprefix("jobs/").removesuffix(".yaml"))
    return read(job, *overrides, **settings).entries[name]


def said(problems: Iterable[SpecProblem]) -> str:
    """Return problems as lines, for tests that look for words."""
    return "\n".join(
        f"{each.file}:{each.line}:{each.column} {each.code} {each.message} | {each.hint}"
        for each in problems
    )


def codes(problems: Iterable[SpecProblem]) -> list[str]:
    """Return the codes of problems, in their order."""
    return [str(each.code) for each in problems]
