"""What happens to main must not happen to the fleet: deletions, rewrites, broken reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase
from reconciler.errors import BackendError, UsageError
from tests.faults.histories import assert_each_ran_once, assert_legal
from tests.git_worlds import GRACE, run_git
from tests.live_fleets import HEADWAY, Fleet, eventually

pytestmark = pytest.mark.slow


def cycles_until(fleet: Fleet, name: str, phase: JobPhase) -> None:
    def is_there() -> bool:
        fleet.reconcile_once()
        return fleet.phase(name) is phase

    eventually(is_there, f"{name} {phase}", patience_s=30, detail=fleet.log.getvalue)


def reason(fleet: Fleet, name: str) -> Reason | None:
    status = fleet.status(name)
    return None if status is None else status.reason


def running(fleet: Fleet, *names: str) -> None:
    """Bring jobs to run."""
    for name in names:
        fleet.commit(fleet.job(name, seconds=60))
    fleet.reconcile_once()
    eventually(lambda: len(fleet.started()) == len(names), "all run")
    for name in names:
        cycles_until(fleet, name, JobPhase.RUNNING)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    made.finish_everything()


def test_a_deleted_file_ends_its_job_only_after_a_second_look_and_a_grace(fleet: Fleet) -> None:
    running(fleet, "a", "b")
    fleet.commit({"jobs/team/a.yaml": None})
    fleet.reconcile_once()
    assert (fleet.phase("a"), reason(fleet, "a")) == (JobPhase.RUNNING, Reason.DELETION_GRACE)

    cycles_until(fleet, "a", JobPhase.CANCELLED)

    phases = [
        tree.statuses["team/a"].phase for tree in fleet.history() if "team/a" in tree.statuses
    ]  # type: ignore[index]
    assert phases[-1] is JobPhase.CANCELLED
    assert fleet.phase("b") is JobPhase.RUNNING
    assert "asked" in " ".join(fleet.lines())
    assert_legal(fleet.history())


def test_a_file_that_comes_back_is_a_new_submission_and_the_old_run_leaves_first(
    fleet: Fleet,
) -> None:
    patient = HEADWAY.format(**fleet.conf).replace("grace: 1s", "grace: 1h")
    fleet.commit({"conf/headway.yaml": patient})
    running(fleet, "a", "b")
    fleet.commit({"jobs/team/a.yaml": None})
    fleet.reconcile_once()
    assert reason(fleet, "a") is Reason.DELETION_GRACE
    fleet.commit(fleet.job("a", seconds=60))
    fleet.reconcile_once()
    assert (fleet.phase("a"), reason(fleet, "a")) == (JobPhase.STOPPING, Reason.NEW_SUBMISSION)

    cycles_until(fleet, "a", JobPhase.RUNNING)
    eventually(lambda: len(fleet.started()) == 3, "the new submission runs")
    assert fleet.lines()[-1].endswith("resume=")
    assert_each_ran_once(fleet)
    assert_legal(fleet.history())


def test_a_whole_team_that_vanishes_is_blocked_until_an_admin_allows_it(fleet: Fleet) -> None:
    running(fleet, "a", "b", "c")
    gone = {f"jobs/team/{name}.yaml": None for name in "abc"}
    fleet.commit(gone)
    for _ in range(4):
        fleet.reconcile_once()
    assert {reason(fleet, name) for name in "abc"} == {Reason.PRUNE_BLOCKED}
    assert {fleet.phase(name) for name in "abc"} == {JobPhase.RUNNING}

    fleet.commit({"docs/note": "1\n"}, "Allow\n\nHeadway-Allow-Prune: 3\n", author=GRACE)
    fleet.reconcile_once()
    assert {reason(fleet, name) for name in "abc"} == {Reason.PRUNE_BLOCKED}

    fleet.commit({"docs/note": "2\n"}, "Allow\n\nHeadway-Allow-Prune: 3\n")
    for name in "abc":
        cycles_until(fleet, name, JobPhase.CANCELLED)
    assert_legal(fleet.history())


def test_a_mass_deletion_taken_back_costs_nobody_a_step(fleet: Fleet) -> None:
    running(fleet, "a", "b", "c")
    before = fleet.started()
    gone: dict[str, str | None] = {f"jobs/team/{name}.yaml": None for name in "abc"}
    kept = {path: text for name in "abc" for path, text in fleet.job(name, seconds=60).items()}
    fleet.commit(gone)
    fleet.reconcile_once()
    assert {reason(fleet, name) for name in "abc"} == {Reason.PRUNE_BLOCKED}

    fleet.commit(kept, "Revert")
    fleet.reconcile_once()
    fleet.commit(gone)  # and once more, both ways between two looks
    fleet.commit(kept, "Revert")
    fleet.reconcile_once()

    assert {fleet.phase(name) for name in "abc"} == {JobPhase.RUNNING}
    assert fleet.started() == before
    assert_legal(fleet.history())


def test_a_fetch_that_fails_half_way_deletes_nothing(fleet: Fleet) -> None:
    running(fleet, "a", "b")
    emptied = fleet.commit({"jobs/team/a.yaml": None, "docs/note": "x\n"})
    tree = run_git(fleet.remote.path, "rev-parse", f"{emptied}:jobs")
    lost = fleet.remote.path / "objects" / tree[:2] / tree[2:]
    kept = lost.read_bytes()
    lost.chmod(0o644)
    lost.unlink()

    with pytest.raises(BackendError):
        fleet.reconcile_once()
    assert (fleet.phase("a"), reason(fleet, "a")) == (JobPhase.RUNNING, Reason.RUNS)

    lost.write_bytes(kept)
    fleet.reconcile_once()
    assert reason(fleet, "a") is Reason.DELETION_GRACE


def test_a_remote_that_is_away_changes_nothing_and_the_job_goes_on(fleet: Fleet) -> None:
    running(fleet, "a")
    away = fleet.remote.path.rename(fleet.folder / "away.git")
    with pytest.raises(BackendError):
        fleet.reconcile_once()
    away.rename(fleet.remote.path)
    fleet.finish_everything()

    cycles_until(fleet, "a", JobPhase.SUCCEEDED)
    assert_each_ran_once(fleet)


def test_a_rewritten_main_stops_launches_and_cancels_until_it_is_accepted(fleet: Fleet) -> None:
    first = fleet.remote.tip()
    assert first is not None
    running(fleet, "a")
    fleet.remote.reset(first)
    tip = fleet.commit(fleet.job("new", seconds=60))
    for _ in range(3):
        fleet.reconcile_once()
    assert fleet.phase("a") is JobPhase.RUNNING
    assert fleet.phase("new") is None
    assert len(fleet.started()) == 1

    with pytest.raises(UsageError, match="does not descend"):
        fleet.reconcile_once(accept_history="f" * 40)
    fleet.reconcile_once(accept_history=tip)
    cycles_until(fleet, "new", JobPhase.RUNNING)

    log = run_git(fleet.remote.path, "log", f"status/{fleet.cluster}", "--format=%s")
    assert "history: a rewritten main was accepted by hand" in log
    assert_legal(fleet.history())


def test_an_invalid_edit_keeps_the_run_and_a_new_job_beside_it_starts(fleet: Fleet) -> None:
    running(fleet, "a")
    broken = fleet.job("a")["jobs/team/a.yaml"].replace("gpus: 1", "gpus: two")
    fleet.commit({"jobs/team/a.yaml": broken} | fleet.job("b", seconds=60), author=GRACE)
    fleet.reconcile_once()

    status = fleet.status("a")
    assert status is not None
    assert (status.phase, status.reason) == (JobPhase.RUNNING, Reason.SPEC_INVALID_KEEPS_RUNNING)
    assert "Grace <grace@example.org>" in status.message
    cycles_until(fleet, "b", JobPhase.RUNNING)


def test_a_wildcard_request_is_refused_recorded_and_alarmed(fleet: Fleet) -> None:
    wild = fleet.job("a")["jobs/team/a.yaml"].replace("gpus: 1", 'gpus: "*"')
    sink = {"conf/sinks/security.yaml": "kind: file\npath: alarms.jsonl\n"}
    commit = fleet.commit({"jobs/team/a.yaml": wild} | sink, author=GRACE)
    fleet.reconcile_once()
    fleet.reconcile_once()

    assert (fleet.phase("a"), reason(fleet, "a")) == (JobPhase.INVALID, Reason.WILDCARD_REQUEST)
    assert fleet.log.getvalue().count("security:") == 1
    assert f"commit={commit}" in fleet.log.getvalue()
    assert "Grace <grace@example.org>" in fleet.log.getvalue()
    alarms = (fleet.folder / "r1" / "alarms.jsonl").read_text().splitlines()
    assert len(alarms) == 1
    log = run_git(fleet.remote.path, "log", f"status/{fleet.cluster}", "--format=%B")
    assert "security: refused team/a, by Grace <grace@example.org>" in log


def test_a_broken_conf_keeps_the_last_good_one_in_force(fleet: Fleet) -> None:
    running(fleet, "a")
    good = fleet.remote.tip()
    fleet.commit({"conf/headway.yaml": "cluster: [\n"} | fleet.job("b", seconds=60))
    fleet.reconcile_once()
    assert "conf-invalid" in fleet.log.getvalue()
    assert (fleet.phase("a"), fleet.phase("b")) == (JobPhase.RUNNING, None)
    tree = fleet.tree()
    assert tree is not None and tree.cursor is not None
    assert tree.cursor.desired == good

    fleet.commit({"conf/headway.yaml": HEADWAY.format(**fleet.conf)})
    cycles_until(fleet, "b", JobPhase.RUNNING)


def test_a_deleted_and_re_added_job_is_a_new_submission_from_step_zero(fleet: Fleet) -> None:
    fleet.commit(fleet.job("a") | fleet.job("other", seconds=60))
    cycles_until(fleet, "a", JobPhase.SUCCEEDED)
    before = fleet.status("a")
    fleet.commit({"jobs/team/a.yaml": None})
    fleet.reconcile_once()
    fleet.commit(fleet.job("a"))

    def has_run_again() -> bool:
        fleet.reconcile_once()
        now = fleet.status("a")
        return now is not None and before is not None and now.submission != before.submission \
            and now.phase is JobPhase.SUCCEEDED  # fmt: skip

    eventually(has_run_again, "a ran again", detail=fleet.log.getvalue)
    mine = [line for line in fleet.lines() if line.startswith("started team.a-")]
    assert len({line.split()[1] for line in mine}) == 2
    assert all(line.endswith("resume=") for line in mine)
    assert_each_ran_once(fleet)
    assert_legal(fleet.history())


def test_a_raised_generation_runs_again_from_step_zero_under_a_fresh_id(fleet: Fleet) -> None:
    fleet.commit(fleet.job("a"))
    cycles_until(fleet, "a", JobPhase.SUCCEEDED)
    fleet.commit(fleet.job("a", more="generation: 2\n"))

    def has_run_again() -> bool:
        fleet.reconcile_once()
        now = fleet.status("a")
        return now is not None and now.generation == 2 and now.phase is JobPhase.SUCCEEDED

    eventually(has_run_again, "generation 2 ran", detail=fleet.log.getvalue)
    assert [each.split("-")[1] for each in fleet.started()] == ["g1", "g2"]
    assert all(line.endswith("resume=") for line in fleet.lines())
    assert_each_ran_once(fleet)
    assert_legal(fleet.history())
