"""Which jobs were there, as the status branch and main tell: who asked, when, for how long.

The newest generation of each job counts.  How long a job works is what its attempts really ran;
one that has not ended is taken to run on as was forecast.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

from reconciler.domain.plan import Expectation
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import JobStatus
from reconciler.domain.units import CommitId, Instant, JobId, Seconds
from reconciler.errors import UsageError
from reconciler.ports import Tree, TreeEntry
from reconciler.simulate.past import PastJob
from reconciler.specs.cache import SpecCache
from reconciler.specs.reading import SpecReading, read_specs
from reconciler.specs.yaml_text import read_yaml
from reconciler.store.spec_source import SpecSource

HEADWAY_FILE = "conf/headway.yaml"
POLICY_FOLDER = "conf/policy/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The jobs that can be simulated again, and how many cannot."""

    jobs: tuple[PastJob, ...]
    unfinished: int
    """Of them: had not ended, so their length is a forecast."""
    left_out: tuple[JobId, ...]
    """Never had a valid document or a running time; sorted."""


class OtherPolicy:
    """A tree in which the policy that conf/headway.yaml picks is another; a ``ports.Tree``."""

    def __init__(self, tree: Tree, text: bytes) -> None:
        """Raises ``UsageError`` where conf/headway.yaml picks no file of conf/policy/."""
        self.path = f"{POLICY_FOLDER}{_picked(tree)}.yaml"
        self._tree = tree
        self._text = text
        self._oid = sha1(b"blob %d\0" % len(text) + text, usedforsecurity=False).hexdigest()
        self._entries = {
            path: TreeEntry(mode=entry.mode, oid=self._oid, size=len(text))
            if path == self.path
            else entry
            for path, entry in tree.entries.items()
        }

    @property
    def commit(self) -> CommitId:
        return self._tree.commit

    @property
    def entries(self) -> Mapping[str, TreeEntry]:
        return self._entries

    def read(self, oids: Iterable[str]) -> Mapping[str, bytes]:
        wanted = set(oids)
        rest = wanted - {self._oid}
        found = dict(self._tree.read(sorted(rest))) if rest else {}
        return found | ({self._oid: self._text} if self._oid in wanted else {})


def _picked(tree: Tree) -> str:
    entry = tree.entries.get(HEADWAY_FILE)
    text = (
        read_yaml(tree.read((entry.oid,))[entry.oid], HEADWAY_FILE) if entry is not None else None
    )
    defaults = (text.value or {}).get("defaults") if text is not None else None
    for each in defaults if isinstance(defaults, list) else ():
        picked = each.get("policy") if isinstance(each, dict) else None
        if isinstance(picked, str):
            return picked
    raise UsageError(
        f"{HEADWAY_FILE} of main picks no policy from {POLICY_FOLDER}, so there is nothing to"
        " replace: move its policy: section into a file there and pick it in defaults:"
    )


def past_of(
    repo: Path,
    snapshot: Snapshot,
    forecast: Mapping[JobId, Expectation],
    *,
    since: Instant | None,
    cache: SpecCache | None = None,
) -> Past:
    """Return the past up to ``snapshot``: of jobs submitted since ``since``, or of all.

    Raises ``GitError`` where a commit of main that a job ran at is not in ``repo``.
    """
    source = SpecSource(repo, remote="unused")
    readings: dict[CommitId, SpecReading] = {}
    jobs: list[PastJob] = []
    unfinished = 0
    left_out = []
    for job, status in sorted(snapshot.statuses.items()):
        if status.summary is None:
            left_out.append(job)
            continue
        if since is not None and status.summary.submitted_at < since:
            continue
        work_s = _work_s(status, forecast.get(job), snapshot.now)
        wanted = snapshot.desired.jobs.get(job)
        spec = wanted.spec if wanted is not None else None
        if spec is None:
            commit = status.observed_commit
            if commit not in readings:
                readings[commit] = read_specs(source.tree(commit), cache=cache)
            entry = readings[commit].entries.get(job)
            spec = entry.spec if entry is not None else None
        if spec is None or work_s is None:
            left_out.append(job)
            continue
        unfinished += not status.phase.is_finished
        jobs.append(PastJob(spec=spec, submitted_at=status.summary.submitted_at, work_s=work_s))
    return Past(jobs=tuple(jobs), unfinished=unfinished, left_out=tuple(left_out))


def _work_s(status: JobStatus, expected: Expectation | None, now: Instant) -> Seconds | None:
    """Return how long it ran, or will have; None for a job that never ran and never will."""
    live = status.live_attempt
    ran_s = status.ran_s + (live.running_s(now) if live is not None else 0)
    if status.phase.is_finished:
        return Seconds(max(ran_s, 1)) if status.attempts_made else None
    if expected is None:
        return None
    left_s = expected.end_p50 - max(now, expected.start_p50)
    return Seconds(max(ran_s + max(left_s, 0), 1))
