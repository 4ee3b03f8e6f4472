"""Could this job ever run here, and may its team ask for it?

Judges a document that has the right shape against the platform at the same commit.  Nothing
here depends on what runs now: "not now" is the planner's word, "never" is said here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.domain.job import GpuRequest, JobSpec, PriorityClass
from reconciler.domain.team import Team
from reconciler.domain.units import Instant, TeamName
from reconciler.specs.capacity import Capacity
from reconciler.specs.codes import Code
from reconciler.specs.contract_files import default_of, train_rules
from reconciler.specs.convert import PARALLEL_KEYS, can_checkpoint, legal_sizes, model_parallel
from reconciler.specs.findings import Finding, KeyPath
from reconciler.specs.names import nearest
from reconciler.specs.platform import ANY, Platform

P0_SLACK_S = 2 * 3600


def meaning_findings(
    spec: JobSpec, document: Mapping[str, Any], platform: Platform, capacity: Capacity
) -> list[Finding]:
    """Return why the platform would never run this, one finding a rule."""
    if (absurd := _absurd(spec, platform)) is not None:
        return [absurd]
    team = platform.teams.get(spec.team)
    findings: list[Finding] = []
    if team is None:
        findings.append(no_team(spec.team, platform))
    else:
        findings += _team_findings(spec, team)
    findings += size_findings(spec.gpus, platform, capacity, ("resources", "gpus"))
    findings += _train_findings(spec, document)
    findings += _time_findings(spec, platform)
    findings += _name_findings(spec, platform)
    return findings


def _absurd(spec: JobSpec, platform: Platform) -> Finding | None:
    most = platform.policy.max_request_gpus
    gpus, path = spec.gpus.count, ("resources", "gpus")
    if spec.elastic is not None and spec.elastic.max_gpus > gpus:
        gpus, path = spec.elastic.max_gpus, ("elastic", "max_gpus")
    if gpus <= most:
        return None
    return Finding(
        path,
        Code.WILDCARD,
        f"{gpus} GPUs is an absurd request: at most {most} are taken for one",
        "write the number you need",
    )


def no_team(team: TeamName, platform: Platform) -> Finding:
    """Return that conf declares no such team."""
    file = f"conf/teams/{team}.yaml"
    if team in platform.unusable_teams:
        return Finding((), Code.NO_TEAM, f"{file} has problems of its own", "repair it first")
    close = nearest(team, platform.teams)
    hint = f"did you mean `{close}`?" if close else f"add {file}"
    return Finding((), Code.NO_TEAM, f"there is no team `{team}` in conf/teams/", hint)


def submission_findings(spec: JobSpec, now: Instant) -> list[Finding]:
    """Return what is judged once, when a job is submitted: P0 only with a deadline under 2 h."""
    if spec.priority is not PriorityClass.P0 or spec.deadline is None:
        return []
    left = spec.deadline - now
    if 0 < left <= P0_SLACK_S:
        return []
    said = "has passed" if left <= 0 else f"is {left // 3600} h {left % 3600 // 60} min away"
    return [
        Finding(
            ("deadline",),
            Code.P0_REFUSED,
            f"P0 needs a deadline under 2 h away; this one {said}",
            "use P1, or submit it when it is due",
        )
    ]


def _team_findings(spec: JobSpec, team: Team) -> Iterator[Finding]:
    yield from gang_findings(spec.gpus, team, ("resources", "gpus"))
    if spec.priority is PriorityClass.P0:
        if not team.may_use_p0:
            yield Finding(
                ("priority",), Code.P0_REFUSED, f"team {team.name} may not use P0", "use P1"
            )
        if spec.deadline is None:
            yield Finding(
                ("priority",), Code.P0_REFUSED, "P0 needs a deadline under 2 h away", "add deadline"
            )
    if spec.runs_command and not team.may_run_command:
        yield Finding(
            ("run",),
            Code.COMMAND_REFUSED,
            f"team {team.name} may not use `run:`",
            f"use `train:`, or may_run_command in conf/teams/{team.name}.yaml",
            True,
        )


def gang_findings(request: GpuRequest, team: Team, path: KeyPath) -> Iterator[Finding]:
    """Yield why the team may never hold this gang; ``path`` is where its size is written."""
    if (over := _over_quota(request, team)) is not None:
        yield Finding(path, Code.OVER_QUOTA, over, "ask for fewer GPUs")
    if team.max_request_gpus:
        role, most = max(team.max_request_gpus.items(), key=lambda item: (item[1], item[0]))
        if request.count > most:
            yield Finding(
                path,
                Code.OVER_ROLE_LIMIT,
                f"{request.count} GPUs are more than any role of team {team.name} may ask for at "
                f"once ({most}{'' if role == ANY else f', role {role}'})",
                f"conf/teams/{team.name}.yaml, max_request",
            )


def _over_quota(request: GpuRequest, team: Team) -> str | None:
    """Return why no state of the fleet lets the team's quota hold this gang."""
    gpus, quota = request.count, team.quota_gpus
    if ANY in quota and gpus > quota[ANY]:
        return f"{gpus} GPUs are more than team {team.name} may hold at once ({quota[ANY]})"
    limits = [quota.get(name, 0 if ANY not in quota else gpus) for name in request.types]
    if quota and limits and all(gpus > limit for limit in limits):
        names = ", ".join(f"{quota.get(name, 0)} {name}" for name in request.types)
        return f"{gpus} GPUs are more than team {team.name} may hold at once ({names})"
    return None


