from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.attempt import AttemptPhase
from reconciler.domain.policy import RetryPolicy
from reconciler.domain.reason import Reason
from reconciler.domain.units import Instant, Seconds
from reconciler.planning.retry import After, after_attempt, backoff_end
from tests.values import NOW, a_cluster, a_spec, a_status, an_attempt, devices_of

ON = devices_of(a_cluster(), {"n1": [0]})
POLICY = RetryPolicy(max_tries=3, backoff_s=Seconds(30), max_lost=2)


def after(phase: str, reason: str, *, spec: dict[str, Any] | None = None, **status: Any) -> After:
    made = a_spec(**(spec or {}))
    ended = replace(
        an_attempt(made, ON, ran="1h"),
        phase=AttemptPhase(phase),
        reason=Reason(reason),
        ended_at=NOW,
    )
    return after_attempt(a_status(made, **status), ended, made, policy=POLICY, now=NOW)


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        ("succeeded", "completed"),
        ("diverged", "non_finite_loss"),
        ("cancelled", "file_deleted"),
    ],
)
def test_some_ends_are_final(phase: str, reason: str) -> None:
    found = after(phase, reason)

    assert (found.phase.value, found.tries_used, found.lost) == (phase, 0, 0)


def test_a_failure_uses_a_try_and_waits() -> None:
    found = after("failed", "command_failed")

    assert (found.phase.value, found.tries_used, found.retry_at) == ("pending", 1, NOW + 30)


def test_the_last_failure_is_final() -> None:
    found = after("failed", "command_failed", tries_used=2)

    assert (found.phase.value, found.tries_used, found.retry_at) == ("failed", 3, None)


def test_the_pause_doubles() -> None:
    ends = [backoff_end(tries, POLICY, Instant(0)) for tries in (1, 2, 3, 4)]

    assert ends == [30, 60, 120, 240]


def test_a_loss_uses_no_try() -> None:
    found = after("lost", "attempt_lost")

    assert (found.phase.value, found.tries_used, found.lost) == ("pending", 0, 1)


def test_too_many_losses_hold_the_job() -> None:
    found = after("lost", "attempt_lost", lost=2)

    assert (found.phase.value, found.reason) == ("held", Reason.LOST_TOO_OFTEN)


def test_the_last_loss_allowed_does_not() -> None:
    assert after("lost", "attempt_lost", lost=1).phase.value == "pending"


@pytest.mark.parametrize("reason", ["freed_for_preemptor", "node_draining", "suspend_asked"])
def test_a_preempted_job_is_pending_and_pays_nothing(reason: str) -> None:
    found = after("preempted", reason)

    assert (found.phase.value, found.tries_used, found.lost) == ("pending", 0, 0)


def test_a_preempted_job_that_says_suspend_is_suspended() -> None:
    found = after("preempted", "freed_for_preemptor", spec={"suspend": True})

    assert (found.phase.value, found.reason) == ("suspended", Reason.SUSPEND_ASKED)


def test_the_time_limit_is_final_whatever_tries_are_left() -> None:
    assert after("failed", "time_limit").phase.value == "failed"


@pytest.mark.parametrize(
    ("phase", "reason"), [("preempted", "node_draining"), ("failed", "command_failed")]
)
def test_a_job_that_ran_to_its_limit_does_not_run_again(phase: str, reason: str) -> None:
    found = after(phase, reason, spec={"limit": "2h"}, ran_s=Seconds(3600))

    assert (found.phase.value, found.reason) == ("failed", Reason.TIME_LIMIT)


def test_success_at_the_limit_is_success() -> None:
    found = after("succeeded", "completed", spec={"limit": "1h"})

    assert found.phase.value == "succeeded"
