"""How are statuses and forecasts spelt on the status branch?

The files are deterministic: the same value gives the same bytes, so an unchanged situation is an
unchanged file and an empty commit cannot happen.  Keys are sorted, instants are RFC 3339 in UTC,
top-level keys stand on lines of their own so that ``git log -p`` reads well.  Only the standard
library is imported: the read verbs of the command line start here.

Versions of ``api_version``; a file of any other is refused, never guessed at:

* ``headway/v1``: the first.  Fields that hold their default are left out.  Statuses of kind
  ``Reservation`` and ``.headway/budgets.json`` came later, as kinds of their own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.domain.budget import BudgetUse
from reconciler.domain.plan import Expectation
from reconciler.domain.reservation import ReservationStatus
from reconciler.domain.status import JobStatus
from reconciler.domain.units import CommitId, Instant, JobId
from reconciler.specs.stored import FormatError, codec

API_VERSION = "headway/v1"
STATUS_KIND = "JobStatus"
FORECAST_KIND = "Forecast"
RESERVATION_KIND = "Reservation"
BUDGETS_KIND = "Budgets"
_RESERVATION_MARK = b'"kind": "Reservation"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One published prediction of everyone: the file ``.headway/forecast.json``."""

    published_at: Instant
    jobs: Mapping[JobId, Expectation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """How every budget stood at one decision: the file ``.headway/budgets.json``."""

    at: Instant
    uses: tuple[BudgetUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """What the reconciler last acted on: the file ``.headway/cursor.json``."""

    desired: CommitId
    """The main commit it read."""
    runs: str = ""
    """The launcher's root, absolute, so that readers find logs."""
    devices: int = 0
    """How many devices the cluster had; 0: not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """Who may write: the file ``.headway/lease.json``, changed only when the lease is taken."""

    epoch: int
    holder: str


def status_to_json(status: JobStatus) -> bytes:
    """Return the text of ``status/<team>/<name>.json``."""
    body = codec(JobStatus).encode(status)
    observed = {
        "commit": body.pop("observed_commit", None),
        "spec_digest": body.pop("spec_digest", None),
    }
    if summary := body.get("summary"):
        summary["gpu_type"] = summary.pop("gpu_types")
    body |= {
        "api_version": API_VERSION,
        "kind": STATUS_KIND,
        "generation": status.generation,
        "observed": {key: value for key, value in observed.items() if value is not None},
    }
    return layout(body)


def status_from_json(text: bytes, job: JobId) -> JobStatus:
    """Return the status that :func:`status_to_json` wrote for ``job``.

    Raises ``FormatError`` where the text is not JSON, of another version, of another job, or
    holds anything this version does not write.
    """
    where = f"status of {job}"
    body = _open(text, where, STATUS_KIND)
    observed = body.pop("observed", {})
    if not isinstance(observed, dict) or observed.keys() - {"commit", "spec_digest"}:
        raise FormatError(f"{where}: observed holds commit and spec_digest only")
    for name, stored in (("commit", "observed_commit"), ("spec_digest", "spec_digest")):
        if stored in body:
            raise FormatError(f"{where}: {stored} belongs into observed")
        if name in observed:
            body[stored] = observed[name]
    summary = body.get("summary")
    if isinstance(summary, dict) and "gpu_type" in summary:
        body["summary"] = {
            "gpu_types" if key == "gpu_type" else key: value for key, value in summary.items()
        }
    status: JobStatus = codec(JobStatus).decode(body, where)
    if status.job != job:
        raise FormatError(f"{where}: the file names another job, {status.job!r}")
    return status


def is_reservation(text: bytes) -> bool:
    """Return whether a status file is a reservation's; reads no more than it has to."""
    return _RESERVATION_MARK in text


def reservation_to_json(status: ReservationStatus) -> bytes:
    """Return the text of a reservation's ``status/<team>/<name>.json``."""
    body = codec(ReservationStatus).encode(status)
    for occurrence in body.get("occurrences", ()):
        occurrence.setdefault("idle_gpu_s", 0)
    return layout({**body, "api_version": API_VERSION, "kind": RESERVATION_KIND})


def reservation_from_json(text: bytes, name: JobId) -> ReservationStatus:
    """Return the status that :func:`reservation_to_json` wrote.  Raises ``FormatError``."""
    where = f"status of reservation {name}"
    body = _open(text, where, RESERVATION_KIND)
    status: ReservationStatus = codec(ReservationStatus).decode(body, where)
    if status.reservation != name:
        raise FormatError(f"{where}: the file names another one, {status.reservation!r}")
    return status


def budgets_to_json(budgets: Budgets) -> bytes:
    """Return the text of ``.headway/budgets.json``: one budget a line."""
    body = codec(Budgets).encode(budgets)
    return layout({**body, "api_version": API_VERSION, "kind": BUDGETS_KIND})


def budgets_from_json(text: bytes) -> Budgets:
    """Return what :func:`budgets_to_json` wrote.  Raises ``FormatError`` on other text."""
    found: Budgets = codec(Budgets).decode(_open(text, "budgets", BUDGETS_KIND), "budgets")
    return found


def forecast_to_json(forecast: Forecast) -> bytes:
    """Return the text of ``.headway/forecast.json``: one job a line."""
    jobs = {
        job: {key: value for key, value in encoded.items() if key != "job"}
        for job, encoded in codec(Mapping[str, Expectation]).encode(forecast.jobs).items()
    }
    return layout(
        {
            "api_version": API_VERSION,
            "kind": FORECAST_KIND,
            "published_at": codec(Instant).encode(forecast.published_at),
            "jobs": jobs,
        }
    )


def forecast_from_json(text: bytes) -> Forecast:
    """Return what :func:`forecast_to_json` wrote.  Raises ``FormatError`` on other text."""
    body = _open(text, "forecast", FORECAST_KIND)
    if body.keys() != {"published_at", "jobs"} or not isinstance(body["jobs"], dict):
        raise FormatError("forecast: expected published_at and jobs")
    jobs = {}
    for job, entry in body["jobs"].items():
        if not isinstance(entry, dict):
            raise FormatError(f"forecast of {job}: expected an object")
        jobs[JobId(job)] = codec(Expectation).decode({**entry, "job": job}, f"forecast of {job}")
    published_at: Instant = codec(Instant).decode(body["published_at"], "forecast: published_at")
    return Forecast(published_at=published_at, jobs=jobs)


def cursor_to_json(cursor: Cursor) -> bytes:
    """Return the text of ``.headway/cursor.json``."""
    return layout(codec(Cursor).encode(cursor))


def cursor_from_json(text: bytes) -> Cursor:
    """Return what :func:`cursor_to_json` wrote.  Raises ``FormatError`` on other text."""
    cursor: Cursor = codec(Cursor).decode(_parse(text, "cursor"), "cursor")
    return cursor


def lease_to_json(lease: LeaseRecord) -> bytes:
    """Return the text of ``.headway/lease.json``."""
    return layout(codec(LeaseRecord).encode(lease))


def lease_from_json(text: bytes) -> LeaseRecord:
    """Return what :func:`lease_to_json` wrote.  Raises ``FormatError`` on other text."""
    lease: LeaseRecord = codec(LeaseRecord).decode(_parse(text, "lease"), "lease")
    return lease


def to_plain(value: Any) -> Any:
    """Return a domain value as JSON types, in the spelling of stored files."""
    kind: Any = type(value)
    return codec(kind).encode(value)


def from_plain(kind: type, data: Any, where: str = "value") -> Any:
    """Return the value of ``kind`` that :func:`to_plain` wrote.  Raises ``FormatError``."""
    return codec(kind).decode(data, where)


def canonical(obj: Any) -> bytes:
    """Return JSON types as the one text that digests are made over.

    Sorted keys, no spaces, UTF-8; equal values give equal bytes in every process.  Raises
    ``ValueError`` for infinities and NaN.
    """
    return _compact(obj, (",", ":"))


def layout(body: Mapping[str, Any]) -> bytes:
    """Return an object as small readable text, one top-level key (or its member) a line."""
    lines = []
    for key in sorted(body):
        value = body[key]
        members = _members(value)
        if members is None:
            lines.append(b'  "%s": %s' % (key.encode(), _compact(value, (", ", ": "))))
        else:
            opening, parts, closing = members
            inner = b",\n".join(b"    " + part for part in parts)
            lines.append(b'  "%s": %s\n%s\n  %s' % (key.encode(), opening, inner, closing))
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def _members(value: Any) -> tuple[bytes, list[bytes], bytes] | None:
    """Return the lines of a list of objects or an object of objects; None for anything else."""
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return b"[", [_compact(each, (", ", ": ")) for each in value], b"]"
    if isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
        parts = [
            _compact(key, (", ", ": ")) + b": " + _compact(value[key], (", ", ": "))
            for key in sorted(value)
        ]
        return b"{", parts, b"}"
    return None


def _compact(obj: Any, separators: tuple[str, str]) -> bytes:
    text = json.dumps(
        obj, sort_keys=True, separators=separators, ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes its JSON escape


def _open(text: bytes, where: str, kind: str) -> dict[str, Any]:
    body = _parse(text, where)
    found = (body.pop("api_version", None), body.pop("kind", None))
    if found != (API_VERSION, kind):
        raise FormatError(
            f"{where}: written as {found[0]!r} {found[1]!r}, this version reads "
            f"{API_VERSION!r} {kind!r}; use the headway that wrote it, or a newer one"
        )
    return body


def _parse(text: bytes, where: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise FormatError(f"{where}: not JSON") from None
    if not isinstance(body, dict):
        raise FormatError(f"{where}: expected an object")
    return body
