from dataclasses import replace

from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Digest
from reconciler.planning.digest import is_change, plan_digest
from reconciler.planning.plan import plan
from tests.builders import a_snapshot
from tests.values import a_job_id

QUIET = {"running": {"runs": {"gpus": 8}}, "pending": {"waits": {"reason": "gpus_busy"}}}


def digest(snapshot: Snapshot) -> Digest:
    return plan(snapshot)[0].digest


def test_nothing_to_do_has_the_digest_of_nothing() -> None:
    assert digest(a_snapshot(**QUIET)) == plan_digest({}, (), {})


def test_a_decision_changes_the_digest() -> None:
    assert digest(a_snapshot(pending={"job": {}})) != plan_digest({}, (), {})


def test_the_same_decision_has_the_same_digest() -> None:
    assert digest(a_snapshot(pending={"job": {}})) == digest(a_snapshot(pending={"job": {}}))


def test_the_digest_is_pinned() -> None:
    """A change here means that recorded decisions no longer re-derive: raise the version."""
    assert plan_digest({}, (), {}) == (
        "sha256:d11be3b12fbf5c69030d9d99fb9fcf36b35419d56b8c1c76dc504b258dd3fa4d"
    )


def test_ranks_and_scores_are_not_in_the_digest() -> None:
    snapshot = a_snapshot(pending={"job": {}})
    planned, _ = plan(snapshot)
    renamed = {job: replace(d, rank=99, score=0.1) for job, d in planned.decisions.items()}

    assert plan_digest(renamed, planned.actions, snapshot.statuses) == planned.digest


def test_where_a_gang_goes_is_in_the_digest() -> None:
    one = a_snapshot(nodes={"n1": 8, "n2": {"gpus": 8, "state": "down"}}, pending={"job": {}})
    other = a_snapshot(nodes={"n2": 8, "n1": {"gpus": 8, "state": "down"}}, pending={"job": {}})

    assert digest(one) != digest(other)


def test_a_wait_is_a_change_until_it_is_recorded() -> None:
    snapshot = a_snapshot(**QUIET)
    job = a_job_id("waits")
    decision = plan(snapshot)[0].decisions[job]
    recorded = snapshot.statuses[job]

    assert not is_change(decision, recorded)
    assert is_change(decision, None)
    assert is_change(replace(decision, detail="x"), None)
    assert is_change(decision, replace(recorded, reason=decision.reason.__class__("preempting")))
