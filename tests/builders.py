"""Snapshots with quiet defaults, in the spelling of scenario files.

    a_snapshot(
        nodes={"n1": 8},
        running={"sweep-7": {"gpus": 8, "node": "n1", "since_checkpoint": "5m"}},
        pending={"eval": {"gpus": 1, "priority": "P0"}},
    )

Jobs are of the default team unless their name says ``team/name``.  A key nobody knows is an error.
The value builders of ``tests.values`` can be imported from here too.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from reconciler.domain.attempt import Attempt, Observation, StopCause
from reconciler.domain.cluster import Allocation, Cluster
from reconciler.domain.job import GangSize, JobSpec, Submission
from reconciler.domain.policy import Policy
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Desired, DesiredJob, Snapshot
from reconciler.domain.spread import MeasuredSlowdown, SpreadMeasured
from reconciler.domain.status import Hold, JobPhase, JobStatus
from reconciler.domain.team import Team
from reconciler.domain.units import AttemptId, CommitId, Instant, JobId, Seconds, TeamName
from tests.calendars import with_calendar
from tests.values import (
    CLUSTER_ID,
    GPU_TYPE,
    MAIN,
    NOW,
    TEAM,
    a_cluster,
    a_commit,
    a_job_id,
    a_node,
    a_policy,
    a_problem,
    a_size,
    a_spec,
    a_status,
    a_team,
    an_attempt,
    an_observation,
    devices_of,
    instant,
    seconds,
)

__all__ = [
    "CLUSTER_ID",
    "GPU_TYPE",
    "MAIN",
    "NOW",
    "TEAM",
    "a_cluster",
    "a_commit",
    "a_job_id",
    "a_node",
    "a_policy",
    "a_problem",
    "a_snapshot",
    "a_spec",
    "a_status",
    "a_team",
    "an_attempt",
    "an_observation",
    "devices_of",
    "instant",
    "seconds",
]

_SPEC_KEYS = {
    *("gpus", "within", "types", "min_memory_gib", "interconnect", "priority", "model"),
    *("max_steps", "after", "grace", "estimate", "limit", "deadline_in", "preemptible"),
    *("serves_online", "suspend", "generation", "runs_command", "budget_group", "max_gpu_hours"),
    *("elastic", "data"),
}
_FILE_KEYS = {"file", "resubmitted", "author", "sizes"}
_STATUS_KEYS = {
    *("phase", "reason", "message", "tries_used", "lost", "preemptions", "ran_before"),
    *("retry_in", "absent_for", "prune_allowed", "attempts_made", "holds", "submitted_ago"),
    *("recorded_generation", "recorded_priority", "waits_for_resubmission"),
}
_ATTEMPT_KEYS = {
    *("node", "nodes", "on", "attempt_phase", "ran", "since_checkpoint", "cause", "asked_ago"),
    *("seen", "outcome", "exit_status", "step", "total_steps", "seen_message", "outcome_reason"),
}
_KNOWN = _SPEC_KEYS | _FILE_KEYS | _STATUS_KEYS | _ATTEMPT_KEYS


def a_snapshot(
    *,
    now: Instant | datetime = NOW,
    nodes: Mapping[str, Any] | None = None,
    running: Mapping[str, Mapping[str, Any]] | None = None,
    pending: Mapping[str, Mapping[str, Any]] | None = None,
    others: Mapping[str, Mapping[str, Any]] | None = None,
    teams: Mapping[str, Mapping[str, Any]] | None = None,
    policy: Policy | Mapping[str, Any] | None = None,
    measured_spread: Mapping[str, Mapping[str, Any]] | None = None,
    rewritten: bool = False,
    allowed_prune: int = 0,
    previous_look_ago: str | None = None,
    reservations: Mapping[str, Mapping[str, Any]] | None = None,
    budgets: Mapping[str, Mapping[str, Any]] | None = None,
) -> Snapshot:
    """Return a snapshot of these jobs.

    ``running`` jobs have a live attempt, ``pending`` ones none (and no status unless they name
    something that only a status can hold), ``others`` are in the ``phase`` they name.
    ``measured_spread`` is what runs measured of a placement class.
    """
    world = _World(at=instant(now), cluster=a_cluster(nodes))
    for name, job in sorted((running or {}).items()):  # devices are given in this order
        world.add_running(name, job)
    for name, job in (pending or {}).items():
        world.add_pending(name, job)
    for name, job in (others or {}).items():
        world.add_other(name, job)
    made = a_policy(**policy) if isinstance(policy, Mapping) else policy or a_policy()
    snapshot = world.snapshot(
        policy=made,
        teams={TeamName(name): a_team(name, **team) for name, team in (teams or {}).items()},
        rewritten=rewritten,
        allowed_prune=allowed_prune,
        previous_look_at=(
            None if previous_look_ago is None else Instant(world.at - seconds(previous_look_ago))
        ),
    )
    measured = {name: MeasuredSlowdown(**of) for name, of in (measured_spread or {}).items()}
    snapshot = replace(snapshot, measured_spread=SpreadMeasured(**measured))
    return with_calendar(snapshot, reservations or {}, budgets or {})


class _World:
    """What one snapshot is made of, while it is being made."""

    def __init__(self, *, at: Instant, cluster: Cluster) -> None:
        self.at = at
        self.cluster = cluster
        self.jobs: dict[JobId, DesiredJob] = {}
        self.submissions: dict[JobId, Submission] = {}
        self.statuses: dict[JobId, JobStatus] = {}
        self.sizes: dict[JobId, tuple[GangSize, ...]] = {}
        self.observations: dict[AttemptId, Observation] = {}
        self._given: dict[str, int] = {}

    def snapshot(
        self,
        *,
        policy: Policy,
        teams: Mapping[TeamName, Team],
        rewritten: bool,
        allowed_prune: int,
        previous_look_at: Instant | None,
    ) -> Snapshot:
        return Snapshot(
            now=self.at,
            desired=Desired(
                commit=MAIN,
                jobs=dict(sorted(self.jobs.items())),
                submissions=self.submissions,
                is_rewritten=rewritten,
                allowed_prune=allowed_prune,
            ),
            statuses=dict(sorted(self.statuses.items())),
            observations=dict(sorted(self.observations.items())),
            cluster=self.cluster,
            teams=dict(sorted(teams.items())),
            policy=policy,
            sizes=dict(sorted(self.sizes.items())),
            previous_look_at=previous_look_at,
        )

    def add_running(self, name: str, job: Mapping[str, Any]) -> None:
        spec = self._spec(name, job)
        attempt = self._attempt(spec, job)
        stopping = attempt.stop_asked_at is not None
        phase = JobPhase.STOPPING if stopping else JobPhase.RUNNING
        reason = Reason.RUNS if attempt.started_at is not None else Reason.GPUS_FREE
        status = self._status(spec, job, phase, reason)
        self.statuses[spec.id] = replace(
            status,
            attempts=(attempt,),
            attempts_made=max(status.attempts_made, attempt.number),
        )
        if job.get("seen", "running") != "missing":
            self.observations[attempt.id] = self._observation(attempt, job)
        self._file(spec, job)

    def add_pending(self, name: str, job: Mapping[str, Any]) -> None:
        spec = self._spec(name, job)
        if (_STATUS_KEYS - {"submitted_ago"}) & job.keys() or job.get("file") in (
            "gone",
            "invalid",
            "wildcard",
        ):
            self.statuses[spec.id] = self._status(spec, job, JobPhase.PENDING, Reason.GPUS_BUSY)
        self._file(spec, job)

    def add_other(self, name: str, job: Mapping[str, Any]) -> None:
        spec = self._spec(name, job)
        phase = JobPhase(job["phase"])
        status = self._status(spec, job, phase, Reason(job.get("reason", "completed")))
        if phase is JobPhase.INVALID:
            status = replace(status, summary=None, reason=Reason(job.get("reason", "spec_invalid")))
        self.statuses[spec.id] = status
        self._file(spec, job)

    def _spec(self, name: str, job: Mapping[str, Any]) -> JobSpec:
        unknown = job.keys() - _KNOWN
        if unknown:
            raise ValueError(f"{name}: unknown keys {sorted(unknown)}")
        spec = a_spec(name, now=self.at, **{k: v for k, v in job.items() if k in _SPEC_KEYS})
        if "sizes" in job:  # GPUs to the duration of the whole training on so many
            self.sizes[spec.id] = tuple(
                a_size(gpus, seconds(lasts)) for gpus, lasts in job["sizes"].items()
            )
        return spec

    def _file(self, spec: JobSpec, job: Mapping[str, Any]) -> None:
        kind = job.get("file", "valid")
        if job.get("resubmitted"):
            commit = a_commit(f"another submission of {spec.id}")
            self.submissions[spec.id] = Submission(commit=commit, committed_at=self.at)
        elif spec.id not in self.statuses:
            submitted_at = Instant(self.at - seconds(job.get("submitted_ago", 0)))
            self.submissions[spec.id] = Submission(
                commit=a_commit(f"submission of {spec.id}"), committed_at=submitted_at
            )
        if kind == "gone":
            return
        problems = () if kind == "valid" else (a_problem(event=kind == "wildcard"),)
        self.jobs[spec.id] = DesiredJob(
            id=spec.id,
            commit=MAIN,
            spec=None if kind == "never_valid" else spec,
            problems=problems,
            author=job.get("author", "Ada <ada@example.org>") if problems else "",
            problems_commit=a_commit("broken") if problems else CommitId(""),
        )

    def _status(
        self, spec: JobSpec, job: Mapping[str, Any], phase: JobPhase, reason: Reason
    ) -> JobStatus:
        submitted_at = Instant(self.at - seconds(job.get("submitted_ago", "3h")))
        status = a_status(spec, submitted_at=submitted_at, phase=JobPhase(job.get("phase", phase)))
        taken = ("message", "tries_used", "lost", "preemptions", "prune_allowed", "attempts_made")
        status = replace(
            status,
            reason=Reason(job.get("reason", reason)),
            generation=job.get("recorded_generation", spec.generation),
            ran_s=seconds(job.get("ran_before", 0)),
            holds=tuple(self._hold(spec, hold) for hold in job.get("holds", ())),
            **{key: job[key] for key in taken if key in job},
        )
        if "retry_in" in job:
            status = replace(status, retry_at=Instant(self.at + seconds(job["retry_in"])))
        if "absent_for" in job:
            status = replace(status, absent_since=Instant(self.at - seconds(job["absent_for"])))
        return status

    def _hold(self, spec: JobSpec, hold: Mapping[str, Any]) -> Hold:
        victims = (self.statuses[a_job_id(name)].live_attempt for name in hold["victims"])
        ids = [attempt.id for attempt in victims if attempt is not None]
        return Hold(
            freed_for=spec.id,
            devices=devices_of(self.cluster, hold["devices"]),
            victims=(*ids, *hold.get("gone_victims", ())),
        )

    def _attempt(self, spec: JobSpec, job: Mapping[str, Any]) -> Attempt:
        phase = job.get("attempt_phase", "stopping" if "cause" in job else "running")
        attempt = an_attempt(
            spec,
            self._allocation(spec, job),
            number=job.get("attempts_made", 1),
            phase=phase,
            ran=job.get("ran", "2h"),
            now=self.at,
        )
        if "cause" in job:
            attempt = replace(
                attempt,
                stop_cause=StopCause(job["cause"]),
                stop_asked_at=Instant(self.at - seconds(job.get("asked_ago", "10s"))),
            )
        return attempt

    def _observation(self, attempt: Attempt, job: Mapping[str, Any]) -> Observation:
        seen = an_observation(attempt, job.get("seen", "running"))
        taken = {
            *("outcome", "exit_status", "step", "total_steps", "outcome_reason"),
        }
        changed = {key: job[key] for key in taken if key in job}
        if "seen_message" in job:
            changed["message"] = job["seen_message"]
        if "since_checkpoint" in job:
            ago: Seconds = seconds(job["since_checkpoint"])
            changed["checkpoint_at"] = Instant(self.at - ago)
        return an_observation(attempt, seen.state.value, **changed)

    def _allocation(self, spec: JobSpec, job: Mapping[str, Any]) -> Allocation:
        """Give the named devices, or the next free ones of the named node or nodes."""
        if "on" in job:
            return devices_of(self.cluster, job["on"])
        counts = job.get("nodes") or {job.get("node", "n1"): spec.gpus.count}
        where = {}
        for node, count in counts.items():
            first = self._given.get(node, 0)
            where[node] = list(range(first, first + count))
            self._given[node] = first + count
        return devices_of(self.cluster, where)
