"""What a trace does not tell is made up by hash: the same anywhere, and as it is documented."""

from hashlib import sha256

import pytest

from reconciler.simulate.asks import Estimates, Overlay, asks, class_of, rounded
from reconciler.simulate.chance import uniform, zipf
from reconciler.simulate.costs import Costs
from reconciler.simulate.load import LoadError, TraceJob

MANY = tuple(
    TraceJob(id=f"j{number}", submit_s=number, duration_s=1000 + number, gpus=1 + number % 16)
    for number in range(4000)
)


def test_chance_is_the_documented_hash() -> None:
    digits = sha256(b"3:limit:c04-7").hexdigest()[:13]
    assert uniform(3, "limit", "c04-7") == int(digits, 16) / 16**13


def test_a_window_of_a_load_gets_what_the_whole_load_gets() -> None:
    whole = asks(MANY, overlay=Overlay.FULL, estimates=Estimates.E2, seed=2)
    part = asks(MANY[100:200], overlay=Overlay.FULL, estimates=Estimates.E2, seed=2)
    assert whole[100:200] == part


def test_the_overlay_has_the_documented_shares() -> None:
    found = asks(MANY, overlay=Overlay.FULL, seed=1)
    shares = [sum(ask.priority == level for ask in found) / len(found) for level in range(4)]
    assert shares == pytest.approx([0.05, 0.15, 0.60, 0.20], abs=0.02)
    assert not any(ask.preemptible for ask in found if ask.priority < 2)
    assert all(ask.preemptible for ask in found if ask.priority == 3)
    normal = [ask.preemptible for ask in found if ask.priority == 2]
    assert sum(normal) / len(normal) == pytest.approx(0.8, abs=0.03)
    due = [ask for ask in found if ask.deadline_s is not None]
    assert len(due) / len(found) == pytest.approx(0.2, abs=0.02)
    assert all(
        ask.submit_s + 1.2 * ask.duration_s
        <= (ask.deadline_s or 0)
        <= ask.submit_s + 6.1 * ask.duration_s
        for ask in due
    )


def test_a_bare_load_is_all_of_one_class() -> None:
    found = asks(MANY)
    assert {(ask.priority, ask.preemptible, ask.deadline_s) for ask in found} == {(2, True, None)}


def test_estimates_tell_what_their_name_says() -> None:
    job = (MANY[0],)
    told = {kind: asks(job, estimates=kind)[0] for kind in Estimates}
    assert (told[Estimates.E0].limit_s, told[Estimates.E0].prediction_s) == (1000, 1000)
    assert (told[Estimates.E3].limit_s, told[Estimates.E3].prediction_s) == (None, None)
    assert told[Estimates.F4].prediction_s is None
    assert 1000 <= (told[Estimates.F4].limit_s or 0) <= 5000
    assert told[Estimates.E1].limit_s == rounded(told[Estimates.F4].limit_s or 0)
    assert told[Estimates.E2].limit_s == told[Estimates.E1].limit_s
    assert told[Estimates.E2].prediction_s is not None


def test_a_limit_is_never_below_the_duration() -> None:
    long = (TraceJob(id="long", submit_s=0, duration_s=40 * 86400, gpus=1),)
    for kind in (Estimates.E1, Estimates.E2, Estimates.F4):
        assert (asks(long, estimates=kind)[0].limit_s or 0) >= 40 * 86400


def test_classes_and_ranks_cover_their_range() -> None:
    assert [class_of(u) for u in (0.0, 0.049, 0.05, 0.199, 0.2, 0.799, 0.8, 0.999)] == [
        *(0, 0, 1, 1, 2, 2, 3, 3)
    ]
    assert [zipf(u, 2) for u in (0.0, 0.6, 0.7, 0.999)] == [0, 0, 1, 1]


def test_costs_are_a_multiple_or_flat() -> None:
    assert (Costs.parse("1").save(2), Costs.parse("1").restore(2)) == (22, 64)
    assert (Costs.parse("0.5").save(2), Costs.parse("5").restore(2)) == (11, 320)
    assert (Costs.parse("60s").save(9), Costs.parse("60s").restore(9)) == (0, 60)
    with pytest.raises(LoadError, match="flat as 60s"):
        Costs.parse("a lot")
