from itertools import pairwise
from pathlib import Path

import pytest

from reconciler.domain.units import Seconds
from reconciler.errors import BackendError, DeposedError, GitError
from reconciler.specs.serialize import LeaseRecord
from reconciler.store import lease
from reconciler.store.lease import Lease, holder_id
from tests.git_worlds import Reconciler, Remote, a_status, run_git

LEASE_REF = "refs/headway/lease/laptop"


def beat_of(remote: Remote) -> str:
    return run_git(remote.path, "for-each-ref", "--format=%(objectname)", LEASE_REF)


def test_the_first_reconciler_makes_the_branch_with_epoch_one(remote: Remote) -> None:
    first = Reconciler(remote)

    assert first.acquire() == 1

    tip = first.store.seen()
    assert tip == remote.tip("status/laptop")
    assert first.store.read(tip).lease == LeaseRecord(epoch=1, holder="r1")
    assert run_git(remote.path, "log", "--format=%s|%P", "status/laptop") == (
        "lease: epoch 1 taken by r1|"
    )
    assert run_git(remote.path, "log", "--format=%P", beat_of(remote)) == "", "a beat has no parent"


def test_a_second_reconciler_is_told_who_holds_the_lease_and_since_when(remote: Remote) -> None:
    Reconciler(remote, "r1").acquire()
    second = Reconciler(remote, "r2")

    with pytest.raises(DeposedError) as error:
        second.acquire()

    said = str(error.value)
    assert "held by r1 (epoch 1, taken at 2026-09-21T14:13:20Z)" in said
    assert "takes over after 60 s" in said
    assert error.value.exit_code == 75
    with pytest.raises(DeposedError):
        second.record(a_status())


def test_a_standby_takes_over_after_two_leases_without_a_beat(remote: Remote) -> None:
    first, standby = Reconciler(remote, "r1"), Reconciler(remote, "r2")
    first.acquire()
    for standby.monotonic_s in (100.0, 110.0, 159.9):
        with pytest.raises(DeposedError):
            standby.acquire()

    standby.monotonic_s = 160.0
    assert standby.acquire() == 2

    standby.record(a_status())
    assert not first.lease.is_fresh(60.0)
    with pytest.raises(DeposedError, match=r"deposed by r2 \(epoch 2\)"):
        first.lease.beat(60.0)
    with pytest.raises(DeposedError, match="does not hold"):
        first.lease.beat(61.0)
    assert not first.lease.is_fresh(0.0)


def test_a_beat_seen_moving_starts_the_wait_again(remote: Remote) -> None:
    first, standby = Reconciler(remote, "r1"), Reconciler(remote, "r2")
    first.acquire()
    with pytest.raises(DeposedError):
        standby.acquire()
    standby.monotonic_s = 59.0
    first.lease.beat(10.0)
    with pytest.raises(DeposedError):
        standby.acquire()

    standby.monotonic_s = 118.0
    with pytest.raises(DeposedError, match="not moved for 59 s"):
        standby.acquire()
    standby.monotonic_s = 119.0
    assert standby.acquire() == 2


def test_a_beat_at_the_last_moment_keeps_the_lease(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder beats after the standby has looked and before it pushes."""
    first, standby = Reconciler(remote, "r1"), Reconciler(remote, "r2")
    first.acquire()
    with pytest.raises(DeposedError):
        standby.acquire()
    standby.monotonic_s = 60.0
    land = standby.store.land

    def beaten(*args: object, **more: object) -> object:
        first.lease.beat(10.0)
        return land(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(standby.store, "land", beaten)
    with pytest.raises(DeposedError, match="not moved for 0 s"):
        standby.acquire()

    first.lease.beat(20.0)
    first.record(a_status())
    assert standby.store.held is None


def test_a_clean_exit_hands_over_at_once(remote: Remote) -> None:
    first, second = Reconciler(remote, "r1"), Reconciler(remote, "r2")
    first.acquire()
    first.lease.release()

    assert beat_of(remote) == ""
    assert second.acquire() == 2
    with pytest.raises(DeposedError):
        first.record(a_status())
    first.lease.release()  # a second release does nothing
    assert beat_of(remote) != ""


def test_releasing_a_lost_lease_leaves_the_new_holder_alone(remote: Remote) -> None:
    first, second = Reconciler(remote, "r1"), Reconciler(remote, "r2", holder="r1")
    first.acquire()
    second.acquire()
    beat = beat_of(remote)

    first.lease.release()

    assert beat_of(remote) == beat


def test_a_crashed_holder_with_the_same_state_folder_comes_back_at_once(remote: Remote) -> None:
    Reconciler(remote, "r1").acquire()

    again = Reconciler(remote, "r1")

    assert again.acquire() == 2
    again.record(a_status())


def test_beats_follow_a_ring_so_that_no_garbage_grows(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RING", 5)
    holder = Reconciler(remote)
    holder.acquire()
    seen = [beat_of(remote)]
    for number in range(1, 8):
        holder.lease.beat(number * 10.0)
        seen.append(beat_of(remote))

    assert all(before != after for before, after in pairwise(seen))
    assert len(set(seen)) == 5


def test_a_beat_ref_deleted_by_hand_is_made_again(remote: Remote) -> None:
    holder = Reconciler(remote)
    holder.acquire()
    run_git(remote.path, "update-ref", "-d", LEASE_REF)

    holder.lease.beat(10.0)

    assert beat_of(remote) != ""
    assert holder.lease.is_fresh(39.0)


def test_a_holder_that_cannot_beat_stops_acting_before_a_standby_may_start(
    remote: Remote,
) -> None:
    holder, standby = Reconciler(remote, "r1"), Reconciler(remote, "r2")
    holder.acquire()
    with pytest.raises(DeposedError):
        standby.acquire()
    away = remote.path.rename(remote.path.with_suffix(".away"))

    with pytest.raises(GitError) as error:
        holder.lease.beat(10.0)
    assert error.value.retryable
    assert holder.lease.is_fresh(29.0)
    assert not holder.lease.is_fresh(30.0)

    away.rename(remote.path)
    standby.monotonic_s = 59.0
    with pytest.raises(DeposedError):
        standby.acquire()
    holder.lease.beat(59.0)
    assert holder.lease.is_fresh(60.0)


def test_a_beat_is_due_every_third_of_the_lease(remote: Remote) -> None:
    holder = Reconciler(remote, lease_s=30)
    holder.acquire()

    assert [holder.lease.is_due(at) for at in (0.0, 9.9, 10.0, 25.0)] == [False, False, True, True]


def test_a_branch_that_cannot_be_trusted_is_not_taken_over(remote: Remote) -> None:
    holder = Reconciler(remote, "r1")
    holder.acquire()
    holder.record(a_status())
    remote.commit({"status/x/y.json": b"{}"}, branch="status/laptop")

    with pytest.raises(BackendError, match="did not write"):
        Reconciler(remote, "r2").acquire()


def test_a_holder_keeps_its_id_in_its_state_folder(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()

    assert holder_id(one) == holder_id(one)
    assert holder_id(one) != holder_id(other)
    (one / "holder").write_text("two\nlines\n", encoding="utf-8")
    assert holder_id(one) != "two\nlines"


def test_a_holder_that_could_forge_a_message_is_refused(remote: Remote) -> None:
    store = Reconciler(remote).store

    for holder in ("", "a b", "a\nHeadway-Epoch: 9", "-x"):
        with pytest.raises(BackendError, match="cannot name a holder"):
            Lease(store, holder=holder, lease_s=Seconds(30))
