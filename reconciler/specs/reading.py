"""What does one commit ask for?  Every document of a tree, judged, with the platform it is
judged against.

A read is whole or raises: a blob that is missing is an error of the world, never a smaller
fleet.  A file that is there but cannot be used is an entry with problems, never an absence.
What the cache knows is not judged again, and nothing that judges is imported for it.
"""

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from reconciler.domain.problem import SpecProblem
from reconciler.domain.units import JobId
from reconciler.ports import Tree
from reconciler.specs.cache import DIGEST, KIND, PROBLEMS, VERDICTS, Row, SpecCache
from reconciler.specs.capacity import Capacities
from reconciler.specs.conf_files import ConfFiles
from reconciler.specs.dependencies import dependency_findings
from reconciler.specs.entries import LazyDocument, SpecEntry, SpecReading, has_errors
from reconciler.specs.paths import spec_paths
from reconciler.specs.platform import Platform, PlatformDocuments, build_platform
from reconciler.specs.platform_cache import keep_platform, kept_platform, platform_digest
from reconciler.specs.reservation_meaning import served_findings
from reconciler.specs.rows import STRANGE, SpecRows, problem_of, problem_row, reservation_of
from reconciler.specs.verdict import digest_of, text_digest, verdict_of

if TYPE_CHECKING:
    from reconciler.specs.judging import Judge
    from reconciler.specs.pipeline import Judged

__all__ = ["SpecEntry", "SpecReading", "has_errors", "read_specs"]


BLOBS_AT_ONCE = 1000


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
    of them is in a cycle, and it costs as much as everything else here.  Freezing and unfreezing
    makes them old at once, so that the next collection does not walk them either."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.unfreeze()
            gc.enable()


class _Reader:
    """One read of one tree."""

    def __init__(
        self, tree: Tree, cache: SpecCache | None, overrides: tuple[str, ...], cluster: str | None
    ) -> None:
        self._tree = tree
        self._cache = cache
        self._overrides = overrides
        self._overrides_key = "" if not overrides else text_digest("\0".join(overrides))
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
        self._capacities = Capacities(platform)
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
        return self._complete(platform, entries, problems)

    def _complete(
        self,
        platform: Platform,
        entries: dict[JobId, SpecEntry],
        problems: Sequence[SpecProblem],
    ) -> SpecReading:
        """Add what only shows when all documents are seen together, and sort."""
        more = self._of_dependencies(entries)
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

    def _of_dependencies(
        self, entries: Mapping[JobId, SpecEntry]
    ) -> dict[JobId, list[SpecProblem]]:
        known = {**self._found.jobs, **self._found.refused}
        found = dependency_findings(entries.values(), known)
        held = [entry.reservation for entry in entries.values() if entry.reservation is not None]
        if held:
            specs = {job: entries[job].spec if job in entries else None for job in known}
            for name, said in served_findings(held, specs).items():
                found.setdefault(name, []).extend(said)
        if not found:
            return {}
        from reconciler.specs.submission import placed

        blobs = self._tree.read(entries[job].blob for job in found)
        return {
            job: placed(findings, entries[job].path, blobs[entries[job].blob])
            for job, findings in found.items()
        }

    @property
    def _judge(self) -> "Judge":
        if self._judge_or_none is None:
            from reconciler.specs.judging import Judge

            self._judge_or_none = Judge(self._tree, self._conf, self._cache)
        return self._judge_or_none

    def _platform(self) -> tuple[PlatformDocuments, str]:
        """Return the platform's documents and a digest of what they say."""
        key = f"{self._conf.key()} {self._cluster or ''}"
        documents = None if self._cache is None else kept_platform(self._cache, key)
        if documents is None:
            documents = self._judge.platform(self._cluster)
            if self._cache is not None:
                keep_platform(self._cache, key, documents)
        return documents, platform_digest(documents)

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
        except STRANGE:
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
        verdict, findings = verdict_of(
            job,
            row[KIND],
            document,
            row[DIGEST],
            has_errors(problems),
            platform,
            self._capacities,
            [kept[2] for kept in row[VERDICTS].values() if kept[2] is not None],
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
        blobs: Mapping[str, bytes] = {}
        entries = {}
        for number, (job, path) in enumerate(unknown.items()):
            if number % BLOBS_AT_ONCE == 0:
                batch = islice(oids.values(), number, number + BLOBS_AT_ONCE)
                blobs = self._tree.read(batch)
            judged = self._judge.judge(path, blobs[oids[path]], self._overrides)
            document = judged.document
            digest = None if document is None else digest_of(document)
            row: Row = [
                oids[path], self._overrides_key, "", judged.kind, digest,
                [problem_row(problem) for problem in judged.problems], {},
            ]  # fmt: skip
            verdict, findings = verdict_of(
                job,
                judged.kind,
                document,
                digest,
                has_errors(judged.problems),
                platform,
                self._capacities,
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
        """Return the entry of a row: one platform's verdict is [spec, reservation, estimates,
        problems]."""
        spec, held, estimates, problems = verdict
        digest = row[DIGEST]
        said = tuple(map(problem_of, problems)) if problems else ()
        sizes = () if estimates is None else estimates[1]
        is_refused = bool(said) and has_errors(said)
        return SpecEntry(
            job,
            path,
            row[0],
            None if spec is None or is_refused else self._rows.spec(job, digest, spec, sizes),
            None if digest is None else LazyDocument(self._document, path, digest),
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
