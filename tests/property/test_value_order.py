"""Properties of the value order over random fleets, one cycle and whole lives of them."""

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.units import JobId
from reconciler.domain.value_state import Held, ValueState
from reconciler.planning.caches import Cached
from reconciler.planning.value.decide import ValueMemo, decide
from reconciler.planning.value.fleet import Choices, Ended, Fleet, JobFacts, Nodes, Within
from reconciler.planning.value.rules import RULES
from reconciler.snapshots.plain import plain, restore

NOW = 1_000_000
LIMITS = (0, 3600, 14_400, 86_400, 604_800)


def nodes(sizes: tuple[int, ...], caches: Cached[int] | None = None) -> Nodes:
    return Nodes(
        caches=caches or Cached(),
        names=tuple(f"n{row}" for row in range(len(sizes))),
        sizes=sizes,
        pool=tuple(row % 2 for row in range(len(sizes))),
        pools=("a", "b"),
        rack=tuple(row // 2 for row in range(len(sizes))),
        node=tuple(row // 2 for row in range(len(sizes))),
    )


@st.composite
def cached(draw: st.DrawFn, rows: int) -> Cached[int]:
    """What lies where: mostly nothing."""
    names = st.sets(st.integers(0, rows - 1), min_size=1).map(frozenset)
    some = st.dictionaries(st.sampled_from("mnd"), names)
    if draw(st.booleans()):
        return Cached()
    return Cached(models=draw(some), data=draw(some))


@st.composite
def facts(draw: st.DrawFn, name: str) -> JobFacts:
    limit = draw(st.sampled_from(LIMITS))
    waited = draw(st.sampled_from((0, 10, 3600, 40_000)))
    return JobFacts(
        job=JobId(name),
        gpus=draw(st.sampled_from((1, 1, 2, 3, 4, 6, 8, 12))),
        arrived=NOW - waited,
        limit=limit,
        predicted=draw(st.sampled_from((0, 60, 5000, 200_000))),
        weight=draw(st.sampled_from((0.5, 1.0, 2.0))),
        level=draw(st.integers(0, 3)),
        preemptible=draw(st.integers(0, 3)) > 0,
        rush=draw(st.integers(0, 9)) == 0,
        pools=draw(st.sampled_from((-1, -1, 1, 2))),
        within=draw(st.sampled_from((Within.POOL, Within.POOL, Within.UNIT, Within.RACK))),
        bound=draw(st.sampled_from((0, 0, 3600))),
        deadline=draw(st.sampled_from((0, 0, NOW + 3000))),
        reach_s=draw(st.sampled_from((0, 600))),
        model=draw(st.sampled_from(("", "m", "n"))),
        data=draw(st.sampled_from(((), ("d",), ("m", "d", "m")))),
    )


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    sizes = tuple(draw(st.lists(st.sampled_from((2, 4)), min_size=1, max_size=6)))
    where = nodes(sizes, draw(cached(len(sizes))))
    free = list(where.sizes)
    running: list[JobFacts] = []
    aside: list[JobFacts] = []
    for number in range(draw(st.integers(0, 6))):
        each = draw(facts(f"t/r{number}"))
        held = _anywhere(each.gpus, free)
        if held is None:
            continue
        for row, count in held:
            free[row] -= count
        ran = draw(st.sampled_from((-30, 100, 700, 50_000)))
        each = replace(each, held=held, since=NOW - ran, arrived=NOW - max(ran, 0) - 40)
        (aside if draw(st.integers(0, 5)) == 0 else running).append(each)
    waiting = [draw(facts(f"t/w{number}")) for number in range(draw(st.integers(0, 6)))]
    shut = frozenset(draw(st.sets(st.integers(0, len(free) - 1), max_size=1)))
    for row in shut:
        free[row] = 0
    edges = [
        (row, draw(st.integers(1, where.sizes[row])), NOW + draw(st.sampled_from((100, 5000))))
        for row in draw(st.sets(st.integers(0, len(free) - 1), max_size=2))
    ]
    return Fleet(
        nodes=where, free=free, waiting=waiting, running=running, aside=aside, shut=shut,
        edges=edges,
    )  # fmt: skip


def _anywhere(gpus: int, free: list[int]) -> Held | None:
    held, left = [], gpus
    for row, count in enumerate(free):
        got = min(count, left)
        if got:
            held.append((row, got))
            left -= got
    return tuple(held) if not left else None


def free_after(fleet: Fleet, choices: Choices) -> list[int]:
    """Free devices once the choices are carried out; raises where a row is given twice."""
    free = list(fleet.free)
    held = {each.job: each.held for each in fleet.running}
    for job in choices.stops:
        for row, count in held[job]:
            if row not in fleet.shut:
                free[row] += count
    for start in choices.starts:
        for row, count in start.nodes:
            free[row] -= count
    return free


@given(fleets())
def test_no_row_is_given_twice_and_gangs_are_whole_in_one_domain(fleet: Fleet) -> None:
    choices = decide(fleet, ValueState(), NOW)
    known = {each.job: each for each in (*fleet.waiting, *fleet.running)}
    assert min(free_after(fleet, choices)) >= 0
    for start in choices.starts:
        each = known[start.job]
        rows = [row for row, _ in start.nodes]
        assert sum(count for _, count in start.nodes) == each.gpus
        assert rows == sorted(set(rows))
        assert len({fleet.nodes.pool[row] for row in rows}) == 1
        assert each.pools >> fleet.nodes.pool[rows[0]] & 1
        assert not fleet.shut & set(rows)
        if each.within == Within.UNIT:
            assert len(rows) == 1
        if each.within == Within.RACK:
            assert len({fleet.nodes.rack[row] for row in rows}) == 1
    assert len({start.job for start in choices.starts}) == len(choices.starts)


@given(fleets())
def test_nobody_is_stopped_unless_the_preemptor_then_runs(fleet: Fleet) -> None:
    choices = decide(fleet, ValueState(), NOW)
    victims = [victim for start in choices.starts for victim in start.victims]
    assert sorted(victims) == list(choices.stops)
    assert len(set(victims)) == len(victims)
    running = {each.job: each for each in fleet.running}
    waiting = {each.job: each for each in fleet.waiting}
    for start in choices.starts:
        for victim in start.victims:
            assert running[victim].preemptible
            assert not running[victim].rush
            assert start.job in waiting
            assert running[victim].level >= waiting[start.job].level or not (
                waiting[start.job].level > 0 and running[victim].level == 0
            )


@given(fleets(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(fleet: Fleet, order: object) -> None:
    def shuffled(jobs: object) -> list[JobFacts]:
        mixed = list(jobs)  # type: ignore[call-overload]
        order.shuffle(mixed)  # type: ignore[attr-defined]
        return mixed

    other = replace(
        fleet, waiting=shuffled(fleet.waiting), running=shuffled(fleet.running),
        aside=shuffled(fleet.aside), edges=tuple(reversed(fleet.edges)),
    )  # fmt: skip
    assert decide(other, ValueState(), NOW) == decide(fleet, ValueState(), NOW)


@given(fleets())
def test_a_promised_edge_is_left_alone(fleet: Fleet) -> None:
    choices = decide(fleet, ValueState(), NOW)
    free = free_after(fleet, choices)
    known = {each.job: each for each in (*fleet.waiting, *fleet.running)}
    for row, promised, at in fleet.edges:
        stays = [
            start for start in choices.starts
            if (not known[start.job].reach_s or NOW + known[start.job].reach_s > at)
            and row in dict(start.nodes)
        ]  # fmt: skip
        if stays:
            lets_go = sum(
                dict(start.nodes).get(row, 0) for start in choices.starts if start not in stays
            )
            assert free[row] + lets_go >= promised


@dataclass
class Life:
    """A fleet lived through: who waits, who runs, what was remembered."""

    where: Nodes
    durations: dict[JobId, int]
    memo: ValueMemo | None
    state: ValueState = ValueState()
    stops: int = 0

    def __post_init__(self) -> None:
        self.free = list(self.where.sizes)
        self.waiting: dict[JobId, JobFacts] = {}
        self.running: dict[JobId, JobFacts] = {}
        self.finished: dict[JobId, int] = {}
        self.log: list[Choices] = []

    def step(self, now: int, new: list[JobFacts]) -> None:
        ended = []
        for job in sorted(self.running):
            each = self.running[job]
            if each.served + now - each.since >= self.durations[job]:
                self._release(job)
                ended.append(Ended(facts=each, served=self.durations[job]))
                self.finished[job] = now
        self.waiting |= {each.job: each for each in new}
        fleet = Fleet(
            nodes=self.where, free=tuple(self.free), waiting=tuple(self.waiting.values()),
            running=tuple(self.running.values()), ended=ended,
        )  # fmt: skip
        choices = decide(fleet, self.state, now, memo=self.memo)
        self.state = choices.state
        self.log.append(choices)
        for job in choices.stops:
            self.stops += 1
            each = self._release(job)
            served = each.served + max(now - each.since, 0)
            self.waiting[job] = replace(each, held=(), since=0, served=served)
        for start in choices.starts:
            for row, count in start.nodes:
                self.free[row] -= count
                assert self.free[row] >= 0
            each = self.waiting.pop(start.job)
            self.running[start.job] = replace(each, held=start.nodes, since=now + 30)

    def _release(self, job: JobId) -> JobFacts:
        each = self.running.pop(job)
        for row, count in each.held:
            self.free[row] += count
        return each


@st.composite
def lives(draw: st.DrawFn) -> tuple[Nodes, list[tuple[int, JobFacts, int]]]:
    where = nodes((4,) * draw(st.integers(1, 4)))
    jobs = []
    at = NOW
    for number in range(draw(st.integers(1, 12))):
        at += draw(st.sampled_from((0, 60, 2000)))
        duration = draw(st.sampled_from((30, 600, 5000, 40_000)))
        limit = draw(st.sampled_from((0, 3600, 86_400)))
        gpus = min(draw(st.sampled_from((1, 2, 4, 8))), _largest(where))
        each = JobFacts(
            job=JobId(f"t/j{number:02}"), gpus=gpus, arrived=at,
            limit=limit if limit >= duration else 0,
            predicted=draw(st.sampled_from((0, duration, 60, 100_000))),
            preemptible=draw(st.booleans()),
        )  # fmt: skip
        jobs.append((at, each, duration))
    return where, jobs


def _largest(where: Nodes) -> int:
    return max(
        sum(size for row, size in enumerate(where.sizes) if where.pool[row] == pool)
        for pool in where.pool
    )


def lived(
    where: Nodes, jobs: list[tuple[int, JobFacts, int]], memo: ValueMemo | None, every: int = 120
) -> Life:
    life = Life(where, {each.job: duration for _, each, duration in jobs}, memo)
    now = NOW
    last = max(at for at, _, _ in jobs)
    total = sum(duration + 600 for _, _, duration in jobs) * 2 + 40 * RULES.least_budget_s
    while len(life.finished) < len(jobs):
        life.step(now, [each for at, each, _ in jobs if now - every < at <= now])
        now += every
        assert now < last + total, "somebody never ran"
    return life


@settings(deadline=None)
@given(lives())
def test_everybody_ends_and_nobody_is_stopped_for_ever(
    world: tuple[Nodes, list[tuple[int, JobFacts, int]]],
) -> None:
    where, jobs = world
    life = lived(where, jobs, ValueMemo(), every=600)
    assert life.stops <= len(jobs) ** 2 + len(jobs)


@settings(deadline=None)
@given(lives())
def test_any_memo_gives_the_same_life_as_none(
    world: tuple[Nodes, list[tuple[int, JobFacts, int]]],
) -> None:
    where, jobs = world
    kept, none = lived(where, jobs, ValueMemo(), 600), lived(where, jobs, None, 600)
    assert kept.log == none.log


@settings(deadline=None)
@given(lives())
def test_what_is_remembered_comes_back_from_its_recorded_form(
    world: tuple[Nodes, list[tuple[int, JobFacts, int]]],
) -> None:
    where, jobs = world
    life = lived(where, jobs, None, 600)
    for choices in life.log:
        assert restore(ValueState, plain(choices.state)) == choices.state
        assert all(
            facts.job not in choices.stops
            for facts in life.running.values()
            if facts.job in choices.firm
        )


@settings(deadline=None)
@given(lives())
def test_a_firm_job_is_never_stopped(
    world: tuple[Nodes, list[tuple[int, JobFacts, int]]],
) -> None:
    where, jobs = world
    firm: frozenset[JobId] = frozenset()
    for choices in lived(where, jobs, ValueMemo(), 600).log:
        assert not firm & set(choices.stops)
        firm = choices.firm
