"""Columns, repairs and names of planned places."""

from reconciler.domain.units import DeviceId, Instant, NodeName, Seconds
from reconciler.planning.capacity.cold import Ask, plan_everybody
from reconciler.planning.capacity.devices import RowDevices, allocations
from reconciler.planning.capacity.places import Places, Ranking
from reconciler.planning.capacity.repair import Effort, repair
from reconciler.planning.capacity.search import Slot
from reconciler.planning.capacity.state import State
from tests.unit.planning.capacity.small import a_gang, a_grid, a_state, holds
from tests.values import NOW


def slot(start: int, end: int, rows: tuple[int, ...], counts: tuple[int, ...]) -> Slot:
    return Slot(Instant(start), Instant(end), rows, counts)


WIDE, NARROW = slot(5, 15, (0, 2), (8, 8)), slot(7, 17, (1,), (3,))


def test_places_come_back_out_of_columns() -> None:
    columns = Places.of([WIDE, None, NARROW])

    assert [columns.slot(rank, 10) for rank in range(3)] == [WIDE, None, NARROW]
    assert columns.ranks().tolist() == [0, 0, 2]


def test_ranks_come_and_go_and_places_change_width() -> None:
    columns = Places.of([WIDE, NARROW]).copy().with_rank(1)
    assert [columns.slot(rank, 10) for rank in range(3)] == [WIDE, None, NARROW]

    columns = columns.copy().with_slot(1, WIDE).with_slot(0, NARROW)
    assert [columns.slot(rank, 10) for rank in range(3)] == [NARROW, WIDE, NARROW]

    columns = columns.without_rank(1)
    assert [columns.slot(rank, 10) for rank in range(2)] == [NARROW, NARROW]


def test_a_ranking_knows_which_asks_are_alike() -> None:
    state = a_state()
    one, two = a_gang(state, 1), a_gang(state, 2)
    ranking = Ranking.of([Ask(one, Seconds(5)), Ask(two, Seconds(9))]).with_ask(
        1, Ask(one, Seconds(3))
    )

    assert ranking.kind.tolist() == [0, 0, 1]
    assert ranking.shortest == 3
    assert ranking.without_ask(1).duration.tolist() == [5, 9]
    assert Ranking.of([]).shortest == 1


def test_an_arrival_at_the_head_displaces_only_whom_it_must() -> None:
    grid = a_grid({"n1": 8, "n2": 8})
    state = State(grid, holds(), NOW)
    eight, four = a_gang(state, 8), a_gang(state, 4)
    asks = [Ask(four, Seconds(10)), Ask(eight, Seconds(10)), Ask(four, Seconds(10))]
    places = Places.of(plan_everybody(state, asks))
    longer = Ranking.of(asks).with_ask(0, Ask(eight, Seconds(10)))

    found = repair(grid, NOW, holds(), longer, places.with_rank(0), arrived=0)

    assert (found.places.start - NOW).tolist() == [0, 10, 0, 10]
    assert found.displaced == 2  # whoever was on its node; the other place is a promise


def test_an_end_lets_the_first_rank_that_can_start_now() -> None:
    grid = a_grid({"n1": 8})
    state = State(grid, holds((0, 8, 0, 100)), NOW)
    asks = [Ask(a_gang(state, 8), Seconds(10)), Ask(a_gang(state, 2), Seconds(5))]
    places = Places.of(plan_everybody(state, asks))
    assert (places.start - NOW).tolist() == [100, 110]

    found = repair(grid, NOW, holds(), Ranking.of(asks), places, freed=(0,))

    assert (found.places.start - NOW).tolist() == [0, 10]
    assert found.moves == 2


def test_the_work_of_a_repair_is_bounded_by_counts() -> None:
    """Without a bound every job of this queue would move one after another."""
    grid = a_grid({"n1": 8})
    state = State(grid, holds((0, 8, 0, 100)), NOW)
    asks = [Ask(a_gang(state, 8), Seconds(10))] * 100
    places = Places.of(plan_everybody(state, asks))

    def moved(effort: Effort) -> int:
        ranking = Ranking.of(asks)
        return repair(grid, NOW, holds(), ranking, places, freed=(0,), effort=effort).moves

    assert moved(Effort(moves=3)) == 1 + 3
    assert moved(Effort(moves=10**6)) == 100


def test_devices_are_given_in_the_order_of_the_starts() -> None:
    rows = [RowDevices(NodeName("n1"), tuple(DeviceId(f"g{i}") for i in range(4)))]
    busy = {(NodeName("n1"), DeviceId("g0")): 10, (NodeName("n1"), DeviceId("g1")): 20}

    found = allocations(
        rows, busy, [slot(20, 30, (0,), (4,)), slot(0, 20, (0,), (2,)), slot(10, 20, (0,), (1,))]
    )

    named = [[str(device) for _, device in each.devices()] for each in found]
    assert named == [["g0", "g1", "g2", "g3"], ["g2", "g3"], ["g0"]]


def test_rows_of_one_node_are_one_share() -> None:
    rows = [RowDevices(NodeName("n1"), (DeviceId(f"g{i}"),)) for i in range(2)]

    found = allocations(rows, {}, [slot(0, 5, (0, 1), (1, 1))])

    assert [(share.node, share.devices) for share in found[0].shares] == [("n1", ("g0", "g1"))]
