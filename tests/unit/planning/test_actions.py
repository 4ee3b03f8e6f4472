from typing import Any

import pytest

from reconciler.domain.attempt import StopCause
from reconciler.domain.plan import Action, Kill, Launch, Stop
from reconciler.planning.plan import plan
from tests.builders import a_snapshot


def asked(**given: Any) -> tuple[Action, ...]:
    return plan(a_snapshot(**given))[0].actions


def kinds(actions: tuple[Action, ...]) -> list[str]:
    return [f"{type(a).__name__} {a.job.split('/')[1]}".lower() for a in actions]


def test_a_start_is_a_launch() -> None:
    actions = asked(pending={"job": {}})

    assert kinds(actions) == ["launch job"]
    assert actions[0].attempt.startswith("research.job-g1-a1-")


@pytest.mark.parametrize(
    ("job", "cause"),
    [
        ({"suspend": True}, StopCause.SUSPEND),
        ({"limit": "1h", "ran": "1h"}, StopCause.TIME_LIMIT),
        ({"file": "gone", "absent_for": "1h"}, StopCause.CANCEL),
        ({"resubmitted": True}, StopCause.CANCEL),
    ],
)
def test_what_is_asked_to_leave_is_stopped_with_its_cause(
    job: dict[str, Any], cause: StopCause
) -> None:
    actions = asked(running={"job": job, "other": {}, "third": {}})

    assert [(a.cause, a.grace_s) for a in actions if isinstance(a, Stop)] == [(cause, 120)]
    assert len(actions) == 1


def test_the_grace_is_the_one_the_attempt_began_with() -> None:
    """A deleted file cannot tell its grace any more."""
    actions = asked(
        running={"job": {"file": "gone", "absent_for": "1h", "grace": "9m"}, "other": {}}
    )

    assert [a.grace_s for a in actions if isinstance(a, Stop)] == [540]


def test_a_stop_is_asked_again_while_the_attempt_runs() -> None:
    assert kinds(asked(running={"job": {"cause": "suspend", "suspend": True}})) == ["stop job"]


def test_a_stop_is_not_asked_of_a_launcher_that_does_not_answer() -> None:
    stopping = {"cause": "suspend", "suspend": True, "seen": "unknown"}

    assert asked(running={"job": stopping}) == ()


def test_what_outlives_its_grace_is_killed() -> None:
    overdue = {"cause": "suspend", "suspend": True, "asked_ago": "3m"}
    actions = asked(running={"job": overdue})

    assert [type(action) for action in actions] == [Kill]


def test_a_launch_is_asked_again_only_while_history_is_whole() -> None:
    intended = {"attempt_phase": "launching", "seen": "absent"}

    assert [type(a) for a in asked(running={"job": intended})] == [Launch]
    assert asked(running={"job": intended}, rewritten=True) == ()


def test_what_ends_something_is_asked_first() -> None:
    actions = asked(nodes={"n1": 8}, running={"z": {"suspend": True}}, pending={"a": {}, "b": {}})

    assert kinds(actions) == ["stop z", "launch a", "launch b"]
