"""Instants and durations in the words people read: a zone's clock, ``5h12m``, ``38s``.

The rule it keeps: whatever shows a clock time names its zone once, in a head or a first line.
JSON never comes through here: it has UTC and seconds.
"""

import os
import re
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from reconciler.domain.units import Instant, Seconds
from reconciler.errors import UsageError

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LOCALTIME = Path("/etc/localtime")


def find_zone(name: str | None = None) -> tzinfo:
    """Return the zone asked for, else the machine's; UTC where that cannot be told.

    ``TZ`` counts as the machine's zone.  Raises ``UsageError`` for a name that is no zone.
    """
    if name:
        zone = _zone(name)
        if zone is None:
            raise UsageError(f"--tz {name}: no such time zone; write Area/City, as Asia/Shanghai")
        return zone
    return _zone(os.environ.get("TZ", "").lstrip(":")) or _zone(_linked_zone()) or UTC


def _linked_zone() -> str:
    try:
        target = str(_LOCALTIME.resolve())
    except OSError:
        return ""
    return target.partition("zoneinfo/")[2]


def _zone(name: str) -> tzinfo | None:
    if not name:
        return None
    if name.upper() in ("UTC", "ETC/UTC"):
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def zone_name(zone: tzinfo) -> str:
    """Return ``Asia/Shanghai`` or ``UTC``, as heads name it."""
    return getattr(zone, "key", None) or "UTC"


def clock(instant: Instant, zone: tzinfo, now: Instant) -> str:
    """Return ``Mon 14:22`` within three days, where no weekday is meant twice, else the date."""
    local = datetime.fromtimestamp(instant, zone)
    days = (local.date() - datetime.fromtimestamp(now, zone).date()).days
    if -3 <= days <= 3:
        return f"{WEEKDAYS[local.weekday()]} {local:%H:%M}"
    return f"{local:%Y-%m-%d %H:%M}"


def clock_s(instant: Instant, zone: tzinfo, now: Instant) -> str:
    """Return :func:`clock` with seconds, for lists of events."""
    return f"{clock(instant, zone, now)}:{datetime.fromtimestamp(instant, zone):%S}"


def time_of_day(instant: Instant, zone: tzinfo, now: Instant) -> str:
    """Return ``14:22`` on the day of ``now``, and :func:`clock` on any other."""
    local = datetime.fromtimestamp(instant, zone)
    if local.date() == datetime.fromtimestamp(now, zone).date():
        return f"{local:%H:%M}"
    return clock(instant, zone, now)


def duration(seconds: int) -> str:
    """Return at most two units, rounded down: ``38s``, ``12m``, ``5h12m``, ``3d4h``."""
    seconds = max(seconds, 0)
    if seconds < 60:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m" if minutes else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours}h" if hours else f"{days}d"


def parse_duration(text: str) -> Seconds | None:
    """Return the seconds of ``90m`` or ``1d12h``; None for other text."""
    if not re.fullmatch(r"(?:\d{1,9}[smhdw])+", text):
        return None
    return Seconds(sum(int(n) * _UNITS[unit] for n, unit in re.findall(r"(\d+)([smhdw])", text)))


def parse_since(text: str, zone: tzinfo, now: Instant) -> Instant:
    """Return the instant ``--since`` names: ``2h`` ago, a date, or RFC 3339.

    A date or a local time counts in ``zone``.  Raises ``UsageError`` for other text.
    """
    ago = parse_duration(text)
    if ago is not None:
        return Instant(now - ago)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--since {text}: write how long ago (90m, 2d), a date (2026-11-30), "
            "or a time (2026-11-30T09:00:00+08:00)"
        ) from None
    if read.tzinfo is None:
        read = read.replace(tzinfo=zone)
    return Instant(int(read.timestamp()))
