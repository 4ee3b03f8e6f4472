"""The line under a table: how much is shown, how much is in use, and how old that is."""

from collections.abc import Iterable
from datetime import datetime, tzinfo

from reconciler.cli.branch import StatusBranch
from reconciler.cli.phrases import count
from reconciler.cli.places import device_noun
from reconciler.cli.times import WEEKDAYS, duration
from reconciler.domain.cluster import Allocation
from reconciler.domain.status import JobStatus
from reconciler.domain.units import DeviceId, Instant, NodeName


def footer_line(
    branch: StatusBranch,
    statuses: Iterable[JobStatus],
    zone: tzinfo,
    now: Instant,
    *,
    shown: int,
    hidden: int = 0,
) -> str:
    """Return ``5 jobs, 13 of 16 GPUs in use, state of 14:22:07 (commit 4c1e9d2, 38s old)``."""
    jobs = count(shown, "job")
    if hidden:
        jobs += f" ({hidden} finished: --all)"
    return f"{jobs}, {_usage(branch, statuses)}, {_age(branch, zone, now)}"


def _usage(branch: StatusBranch, statuses: Iterable[JobStatus]) -> str:
    known = tuple(statuses)
    used = devices_in_use(known)
    devices = branch.cursor.devices if branch.cursor else 0
    seen = used or {  # with nothing in use, past attempts tell what the fleet is made of
        pair
        for status in known
        for attempt in status.attempts
        for pair in attempt.allocation.devices()
    }
    noun = device_noun((device for _, device in seen), max(len(used), devices))
    return f"{len(used)} of {devices} {noun} in use" if devices else f"{len(used)} {noun} in use"


def devices_in_use(statuses: Iterable[JobStatus]) -> frozenset[tuple[NodeName, DeviceId]]:
    """Return the devices that live attempts have and that holds keep."""
    taken: list[Allocation] = []
    for status in statuses:
        if status.live_attempt:
            taken.append(status.live_attempt.allocation)
        taken += [hold.devices for hold in status.holds]
    return frozenset(pair for allocation in taken for pair in allocation.devices())


def _age(branch: StatusBranch, zone: tzinfo, now: Instant) -> str:
    local = datetime.fromtimestamp(branch.seen_at, zone)
    today = datetime.fromtimestamp(now, zone).date()
    day = "" if local.date() == today else f"{WEEKDAYS[local.weekday()]} "
    old = duration(now - branch.seen_at)
    return f"state of {day}{local:%H:%M:%S} (commit {branch.ref.commit[:7]}, {old} old)"
