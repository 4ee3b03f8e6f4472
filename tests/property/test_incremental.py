"""Work saved between cycles changes nothing: neither the plan nor the statuses it makes."""

from typing import Any

from hypothesis import given

from reconciler.domain.policy import Order
from reconciler.domain.snapshot import Snapshot
from reconciler.planning.plan import plan
from reconciler.planning.statuses import next_statuses
from tests.property.lives import Life
from tests.strategies import Step, clusters, lives, orders, quotas, snapshots


@given(clusters(capped=True), quotas(), lives(), orders())
def test_every_cycle_of_a_life_plans_as_if_it_were_the_first(
    nodes: dict[str, Any], limits: dict[str, Any], steps: list[Step], order: Order
) -> None:
    for report in Life(nodes, limits, steps, order).cycles(rest_s=7200):
        fresh, _ = plan(report.snapshot)

        assert report.plan == fresh
        assert report.plan.forecast == fresh.forecast
        assert report.update == next_statuses(report.snapshot, fresh)


@given(snapshots(), snapshots())
def test_a_plan_that_was_never_recorded_is_made_again(one: Snapshot, other: Snapshot) -> None:
    _, memo = plan(one)
    _, memo = plan(other, memo)
    again, memo = plan(one, memo)
    once_more, memo = plan(one, memo)

    assert again == once_more == plan(one)[0]
    assert memo.update == next_statuses(one, again)
