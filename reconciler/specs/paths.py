"""Which files of a tree are specs, and whose?  Team and name come from the path alone.

Only plain files (mode 100644) are read; a symlink or a submodule is refused by name, never
followed.  Names are lower-case ASCII, so no two of them can look alike or clash on a disk that
folds case.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.domain.problem import SpecProblem
from reconciler.domain.units import JobId
from reconciler.ports import TreeEntry
from reconciler.specs.codes import Code

PLAIN_FILE = "100644"
MAX_BYTES = 64 * 1024

_JOB = re.compile(
    r"jobs/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\.yaml\Z"
)
_CONF = re.compile(r"conf/(?:[a-z][a-z0-9_-]{0,62}/){0,2}[a-z0-9][a-z0-9_.-]{0,62}\.yaml\Z")
_MODES = {
    "120000": "a symlink",
    "160000": "a submodule",
    "100755": "an executable file",
    "040000": "a folder",
}
_COMPANIONS = ("README.md", ".gitkeep", "CODEOWNERS")


@dataclass(slots=True)
class SpecPaths:
    """The files of one tree, sorted.  ``refused`` are jobs whose file cannot be read: they exist
    all the same, so that a link in place of a file never looks like a deletion."""

    jobs: dict[JobId, str] = field(default_factory=dict)
    refused: dict[JobId, str] = field(default_factory=dict)
    conf: list[str] = field(default_factory=list)
    problems: list[SpecProblem] = field(default_factory=list)


def spec_paths(entries: Mapping[str, TreeEntry]) -> SpecPaths:
    """Sort the files under ``jobs/`` and ``conf/`` into readable ones and problems."""
    found = SpecPaths()
    for path, entry in entries.items():
        if path.startswith("jobs/"):
            match = _JOB.match(path)
            if match is None:
                if path.rpartition("/")[2] not in _COMPANIONS:
                    found.problems.append(_bad_path(path))
            elif _is_readable(path, entry, found):
                found.jobs[JobId(match.group(1))] = path
            else:
                found.refused[JobId(match.group(1))] = path
        elif path.startswith("conf/") and path.endswith((".yaml", ".yml")):
            if path.startswith("conf/monitoring/"):
                continue
            if _CONF.match(path) is None:
                found.problems.append(_bad_path(path))
            elif _is_readable(path, entry, found):
                found.conf.append(path)
    found.problems += _case_twins(entries)
    return found


def job_at(path: str) -> JobId | None:
    """Return the job a path names, None where it names none."""
    match = _JOB.match(path)
    return None if match is None else JobId(match.group(1))


def _is_readable(path: str, entry: TreeEntry, found: SpecPaths) -> bool:
    if entry.mode != PLAIN_FILE:
        what = _MODES.get(entry.mode, "not a plain file")
        found.problems.append(
            SpecProblem(
                file=path,
                code=Code.NOT_A_FILE,
                message=f"this is {what} (mode {entry.mode}); only plain files are read",
                hint="commit the text itself as a plain file (mode 100644)",
                is_security_event=entry.mode in ("120000", "160000"),
            )
        )
        return False
    if entry.size > MAX_BYTES:
        found.problems.append(too_large(path, entry.size))
        return False
    return True


def too_large(file: str, size: int) -> SpecProblem:
    """Return the problem of a file over the limit, known before it is read."""
    return SpecProblem(
        file=file,
        code=Code.TOO_LARGE,
        message=f"the file has {size} bytes, at most {MAX_BYTES} are read",
        hint="a spec names data, it does not hold them",
    )


def _bad_path(path: str) -> SpecProblem:
    parts = path.split("/")
    if path.startswith("conf/"):
        hint = "conf files are `conf/<group>/<option>.yaml` in lower case"
    elif path.endswith(".yml"):
        hint = f"rename it to end in .yaml: {path.removesuffix('.yml')}.yaml"
    elif len(parts) != 3:
        hint = "jobs are `jobs/<team>/<name>.yaml`, exactly two folders deep"
    else:
        hint = (
            "team and name are lower-case letters, digits and `-`, at most 63, "
            "no `-` at either end, and the file ends in .yaml"
        )
    shown = path if path.isascii() and path.isprintable() else ascii(path)
    return SpecProblem(
        file=shown, code=Code.BAD_PATH, message=f"file name {shown} is not allowed", hint=hint
    )


def _case_twins(paths: Iterable[str]) -> list[SpecProblem]:
    """Name files whose paths differ only in case: one of them is lost on many disks."""
    odd = [path for path in paths if path.startswith("jobs/") and path != path.casefold()]
    if not odd:
        return []
    by_fold: dict[str, list[str]] = {}
    for path in paths:
        by_fold.setdefault(path.casefold(), []).append(path)
    return [
        SpecProblem(
            file=path,
            code=Code.SAME_NAME,
            message=f"differs only in case from {other}",
            hint="rename one of the two",
        )
        for path in odd
        for other in by_fold[path.casefold()]
        if other != path
    ]
