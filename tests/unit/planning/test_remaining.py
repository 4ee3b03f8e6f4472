from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.attempt import Attempt, AttemptPhase
from reconciler.domain.job import GangSize, JobSpec
from reconciler.domain.policy import Policy
from reconciler.domain.units import Instant, Seconds
from reconciler.planning import remaining
from reconciler.planning.remaining import Moment, Span
from tests.values import NOW, a_cluster, a_spec, a_status, an_attempt, an_observation, devices_of

HOUR = 3600
WHOLE = Span(p50=Seconds(4 * HOUR), p90=Seconds(6 * HOUR))
ON = devices_of(a_cluster(), {"n1": [0]})


def ended(spec: JobSpec, *, ran: int, checkpoint_after: int | None, **changed: Any) -> Attempt:
    attempt = an_attempt(spec, ON, ran=ran, phase="preempted", now=NOW)
    begin = NOW - ran
    return replace(
        attempt,
        ended_at=NOW,
        checkpoint_at=None if checkpoint_after is None else Instant(begin + checkpoint_after),
        **changed,
    )


def size(gpus: int, p50: int, p90: int) -> GangSize:
    return GangSize(
        gpus=gpus, gpu_type="", duration_p50_s=Seconds(p50), duration_p90_s=Seconds(p90)
    )


@pytest.mark.parametrize(
    ("said", "p50", "p90"),
    [
        ({}, 4 * HOUR, 6 * HOUR),
        ({"estimate": "1h"}, HOUR, HOUR * 3 // 2),
        ({"limit": "2h"}, HOUR, 2 * HOUR),
        ({"estimate": "3h", "limit": "2h"}, 2 * HOUR, 2 * HOUR),
    ],
)
def test_without_sizes_the_document_tells(said: dict[str, str], p50: int, p90: int) -> None:
    found = remaining.total(a_spec(**said), (), Policy())

    assert (found.p50, found.p90) == (p50, p90)


def test_the_size_asked_for_counts() -> None:
    sizes = (size(4, 100, 200), size(2, 200, 400))

    assert remaining.total(a_spec(gpus=2), sizes, Policy()) == Span(
        p50=Seconds(200), p90=Seconds(400)
    )


def test_p90_is_never_below_p50() -> None:
    assert remaining.total(a_spec(gpus=1), (size(1, 200, 100),), Policy()).p90 == 200


def test_what_was_saved_is_taken_off() -> None:
    spec = a_spec()
    status = a_status(
        spec,
        ran_s=Seconds(2 * HOUR),
        attempts=(ended(spec, ran=2 * HOUR, checkpoint_after=HOUR),),
    )

    assert remaining.saved(status) == HOUR
    assert remaining.of_pending(status, spec, WHOLE).p50 == 3 * HOUR


def test_an_attempt_without_a_checkpoint_saved_nothing() -> None:
    spec = a_spec()
    status = a_status(
        spec,
        ran_s=Seconds(2 * HOUR),
        attempts=(ended(spec, ran=2 * HOUR, checkpoint_after=None),),
    )

    assert remaining.of_pending(status, spec, WHOLE) == WHOLE


def test_known_steps_tell_the_share_that_is_done() -> None:
    spec = a_spec(max_steps=1000)
    status = a_status(
        spec, attempts=(ended(spec, ran=HOUR, checkpoint_after=HOUR, checkpoint_step=750),)
    )

    assert remaining.of_pending(status, spec, WHOLE).p50 == HOUR


def test_a_running_job_needs_its_estimate_less_what_it_ran() -> None:
    spec = a_spec()
    attempt = an_attempt(spec, ON, ran="1h")

    left = remaining.of_live(a_status(spec), attempt, None, WHOLE, now=NOW)

    assert (left.p50, left.p90) == (3 * HOUR, 5 * HOUR)


@pytest.mark.parametrize(("ran", "left_s"), [("5h", HOUR // 2), ("4h", HOUR * 4 // 10)])
def test_past_its_estimate_a_tenth_of_what_it_ran_is_left(ran: str, left_s: int) -> None:
    spec = a_spec()
    attempt = an_attempt(spec, ON, ran=ran)

    assert remaining.of_live(a_status(spec), attempt, None, WHOLE, now=NOW).p50 == left_s


def test_past_a_short_estimate_at_least_a_minute_is_left() -> None:
    spec = a_spec()
    whole = Span(p50=Seconds(30), p90=Seconds(30))

    left = remaining.of_live(a_status(spec), an_attempt(spec, ON, ran="2m"), None, whole, now=NOW)

    assert left.p50 == 60


def test_steps_seen_are_measured_by_their_own_speed() -> None:
    spec = a_spec()
    attempt = an_attempt(spec, ON, ran="1h")
    seen = an_observation(attempt, step=100, total_steps=300)

    left = remaining.of_live(a_status(spec), attempt, seen, WHOLE, now=NOW)

    assert (left.p50, left.p90) == (2 * HOUR, 3 * HOUR)


def test_steps_of_earlier_attempts_are_not_its_own() -> None:
    spec = a_spec()
    earlier = replace(
        an_attempt(spec, ON, number=1), phase=AttemptPhase.PREEMPTED, checkpoint_step=100
    )
    attempt = an_attempt(spec, ON, number=2, ran="1h")
    seen = an_observation(attempt, step=200, total_steps=300)
    status = a_status(spec, attempts=(earlier, attempt))

    assert remaining.of_live(status, attempt, seen, WHOLE, now=NOW).p50 == HOUR


def test_the_first_minute_is_no_measure() -> None:
    spec = a_spec()
    attempt = an_attempt(spec, ON, ran="30s")
    seen = an_observation(attempt, step=1, total_steps=4)

    assert remaining.of_live(a_status(spec), attempt, seen, WHOLE, now=NOW).p50 == 3 * HOUR


def test_all_steps_done_is_nearly_over() -> None:
    spec = a_spec()
    attempt = an_attempt(spec, ON, ran="1h")
    seen = an_observation(attempt, step=300, total_steps=300)

    assert remaining.of_live(a_status(spec), attempt, seen, WHOLE, now=NOW).p50 == 1


def test_late_means_p90() -> None:
    assert WHOLE.at(is_late=True) == WHOLE.p90
    assert WHOLE.at(is_late=False) == WHOLE.p50
    assert Moment(p50=Instant(1), p90=Instant(2)).at(is_late=True) == 2
