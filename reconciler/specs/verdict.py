"""What does one platform say of one document?  Values and findings, without places.

Light: a changed quota judges ten thousand known documents again without reading any of them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from reconciler.domain.units import Digest, JobId, TeamName
from reconciler.specs.capacity import Capacities
from reconciler.specs.codes import Code
from reconciler.specs.convert import job_spec
from reconciler.specs.findings import Finding
from reconciler.specs.meaning import meaning_findings, parallel_findings
from reconciler.specs.platform import NO_PLATFORM, Platform
from reconciler.specs.reservation_meaning import reservation_findings
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
    known: Iterable[Sequence[Any]] = (),
) -> tuple[list[Any], list[Finding]]:
    """Return [spec row, reservation row, estimates] and what the platform finds wrong with a
    document.  ``known`` are estimates of the same document for other platforms."""
    if document is None or digest is None:
        return [None, None, None], []
    if is_faulty:
        return [None, None, None], list(parallel_findings(document))
    if platform is NO_PLATFORM:
        return [None, None, None], []
    capacity = capacities.of(TeamName(job.split("/")[0]))
    if kind == "Reservation":
        held, findings = convert_reservation(job, document, capacity)
        if held is not None:
            findings = reservation_findings(held, platform, capacity)
        return [None, None if held is None else reservation_row(held), None], findings
    spec = job_spec(job, document, capacity, Digest(digest))
    findings = meaning_findings(spec, document, platform, capacity)
    if any(each.code is Code.WILDCARD for each in findings):
        return [spec_row(spec), None, None], findings
    # only what is judged anew pays for loading the formulas
    from reconciler.specs.memory_findings import foreseen, with_memory

    found, said = foreseen(spec, document, capacity, known)
    if findings and any(each.code is Code.TRAIN_RULE for each in said):
        said = []  # what is wrong with the section is said better already
    if not any(not each.is_warning for each in said):
        able = with_memory(spec, document, capacity, found)
        if able.gpus != spec.gpus:
            findings = meaning_findings(able, document, platform, capacity)
        spec = able
    return [spec_row(spec), None, found.row(capacity.hardware)], [*findings, *said]


def digest_of(document: Mapping[str, Any]) -> Digest:
    """Return the spec digest: sha256 over the composed document as canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return Digest(f"sha256:{text_digest(text)}")


def text_digest(text: str) -> str:
    """Return the 64 hex digits of a text's sha256."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
