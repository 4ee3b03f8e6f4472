"""Without arrivals the preemptions come to an end: whatever was estimated, fails or is elastic.

The argument is in ``docs/planning-policy.md``.  Here jobs arrive first, among failures, elastic
jobs, reservations and estimates that have nothing to do with the truth; then nothing comes any
more.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.job import PriorityClass
from reconciler.domain.plan import Verb
from reconciler.domain.policy import FairUse, Order
from reconciler.domain.reason import Reason
from reconciler.domain.units import JobId, Seconds
from tests.calendars import a_reservation
from tests.property.lives import Life, spec_of
from tests.strategies import FAULTS, Step, clusters, orders, quotas, steps
from tests.values import a_size, seconds

DAY_S = 86_400
MOST_STOPS = 5
"""``preemption.max_per_job`` of these lives: low, so that it binds."""
CHECKPOINT_S = 300
"""What an attempt that ran for the quantum keeps at the least, whether or not its grace is
enough to save."""
WORK = ("1m", "20m", "1h", "5h", "1d")


@st.composite
def restless_steps(draw: st.DrawFn) -> Step:
    """A new job that is expected to take anything but what it takes, with a deadline or without,
    or a reservation."""
    step = draw(steps(calm=True))
    fields = dict(step.fields)
    fields["deadline_in"] = draw(st.sampled_from((None, None, "40m", "3h", "1d")))
    if draw(st.integers(0, 2)) == 0:
        fields["elastic"] = (1, 4)
    luck = {
        **step.luck,
        "work": draw(st.sampled_from(WORK)),
        "fault": draw(st.sampled_from((None, None, None, *FAULTS))),
        "reserve": draw(st.sampled_from((False,) * 7 + (True,))),
    }
    return replace(step, fields=fields, luck=luck)


class RestlessLife(Life):
    """A life with reservations and jobs of several sizes in it."""

    def __init__(self, *args: Any, fair_use: FairUse) -> None:
        super().__init__(*args)
        policy = self.world.policy
        self.world.policy = replace(
            policy,
            preemption=replace(policy.preemption, max_per_job=MOST_STOPS),
            fair_use=fair_use,
        )

    def _do(self, step: Step) -> None:
        if step.luck["reserve"]:
            held = a_reservation(
                f"{step.job}-{self.world.now}",
                now=self.world.now,
                gpus=min(step.fields["gpus"], 4),
                start_in="1h",
                duration="2h",
            )
            self.world.main.reserve(held)
            return
        if step.fields.get("elastic"):
            whole = seconds(step.luck["work"])
            self.world.sizes[JobId(step.job)] = tuple(
                a_size(gpus, Seconds(whole * 4 // gpus)) for gpus in (4, 2, 1)
            )
        super()._do(step)


@given(
    clusters(calm=True, capped=True),
    quotas(),
    st.lists(restless_steps(), min_size=2, max_size=10),
    orders(),
    st.sampled_from((FairUse(), FairUse(half_life_s=Seconds(DAY_S), strength=2.0))),
)
def test_without_arrivals_the_stops_of_each_job_are_bounded_and_the_world_settles(
    nodes: dict[str, Any],
    limits: dict[str, Any],
    lived: list[Step],
    order: Order,
    fair_use: FairUse,
) -> None:
    life = RestlessLife(nodes, limits, lived, order, fair_use=fair_use)
    stops: Counter[JobId] = Counter()
    by_value: Counter[JobId] = Counter()
    resizes: Counter[JobId] = Counter()
    last_stop = last_arrival = life.world.now
    for report in life.cycles(rest_s=20 * DAY_S):
        firm = report.snapshot.planner_state.value.firm.keys()
        firm |= report.plan.planner_state.value.firm.keys()
        for job, decision in report.plan.decisions.items():
            resizes[job] += decision.verb is Verb.RESIZE
            if decision.verb is not Verb.PREEMPT:
                continue
            stops[job] += 1
            last_stop = report.snapshot.now
            theirs = spec_of(report, decision.for_job) if decision.for_job is not None else None
            if theirs is None or decision.for_job in firm or theirs.priority is PriorityClass.P0:
                continue
            by_value[job] += order is Order.VALUE
        if report.snapshot.desired.submissions:
            last_arrival = report.snapshot.now

    jobs = len(life.world.statuses)
    assert all(count <= MOST_STOPS for count in stops.values()), stops
    for job, count in by_value.items():
        work_s = life.world.behaviours[job].work_s
        assert count <= work_s / CHECKPOINT_S, f"{job} was stopped {count} times for its value"
    assert all(count <= 2 * jobs for count in resizes.values()), resizes
    assert last_stop <= last_arrival + 10 * DAY_S, "it never settles"
    for status in life.world.statuses.values():
        hopeless = status.reason in (Reason.NEVER_FITS, Reason.NODES_UNAVAILABLE)
        hopeless |= status.reason is Reason.LOST_TOO_OFTEN
        team = limits.get(status.job.split("/")[0], {"quota": {}})
        asked = 0 if status.summary is None else status.summary.gpus
        hopeless |= any(asked > quota for quota in team["quota"].values())
        assert status.phase.is_finished or hopeless, status