def size_findings(
    request: GpuRequest, platform: Platform, capacity: Capacity, path: KeyPath
) -> Iterator[Finding]:
    """Yield why the cluster never holds this gang; ``path`` is where its size is written."""
    cluster = capacity.cluster
    is_guess = cluster is platform.cluster and platform.discovers_devices
    if is_guess and request.types:
        return  # which types the machine has is not known here
    largest = capacity.most(request)
    if largest >= request.count:
        return
    domain = request.domain(spans_rdma=cluster.rdma_between_racks)
    wanted = " or ".join(request.types) or "any type"
    if request.min_memory_gib:
        wanted += f" with {request.min_memory_gib:g} GiB"
    if request.wants_rdma:
        wanted += " joined by RDMA"
    has = ", ".join(f"{count} {name}" for name, count in capacity.totals())
    yield Finding(
        path,
        Code.NEVER_FITS,
        f"{request.count} GPUs of {wanted} within one {domain.value} never fit "
        f"cluster {cluster.id}: the largest has {largest}",
        f"the cluster has {has}{_links_and_power(request, capacity)}"
        + (", unless the machine has other GPUs" if is_guess else ""),
        is_warning=is_guess,
    )


def _links_and_power(request: GpuRequest, capacity: Capacity) -> str:
    """Return what else bounds a gang of this kind, beside how many devices there are."""
    said = ""
    if request.wants_rdma:
        racks = ", ".join(capacity.cluster.rdma_racks)
        said += f", RDMA in {racks}" if racks else ", RDMA in no rack (`racks` in its file)"
    if short := capacity.short_of_power():
        said += f", but not the power for all of them at once in {', '.join(short)}"
    return said


def _train_findings(spec: JobSpec, document: Mapping[str, Any]) -> Iterator[Finding]:
    if (document.get("preemption") or {}).get("allowed") and not can_checkpoint(document):
        needs = "run.checkpoint_on_term: true" if spec.runs_command else "checkpoint.every_steps"
        yield Finding(
            ("preemption", "allowed"),
            Code.NEEDS_CHECKPOINTS,
            "a preemptible job needs checkpoints, or a preemption loses all its work",
            f"add {needs}, or write preemption.allowed: false",
        )
    yield from parallel_findings(document)
    if spec.elastic is not None:
        low, high, gpus = spec.elastic.min_gpus, spec.elastic.max_gpus, spec.gpus.count
        if not low <= gpus <= high:
            yield Finding(
                ("elastic",),
                Code.NO_LEGAL_SIZE,
                f"resources.gpus is {gpus}, outside elastic {low} to {high}",
                "widen elastic, or change gpus",
                True,
            )
        elif len(legal_sizes(spec)) < 2 and low < high:
            yield Finding(
                ("elastic",),
                Code.NO_LEGAL_SIZE,
                f"from {low} to {high} GPUs no other size than {gpus} keeps the global batch of "
                f"{spec.facts.global_batch}",
                "choose a gradient_accumulation_steps that the sizes divide, or remove elastic",
                True,
            )


