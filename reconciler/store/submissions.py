"""When was a job asked for?  The main commit in which (path, generation) was first seen.

A path's life begins at the commit that adds it and ends at the one that removes it; a file that
comes back starts another life.  Within a life, a generation was submitted by the oldest
first-parent commit that shows it: raising it submits again, lowering it returns to the earlier
submission, and any other edit keeps the place.  Everything is derived from commits, in one pass
over the first-parent log, so a replay finds the same; blobs are read only of files that were
edited.

``generation:`` is read as text, because older documents need not compose any more.  A document
that cannot be read has the generation of the one before it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.domain.job import Submission
from reconciler.domain.units import CommitId, Instant, JobId
from reconciler.specs.paths import job_at
from reconciler.specs.yaml_text import read_yaml
from reconciler.store.git.cat_file import list_tree, read_blobs
from reconciler.store.git.history import Landed, first_parents_reach, landed, refuse_shallow

JOBS_ROOT = "jobs"
FIRST_GENERATION = 1
PATHS_IN_A_CALL = 500
"""More paths than this are not named to git: it then walks all of ``jobs/``, which is cheaper."""

_LINE = re.compile(rb"^generation:[ \t]+([1-9][0-9]{0,8})[ \t]*(?:#[^\r\n]*)?\r?$", re.MULTILINE)
_WORD = re.compile(rb"generation")


@dataclass(slots=True)
class _Life:
    """What is known of one path's present life, newest version first."""

    versions: list[tuple[CommitId, Instant, str]]
    is_closed: bool = False


def submissions_between(
    repo: Path, cursor: CommitId | None, tip: CommitId, *, also: Collection[str] = ()
) -> dict[JobId, Submission]:
    """Return the submissions that ``cursor..tip`` brought, sorted by job.

    A job is in it when its file was added, or was away and came back, or shows another
    generation at ``tip`` than at ``cursor``.  No cursor: every job of ``tip``.  ``also`` names
    paths to answer for in any case.  Where ``cursor`` is not on the first-parent line of ``tip``
    (main was merged into a branch that then became main) only the two trees are compared, so
    nothing counts as deleted and added again.  Raises ``GitError``, also for a shallow clone.
    """
    refuse_shallow(repo)
    wanted = _job_blobs(repo, tip)
    if cursor is None:
        lives = _lives(landed(repo, tip, paths=(JOBS_ROOT,)), wanted)
        return _submissions(repo, lives)
    before = _job_blobs(repo, cursor)
    if first_parents_reach(repo, cursor, tip):
        lives = _lives(landed(repo, tip, since=cursor, paths=(JOBS_ROOT,)), wanted)
        found = {path: life for path, life in lives.items() if life.is_closed}
        older = set()
    else:
        found = {}
        older = {path for path in wanted if path not in before}
    edited = {
        path: (before[path], blob)
        for path, blob in wanted.items()
        if path in before and path not in found and before[path] != blob
    }
    older |= _other_generation(repo, edited)
    older |= {path for path in also if path in wanted and path not in found}
    return _submissions(repo, found | _whole_lives(repo, tip, older))


def generation_of(document: bytes) -> int | None:
    """Return the top-level ``generation:`` of a job file, 1 where it has none.

    None where the text is too broken to tell.  One plain line at the left margin is read as it
    stands; any other spelling goes through the strict loader.
    """
    mentions = len(_WORD.findall(document))
    if mentions == 0 and b"\\" not in document:
        return FIRST_GENERATION
    lines = _LINE.findall(document)
    if len(lines) == 1 and mentions == 1 and b'"' not in document and b"'" not in document:
        return int(lines[0])
    value = read_yaml(document, "").value
    if value is None:
        return int(lines[0]) if len(lines) == 1 else None
    found = value.get("generation", FIRST_GENERATION)
    return found if type(found) is int and found >= 1 else None


def _job_blobs(repo: Path, commit: CommitId) -> dict[str, str]:
    return {
        path: entry.oid
        for path, entry in list_tree(repo, commit, (JOBS_ROOT,)).items()
        if entry.mode != "160000" and job_at(path) is not None
    }


def _lives(commits: Iterable[Landed], paths: Iterable[str]) -> dict[str, _Life]:
    """Follow each path from its newest version back to the commit that added it."""
    lives = {path: _Life([]) for path in paths}
    for each in commits:
        for change in each.changes:
            life = lives.get(change.path)
            if life is None or life.is_closed:
                continue
            if change.after is not None:
                life.versions.append((each.commit, each.committed_at, change.after))
            life.is_closed = change.before is None or change.after is None
    return {path: life for path, life in lives.items() if life.versions}


def _whole_lives(repo: Path, tip: CommitId, paths: Collection[str]) -> dict[str, _Life]:
    if not paths:
        return {}
    named = sorted(paths) if len(paths) <= PATHS_IN_A_CALL else (JOBS_ROOT,)
    return _lives(landed(repo, tip, paths=named), paths)


def _other_generation(repo: Path, edited: Mapping[str, tuple[str, str]]) -> set[str]:
    texts = read_blobs(repo, (blob for pair in edited.values() for blob in pair))
    generations = {blob: generation_of(text) for blob, text in texts.items()}
    return {
        path
        for path, (before, after) in edited.items()
        if generations[after] is not None and generations[before] != generations[after]
    }


def _submissions(repo: Path, lives: Mapping[str, _Life]) -> dict[JobId, Submission]:
    edited = [life for life in lives.values() if len(life.versions) > 1]
    texts = read_blobs(repo, (blob for life in edited for _, _, blob in life.versions))
    generations = {blob: generation_of(text) for blob, text in texts.items()}
    found = {}
    for path, life in lives.items():
        job = job_at(path)
        if job is not None:
            found[job] = _first_with_present_generation(life, generations)
    return dict(sorted(found.items()))


def _first_with_present_generation(
    life: _Life, generations: Mapping[str, int | None]
) -> Submission:
    """Return the oldest version that shows the generation of the newest one."""
    shown: list[tuple[int, CommitId, Instant]] = []
    before = FIRST_GENERATION
    for commit, committed_at, blob in reversed(life.versions):
        before = generations.get(blob) or before
        shown.append((before, commit, committed_at))
    present = shown[-1][0]
    commit, committed_at = next(
        (commit, at) for generation, commit, at in shown if generation == present
    )
    return Submission(commit=commit, committed_at=committed_at)
