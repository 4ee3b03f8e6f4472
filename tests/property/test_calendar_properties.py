"""Reservations and budgets over whole lives: what is promised is kept, whoever comes later.

Every cycle's plan is checked by the invariants too; here is what only time shows.
"""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.domain.policy import Order
from reconciler.domain.reservation import ReservationPhase
from reconciler.domain.units import Instant, JobId, Seconds
from reconciler.planning.budget import spent_key
from reconciler.simulate.runs import Behaviour
from reconciler.simulate.world import SimWorld
from tests.calendars import a_budget, a_reservation
from tests.values import NOW, a_cluster, a_policy, a_spec, seconds

CYCLE_S = 120
HOURS = 3
TEAMS = ("research", "vision")
EXAMPLES = max(settings().max_examples // 4, 12)
"""A life is two hundred cycles long."""


@dataclass(frozen=True)
class Ask:
    """One job or reservation, and when it comes."""

    at_s: int
    name: str
    fields: dict[str, Any]
    work_s: int = 0
    is_reservation: bool = False


@st.composite
def asks(draw: st.DrawFn) -> list[Ask]:
    """Jobs that keep their limits, and reservations, of two teams, over two hours."""
    found = []
    for number in range(draw(st.integers(4, 12))):
        at_s = draw(st.integers(0, 45)) * CYCLE_S
        name = f"{draw(st.sampled_from(TEAMS))}/{'abcdefghijkl'[number]}"
        gpus = draw(st.sampled_from((1, 2, 2, 4)))
        if draw(st.sampled_from((True, False, False))):
            fields = {
                "gpus": gpus,
                "start_in": draw(st.integers(0, 40)) * CYCLE_S,
                "duration": draw(st.sampled_from(("10m", "30m", "1h"))),
                "exclusive": draw(st.sampled_from((True, True, True, False))),
                "budget": draw(st.sampled_from((None, "q4"))),
            }
            found.append(Ask(at_s, name, fields, is_reservation=True))
            continue
        limit_s = draw(st.sampled_from((1800, 5400, 10_800)))
        fields = {
            "gpus": gpus,
            "priority": draw(st.sampled_from(("P0", "P1", "P2", "P3"))),
            "preemptible": draw(st.sampled_from((True, True, False))),
            "limit": limit_s,
            "grace": "2m",
            "budget_group": draw(st.sampled_from((None, "q4"))),
        }
        share = draw(st.sampled_from((0.2, 0.9, 1.5)))
        found.append(Ask(at_s, name, fields, work_s=int(limit_s * share)))
    return found


class Watched:
    """One life, with what must hold at every instant of it."""

    def __init__(self, nodes: dict[str, Any], wanted: list[Ask], order: Order) -> None:
        policy = replace(a_policy(cycle=CYCLE_S), order=order)
        self.world = SimWorld(
            a_cluster(nodes),
            now=NOW,
            policy=policy,
            budgets={"q4": a_budget("q4", limit=6, ends_in="2h30m")},
        )
        self.wanted = sorted(wanted, key=lambda ask: (ask.at_s, ask.name))
        self.late: list[str] = []

    def live(self) -> None:
        for step in range(HOURS * 3600 // CYCLE_S):
            self._ask(step * CYCLE_S)
            for _ in self.world.cycles(CYCLE_S - 1):
                self._look()
            self.world.advance(1)

    def _ask(self, at_s: int) -> None:
        world = self.world
        while self.wanted and self.wanted[0].at_s <= at_s:
            ask = self.wanted.pop(0)
            if ask.is_reservation:
                world.main.reserve(a_reservation(ask.name, now=world.now, **ask.fields))
                continue
            world.behaviours[JobId(ask.name)] = Behaviour(
                work_s=Seconds(ask.work_s), save_s=seconds("30s")
            )
            world.main.write(a_spec(ask.name, **ask.fields), now=world.now)

    def _look(self) -> None:
        now = self.world.now
        for name, status in self.world.reservations.items():
            for each in status.occurrences:
                if each.phase is ReservationPhase.PLANNED and now > each.start + CYCLE_S:
                    self.late.append(f"{name} planned for {each.start - NOW}, now {now - NOW}")
                if each.phase is ReservationPhase.ACTIVE and each.devices is not None:
                    self._nobody_else(name, set(each.devices.devices()))

    def _nobody_else(self, name: JobId, devices: set[Any]) -> None:
        wanted = self.world.main.reservations.get(name)
        if wanted is None or not wanted.held.exclusive:
            return
        for status in self.world.statuses.values():
            live = status.live_attempt
            if live is not None and status.job.split("/")[0] != name.split("/")[0]:
                assert not devices & set(live.allocation.devices()), f"{status.job} in {name}"

    def spent_gpu_s(self, at: Instant) -> int:
        """Return what attempts and idle windows took from the budget's period by ``at``."""
        period = next(p for p in self.world.budgets["q4"].periods if p.start <= at < p.end)
        used = self.world.planner_state.spent.get(spent_key("q4", period), 0)
        for status in self.world.statuses.values():
            live = status.live_attempt
            if live is not None and live.budget_group == "q4":
                used += live.gpus * period.overlap_s(live.started_at or live.decided_at, at)
        return used


clusters = st.sampled_from(({"n1": 4}, {"n1": 2, "n2": 4}))


@settings(max_examples=EXAMPLES)
@given(clusters, asks(), st.sampled_from((Order.SCORE, Order.VALUE)))
def test_a_booked_reservation_opens_in_time_whoever_comes_later(
    nodes: dict[str, Any], wanted: list[Ask], order: Order
) -> None:
    life = Watched(nodes, wanted, order)
    life.live()

    assert life.late == []


@settings(max_examples=EXAMPLES)
@given(clusters, asks(), st.sampled_from((Order.SCORE, Order.VALUE)))
def test_a_budget_is_never_exceeded(nodes: dict[str, Any], wanted: list[Ask], order: Order) -> None:
    life = Watched(nodes, wanted, order)
    limit = life.world.budgets["q4"].limit_gpu_s
    for step in range(HOURS * 3600 // CYCLE_S):
        life._ask(step * CYCLE_S)
        for _ in life.world.cycles(CYCLE_S - 1):
            assert life.spent_gpu_s(life.world.now) <= limit
        life.world.advance(1)
