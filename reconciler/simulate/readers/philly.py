"""Reads Philly's job log, ``cluster_job_log``: a JSON list of jobs with their attempts.

Each job has ``jobid``, ``vc``, ``user``, ``submitted_time`` and ``attempts``, each attempt with
``start_time``, ``end_time`` and ``detail``: nodes with their ``gpus``.  A job's duration is the sum
of its attempts, its gang that of the last attempt that had GPUs.  Jobs that never started, or whose
log has no end, are left out.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from reconciler.simulate.load import Load, LoadError, TraceJob, in_order

FORM = "%Y-%m-%d %H:%M:%S"


def read(text: str, name: str) -> Load:
    """Return the load in ``text``.  Raises ``LoadError`` naming the file and the job."""
    try:
        listed = json.loads(text)
    except json.JSONDecodeError as error:
        raise LoadError(f"{name}:{error.lineno}: not JSON: {error.msg}") from None
    if not isinstance(listed, list):
        raise LoadError(f"{name}: expected a list of jobs, as in Philly's cluster_job_log")
    found = []
    for at, each in enumerate(listed):
        try:
            found.append(_job(each))
        except (KeyError, TypeError, ValueError) as error:
            raise LoadError(f"{name}: job {at}: {type(error).__name__}: {error}") from None
    jobs = [job for job in found if job is not None]
    if not jobs:
        return ()
    first = min(submitted for submitted, _ in jobs)
    return in_order(_at(job, submitted - first) for submitted, job in jobs)


def _job(each: Mapping[str, Any]) -> tuple[int, TraceJob] | None:
    ran = [attempt for attempt in each["attempts"] if _is_whole(attempt)]
    sizes = [_gpus(attempt) for attempt in ran if _gpus(attempt)]
    if not sizes or _is_none(each["submitted_time"]):
        return None
    seconds = sum(_instant(a["end_time"]) - _instant(a["start_time"]) for a in ran)
    job = TraceJob(
        id=str(each["jobid"]),
        submit_s=0,
        duration_s=max(seconds, 0),
        gpus=sizes[-1],
        user=str(each.get("user") or ""),
        team=str(each.get("vc") or ""),
    )
    return _instant(each["submitted_time"]), job


def _at(job: TraceJob, submit_s: int) -> TraceJob:
    return TraceJob(
        id=job.id,
        submit_s=submit_s,
        duration_s=job.duration_s,
        gpus=job.gpus,
        user=job.user,
        team=job.team,
    )


def _is_whole(attempt: Mapping[str, Any]) -> bool:
    return not _is_none(attempt.get("start_time")) and not _is_none(attempt.get("end_time"))


def _is_none(value: object) -> bool:
    return value in (None, "None", "")


def _gpus(attempt: Mapping[str, Any]) -> int:
    return sum(len(node["gpus"]) for node in attempt["detail"])


def _instant(text: str) -> int:
    return round(datetime.strptime(text, FORM).replace(tzinfo=UTC).timestamp())
