"""The value order against the plainest reading of its policy, on tiny fleets."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.domain.units import JobId
from reconciler.domain.value_state import Held, Learned, ValueState
from reconciler.planning.value.belief import learn
from reconciler.planning.value.decide import ValueMemo, decide
from reconciler.planning.value.fleet import Fleet, JobFacts, Within
from reconciler.planning.value.rules import RULES
from tests.property.brute_belief import CloseCallError, Past
from tests.property.brute_value import PlainOrder
from tests.property.test_value_order import NOW, _anywhere, cached, fleets, nodes

SHADOWLESS = replace(RULES, budget_factor=0.0, forecast_factor=0.0)
"""The waiting budget is given: the shadow schedule is held to its own plain one."""

past = st.builds(
    Past,
    gpus=st.sampled_from((1, 2, 3, 8)),
    limit=st.sampled_from((0, 3600, 86_400)),
    predicted=st.sampled_from((0, 60, 5000)),
    ran=st.sampled_from((1, 30, 600, 20_000)),
)


@st.composite
def crowds(draw: st.DrawFn) -> Fleet:
    """Full fleets of long jobs that can be stopped, and short ones that wait for them."""
    sizes = tuple(draw(st.lists(st.sampled_from((4, 4, 8)), min_size=1, max_size=5)))
    where = nodes(sizes, draw(cached(len(sizes))))
    free = list(where.sizes)
    running = []
    for number in range(draw(st.integers(1, 9))):
        gpus = draw(st.sampled_from((1, 1, 2, 2, 3, 4, 8)))
        held = _anywhere(gpus, free)
        if held is None:
            continue
        for row, count in held:
            free[row] -= count
        running.append(draw(crowd(f"t/r{number}", gpus, held)))
    waiting = [
        draw(crowd(f"t/w{n}", draw(st.sampled_from((1, 2, 3, 4, 5, 6, 8, 12))), ()))
        for n in range(draw(st.integers(1, 7)))
    ]
    return Fleet(nodes=where, free=free, waiting=waiting, running=running)


@st.composite
def crowd(draw: st.DrawFn, name: str, gpus: int, held: Held) -> JobFacts:
    ran = draw(st.sampled_from((500, 700, 5000, 50_000))) if held else 0
    return JobFacts(
        job=JobId(name),
        gpus=gpus,
        arrived=NOW - ran - draw(st.sampled_from((0, 40, 3000, 6500))),
        since=NOW - ran if held else 0,
        held=held,
        limit=draw(st.sampled_from((0, 604_800) if held else (0, 3600, 14_400))),
        predicted=draw(st.sampled_from((5000, 20_000, 200_000) if held else (30, 700, 5000, 9000))),
        weight=draw(st.sampled_from((0.5, 1.0, 1.0, 2.0))),
        level=draw(st.sampled_from((1, 2, 3) if held else (0, 1, 2))),
        preemptible=draw(st.integers(0, 9)) > 0,
        rush=not held and draw(st.integers(0, 9)) == 0,
        within=draw(st.sampled_from((Within.POOL, Within.POOL, Within.UNIT, Within.RACK))),
        save_s=draw(st.sampled_from((1, 1, 20, 600))),
        restore_s=draw(st.sampled_from((1, 60))),
        model="m",
    )


@st.composite
def bounded_fleets(draw: st.DrawFn) -> Fleet:
    """Fleets whose jobs count against one of two accounts, or none."""
    fleet = draw(st.one_of(fleets(), crowds()))
    names = [each.job for each in (*fleet.waiting, *fleet.running)]
    account = {job: draw(st.sampled_from(("a", "b"))) for job in names if draw(st.booleans())}
    headroom = {name: draw(st.integers(0, 9)) for name in ("a", "b") if draw(st.booleans())}
    return replace(fleet, account=account, headroom=headroom)


def state_after(past: list[Past], budget: int) -> ValueState:
    learned = Learned()
    for number, each in enumerate(past):
        known = JobFacts(
            job=JobId(f"t/p{number}"), gpus=each.gpus, arrived=0, limit=each.limit,
            predicted=each.predicted,
        )  # fmt: skip
        learned = learn(learned, known, each.ran)
    return ValueState(learned=learned, believed=learned, relieved_s=budget)


def plainly(fleet: Fleet, past: list[Past], budget: int) -> PlainOrder:
    known = len({each.job for each in (*fleet.waiting, *fleet.running, *fleet.aside)})
    plain = PlainOrder(fleet=fleet, past=past, now=NOW, budget=float(budget), arrivals=known)
    try:
        plain.run()
    except CloseCallError:
        assume(False)
    return plain


@given(bounded_fleets(), st.lists(past, max_size=4), st.sampled_from((7200, 41_000, 10**6)))
def test_the_value_order_chooses_what_its_policy_says(
    fleet: Fleet, past: list[Past], budget: int
) -> None:
    choices = decide(fleet, state_after(past, budget), NOW, SHADOWLESS, ValueMemo())
    plain = plainly(fleet, past, budget)

    assert [(s.job, s.nodes, s.victims) for s in choices.starts] == [
        (s.job, s.nodes, s.victims) for s in plain.starts
    ]
    assert choices.firm == plain.firm
