"""What does one commit ask for?  Every document of a tree, judged, with the platform it is
judged against.

A read is whole or raises: a blob that is missing is an error of the world, never a smaller
fleet.  A file that is there but cannot be used is an entry with problems, never an absence.
What the cache knows is not judged again, and nothing that judges is imported for it.
"""

import gc
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from reconciler.domain.problem import SpecProblem
from reconciler.domain.units import Digest, JobId, TeamName
from reconciler.ports import Tree
from reconciler.specs.cache import DIGEST, KIND, PROBLEMS, VERDICTS, Row, SpecCache
from reconciler.specs.conf_files import ConfFiles
from reconciler.specs.convert import job_spec
from reconciler.specs.dependencies import dependency_problems
from reconciler.specs.entries import LazyDocument, SpecEntry, SpecReading, has_errors
from reconciler.specs.findings import Finding
from reconciler.specs.meaning import meaning_findings, parallel_findings
from reconciler.specs.paths import SpecPaths, spec_paths
from reconciler.specs.platform import NO_PLATFORM, Platform, PlatformDocuments, build_platform
from reconciler.specs.reservations import convert_reservation
from reconciler.specs.rows import (
    SpecRows,
    problem_of,
    problem_row,
    reservation_of,
    reservation_row,
    spec_row,
)

if TYPE_CHECKING:
    from reconciler.specs.judging import Judge
    from reconciler.specs.pipeline import Judged

__all__ = ["SpecEntry", "SpecReading", "has_errors", "read_specs"]

_STRANGE = (ValueError, KeyError, TypeError, AttributeError, IndexError)
"""What a row that is not as we write it can raise: it is then as if it were not there."""


def read_specs(
    tree: Tree,
    *,
    cache: SpecCache | None = None,
    paths: Iterable[str] | None = None,
    overrides: Sequence[str] = (),
    cluster: str | None = None,
) -> SpecReading:
    """Read every document of ``tree``, or those at ``paths``, with Hydra ``overrides``.

    ``cluster`` judges against another option of ``conf/cluster/``.  Raises ``GitError`` where a
    blob is missing, ``BackendError`` where no child process can be started.
    """
    with _collector_paused():
        reader = _Reader(tree, cache, tuple(overrides), cluster)
        try:
            return reader.read(None if paths is None else set(paths))
        finally:
            reader.close()


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the cycle collector from walking values while they are made by the ten thousand: none
    of them is in a cycle, and it costs as much as everything else here."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Reader:
    """One read of one tree."""

    def __init__(
        self, tree: Tree, cache: SpecCache | None, overrides: tuple[str, ...], cluster: str | None
    ) -> None:
        self._tree = tree
        self._cache = cache
        self._overrides = overrides
        self._overrides_key = "" if not overrides else _digest("\0".join(overrides))
        self._cluster = cluster
        self._found = spec_paths(tree.entries)
        self._conf = ConfFiles(tree.entries, self._found.conf)
        self._rows = SpecRows()
        self._current: dict[str, bool] = {}
        self._judge_or_none: Judge | None = None

    def close(self) -> None:
        """End the child process and keep what was judged."""
        if self._judge_or_none is not None:
            self._judge_or_none.close()
        if self._cache is not None:
            self._cache.save()

    def read(self, wanted: set[str] | None) -> SpecReading:
        documents, platform_key = self._platform()
        platform = build_platform(documents)
        entries: dict[JobId, SpecEntry] = {}
        unknown: dict[JobId, str] = {}
        for job, path in self._found.jobs.items():
            if wanted is None or path in wanted:
                entry = self._known(job, path, platform, platform_key)
                if entry is None:
                    unknown[job] = path
                else:
                    entries[job] = entry
        entries |= self._judged(unknown, platform, platform_key)
        for job, path in self._found.refused.items():
            if wanted is None or path in wanted:
                entries[job] = SpecEntry(job, path, self._tree.entries[path].oid)
        problems = [*documents.problems, *self._found.problems]
        return _complete(platform, entries, problems, self._found)

    @property
    def _judge(self) -> "Judge":
        if self._judge_or_none is None:
            from reconciler.specs.judging import Judge

            self._judge_or_none = Judge(self._tree, self._conf, self._cache)
        return self._judge_or_none

    def _platform(self) -> tuple[PlatformDocuments, str]:
        """Return the platform's documents and a digest of what they say."""
        key = f"{self._conf.key()} {self._cluster or ''}"
        documents = None if self._cache is None else _kept_platform(self._cache, key)
        if documents is None:
            documents = self._judge.platform(self._cluster)
            if self._cache is not None:
                row = asdict(replace(documents, problems=[]))
                row["problems"] = [problem_row(problem) for problem in documents.problems]
                self._cache.add_shared("platforms", key, row)
        said = asdict(replace(documents, problems=[]))
        return documents, _digest(json.dumps(said, sort_keys=True))[:20]

    def _are_current(self, name: str, dependencies: Sequence[Mapping[str, str]]) -> bool:
        if name not in self._current:
            self._current[name] = self._conf.are_current(dependencies)
        return self._current[name]

    def _known(
        self, job: JobId, path: str, platform: Platform, platform_key: str
    ) -> SpecEntry | None:
        """Return the entry the cache has, None where something has to be judged."""
        if self._cache is None:
            return None
        blob = self._tree.entries[path].oid
        try:
            row = self._cache.find(path, blob, self._overrides_key, self._are_current)
            if row is None:
                return None
            verdict = row[VERDICTS].get(platform_key)
            if verdict is None:
                return self._judged_again(job, path, row, platform, platform_key)
            return self._entry(job, path, row, verdict)
        except _STRANGE:
            return None

    def _judged_again(
        self, job: JobId, path: str, row: Row, platform: Platform, platform_key: str
    ) -> SpecEntry | None:
        """Judge a known document against a platform that changed; None where that finds faults,
        whose places need the text."""
        if self._cache is None:
            return None
        document = None
        if row[DIGEST] is not None:
            document = self._cache.document(path, row[DIGEST])
            if document is None:
                return None
        problems = [problem_of(each) for each in row[PROBLEMS]]
        verdict, findings = _verdict(
            job, row[KIND], document, row[DIGEST], has_errors(problems), platform
        )
        if findings:
            return None
        kept = [*verdict, row[PROBLEMS]]
        self._cache.add_verdict(path, row, platform_key, kept)
        return self._entry(job, path, row, kept)

    def _judged(
        self, unknown: Mapping[JobId, str], platform: Platform, platform_key: str
    ) -> dict[JobId, SpecEntry]:
        if not unknown:
            return {}
        oids = {path: self._tree.entries[path].oid for path in unknown.values()}
        blobs = self._tree.read(oids.values())
        entries = {}
        for job, path in unknown.items():
            judged = self._judge.judge(path, blobs[oids[path]], self._overrides)
            document = judged.document
            digest = None if document is None else digest_of(document)
            row: Row = [
                oids[path], self._overrides_key, "", judged.kind, digest,
                [problem_row(problem) for problem in judged.problems], {},
            ]  # fmt: skip
            verdict, findings = _verdict(
                job, judged.kind, document, digest, has_errors(judged.problems), platform
            )
            if judged.origins is not None and document is not None:
                judged.problems += [judged.origins.problem(each, document) for each in findings]
            kept = [*verdict, [problem_row(problem) for problem in sorted(judged.problems)]]
            if self._cache is not None and judged.is_lasting:
                self._keep(path, row, judged)
                self._cache.add_verdict(path, row, platform_key, kept)
            entry = self._entry(job, path, row, kept)
            entries[job] = replace(entry, document=document)
        return entries

    def _keep(self, path: str, row: Row, judged: "Judged") -> None:
        if self._cache is None:
            return
        rests_on = self._conf.dependencies(judged.loaded, judged.listed)
        self._cache.add(path, row, rests_on)
        if judged.document is not None:
            self._cache.add_document(path, row[DIGEST], judged.document)

    def _entry(self, job: JobId, path: str, row: Row, verdict: Sequence[Any]) -> SpecEntry:
        """Return the entry of a row: [spec, reservation, problems] is one platform's verdict."""
        spec, held, problems = verdict
        digest = row[DIGEST]
        said = tuple(map(problem_of, problems)) if problems else ()
        is_refused = bool(said) and has_errors(said)
        return SpecEntry(
            job,
            path,
            row[0],
            None if spec is None or is_refused else self._rows.spec(job, digest, spec),
            None if digest is None else LazyDocument(partial(self._document, path, digest)),
            digest,
            said,
            None if held is None else reservation_of(job, held),
        )

    def _document(self, path: str, digest: str) -> Mapping[str, Any]:
        """Return a composed document, from the cache or composed again."""
        found = None if self._cache is None else self._cache.document(path, digest)
        if found is not None:
            return found
        read = read_specs(
            self._tree, paths=(path,), overrides=self._overrides, cluster=self._cluster
        )
        for entry in read.entries.values():
            if entry.document is not None:
                return entry.document
        raise LookupError(f"{path} composes to no document any more")


