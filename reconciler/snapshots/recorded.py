"""What did the planner know when it made the decision of a commit?  Reads it back from git.

Asks git for the inputs files of many commits at once: a chain of 255 deltas costs three
processes, not five hundred.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from reconciler.domain.units import CommitId
from reconciler.snapshots.inputs import INPUTS_FILE, PARTS_FOLDER, Recorded, decode, part_path
from reconciler.store.git.cat_file import list_tree, read_blobs
from reconciler.store.git.command import full_id, git

COMMITS_A_READ = 300


def recorded_at(repo: Path, commit: CommitId) -> Recorded:
    """Return the inputs of the newest decision at or before ``commit``, first parents only.

    Raises ``GitError`` where the branch does not reach back to a whole one.
    """
    return decode(_history(repo, commit))


def _history(repo: Path, commit: CommitId) -> Iterator[Mapping[str, bytes]]:
    """Yield the inputs files of commits, newest first; a run of equal ones once."""
    last = ""
    start: CommitId | None = commit
    while start is not None:
        listed = git(
            repo, "rev-list", "--first-parent", f"--max-count={COMMITS_A_READ + 1}", full_id(start)
        ).text.split()
        commits, start = listed[:COMMITS_A_READ], None
        if len(listed) > COMMITS_A_READ:
            start = full_id(listed[COMMITS_A_READ])
        found = [
            (CommitId(each), oid)
            for each, oid in zip(commits, _oids(repo, commits), strict=True)
            if oid is not None
        ]
        blobs = read_blobs(repo, (oid for _, oid in found))
        for each, oid in found:
            if oid != last:
                last = oid
                yield _files(repo, each, blobs[oid])


def _oids(repo: Path, commits: list[str]) -> list[str | None]:
    """Return the blob of the inputs file at each commit; None where there is none."""
    stdin = "".join(f"{commit}:{INPUTS_FILE}\n" for commit in commits).encode()
    answers = git(repo, "cat-file", "--batch-check", "--buffer", stdin=stdin).text.splitlines()
    words = [answer.split() for answer in answers]
    return [each[0] if len(each) == 3 and each[1] == "blob" else None for each in words]


def _files(repo: Path, commit: CommitId, content: bytes) -> dict[str, bytes]:
    files = {INPUTS_FILE: content}
    parts = json.loads(content).get("parts", 0)
    if parts:
        entries = list_tree(repo, commit, (PARTS_FOLDER,))
        oids = {part_path(n): entries[part_path(n)].oid for n in range(1, parts + 1)}
        blobs = read_blobs(repo, oids.values())
        files |= {path: blobs[oid] for path, oid in oids.items()}
    return files
