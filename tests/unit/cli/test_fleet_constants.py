"""Estimates rest on the fetched status branch's runs, or on the shipped constants, and say so."""

from pathlib import Path

import pytest

from reconciler.cli.fleet_constants import NO_RUNS, fleet_constants
from reconciler.snapshots.history import history_to_json
from reconciler.specs.model_catalogue import shipped_constants
from tests.git_worlds import Remote
from tests.unit.snapshots.measured import a_run


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path / "fleet.git")


def with_history(remote: Remote, text: str) -> str:
    remote.commit({"conf/headway.yaml": "x: 1\n"})
    remote.commit({".headway/history.json": text}, branch="status/lab")
    return str(remote.path)


def test_finished_runs_refine_what_is_shipped(remote: Remote) -> None:
    runs = [a_run(number, memory=1.3) for number in range(3)]

    found = fleet_constants(with_history(remote, history_to_json(runs).decode()))

    assert found.refinement.memory["variable"] == pytest.approx(1.3 ** (3 / 23), rel=1e-3)
    assert found.memory == shipped_constants().memory
    assert "refined by 3 runs of this fleet" in found.origin


def test_without_runs_the_shipped_constants_are_used_and_named(
    remote: Remote, tmp_path: Path
) -> None:
    remote.commit({"conf/headway.yaml": "x: 1\n"})

    for where in (str(remote.path), str(tmp_path), str(tmp_path / "nowhere")):
        found = fleet_constants(where)
        assert found.refinement == shipped_constants().refinement
        assert NO_RUNS in found.origin


def test_a_history_that_cannot_be_read_is_said_and_not_used(remote: Remote) -> None:
    found = fleet_constants(with_history(remote, '{"version": 9, "runs": []}'))

    assert found.refinement == shipped_constants().refinement
    assert "history.json is not what this headway writes" in found.origin
