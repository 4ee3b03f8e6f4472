from random import Random

import pytest

from reconciler.domain.units import Instant, Seconds
from reconciler.planning.capacity import profile as profiles
from reconciler.planning.capacity.cold import Ask, plan_everybody
from reconciler.planning.capacity.profile import Profile, limits_of
from reconciler.planning.capacity.timeline import FOREVER
from tests.unit.planning.capacity.small import a_gang, a_state
from tests.values import NOW


def test_what_is_spent_is_not_free_meanwhile() -> None:
    quota = Profile(10, 0)
    quota.spend(5, 15, 4)
    quota.spend(10, 20, 6)

    assert [quota.free_at(t) for t in (0, 5, 10, 15, 20)] == [10, 6, 0, 4, 10]
    assert quota.next_fit(0, 5, 10) == 0
    assert quota.next_fit(0, 5, 11) == 20
    assert quota.next_fit(6, 4, 10) == 15
    assert quota.next_fit(99, 10, 10) == 99


def test_more_than_there_ever_is_fits_at_no_time() -> None:
    quota = Profile(10, 0)

    assert quota.next_fit(0, 11, 5) == FOREVER
    quota.spend(0, FOREVER - 1, 10)
    assert quota.next_fit(0, 1, 5) == FOREVER - 1


def test_a_profile_of_a_thousand_steps_is_searched_right() -> None:
    random = Random(3)
    quota, spent = Profile(50, 0), []
    for _ in range(500):
        start, amount = random.randrange(5_000), random.randrange(1, 4)
        if quota.next_fit(start, amount, 300) == start:
            quota.spend(start, start + 300, amount)
            spent.append((start, amount))
    instants = sorted({0, *(s for s, _ in spent), *(s + 300 for s, _ in spent)})

    def free(at: int) -> int:
        return 50 - sum(amount for start, amount in spent if start <= at < start + 300)

    for since in (0, 777, 2345, 4999):
        plain = next(
            t
            for t in [since, *(t for t in instants if t > since)]
            if all(free(at) >= 9 for at in [t, *(x for x in instants if t < x < t + 500)])
        )
        assert quota.next_fit(since, 9, 500) == plain


def test_a_quota_of_one_type_and_one_of_all_hold_together() -> None:
    nodes = {"n1": {"gpu_type": "A100-80GB"}, "n2": {"gpu_type": "H100-80GB"}}
    state = a_state(nodes)
    limits = limits_of({"*": 10, "A100-80GB": 4}, state.grid.types, NOW)
    any_type = Ask(a_gang(state, 4), Seconds(10), limits=limits)
    a100 = Ask(a_gang(state, 4, types=("A100-80GB",)), Seconds(10), limits=limits)

    found = plan_everybody(state, [a100, a100, any_type, any_type])

    assert [slot and slot.start - NOW for slot in found] == [0, 10, 0, 10]


def test_teams_of_one_cohort_count_in_one_profile() -> None:
    state = a_state({"n1": 8})
    cohort = Profile(6, NOW)
    teams = [limits_of({}, state.grid.types, NOW, shared=[cohort]) for _ in range(2)]
    asks = [Ask(a_gang(state, 4), Seconds(10), limits=each) for each in teams]

    found = plan_everybody(state, asks)

    assert [slot and slot.start - NOW for slot in found] == [0, 10]


def test_a_gang_above_its_quota_has_no_place_and_stops_nobody() -> None:
    state = a_state({"n1": 8})
    limits = limits_of({"*": 4}, state.grid.types, NOW)
    asks = [Ask(a_gang(state, n), Seconds(10), limits=limits) for n in (5, 4)]

    found = plan_everybody(state, asks)

    assert found[0] is None
    assert found[1] is not None


def test_what_was_refused_once_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A binding quota asks a few searches a gang, not one for every end before its turn."""
    state = a_state({f"n{i}": 8 for i in range(8)})
    limits = limits_of({"*": 4}, state.grid.types, NOW)
    gang, searches = a_gang(state, 4), []
    plain = profiles.find

    def counted(*given: object) -> object:
        searches.append(given)
        return plain(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(profiles, "find", counted)
    found = plan_everybody(state, [Ask(gang, Seconds(10), limits=limits)] * 200)

    assert [slot and slot.start - NOW for slot in found] == list(range(0, 2000, 10))
    assert len(searches) <= 2 * 200


def test_not_before_is_kept_beside_a_quota() -> None:
    state = a_state({"n1": 8})
    limits = limits_of({"*": 4}, state.grid.types, NOW)
    gang = a_gang(state, 4)

    found = plan_everybody(
        state,
        [
            Ask(gang, Seconds(10), Instant(NOW + 25), limits),
            Ask(gang, Seconds(10), limits=limits),
            Ask(gang, Seconds(20), limits=limits),
        ],
    )

    assert [slot and slot.start - NOW for slot in found] == [25, 0, 35]
