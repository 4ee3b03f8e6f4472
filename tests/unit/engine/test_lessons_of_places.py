"""What gangs measured where they ran decides whether the next one waits, and replays with it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.cycle import CycleReport
from reconciler.domain.plan import Verb
from reconciler.domain.reason import Reason
from reconciler.domain.spread import MeasuredSlowdown, PlacementClass, SpreadMeasured
from reconciler.domain.units import CommitId, JobId
from reconciler.engine.replay import Replayer
from reconciler.planning.plan import plan
from tests.unit.engine.test_lessons import METRICS, Trainings

CONF = """\
api_version: headway/v1
cluster:
  id: lab
  node_types:
    box: {{kind: gpu, type: A100-80GB, count: 8, memory: 79.15GiB, islands: 1}}
  nodes:
    n1: {{is: box, rack: r1}}
    n2: {{is: box, rack: r2}}
    n3: {{is: box, rack: r3}}
policy:
  lease: 30s
  {slowdown}
launcher: {{kind: local, runs_dir: runs}}
"""
SLOWDOWN = "spread_slowdown: {nodes: 1.05, racks: 1.28}"
BOX_S = 6_000


class Boxes(Trainings):
    """Three boxes in three racks, whose gangs train as fast as a test says."""

    def conf(self, slowdown: str) -> None:
        self.live.commit({"conf/headway.yaml": CONF.format(slowdown=slowdown)})

    def gang(self, name: str, gpus: int, estimate: str, within: str = "cluster") -> None:
        document = {
            "api_version": "headway/v1",
            "kind": "Job",
            "resources": {"gpus": gpus, "within": within},
            "time": {"estimate": estimate},
            "preemption": {"allowed": False},
            "train": {
                "task": "sft",
                "model": "random:qwen3-tiny",
                "dataset": "sample:support-chats",
            },
        }
        self.live.commit({f"jobs/team/{name}.yaml": json.dumps(document)})

    def run_one(self, name: str, *, slower: float = 1.0) -> None:
        """Let a gang of six start, run and end, with steps that take so many times as long."""
        self.gang(name, 6, "1h")
        self.cycle()
        self.cycle()
        self.end_training(name, None, training_s=METRICS["training_s"] * slower)
        self.cycle()

    def after_four_runs(self) -> CycleReport:
        """Return the cycle in which a gang of six fits on two racks, or in a box in 20 minutes.

        One like it ran together before, and three over two racks took 2.5 times as long.
        """
        self.conf(SLOWDOWN)
        self.run_one("together")
        for name, gpus in (("left", 5), ("right", 5), ("box", 8)):
            self.gang(name, gpus, f"{BOX_S}s" if name == "box" else "40h")
        self.cycle()
        began = self.now
        for number in (1, 2, 3):
            self.run_one(f"apart-{number}", slower=2.5)
        self.gang("wide", 6, "1h")
        return self.cycle(after_s=began + BOX_S - 20 * 60 - self.now)


@pytest.fixture
def boxes(tmp_path: Path) -> Boxes:
    return Boxes(tmp_path)


WIDE = JobId("team/wide")


def test_a_gang_waits_for_a_box_because_those_before_it_were_slow_over_racks(
    boxes: Boxes,
) -> None:
    snapshot = boxes.after_four_runs().snapshot

    assert [run.placement for run in boxes.history()] == (
        [PlacementClass.TOGETHER] + [PlacementClass.RACKS] * 3
    )
    assert snapshot.measured_spread == SpreadMeasured(
        racks=MeasuredSlowdown(ratio=2.5, weight=0.75, runs=3)
    )
    decided, _ = plan(snapshot)
    untaught, _ = plan(replace(snapshot, measured_spread=SpreadMeasured()))
    assert decided.decisions[WIDE].reason is Reason.BETTER_PLACE_SOON
    assert untaught.decisions[WIDE].verb is Verb.START
    _is_derived_again(boxes.live.remote.tip("status/lab"), boxes.repo)


def _is_derived_again(tip: CommitId | None, repo: Path) -> None:
    assert tip is not None
    replayer = Replayer(repo)
    replayed = [each for each in replayer.replay_all(tip) if each.is_decision]
    last = replayer.snapshot(tip)
    assert last is not None and last.measured_spread
    assert len(replayed) > 10
    assert all(each.holds for each in replayed)


def test_without_a_word_in_the_policy_nothing_is_kept_of_places(boxes: Boxes) -> None:
    boxes.conf("order: value")
    boxes.run_one("together")

    (run,) = boxes.history()
    assert run.gpus == 6
    assert run.placement is None
