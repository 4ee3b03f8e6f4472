"""What every history of a status branch must hold, whatever happened to its writers."""

from collections import Counter

from reconciler.domain.status import JobStatus
from reconciler.domain.units import JobId
from reconciler.planning.lifecycle import LEGAL, LEGAL_ATTEMPTS
from reconciler.store.status_tree import StatusTree
from tests.live_fleets import Fleet


def assert_legal(history: list[StatusTree]) -> None:
    """Fail where a job or an attempt changed its phase in a way that no table allows."""
    before: dict[JobId, JobStatus] = {}
    for tree in history:
        for job, status in tree.statuses.items():
            old = before.get(job)
            phase = old.phase if old else None
            assert status.phase in LEGAL[phase], (
                f"{job}: {phase} -> {status.phase} at {tree.commit}"
            )
            known = {each.id: each.phase for each in old.attempts} if old else {}
            for each in status.attempts:
                was = known.get(each.id)
                if was is not each.phase:
                    assert each.phase in LEGAL_ATTEMPTS[was], f"{each.id}: {was} -> {each.phase}"
            assert sum(each.phase.is_live for each in status.attempts) <= 1
        before = dict(tree.statuses)


def assert_each_ran_once(fleet: Fleet) -> None:
    """Fail where an attempt really ran twice, or ran without an intent on the branch."""
    ran = Counter(fleet.started())
    assert {attempt: times for attempt, times in ran.items() if times > 1} == {}
    intended = {
        attempt.id
        for tree in fleet.history()
        for status in tree.statuses.values()
        for attempt in status.attempts
    }
    assert set(ran) <= intended