def parallel_findings(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield where the parallel sizes a ``train:`` section names do not divide the gang."""
    train = document.get("train")
    resources = document.get("resources")
    if not isinstance(train, Mapping) or not isinstance(resources, Mapping):
        return
    gpus = resources.get("gpus")
    if not isinstance(gpus, int):
        return
    product = model_parallel(train)
    if product and gpus % product:
        named = [key for key in PARALLEL_KEYS if isinstance(train.get(key), int)]
        said = " x ".join(f"{key} {train[key]}" for key in named)
        yield Finding(
            ("train", named[0]),
            Code.PARALLEL_SIZES,
            f"{said} need a multiple of {product} GPUs, resources.gpus is {gpus}",
            f"ask for {product} GPUs, or use smaller parallel sizes",
        )
        return
    yield from _split_findings(train, gpus, is_elastic=bool(document.get("elastic")))


def _split_findings(train: Mapping[str, Any], gpus: int, *, is_elastic: bool) -> Iterator[Finding]:
    """Yield where the devices that split one model are not all of the job's."""
    for key in train_rules()["whole_gang"]:
        size = train.get(key)
        if not isinstance(size, int) or size <= 1:
            continue
        if size != gpus:
            yield Finding(
                ("train", key),
                Code.PARALLEL_SIZES,
                f"{size} GPUs split the model, but resources.gpus is {gpus}; this trainer runs no "
                "replicas of a split model",
                f"write {key}: {gpus}, or ask for {size} GPUs",
            )
        elif is_elastic:
            yield Finding(
                ("train", key),
                Code.PARALLEL_SIZES,
                f"{size} GPUs split the model, so that the job can not run on fewer or more",
                "remove elastic",
            )
    if train.get("fsdp") is not None and gpus == 1:
        yield Finding(
            ("train", "fsdp"),
            Code.PARALLEL_SIZES,
            "weights are split among GPUs, and resources.gpus is 1; it would be ignored",
            "remove fsdp, or ask for 2 GPUs",
        )
    stages = train.get("pipeline_model_parallel_size")
    batches = train.get("gradient_accumulation_steps", default_of("gradient_accumulation_steps"))
    if isinstance(stages, int) and isinstance(batches, int) and stages > 1 and batches < stages:
        yield Finding(
            ("train", "pipeline_model_parallel_size"),
            Code.PARALLEL_SIZES,
            f"{stages} stages of a pipeline need as many micro-batches a step, not {batches}",
            f"gradient_accumulation_steps: {stages} or more",
        )


def _time_findings(spec: JobSpec, platform: Platform) -> Iterator[Finding]:
    if spec.estimate_s is not None and spec.limit_s is not None and spec.estimate_s > spec.limit_s:
        yield Finding(
            ("time", "estimate"),
            Code.TIMES_DISAGREE,
            "the estimate is longer than the limit: the job would be stopped at its limit",
            "raise time.limit",
        )
    if spec.max_gpu_hours is not None and spec.estimate_s is not None:
        asked = spec.estimate_s * spec.gpus.count / 3600
        if asked > spec.max_gpu_hours:
            yield Finding(
                ("max_gpu_hours",),
                Code.TIMES_DISAGREE,
                f"the estimate on {spec.gpus.count} GPUs is {asked:g} GPU-hours, above "
                f"max_gpu_hours {spec.max_gpu_hours:g}",
                "raise max_gpu_hours, or ask for fewer GPUs",
            )
    floor = platform.policy.checkpoint_floor_steps
    if spec.preemptible and floor and (spec.checkpoint_every_steps or 0) > floor:
        yield Finding(
            ("checkpoint", "every_steps"),
            Code.NEEDS_CHECKPOINTS,
            f"a preemptible job saves at least every {floor} steps here",
            f"write checkpoint.every_steps: {floor}",
        )


def _name_findings(spec: JobSpec, platform: Platform) -> Iterator[Finding]:
    yield from budget_findings(spec.budget_group, spec.team, platform, _most_gpu_hours(spec))
    for key, names in (("on_start", spec.notify_on_start), ("on_finish", spec.notify_on_finish)):
        for number, name in enumerate(names):
            if name not in platform.sinks:
                yield Finding(
                    ("notify", key, number),
                    Code.NO_SINK,
                    f"there is no sink `{name}` in conf/sinks/",
                    _choices(name, platform.sinks),
                )


def _most_gpu_hours(spec: JobSpec) -> float:
    """Return the GPU-hours a job may use by its own bounds, else those it expects; 0: unknown."""
    bounds = [] if spec.max_gpu_hours is None else [spec.max_gpu_hours]
    length_s = spec.limit_s or spec.estimate_s
    if length_s is not None:
        bounds.append(length_s * spec.gpus.count / 3600)
    return min(bounds, default=0.0)


def budget_findings(
    name: str | None, team: TeamName, platform: Platform, gpu_hours: float
) -> Iterator[Finding]:
    """Yield why a budget can never pay for ``gpu_hours`` of this team."""
    if name is None:
        return
    path, budget = ("budget_group",), platform.budgets.get(name)
    if budget is None:
        said = f"there is no budget `{name}` in conf/budgets/"
        yield Finding(path, Code.BAD_BUDGET, said, _choices(name, platform.budgets))
    elif budget.teams and team not in budget.teams:
        said = f"team {team} has no share in budget {budget.name}"
        yield Finding(path, Code.BAD_BUDGET, said, "its teams are " + ", ".join(budget.teams))
    elif gpu_hours > budget.limit_gpu_hours:
        yield Finding(
            path,
            Code.BAD_BUDGET,
            f"{gpu_hours:g} GPU-hours are more than budget {budget.name} has in a whole "
            f"{budget.period} ({budget.limit_gpu_hours:g})",
            "ask for fewer GPUs or less time, or split the work",
        )


def _choices(name: str, known: Mapping[str, object]) -> str:
    close = nearest(name, known)
    if close:
        return f"did you mean `{close}`?"
    return "there are " + (", ".join(sorted(known)) or "none")
