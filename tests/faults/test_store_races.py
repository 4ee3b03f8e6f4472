"""Several writers and one branch: exactly one wins each step, and nobody's update is lost."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.domain.status import JobPhase
from reconciler.errors import DeposedError, StaleRevisionError
from tests.git_worlds import Reconciler, Remote, a_status, run_git


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path / "remote.git")


def at_once(*calls: Callable[[], None]) -> None:
    """Run all calls in threads that start together; raise what any of them raised."""
    barrier = threading.Barrier(len(calls))
    failures: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        barrier.wait()
        try:
            call()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def race(remote: Remote, writers: int, each: int) -> int:
    """Let writers of one epoch push against each other; return how many pushes lost.

    One epoch shared by several writers cannot happen in a fleet; it leaves the compare-and-swap
    alone to decide.
    """
    first = Reconciler(remote, "w0")
    first.acquire()
    others = [Reconciler(remote, f"w{number}") for number in range(1, writers)]
    for other in others:
        other.store.held = first.store.held
        other.lease.epoch = 1
    everyone = [first, *others]

    def write(number: int) -> None:
        writer = everyone[number]
        for count in range(each):
            while True:
                writer.store.fetch()
                try:
                    writer.record(a_status(f"team-{number}/job-{count}", JobPhase.RUNNING))
                    break
                except StaleRevisionError:
                    continue  # plan again on what the winner wrote

    at_once(*[lambda number=number: write(number) for number in range(writers)])  # type: ignore[misc]
    return sum(writer.store.conflicts for writer in everyone)


@pytest.mark.parametrize(
    ("writers", "each"),
    [
        (2, 8),
        pytest.param(2, 50, marks=pytest.mark.slow),
        pytest.param(20, 4, marks=pytest.mark.slow),
    ],
)
def test_no_update_is_lost_and_none_lands_twice(remote: Remote, writers: int, each: int) -> None:
    race(remote, writers, each)

    reader = Reconciler(remote, "reader")
    tip = reader.store.fetch()
    assert tip is not None
    assert len(reader.store.read(tip).statuses) == writers * each
    log = run_git(remote.path, "log", "--format=%H %P", "status/laptop").splitlines()
    assert len(log) == 1 + writers * each, "one commit an update, and the first that took the lease"
    assert all(len(line.split()) <= 2 for line in log), "a line, no merges"
    assert run_git(remote.path, "fsck", "--strict", "--no-dangling") == ""


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_of_two_reconcilers_started_together_exactly_one_acts(tmp_path: Path, rounds: int) -> None:
    for number in range(rounds):
        remote = Remote(tmp_path / str(number) / "remote.git")
        pair = [Reconciler(remote, name) for name in ("r1", "r2")]
        refused: list[DeposedError] = []

        def start(reconciler: Reconciler, refused: list[DeposedError] = refused) -> None:
            try:
                reconciler.acquire()
                reconciler.record(a_status(f"team/{reconciler.lease.holder}"))
            except DeposedError as error:
                refused.append(error)

        at_once(*[lambda each=each: start(each) for each in pair])  # type: ignore[misc]

        assert len(refused) == 1
        (winner,) = [each for each in pair if each.store.held is not None]
        tip = winner.store.fetch()
        assert tip is not None
        assert list(winner.store.read(tip).statuses) == [f"team/{winner.lease.holder}"]


@pytest.mark.parametrize("round_", range(4))
def test_a_standby_and_a_waking_holder_never_both_write(remote: Remote, round_: int) -> None:
    """The holder slept through its lease and wakes while the standby takes over."""
    holder, standby = Reconciler(remote, "r1"), Reconciler(remote, "r2")
    holder.acquire()
    start = holder.record(a_status("team/job"))
    with pytest.raises(DeposedError):
        standby.acquire()
    standby.monotonic_s = 60.0
    wrote: list[str] = []

    def wake() -> None:
        try:
            holder.record(a_status("team/job", JobPhase.RUNNING))
            wrote.append("holder")
        except (StaleRevisionError, DeposedError):
            pass

    def take_over() -> None:
        try:
            standby.acquire()
            wrote.append("standby")
        except DeposedError:
            pass

    at_once(wake, take_over)

    log = run_git(remote.path, "log", "--format=%s", f"{start}..status/laptop").splitlines()
    assert len(log) == len(wrote) >= 1
    if "standby" in wrote:
        newest = holder.store.fetch()
        assert newest is not None
        with pytest.raises(DeposedError):
            holder.record(a_status("team/job", JobPhase.FAILED))


def test_a_person_pushing_to_main_all_the_time_costs_status_nothing(remote: Remote) -> None:
    remote.commit({"jobs/a/b.yaml": "x"})
    ada = remote.clone("Ada")
    holder = Reconciler(remote, "r1")
    holder.acquire()

    def people() -> None:
        for number in range(6):
            ada.write(f"jobs/a/job-{number}.yaml", "x")
            ada.commit()
            ada.push()

    def records() -> None:
        for number in range(6):
            holder.record(a_status(f"a/job-{number}"))

    at_once(people, records)

    assert holder.store.conflicts == 0
    assert len(run_git(remote.path, "log", "--format=%H", "main").splitlines()) == 7
