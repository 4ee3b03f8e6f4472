"""Places repaired after an arrival or an end, against the plainest planner."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.units import Instant, Seconds
from reconciler.planning.capacity.cold import Ask
from reconciler.planning.capacity.gang import Gangs
from reconciler.planning.capacity.grid import grid_of
from reconciler.planning.capacity.holds import Holds
from reconciler.planning.capacity.places import Places, Ranking
from reconciler.planning.capacity.repair import Effort, repair
from reconciler.planning.capacity.search import Slot
from reconciler.planning.topology import layout
from tests.property.brute_rows import Book, earliest
from tests.property.test_capacity import Wish, World, plan_of, wishes, worlds
from tests.values import NOW, a_cluster, a_spec

UNBOUNDED = Effort(firm=10**9, moves=10**6)


def ask_of(gangs: Gangs, wish: Wish) -> Ask:
    return Ask(
        gangs.of(a_spec(**wish.request).gpus),
        Seconds(wish.duration),
        Instant(NOW + wish.not_before),
    )


def columns(world: World, gangs: Gangs, slots: list[Slot | None]) -> tuple[Ranking, Places]:
    return Ranking.of([ask_of(gangs, wish) for wish in world.wishes]), Places.of(slots)


def holds_of(book: Book) -> Holds:
    return Holds.of([((r,), (c,), Instant(s), Instant(e)) for r, c, s, e in book.taken])


def slots_of(ranking: Ranking, places: Places) -> list[Slot | None]:
    return [places.slot(rank, ask.duration_s) for rank, ask in enumerate(ranking.asks)]


def take(book: Book, slots: list[Slot | None]) -> None:
    """Book places, raising ``AssertionError`` where devices are given twice."""
    for slot in slots:
        if slot is not None:
            for row, count in zip(slot.rows, slot.counts, strict=True):
                assert book.free(row, slot.start, slot.end) >= count, "double booked"
                book.taken.append((row, count, slot.start, slot.end))


def nobody_can_move_alone(world: World, book: Book, slots: list[Slot | None]) -> None:
    take(book, slots)
    for wish, slot in zip(world.wishes, slots, strict=True):
        if slot is None:
            continue
        own = [(r, c, slot.start, slot.end) for r, c in zip(slot.rows, slot.counts, strict=True)]
        for each in own:
            book.taken.remove(each)
        request = a_spec(**wish.request).gpus
        soonest = earliest(request, book, wish.duration, NOW + wish.not_before, "", {})
        assert soonest == slot.start, "could move without holding anybody"
        book.taken += own


@given(worlds(), wishes(), st.integers(0, 12))
def test_an_arrival_delays_nobody_above_and_gets_what_its_rank_allows(
    world: World, new: Wish, rank: int
) -> None:
    slots, book, _ = plan_of(world)
    rank = min(rank, len(slots))
    grid = grid_of(layout(a_cluster(world.nodes)))
    gangs = Gangs(grid)
    ranking, places = columns(world, gangs, slots)

    found = repair(
        grid,
        NOW,
        holds_of(book),
        ranking.with_ask(rank, ask_of(gangs, new)),
        places.with_rank(rank),
        arrived=rank,
        effort=UNBOUNDED,
    )

    after = slots_of(ranking.with_ask(rank, ask_of(gangs, new)), found.places)
    for before, now in zip(slots[:rank], after[:rank], strict=True):
        assert (before is None) == (now is None)
        assert before is None or now is None or now.start <= before.start
    above = Book(book.rows, list(book.taken))
    take(above, slots[:rank])
    allowed = earliest(
        a_spec(**new.request).gpus, above, new.duration, NOW + new.not_before, "", {}
    )
    mine = after[rank]
    assert (mine is None) == (allowed is None)
    assert mine is None or allowed is None or mine.start <= allowed
    take(Book(book.rows, list(book.taken)), after)


@given(worlds(), st.randoms(use_true_random=False))
def test_an_end_delays_nobody_and_nobody_can_still_move_alone(world: World, random: Any) -> None:
    slots, book, _ = plan_of(world)
    if not book.taken:
        return
    gone = book.taken.pop(random.randrange(len(book.taken)))
    grid = grid_of(layout(a_cluster(world.nodes)))
    ranking, places = columns(world, Gangs(grid), slots)

    found = repair(grid, NOW, holds_of(book), ranking, places, freed=(gone[0],), effort=UNBOUNDED)

    after = slots_of(ranking, found.places)
    for before, now in zip(slots, after, strict=True):
        assert (before is None) == (now is None)
        assert before is None or now is None or now.start <= before.start
    nobody_can_move_alone(world, book, after)


@given(worlds(), wishes(), st.integers(0, 12))
def test_the_same_event_gives_the_same_places(world: World, new: Wish, rank: int) -> None:
    slots, book, _ = plan_of(world)
    rank = min(rank, len(slots))
    made = []
    for _ in range(2):
        grid = grid_of(layout(a_cluster(world.nodes)))
        gangs = Gangs(grid)
        ranking, places = columns(world, gangs, slots)
        longer = ranking.with_ask(rank, ask_of(gangs, new))
        found = repair(grid, NOW, holds_of(book), longer, places.with_rank(rank), arrived=rank)
        made.append(slots_of(longer, found.places))

    assert made[0] == made[1]
