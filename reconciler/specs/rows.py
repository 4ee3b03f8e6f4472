"""How are specs and problems kept in the cache?  As JSON lists, quick to read ten thousand of.

Positions in a list are the format; a change of any of them changes the sources and with them the
cache's version, so an old file is never read as a new one.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from reconciler.domain.job import (
    ElasticRange,
    GpuRequest,
    Interconnect,
    JobSpec,
    PriorityClass,
    SizeEstimate,
    TopologyDomain,
    WorkloadFacts,
)
from reconciler.domain.problem import Severity, SpecProblem
from reconciler.domain.reservation import Every, Reservation
from reconciler.domain.units import Digest, Instant, JobId, JobName, Seconds, TeamName

STRANGE = (ValueError, KeyError, TypeError, AttributeError, IndexError)
"""What a row that is not as we write it can raise: it is then as if it were not there."""

_DOMAINS = {item.value: item for item in TopologyDomain}
_LINKS = {item.value: item for item in Interconnect}
_CLASSES = {item.value: item for item in PriorityClass}


class SpecRows:
    """Reads rows; requests that are equal are one value."""

    def __init__(self) -> None:
        self._requests: dict[tuple[Any, ...], GpuRequest] = {}

    def spec(
        self,
        job: JobId,
        digest: str,
        row: Sequence[Any],
        estimates: Iterable[Sequence[Any]] = (),
    ) -> JobSpec:
        """Return the spec of a row that :func:`spec_row` made, with the estimates kept beside."""
        (
            request, facts, priority, deadline, serves_online, after, budget_group, max_gpu_hours,
            preemptible, grace_s, elastic, estimate_s, limit_s, every_steps, on_start, on_finish,
            suspend, generation, runs_command,
        ) = row  # fmt: skip
        team, _, name = job.partition("/")
        return JobSpec(
            team=TeamName(team),
            name=JobName(name),
            gpus=self._requests.get(tuple(request)) or self._request(request),
            spec_digest=Digest(digest),
            facts=_facts(facts),
            priority=_CLASSES[priority],
            deadline=deadline,
            serves_online=serves_online,
            after=tuple(after),
            budget_group=budget_group,
            max_gpu_hours=max_gpu_hours,
            preemptible=preemptible,
            grace_s=grace_s,
            elastic=elastic and ElasticRange(min_gpus=elastic[0], max_gpus=elastic[1]),
            estimate_s=estimate_s,
            limit_s=limit_s,
            checkpoint_every_steps=every_steps,
            notify_on_start=tuple(on_start),
            notify_on_finish=tuple(on_finish),
            suspend=suspend,
            generation=generation,
            runs_command=runs_command,
            estimates=tuple(map(SizeEstimate._make, estimates)),
        )

    def _request(self, row: Sequence[Any]) -> GpuRequest:
        made = self._requests[tuple(row)] = gpu_request_of(row)
        return made


def _facts(row: Sequence[Any]) -> WorkloadFacts:
    model, task, tuner, data, max_length, global_batch, each, parallel, max_steps = row
    return WorkloadFacts(
        model=model,
        task=task,
        tuner=tuner,
        data=tuple(data),
        max_length=max_length,
        global_batch=global_batch,
        per_device_batch=each,
        model_parallel=parallel,
        max_steps=max_steps,
    )


def gpu_request_of(row: Sequence[Any]) -> GpuRequest:
    """Return the request of a row that :func:`gpu_request_row` made."""
    count, within, min_memory_gib, interconnect, *types = row
    return GpuRequest(
        count=count,
        within=_DOMAINS[within],
        min_memory_gib=min_memory_gib,
        types=tuple(types),
        interconnect=_LINKS[interconnect],
    )


def gpu_request_row(gpus: GpuRequest) -> list[Any]:
    """Return a gang as a row."""
    return [
        gpus.count, gpus.within.value, gpus.min_memory_gib, gpus.interconnect.value, *gpus.types,
    ]  # fmt: skip


def spec_row(spec: JobSpec) -> list[Any]:
    """Return a spec as a row; team, name, digest and estimates are kept beside it."""
    facts, elastic = spec.facts, spec.elastic
    return [
        gpu_request_row(spec.gpus),
        [
            facts.model, facts.task, facts.tuner, list(facts.data), facts.max_length,
            facts.global_batch, facts.per_device_batch, facts.model_parallel, facts.max_steps,
        ],
        spec.priority.value, spec.deadline, spec.serves_online, list(spec.after),
        spec.budget_group, spec.max_gpu_hours, spec.preemptible, spec.grace_s,
        None if elastic is None else [elastic.min_gpus, elastic.max_gpus],
        spec.estimate_s, spec.limit_s, spec.checkpoint_every_steps, list(spec.notify_on_start),
        list(spec.notify_on_finish), spec.suspend, spec.generation, spec.runs_command,
    ]  # fmt: skip


def reservation_row(held: Reservation) -> list[Any]:
    """Return a reservation as a row; team and name are kept beside it."""
    return [
        gpu_request_row(held.gpus), [list(pair) for pair in held.occurrences], held.timezone,
        None if held.every is None else held.every.value, held.until, list(held.for_jobs),
        held.exclusive, held.release_if_idle_s, held.budget_group,
    ]  # fmt: skip


def reservation_of(job: JobId, row: Sequence[Any]) -> Reservation:
    """Return the reservation of a row that :func:`reservation_row` made."""
    request, occurrences, zone, every, until, for_jobs, exclusive, idle_s, budget_group = row
    team, _, name = job.partition("/")
    return Reservation(
        team=TeamName(team),
        name=JobName(name),
        gpus=gpu_request_of(request),
        occurrences=tuple((Instant(start), Instant(end)) for start, end in occurrences),
        timezone=zone,
        every=None if every is None else Every(every),
        until=until,
        for_jobs=tuple(for_jobs),
        exclusive=exclusive,
        release_if_idle_s=None if idle_s is None else Seconds(idle_s),
        budget_group=budget_group,
    )


def problem_row(problem: SpecProblem) -> list[Any]:
    """Return a problem as a row."""
    return [
        problem.file, problem.line, problem.column, problem.code, problem.message, problem.hint,
        problem.severity.value, problem.is_security_event,
    ]  # fmt: skip


def problem_of(row: Sequence[Any]) -> SpecProblem:
    """Return the problem of a row that :func:`problem_row` made."""
    file, line, column, code, message, hint, severity, is_security_event = row
    return SpecProblem(
        file=file,
        line=line,
        column=column,
        code=code,
        message=message,
        hint=hint,
        severity=Severity(severity),
        is_security_event=is_security_event,
    )
