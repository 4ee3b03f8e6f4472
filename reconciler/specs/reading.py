"""What does one commit ask for?  Every document of a tree, judged, with the platform it is
judged against.

A read is whole or raises: a blob that is missing is an error of the world, never a smaller
fleet.  A file that is there but cannot be used is an entry with problems, never an absence.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from reconciler.domain.job import JobSpec
from reconciler.domain.problem import Severity, SpecProblem
from reconciler.domain.reservation import Reservation
from reconciler.domain.units import Digest, JobId, TeamName
from reconciler.ports import Tree
from reconciler.specs.bounded import BoundedComposer
from reconciler.specs.cache import SpecCache
from reconciler.specs.catalogue import NO_PLATFORM, build_platform, read_platform
from reconciler.specs.convert import job_spec
from reconciler.specs.dependencies import dependency_problems
from reconciler.specs.findings import Finding
from reconciler.specs.group_files import GroupFiles
from reconciler.specs.meaning import meaning_findings, parallel_findings
from reconciler.specs.paths import SpecPaths, spec_paths
from reconciler.specs.pipeline import Judged, Pipeline
from reconciler.specs.platform import Platform


@dataclass(frozen=True, slots=True)
class SpecEntry:
    """One file under ``jobs/``.  ``spec`` is None where ``problems`` holds an error."""

    id: JobId
    path: str
    blob: str
    spec: JobSpec | None = None
    document: Mapping[str, Any] | None = None
    """The composed document without unset keys."""
    digest: Digest | None = None
    problems: tuple[SpecProblem, ...] = ()
    reservation: Reservation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecReading:
    """One complete read.  Where a problem of ``conf/`` is an error, ``platform`` may be
    ``catalogue.NO_PLATFORM``."""

    platform: Platform
    entries: Mapping[JobId, SpecEntry]
    problems: tuple[SpecProblem, ...] = ()
    """All of them: of ``conf/``, of file names and of every entry, sorted."""


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
    del cache  # every read is a first one
    found = spec_paths(tree.entries)
    wanted = _wanted(found, paths)
    groups = GroupFiles.of(tree, found.conf)
    roots = {"jobs": groups.for_jobs, "platform": groups.for_platform}
    with BoundedComposer(roots) as composer:
        documents = read_platform(groups, composer, cluster)
        platform = build_platform(documents)
        blobs = tree.read(tree.entries[path].oid for path in wanted.values())
        pipeline = Pipeline(groups, composer)
        entries = {}
        for job, path in wanted.items():
            oid = tree.entries[path].oid
            judged = pipeline.judge(path, blobs[oid], overrides)
            entries[job] = _entry(job, path, oid, judged, platform)
    for job, path in found.refused.items():
        if paths is None or path in set(paths):
            entries[job] = SpecEntry(job, path, tree.entries[path].oid)
    return _reading(platform, entries, [*documents.problems, *found.problems], found)


def _wanted(found: SpecPaths, paths: Iterable[str] | None) -> dict[JobId, str]:
    if paths is None:
        return found.jobs
    asked = set(paths)
    return {job: path for job, path in found.jobs.items() if path in asked}


def _entry(job: JobId, path: str, oid: str, judged: Judged, platform: Platform) -> SpecEntry:
    """Return the entry of a judged document: converted where it is valid."""
    document, problems = judged.document, list(judged.problems)
    if document is None or judged.origins is None:
        return SpecEntry(job, path, oid, problems=tuple(problems))
    digest = digest_of(document)
    spec: JobSpec | None = None
    findings: list[Finding] = []
    if has_errors(problems):
        findings += parallel_findings(document)
    elif judged.kind == "Job" and platform is not NO_PLATFORM:
        cluster = platform.cluster_of(TeamName(job.split("/")[0]))
        spec = job_spec(job, document, cluster, digest)
        findings += meaning_findings(spec, document, platform)
    problems += [judged.origins.problem(finding, document) for finding in findings]
    if has_errors(problems):
        spec = None
    return SpecEntry(job, path, oid, spec, document, digest, tuple(sorted(problems)))


def _reading(
    platform: Platform,
    entries: Mapping[JobId, SpecEntry],
    problems: list[SpecProblem],
    found: SpecPaths,
) -> SpecReading:
    """Add what only shows when all documents are seen together, and sort."""
    known = {**found.jobs, **found.refused}
    together = dependency_problems(entries.values(), known)
    complete = {}
    by_path: dict[str, list[SpecProblem]] = {}
    for problem in problems:
        by_path.setdefault(problem.file, []).append(problem)
    for job in sorted(entries):
        entry = entries[job]
        more = [*together.get(job, ()), *by_path.get(entry.path, ())]
        if more:
            all_of_it = tuple(sorted((*entry.problems, *more)))
            spec = None if has_errors(all_of_it) else entry.spec
            entry = replace(entry, problems=all_of_it, spec=spec)
        complete[job] = entry
    of_files = {entry.path for entry in complete.values()}
    rest = [problem for problem in problems if problem.file not in of_files]
    said = [problem for entry in complete.values() for problem in entry.problems]
    return SpecReading(platform=platform, entries=complete, problems=tuple(sorted({*rest, *said})))


def has_errors(problems: Iterable[SpecProblem]) -> bool:
    """Return whether any of them keeps a document from being used."""
    return any(problem.severity is Severity.ERROR for problem in problems)


def digest_of(document: Mapping[str, Any]) -> Digest:
    """Return the spec digest: sha256 over the composed document as canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return Digest(f"sha256:{sha256(text.encode()).hexdigest()}")
