"""The baselines against figures measured with another simulator, on traces from outside."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.simulate.arena import Setup, play_baseline
from reconciler.simulate.asks import Estimates
from reconciler.simulate.costs import Costs
from reconciler.simulate.load import select
from reconciler.simulate.metrics import mean, wait_s
from reconciler.simulate.readers.files import open_load

TRACES = Path(
    os.environ.get("HEADWAY_TRACES", Path(__file__).parents[4] / "shared" / "data" / "traces")
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not TRACES.is_dir(), reason=f"no traces at {TRACES}; HEADWAY_TRACES says where they are"
    ),
]
WINDOW = {"since_s": 4378002, "until_s": 9648342}
CASES: Mapping[str, tuple[int, int, dict[str, Any], dict[str, float]]] = {
    "itp_c04": (69, 300, {}, {"fifo": 11.86, "easy": 5.30, "las": 0.93, "srtf": 0.59}),
    "philly_4vc": (115, 300, WINDOW, {"fifo": 23.58, "easy": 6.82, "las": 1.99, "srtf": 1.32}),
    "lingjun_2023": (128, 60, {}, {"fifo": 27.09, "las": 0.98, "srtf": 0.13}),
}
"""Nodes, tick, part of the trace, mean wait in hours.  EASY on lingjun hangs on the seed."""


@pytest.mark.parametrize(
    ("trace", "policy"), [(name, policy) for name, case in CASES.items() for policy in case[3]]
)
def test_mean_waits_agree_within_a_tenth(trace: str, policy: str) -> None:
    nodes, tick_s, part, known = CASES[trace]
    load = select(open_load(str(TRACES / f"{trace}.csv.gz")), **part)
    setup = Setup(nodes=nodes, tick_s=tick_s, estimates=Estimates.F4, costs=Costs.flat(60), seed=1)
    found = play_baseline(policy, load, setup)
    hours = mean([wait_s(outcome) for outcome in found.outcomes]) / 3600
    assert hours == pytest.approx(known[policy], rel=0.10, abs=0.005)
