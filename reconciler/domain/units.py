"""The units and identifiers every value is written in.

Durations are whole seconds, instants are Unix seconds in UTC, memory is GiB as the device
reports it.  People and YAML see ``48h`` and RFC 3339; only ``reconciler.specs`` and the CLI
translate.
"""

from datetime import UTC, datetime
from typing import NewType

Seconds = NewType("Seconds", int)
Instant = NewType("Instant", int)

TeamName = NewType("TeamName", str)
JobName = NewType("JobName", str)
JobId = NewType("JobId", str)
"""``<team>/<name>``, both as in the path ``jobs/<team>/<name>.yaml``."""
AttemptId = NewType("AttemptId", str)
"""``<team>.<name>-g<generation>-a<n>-<10 hex>``, made by ``domain.attempt.attempt_id``."""
NodeName = NewType("NodeName", str)
DeviceId = NewType("DeviceId", str)
"""A GPU's UUID, or ``cpu-<n>`` for a CPU slot; unique within its node."""
CommitId = NewType("CommitId", str)
"""Forty (or sixty-four) lower-case hex digits."""
Digest = NewType("Digest", str)
"""``sha256:<64 hex>``."""


def job_id(team: TeamName, name: JobName) -> JobId:
    """Return the identity of a job: ``<team>/<name>``."""
    return JobId(f"{team}/{name}")


def rfc3339(instant: Instant) -> str:
    """Return ``instant`` as ``2026-11-30T09:00:00Z``, the only spelling in stored files."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_rfc3339(text: str) -> Instant:
    """Return the instant that :func:`rfc3339` wrote.  Raises ``ValueError`` on other text."""
    return Instant(
        int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())
    )
