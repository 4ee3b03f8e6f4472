"""What does one platform say of one document?  Values and findings, without places.

Light: a changed quota judges ten thousand known documents again without reading any of them.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from reconciler.domain.units import Digest, JobId, TeamName
from reconciler.specs.capacity import Capacities
from reconciler.specs.convert import job_spec
from reconciler.specs.findings import Finding
from reconciler.specs.meaning import meaning_findings, parallel_findings
from reconciler.specs.platform import NO_PLATFORM, Platform
from reconciler.specs.reservations import convert_reservation
from reconciler.specs.rows import reservation_row, spec_row


def verdict_of(
    job: JobId,
    kind: str,
    document: Mapping[str, Any] | None,
    digest: str | None,
    is_faulty: bool,
    platform: Platform,
    capacities: Capacities,
) -> tuple[list[Any], list[Finding]]:
    """Return [spec row, reservation row] and what the platform finds wrong with a document."""
    if document is None or digest is None:
        return [None, None], []
    if is_faulty:
        return [None, None], list(parallel_findings(document))
    if platform is NO_PLATFORM:
        return [None, None], []
    capacity = capacities.of(TeamName(job.split("/")[0]))
    if kind == "Reservation":
        held, findings = convert_reservation(job, document, capacity)
        return [None, None if held is None else reservation_row(held)], findings
    spec = job_spec(job, document, capacity, Digest(digest))
    return [spec_row(spec), None], meaning_findings(spec, document, platform, capacity)


def digest_of(document: Mapping[str, Any]) -> Digest:
    """Return the spec digest: sha256 over the composed document as canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return Digest(f"sha256:{text_digest(text)}")


def text_digest(text: str) -> str:
    """Return the 64 hex digits of a text's sha256."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
