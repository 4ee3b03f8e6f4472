"""The lease beats beside the cycles, and says when it is lost."""

import io
import threading

import pytest

from reconciler.domain.units import Instant
from reconciler.engine.lease_keeper import LeaseKeeper
from reconciler.engine.logging import Log
from reconciler.errors import BackendError, DeposedError, GitError


class FakeLease:
    """Answers each beat with the next of ``answers``; a None is a good beat."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.beats = 0
        self.fresh = True
        self.released = 0
        self.beaten = threading.Event()

    def beat(self, monotonic_s: float) -> None:
        self.beats += 1
        answer = self.answers.pop(0) if self.answers else None
        if not self.answers:
            self.beaten.set()
        if answer is not None:
            raise answer

    def is_fresh(self, monotonic_s: float) -> bool:
        return self.fresh

    def release(self) -> None:
        self.released += 1


class Kept:
    def __init__(self, lease: FakeLease) -> None:
        self.lost = threading.Event()
        self.written = io.StringIO()
        self.keeper = LeaseKeeper(
            lease,
            every_s=0.001,
            monotonic_s=lambda: 0.0,
            log=Log(lambda: Instant(0), self.written),
            on_lost=self.lost.set,
        )
        self.keeper.start()


def test_a_lost_lease_stops_acting_and_is_not_given_back() -> None:
    lease = FakeLease(None, DeposedError("epoch 1 was deposed by b (epoch 2)"))
    kept = Kept(lease)

    assert kept.lost.wait(5)
    with pytest.raises(DeposedError, match="deposed by b"):
        kept.keeper.check()
    kept.keeper.release()
    assert (lease.beats, lease.released) == (2, 0)


def test_a_silent_remote_is_asked_again_and_nothing_is_lost() -> None:
    lease = FakeLease(GitError("no answer"), None, None)
    kept = Kept(lease)

    assert lease.beaten.wait(5)
    kept.keeper.check()
    kept.keeper.release()
    assert "lease-renewal-failed" in kept.written.getvalue()
    assert lease.released == 1


def test_nothing_is_acted_on_while_the_lease_is_doubtful() -> None:
    lease = FakeLease(None)
    lease.fresh = False
    kept = Kept(lease)

    with pytest.raises(BackendError, match="could not be renewed in time"):
        kept.keeper.check()
    kept.keeper.stop()
