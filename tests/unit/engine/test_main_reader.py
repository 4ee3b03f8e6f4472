"""Main is acted on only whole, valid in conf, and descending from what was acted on."""

import io
from pathlib import Path

import pytest

from reconciler.domain.units import CommitId, Instant
from reconciler.engine.logging import Log
from reconciler.engine.main_reader import MainReader
from reconciler.errors import BackendError
from reconciler.store.git.repository import open_mirror
from reconciler.store.spec_source import SpecSource
from tests.git_worlds import GRACE
from tests.live_fleets import HEADWAY, TEAM, Fleet


class Reader:
    def __init__(self, folder: Path) -> None:
        self.fleet = Fleet(folder)
        self.written = io.StringIO()
        mirror = open_mirror(folder / "mirror.git", self.fleet.remote.url)
        log = Log(lambda: Instant(0), self.written)
        self.main = MainReader(SpecSource(mirror, "origin"), cache=None, log=log)

    def commit(self, files: dict[str, str | None], message: str = "x", **more: str) -> CommitId:
        return self.fleet.commit(files, message, **more)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def test_a_look_has_the_tip_and_its_jobs(reader: Reader) -> None:
    tip = reader.commit(reader.fleet.job("a"))
    look = reader.main.look(None)

    assert (look.commit, look.tip, look.is_rewritten) == (tip, tip, False)
    assert list(look.reading.entries) == ["team/a"]


def test_a_commit_is_read_once(reader: Reader) -> None:
    reader.commit(reader.fleet.job("a"))

    assert reader.main.look(None).reading is reader.main.look(None).reading


def test_a_broken_conf_leaves_the_commit_acted_on_before_in_force(reader: Reader) -> None:
    good = reader.commit(reader.fleet.job("a"))
    bad = reader.commit({"conf/teams/team.yaml": "members: 3\n"})
    look = reader.main.look(good)
    reader.main.look(good)

    assert (look.commit, look.tip) == (good, bad)
    assert reader.written.getvalue().count("conf-invalid") == 1
    assert "conf/teams/team.yaml" in reader.written.getvalue()


def test_a_broken_conf_without_an_earlier_one_is_waited_out(reader: Reader) -> None:
    reader.commit({"conf/headway.yaml": "cluster: 3\n"})

    with pytest.raises(BackendError, match="nothing runs until then") as caught:
        reader.main.look(None)
    assert caught.value.retryable


def test_a_jobs_own_mistake_is_not_confs(reader: Reader) -> None:
    tip = reader.commit({"jobs/team/a.yaml": "kind: Nonsense\n"})
    look = reader.main.look(None)

    assert look.commit == tip
    assert look.reading.entries["team/a"].problems  # type: ignore[index]


def test_a_tip_that_does_not_descend_is_rewritten(reader: Reader) -> None:
    first = reader.fleet.remote.tip()
    assert first is not None
    acted_on = reader.commit(reader.fleet.job("a"))
    reader.main.look(acted_on)
    reader.fleet.remote.reset(first)
    reader.commit(reader.fleet.job("b"))

    assert reader.main.look(acted_on).is_rewritten


def test_only_an_admin_of_the_conf_acted_on_before_may_allow_a_prune(reader: Reader) -> None:
    cursor = reader.fleet.remote.tip()
    allow = "Allow\n\nHeadway-Allow-Prune: 4\n"
    reader.commit({"docs/a": "1\n"}, allow, author=GRACE)
    assert reader.main.look(cursor).allowed_prune == 0

    promoted = TEAM.replace("{{", "{").replace("}}", "}").replace("role: member", "role: admin")
    reader.commit({"conf/teams/team.yaml": promoted}, allow, author=GRACE)
    assert reader.main.look(cursor).allowed_prune == 0

    reader.commit({"docs/a": "2\n"}, allow)
    assert reader.main.look(cursor).allowed_prune == 4


def test_a_branch_that_is_gone_is_an_error_and_not_an_empty_fleet(reader: Reader) -> None:
    reader.fleet.remote.reset(None)

    with pytest.raises(BackendError, match="nothing is read, so nothing is stopped"):
        reader.main.look(None)


def test_a_repaired_conf_is_acted_on_again(reader: Reader) -> None:
    good = reader.commit(reader.fleet.job("a"))
    reader.commit({"conf/headway.yaml": "cluster: [\n"})
    assert reader.main.look(good).commit == good
    repaired = reader.commit({"conf/headway.yaml": HEADWAY.format(**reader.fleet.conf)})

    assert reader.main.look(good).commit == repaired
