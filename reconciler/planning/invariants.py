"""Guards every plan before it is recorded: rules no plan may break, whoever made it.

Independent of how the plan was found: everything is recomputed from the snapshot and the plan's
decisions, in the plainest way.  A broken rule is our bug, so it raises ``InvariantError`` and
nothing is recorded or acted on.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.domain.attempt import Attempt, AttemptPhase
from reconciler.domain.cluster import Allocation, Cluster, Device, Node, NodeState
from reconciler.domain.job import GpuRequest, Interconnect, PriorityClass, TopologyDomain
from reconciler.domain.plan import Decision, Launch, Plan, Verb
from reconciler.domain.policy import Order
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import AttemptId, DeviceId, JobId, NodeName, TeamName
from reconciler.errors import InvariantError
from reconciler.planning.calendar_rules import check_calendar
from reconciler.planning.decisions import Decisions, Lazy
from reconciler.planning.elastic import legal_sizes
from reconciler.planning.power_rules import check_power
from reconciler.planning.quota import ALL_TYPES, account_of, limits
from reconciler.planning.standing import Standing, standings

_Key = tuple[NodeName, DeviceId]


def check(snapshot: Snapshot, plan: Plan) -> None:
    """Raise ``InvariantError``, naming the rule, if ``plan`` breaks one for ``snapshot``.

    A forecast that nobody has read yet is not made for this.
    """
    jobs = standings(snapshot)
    plan = replace(plan, decisions=_unranked(plan.decisions))
    _one_decision_a_job(jobs, plan)
    _no_device_twice(jobs, plan)
    _gangs_whole(snapshot, plan)
    _quota_kept(snapshot, jobs, plan)
    check_power(snapshot, jobs, (held for _, _, held in _held(jobs, plan)))
    _victims_serve(snapshot, jobs, plan)
    _actions_match(jobs, plan)
    check_calendar(snapshot, jobs, plan)
    if not isinstance(plan.forecast, Lazy) or plan.forecast.is_made:
        _forecast_ahead(snapshot, jobs, plan)


def _unranked(decisions: Mapping[JobId, Decision]) -> Mapping[JobId, Decision]:
    """Return the decisions without places in the ranking, which no rule is about."""
    if not isinstance(decisions, Decisions):
        return decisions
    return {job: decisions.bare(job) for job in decisions}


def _broken(rule: str, what: str) -> InvariantError:
    return InvariantError(f"plan breaks the rule '{rule}': {what}; nothing was recorded or done")


def _one_decision_a_job(jobs: Mapping[JobId, Standing], plan: Plan) -> None:
    missing, extra = jobs.keys() - plan.decisions.keys(), plan.decisions.keys() - jobs.keys()
    if missing or extra:
        raise _broken(
            "one decision a job", f"missing {sorted(missing)}, not asked for {sorted(extra)}"
        )
    wrong = [job for job, decision in plan.decisions.items() if decision.job != job]
    if wrong:
        raise _broken("one decision a job", f"decisions filed under another job: {wrong}")


def _held(jobs: Mapping[JobId, Standing], plan: Plan) -> Iterator[tuple[JobId, str, Allocation]]:
    """Yield every claim on devices once the plan is carried out."""
    for job, standing in jobs.items():
        if standing.live is not None:
            yield job, "attempt", standing.live.allocation
    for job, decision in plan.decisions.items():
        if decision.verb is Verb.START and decision.attempt is not None:
            yield job, "start", decision.attempt.allocation
        if decision.hold is not None:
            yield job, "hold", decision.hold


def _no_device_twice(jobs: Mapping[JobId, Standing], plan: Plan) -> None:
    leaving = {
        job for job, standing in jobs.items() if _is_leaving(plan.decisions[job], standing.live)
    }
    holder: dict[_Key, JobId] = {}
    kept: dict[_Key, JobId] = {}
    for job, kind, allocation in _held(jobs, plan):
        for device in allocation.devices():
            table = kept if kind == "hold" else holder
            if device in table:
                raise _broken("no device twice", f"{device} for both {table[device]} and {job}")
            table[device] = job
    for device, job in kept.items():
        other = holder.get(device)
        if other is not None and other not in leaving:
            raise _broken("no device twice", f"{device} held for {job} but {other} stays on it")


def _gangs_whole(snapshot: Snapshot, plan: Plan) -> None:
    nodes = {node.name: node for node in snapshot.cluster.nodes}
    for job, decision in plan.decisions.items():
        granted = decision.hold
        if decision.verb is Verb.START:
            if decision.attempt is None:
                raise _broken("every start has an attempt", job)
            granted = decision.attempt.allocation
        wanted = snapshot.desired.jobs.get(job)
        if granted is None or snapshot.desired.is_rewritten:
            continue
        if wanted is None or wanted.spec is None:
            raise _broken("gangs are whole", f"{job} gets devices without a spec")
        sizes = legal_sizes(snapshot, wanted.spec)
        request = wanted.spec.gpus
        if granted.gpus in sizes:
            request = replace(request, count=granted.gpus)
        is_start = decision.verb is Verb.START
        _gang(job, request, granted, snapshot.cluster, nodes, is_start=is_start)


def _gang(
    job: JobId,
    request: GpuRequest,
    granted: Allocation,
    cluster: Cluster,
    nodes: Mapping[NodeName, Node],
    *,
    is_start: bool,
) -> None:
    pairs = granted.devices()
    if len(pairs) != request.count or len(set(pairs)) != request.count:
        raise _broken(
            "gangs are whole", f"{job} asked for {request.count} GPUs and gets {len(pairs)}"
        )
    devices = [_device(job, nodes, pair) for pair in pairs]
    types = {device.type for device in devices}
    if len(types) != 1 or (request.types and not types <= set(request.types)):
        raise _broken("gangs are of one wanted type", f"{job} gets {sorted(types)}")
    if any(device.memory_gib < request.min_memory_gib for device in devices):
        raise _broken("gangs have the memory they asked for", job)
    if not _is_within(request, pairs, devices, cluster, nodes):
        raise _broken("gangs keep their domain", f"{job} leaves its {request.within.value}")
    states = {nodes[share.node].state for share in granted.shares}
    if is_start and states != {NodeState.READY}:
        raise _broken("starts go to ready nodes", job)


def _device(job: JobId, nodes: Mapping[NodeName, Node], pair: _Key) -> Device:
    node = nodes.get(pair[0])
    for device in node.devices if node is not None else ():
        if device.id == pair[1]:
            return device
    raise _broken("devices exist", f"{job} gets {pair}, which the cluster does not have")


def _is_within(
    request: GpuRequest,
    pairs: tuple[_Key, ...],
    devices: list[Device],
    cluster: Cluster,
    nodes: Mapping[NodeName, Node],
) -> bool:
    names = {node for node, _ in pairs}
    racks = {nodes[name].rack for name in names}
    if request.interconnect is Interconnect.RDMA and len(names) > 1:
        joined = racks <= set(cluster.rdma_racks)
        if not joined or (len(racks) > 1 and not cluster.rdma_between_racks):
            return False
    if request.within is TopologyDomain.NVLINK or request.interconnect is Interconnect.NVLINK:
        islands = {device.island for device in devices}
        return len(names) == 1 and (len(pairs) == 1 or (len(islands) == 1 and "" not in islands))
    if request.within is TopologyDomain.NODE:
        return len(names) == 1
    if request.within is TopologyDomain.RACK:
        return len(racks) == 1
    return True


def _quota_kept(snapshot: Snapshot, jobs: Mapping[JobId, Standing], plan: Plan) -> None:
    """No team that gets devices in this plan, with its cohort, holds more than its quota: not now,
    with those who are leaving still there, if anything of it starts; and not when its holds are
    used.

    A team already over a quota that was lowered keeps what runs; it starts nothing until it is
    within, and what is kept for it meanwhile is for when those who leave have left.
    """
    if snapshot.desired.is_rewritten:
        return
    types = _device_types(snapshot)
    tables = ("now", "later", "started", "gained")
    counts: dict[str, dict[str, Counter[str]]] = {name: {} for name in tables}
    for job, kind, allocation in _held(jobs, plan):
        team = snapshot.teams.get(TeamName(job.split("/")[0]))
        if team is None or not team.quota_gpus:
            continue
        stays = kind != "attempt" or not _is_leaving(plan.decisions[job], jobs[job].live)
        which = {"now": kind != "hold", "later": stays, "started": kind == "start"}
        which["gained"] = kind != "attempt"
        for name in (name for name, counted in which.items() if counted):
            counter = counts[name].setdefault(account_of(team), Counter())
            _count(counter, allocation, types, team.quota_gpus)
    for (account, device_type), limit in sorted(limits(snapshot.teams).items()):
        now, later, started, gained = (
            counts[name].get(account, Counter())[device_type] for name in tables
        )
        most = max(now if started else 0, later if gained else 0)
        if most > limit:
            raise _broken("quota is kept", f"{account}: {most} of {device_type}, quota {limit}")


def _device_types(snapshot: Snapshot) -> Mapping[_Key, str]:
    """Return the type of every device."""
    return {
        (node.name, device.id): device.type
        for node in snapshot.cluster.nodes
        for device in node.devices
    }


def _count(
    counter: Counter[str],
    allocation: Allocation,
    types: Mapping[_Key, str],
    quota: Mapping[str, int],
) -> None:
    """Count the devices of every type the team has a quota of."""
    for pair in allocation.devices():
        for kind in (types.get(pair, ""), ALL_TYPES):
            counter[kind] += kind in quota


def _is_leaving(decision: Decision, live: Attempt | None) -> bool:
    is_stopping = live is not None and live.phase is AttemptPhase.STOPPING
    return is_stopping or decision.verb in (
        Verb.PREEMPT,
        Verb.RESIZE,
        Verb.SUSPEND,
        Verb.CANCEL,
        Verb.FINISH,
    )


def _victims_serve(snapshot: Snapshot, jobs: Mapping[JobId, Standing], plan: Plan) -> None:
    """A victim is asked to leave only for a preemptor that then has a whole gang held."""
    for job, decision in plan.decisions.items():
        if decision.verb is Verb.PREEMPT:
            _victim_serves(snapshot, jobs, plan, job, decision)
        for victim in decision.victims:
            standing = jobs.get(victim)
            if standing is None or standing.live is None:
                raise _broken("victims hold devices", f"{victim}, victim of {job}")
            if decision.hold is None:
                raise _broken("no futile victim", f"{victim} leaves but {job} has no hold")
            if victim == job:
                continue  # it leaves for another size of its own, here or on other devices
            frees = set(standing.live.allocation.devices()) & set(decision.hold.devices())
            if not frees and not _frees_quota(snapshot, victim, job):
                raise _broken("no futile victim", f"{victim} frees nothing that {job} gets")


def _frees_quota(snapshot: Snapshot, victim: JobId, preemptor: JobId) -> bool:
    mine = snapshot.teams.get(TeamName(victim.split("/")[0]))
    theirs = snapshot.teams.get(TeamName(preemptor.split("/")[0]))
    if mine is None or theirs is None or not mine.quota_gpus:
        return False
    return account_of(mine) == account_of(theirs)


def _victim_serves(
    snapshot: Snapshot,
    jobs: Mapping[JobId, Standing],
    plan: Plan,
    job: JobId,
    decision: Decision,
) -> None:
    preemptor = plan.decisions.get(decision.for_job) if decision.for_job is not None else None
    if preemptor is None or job not in preemptor.victims:
        raise _broken("no futile victim", f"{job} is asked to leave for nobody")
    if preemptor.reason is not Reason.PREEMPTING or preemptor.hold is None:
        raise _broken("no futile victim", f"{preemptor.job} does not run although {job} leaves")
    live, mine, theirs = jobs[job].live, jobs[job].spec, jobs[preemptor.job].spec
    if live is None or not live.preemptible:
        raise _broken("only preemptible attempts are stopped", job)
    if mine is None or theirs is None:
        raise _broken("victims and preemptors have specs", f"{job} for {preemptor.job}")
    by_score = snapshot.policy.order is Order.SCORE
    if by_score and mine.priority <= theirs.priority:
        raise _broken("victims are of a strictly lower class", f"{job} for {preemptor.job}")
    if mine.priority < theirs.priority:
        is_firm = preemptor.job in plan.planner_state.value.firm
        if not is_firm and not _is_reclaimed(snapshot, jobs, mine.team, theirs.team):
            raise _broken("victims are of no more urgent class", f"{job} for {preemptor.job}")
    if mine.priority is PriorityClass.P0:
        raise _broken("a P0 is nobody's victim", f"{job} for {preemptor.job}")


def _is_reclaimed(
    snapshot: Snapshot, jobs: Mapping[JobId, Standing], borrower: TeamName, lender: TeamName
) -> bool:
    """True if one team of a cohort holds more than its own quota while the other asks."""
    mine, theirs = snapshot.teams.get(borrower), snapshot.teams.get(lender)
    if mine is None or theirs is None or mine.cohort is None or mine.cohort != theirs.cohort:
        return False
    types = _device_types(snapshot)
    held: Counter[str] = Counter()
    for job, standing in jobs.items():
        if standing.live is not None and job.startswith(f"{borrower}/"):
            _count(held, standing.live.allocation, types, mine.quota_gpus)
    return any(held[kind] > limit for kind, limit in mine.quota_gpus.items())


def _actions_match(jobs: Mapping[JobId, Standing], plan: Plan) -> None:
    """Every start is launched and every other request is about an attempt that is live."""
    launched: set[AttemptId] = set()
    asked: set[AttemptId] = set()
    for action in plan.actions:
        if action.attempt in asked:
            raise _broken("one request an attempt", action.attempt)
        asked.add(action.attempt)
        decision = plan.decisions.get(action.job)
        if decision is None:
            raise _broken("requests belong to decisions", action.job)
        started = decision.attempt.id if decision.attempt is not None else None
        if isinstance(action, Launch):
            launched.add(action.attempt)
            if action.attempt == started:
                continue
        live = jobs[action.job].live
        if live is None or live.id != action.attempt:
            raise _broken("requests are about live attempts", action.attempt)
    for job, decision in plan.decisions.items():
        if decision.verb is Verb.START and (
            decision.attempt is None or decision.attempt.id not in launched
        ):
            raise _broken("every start is launched", job)
        if decision.verb is Verb.START and jobs[job].live is not None:
            raise _broken("one live attempt a job", job)


def _forecast_ahead(snapshot: Snapshot, jobs: Mapping[JobId, Standing], plan: Plan) -> None:
    for job, expected in plan.forecast.items():
        if expected.end_p50 < snapshot.now or expected.start_p50 > expected.end_p50:
            raise _broken("forecasts lie ahead", f"{job} ends at {expected.end_p50}")
        if expected.start_p90 < expected.start_p50 or expected.end_p90 < expected.end_p50:
            raise _broken("p90 is never before p50", job)
        if jobs[job].live is None and expected.start_p50 < snapshot.now:
            raise _broken("forecasts lie ahead", f"{job} starts at {expected.start_p50}")
