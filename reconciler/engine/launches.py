"""Which document does an attempt run?  The one at the commit its intent was recorded with.

Main may have moved on since, and the reconciler may have crashed and come back: the attempt's
own commit and the job's path re-derive the same document, so asking again asks for the same run.
"""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.domain.attempt import Attempt
from reconciler.domain.cluster import Cluster, DeviceKind
from reconciler.domain.job import JobSpec
from reconciler.domain.launch import LaunchRequest, RunRef
from reconciler.domain.status import JobStatus
from reconciler.domain.units import CommitId, JobId
from reconciler.engine.requests import Place, launch_request, run_ref
from reconciler.errors import LauncherError
from reconciler.ports import Tree
from reconciler.specs.cache import SpecCache
from reconciler.specs.reading import SpecReading, read_specs

Pinned = tuple[JobSpec, Mapping[str, Any]]


class Launches:
    """Makes launch requests; composes each pinned document once."""

    def __init__(
        self,
        tree: Callable[[CommitId], Tree],
        *,
        known: Callable[[CommitId], SpecReading | None],
        cache: SpecCache | None,
        place: Place,
    ) -> None:
        self._tree = tree
        self._known = known
        self._cache = cache
        self._place = place
        self._pinned: dict[tuple[JobId, CommitId], Pinned] = {}

    def request(self, status: JobStatus, attempt: Attempt, cluster: Cluster) -> LaunchRequest:
        """Return the launch of ``attempt``.

        Raises ``LauncherError`` (not retryable) where its document cannot be derived again.
        """
        spec, document = self.pinned(status.job, attempt)
        return launch_request(
            spec=spec,
            document=document,
            status=status,
            attempt=attempt,
            device_kind=device_kind(attempt, cluster),
            place=self._place,
        )

    def forget_all_but(self, statuses: Mapping[JobId, JobStatus]) -> None:
        """Drop documents whose attempts are over."""
        live = {
            (job, status.live_attempt.commit)
            for job, status in statuses.items()
            if status.live_attempt is not None
        }
        self._pinned = {key: value for key, value in self._pinned.items() if key in live}

    def pinned(self, job: JobId, attempt: Attempt) -> Pinned:
        """Return the spec and the document that an attempt runs.

        Raises ``LauncherError`` (not retryable) where they cannot be derived again.
        """
        key = (job, attempt.commit)
        if key not in self._pinned:
            path = f"jobs/{job}.yaml"
            reading = self._known(attempt.commit)
            if reading is None:
                reading = read_specs(self._tree(attempt.commit), cache=self._cache, paths=(path,))
            entry = reading.entries.get(job)
            if entry is None or entry.spec is None or entry.document is None:
                raise LauncherError(
                    f"{attempt.id}: {path} at {attempt.commit} is no valid job any more",
                    retryable=False,
                )
            if entry.spec.spec_digest != attempt.spec_digest:
                raise LauncherError(
                    f"{attempt.id}: {path} at {attempt.commit} composes to "
                    f"{entry.spec.spec_digest}, the attempt was decided for "
                    f"{attempt.spec_digest}; was headway updated in between?",
                    retryable=False,
                )
            self._pinned[key] = (entry.spec, entry.document)
        return self._pinned[key]


def device_kind(attempt: Attempt, cluster: Cluster) -> DeviceKind:
    """Return what the attempt's devices are.  Raises ``LauncherError`` for devices unknown here."""
    kinds = {
        (node.name, device.id): device.kind for node in cluster.nodes for device in node.devices
    }
    for pair in attempt.allocation.devices():
        if pair in kinds:
            return kinds[pair]
    raise LauncherError(
        f"{attempt.id}: none of its devices is in the cluster any more", retryable=False
    )


def live_runs(statuses: Mapping[JobId, JobStatus]) -> tuple[RunRef, ...]:
    """Return every attempt that holds devices, with its run directory, sorted by job."""
    return tuple(
        run_ref(statuses[job], attempt)
        for job in sorted(statuses)
        if (attempt := statuses[job].live_attempt) is not None
    )
