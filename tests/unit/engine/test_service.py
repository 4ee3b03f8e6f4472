"""How a reconciler finds its repository and its cluster."""

from pathlib import Path

import pytest

from reconciler.engine.service import remote_url
from reconciler.engine.state_dir import StateDir
from reconciler.errors import BackendError, DeposedError
from tests.live_fleets import Fleet


@pytest.mark.parametrize(
    "url",
    ["https://git.example.org/f.git", "ssh://git@example.org/f.git", "git@example.org:team/f.git",
     "file:///srv/fleet.git"],
)  # fmt: skip
def test_a_url_is_given_to_git_as_it_is(url: str) -> None:
    assert remote_url(url) == url


def test_a_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert remote_url("fleet.git") == str(tmp_path / "fleet.git")


def test_a_remote_that_runs_commands_is_refused(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)

    with pytest.raises(BackendError, match="no remote that may be used"):
        fleet.reconcile_once(repo="ext::sh -c 'touch /tmp/owned'")


def test_a_changed_cluster_id_is_refused_with_what_to_do(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.commit(fleet.job("a"))
    fleet.reconcile_once()
    fleet.commit({"conf/headway.yaml": fleet.headway(cluster="other")})

    with pytest.raises(BackendError, match="was the id in conf changed"):
        fleet.reconcile_once("fresh-state")
    assert fleet.remote.tip("status/other") is None


def test_the_same_state_folder_twice_is_refused(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    with StateDir(tmp_path / "r1").locked(), pytest.raises(DeposedError):
        fleet.reconcile_once()


def test_job_and_conf_of_a_fresh_fleet_make_a_status_branch(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.reconcile_once()
    tree = fleet.tree()

    assert tree is not None
    assert tree.lease is not None
    assert tree.statuses == {}