def _kept_platform(cache: SpecCache, key: str) -> PlatformDocuments | None:
    try:
        row = cache.shared("platforms", key)
        if row is None:
            return None
        problems = [problem_of(each) for each in row["problems"]]
        documents = PlatformDocuments(**{**row, "problems": problems})
        build_platform(documents)
        return documents
    except _STRANGE:
        return None


def _verdict(
    job: JobId,
    kind: str,
    document: Mapping[str, Any] | None,
    digest: str | None,
    is_faulty: bool,
    platform: Platform,
) -> tuple[list[Any], list[Finding]]:
    """Return [spec row, reservation row] and what the platform finds wrong with a document."""
    if document is None or digest is None:
        return [None, None], []
    if is_faulty:
        return [None, None], list(parallel_findings(document))
    if platform is NO_PLATFORM:
        return [None, None], []
    cluster = platform.cluster_of(TeamName(job.split("/")[0]))
    if kind == "Reservation":
        held, findings = convert_reservation(job, document, platform)
        return [None, None if held is None else reservation_row(held)], findings
    spec = job_spec(job, document, cluster, Digest(digest))
    return [spec_row(spec), None], meaning_findings(spec, document, platform)


def _complete(
    platform: Platform,
    entries: dict[JobId, SpecEntry],
    problems: list[SpecProblem],
    found: SpecPaths,
) -> SpecReading:
    """Add what only shows when all documents are seen together, and sort."""
    more = dependency_problems(entries.values(), {**found.jobs, **found.refused})
    by_path = {entry.path: entry.id for entry in entries.values()}
    rest = []
    for problem in problems:
        job = by_path.get(problem.file)
        if job is None:
            rest.append(problem)
        else:
            more.setdefault(job, []).append(problem)
    for job, said in more.items():
        entry = entries[job]
        everything = tuple(sorted({*entry.problems, *said}))
        spec = None if has_errors(everything) else entry.spec
        entries[job] = replace(entry, problems=everything, spec=spec)
    for entry in entries.values():
        rest += entry.problems
    return SpecReading(
        platform=platform,
        entries=dict(sorted(entries.items())),
        problems=tuple(sorted(set(rest))),
    )


def digest_of(document: Mapping[str, Any]) -> Digest:
    """Return the spec digest: sha256 over the composed document as canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return Digest(f"sha256:{_digest(text)}")


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
