"""Another policy is tried on what really happened, over a real repository and real runs."""

import json
import textwrap
from pathlib import Path

import pytest

from reconciler.cli.boundary import main
from reconciler.domain.status import JobPhase
from tests.live_fleets import Fleet, eventually

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

BRIEF_FIRST = """\
order: score
weights: {priority_class: 0, deadline: 0, serves_online: 0, model_heat: 0, brevity: 1}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Three jobs of the whole machine ran one after the other: all ended."""
    fleet = Fleet(tmp_path, slots=2, order="score")
    text, _, policy = fleet.headway().partition("policy:\n")
    section, _, launcher = policy.partition("launcher:")
    fleet.commit(
        {
            "conf/policy/lab.yaml": textwrap.dedent(section),
            "conf/headway.yaml": f"defaults: [policy: lab, _self_]\n{text}launcher:{launcher}",
        }
    )
    for name, estimate in (("one", "10m"), ("two", "5h"), ("three", "1m")):
        fleet.commit(fleet.job(name, gpus=2, estimate=estimate, preemptible=False))
        fleet.reconcile_once()
    eventually(lambda: all_ended(fleet), "all end")
    return fleet


def all_ended(fleet: Fleet) -> bool:
    fleet.reconcile_once()
    return all(fleet.phase(name) is JobPhase.SUCCEEDED for name in ("one", "two", "three"))


def hw(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(words)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_both_sides_play_the_same_jobs(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "brief.yaml"
    other.write_text(BRIEF_FIRST, encoding="utf-8")
    repo = str(fleet.remote.path)

    code, out, err = hw(capsys, "whatif", "--repo", repo, "--policy", str(other), "-o", "json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["jobs"], told["unfinished"], told["left_out"]) == (3, 0, [])
    assert told["before"]["unfinished"] == told["after"]["unfinished"] == 0

    code, out, err = hw(capsys, "whatif", "--repo", repo, "--policy", str(other))
    assert code == 0, err
    assert out.splitlines()[0].split() == ["FIGURE", "NOW", "THEN"]
    assert "Mean wait of each team:" in out


def test_a_policy_with_a_mistake_is_refused_with_its_place(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "wrong.yaml"
    other.write_text("order: score\nwieghts: {}\n", encoding="utf-8")

    code, _, err = hw(capsys, "whatif", "--repo", str(fleet.remote.path), "--policy", str(other))

    assert code == 64
    assert "wrong.yaml:2" in err
    assert "wieghts" in err
