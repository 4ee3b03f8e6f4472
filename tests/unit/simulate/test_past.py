"""The past again under another policy: the same jobs, the same work, other places in line."""

from reconciler.domain.policy import Order
from reconciler.domain.units import JobId, Seconds, TeamName
from reconciler.simulate.past import Fleet, PastJob, fared, moved, side
from tests.values import NOW, a_cluster, a_policy, a_spec, a_team

FLEET = Fleet(
    cluster=a_cluster({"n1": 8}), teams={TeamName("research"): a_team("research")}, budgets={}
)


def past_job(name: str, after_s: int, work_s: int, **said: object) -> PastJob:
    return PastJob(
        spec=a_spec(name, gpus=8, preemptible=False, **said),  # type: ignore[arg-type]
        submitted_at=NOW + after_s,  # type: ignore[arg-type]
        work_s=Seconds(work_s),
    )


PAST = (
    past_job("first", 0, 3600, estimate="1h"),
    past_job("long", 60, 36_000, estimate="10h", serves_online=True),
    past_job("short", 120, 600, estimate="10m"),
)


def test_the_same_past_has_other_winners_under_other_weights() -> None:
    online = {"priority_class": 0, "deadline": 0, "serves_online": 1, "model_heat": 0, "brevity": 0}
    brief = {"priority_class": 0, "deadline": 0, "serves_online": 0, "model_heat": 0, "brevity": 1}
    before = fared(PAST, FLEET, a_policy(order=Order.SCORE, weights=online))
    after = fared(PAST, FLEET, a_policy(order=Order.SCORE, weights=brief))

    changes = dict(moved(before, after))

    assert changes[JobId("research/short")] < -35_000, "it no longer waits for the long one"
    assert 0 < changes[JobId("research/long")] < 700
    assert JobId("research/first") not in changes
    assert side(after.values()).wait_mean_s < side(before.values()).wait_mean_s
    assert side(after.values()).unfinished == 0


def test_one_policy_twice_gives_one_answer() -> None:
    policy = a_policy(order=Order.SCORE)
    assert moved(fared(PAST, FLEET, policy), fared(PAST, FLEET, policy)) == ()


def test_a_job_that_fits_nowhere_stays_without_an_end() -> None:
    huge = (past_job("huge", 0, 60, estimate="1m"),)
    small = Fleet(cluster=a_cluster({"n1": 4}), teams=FLEET.teams, budgets={})

    result = fared(huge, small, a_policy(order=Order.SCORE))

    assert side(result.values()).unfinished == 1
    assert result[JobId("research/huge")].wait_s is None


def test_an_empty_past_is_no_error() -> None:
    assert fared((), FLEET, a_policy()) == {}
    assert side(()).wait_mean_s == 0.0
