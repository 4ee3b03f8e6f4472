"""How are durations, memory and instants written?  One grammar each, and a reason for a refusal.

Durations: ``<int>(d|h|m|s)`` joined, longest unit first (``1d12h``).  Memory: ``75GiB``.
Instants: RFC 3339 with an offset.
"""

import re
from datetime import datetime

from reconciler.domain.units import Instant, Seconds

_DURATION = re.compile(r"(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?\Z")
_MEMORY = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)(GiB|MiB)\Z")
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.0+)?)?"
    r"(?:[Zz]|[-+][0-9]{2}:[0-9]{2})\Z"
)
MAX_DURATION_S = 366 * 86400
FIRST_YEAR, LAST_YEAR = 2000, 2199
"""Instants outside are slips, and too near the ends of what clocks can count."""


def parse_duration(text: str) -> Seconds:
    """Return seconds, 1 to 366 days.  Raises ``ValueError`` with advice for people."""
    match = _DURATION.match(text)
    if match is None or not text:
        raise ValueError(f"`{text}` is not a duration: {_duration_advice(text)}")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if total == 0:
        raise ValueError(f"`{text}` is no time at all: a duration is at least 1s")
    if total > MAX_DURATION_S:
        raise ValueError(f"`{text}` is longer than 366 days")
    return Seconds(total)


def _duration_advice(text: str) -> str:
    if re.fullmatch(r"[0-9]+", text):
        return f"write {text}h, {text}m or {text}s"
    if ":" in text:
        return "clock notation is read in base 60 by some YAML readers; write 72h or 1h30m"
    if text.upper().startswith("P"):
        return "ISO 8601 durations are not read; write 72h or 1d12h"
    if text.startswith("-"):
        return "a duration is positive"
    if "." in text:
        return "no fractions; write 90m instead of 1.5h"
    if text != text.lower():
        return "units are d, h, m, s in lower case"
    return "write <int>(d|h|m|s) joined, longest unit first, such as 72h or 1d12h"


def format_duration(seconds: int) -> str:
    """Return ``1d12h`` for 129600: what :func:`parse_duration` reads."""
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_memory(text: str) -> float:
    """Return GiB.  Raises ``ValueError`` with advice for people."""
    match = _MEMORY.match(text)
    if match is None:
        advice = "write the unit, such as 75GiB or 500MiB"
        if re.fullmatch(r"[0-9.]+ ?(?:G|GB|g|gb|Gi)", text):
            advice = "GB is not GiB (80 GB are 74.5 GiB); write GiB, such as 75GiB"
        raise ValueError(f"`{text}` is not an amount of memory: {advice}")
    amount = float(match.group(1))
    return amount if match.group(2) == "GiB" else amount / 1024


def parse_instant(text: str) -> Instant:
    """Return the instant of an RFC 3339 time with offset.  Raises ``ValueError`` with advice."""
    if _INSTANT.match(text) is None:
        advice = "write the offset too, such as 2026-12-02T18:00:00+08:00"
        raise ValueError(f"`{text}` is not an instant: {advice}")
    try:
        found = datetime.fromisoformat(text.upper())
        if not FIRST_YEAR <= found.year <= LAST_YEAR:
            raise ValueError(f"the year {found.year}?")
        return Instant(int(found.timestamp()))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"`{text}` is not an instant: {error}") from None
