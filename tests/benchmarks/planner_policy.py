"""``make bench-planner``: headway and the policies it is compared with, over public traces.

Two tables: the bare traces (the headline) and the full overlay.  One policy and one configuration
for all traces.  Every cell (table, trace, seed, policy) is a line of
``results/planner_policy_<table>.jsonl`` with the figures, the rules and the commit it was measured
at; a cell that is there is not played again, so an interrupted run goes on where it stopped
(``--again POLICY`` plays that policy's cells anew).  The tables are written to
``build/bench/planner_policy.md``.

    python -m tests.benchmarks.planner_policy [--table bare|overlay] [--traces c04,lingjun]
        [--policies headway,easy] [--seeds 1,2,3] [--again headway] [--report]

Ratios are between equal seeds only.  The traces are read from ``HEADWAY_TRACES``.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.simulate.arena import Setup
from reconciler.simulate.asks import Estimates, Overlay, asks
from reconciler.simulate.bounds import bound
from reconciler.simulate.load import Load, select
from reconciler.simulate.readers.files import open_load
from reconciler.simulate.report import document
from reconciler.simulate.simulation import simulate
from tests.benchmarks.planner_table import tables

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
TRACES = Path(os.environ.get("HEADWAY_TRACES", ROOT.parent / "shared" / "data" / "traces"))
OUT = ROOT / "build" / "bench" / "planner_policy.md"
SEEDS = (1, 2, 3, 4, 5)
HEADWAY = "headway"
BASELINES = (*("fifo", "fifo-skip", "easy", "conservative", "multifactor", "kueue", "las", "srtf"),)
SEEDLESS = ("fifo", "fifo-skip", "las", "srtf")
"""Policies a bare run gives the same figures whatever the seed: nothing in it is chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One trace on the cluster its figures are known for."""

    file: str
    nodes: int
    tick_s: int = 300
    part: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Load:
        """Return the jobs.  Raises ``LoadError`` where the file is missing."""
        return select(open_load(str(TRACES / f"{self.file}.csv.gz")), **self.part)


CASES: Mapping[str, Case] = {
    "c02": Case(file="itp_c02", nodes=12),
    "c03": Case(file="itp_c03", nodes=20),
    "c04": Case(file="itp_c04", nodes=69),
    "c06": Case(file="itp_c06", nodes=13),
    "lingjun": Case(file="lingjun_2023", nodes=128, tick_s=60),
    "venus": Case(file="helios_venus_2vc_sep2020", nodes=20, tick_s=60, part={"team": "vcvGl"}),
    "philly_4vc": Case(file="philly_4vc", nodes=115, part={"since_s": 4378002, "until_s": 9648342}),
    "philly_octnov": Case(file="philly_2017_octnov", nodes=238),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is missing and write the tables.  Returns 0, or 2 where there are no traces."""
    given = _parser().parse_args(arguments)
    if not TRACES.is_dir():
        sys.stderr.write(f"no traces at {TRACES}; say where they are with HEADWAY_TRACES\n")
        return 2
    if not given.report:
        for table in _words(given.table, ("bare", "overlay")):
            _play(table, given)
    rows = {table: list(_rows(table).values()) for table in ("bare", "overlay")}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    text = tables(rows)
    OUT.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


def _play(table: str, given: argparse.Namespace) -> None:
    known = _rows(table)
    for policy in _words(given.policies, (*BASELINES, HEADWAY)):
        for seed in (int(word) for word in _words(given.seeds, [str(seed) for seed in SEEDS])):
            for trace in _words(given.traces, CASES):
                key = (trace, seed, policy)
                if key in known and policy not in _words(given.again, ()):
                    continue
                if policy in SEEDLESS and table == "bare" and seed != SEEDS[0]:
                    continue
                _cell(table, trace, seed, policy)


def _cell(table: str, trace: str, seed: int, policy: str) -> None:
    case = CASES[trace]
    setup = Setup(
        nodes=case.nodes,
        tick_s=case.tick_s,
        seed=seed,
        overlay=Overlay.FULL if table == "overlay" else Overlay.NONE,
        estimates=Estimates.E2,
    )
    began = time.monotonic()
    said = document(simulate(trace, case.load(), setup, (policy,)))
    bounded_s = _bound(table, trace, case) if table == "bare" else None
    for figures in said["policies"]:
        row = {
            "trace": trace,
            "seed": seed,
            "commit": _commit(),
            "nodes": case.nodes,
            "load": said["load"],
            "setup": said["setup"],
            **figures,
            "bound_jct_mean_s": bounded_s,
            "jct_over_bound": figures["jct_mean_s"] / bounded_s if bounded_s else None,
        }
        _keep(table, row)
        mean_h = figures["wait_mean_s"] / 3600
        sys.stderr.write(
            f"{table} {trace} seed {seed} {figures['policy']}: mean wait {mean_h:.3f} h, "
            f"{time.monotonic() - began:.0f} s\n"
        )


def _bound(table: str, trace: str, case: Case) -> float:
    """Return the lower bound on the mean JCT, computed once a trace."""
    for row in _rows(table).values():
        if row["trace"] == trace and row["bound_jct_mean_s"] and row["nodes"] == case.nodes:
            return float(row["bound_jct_mean_s"])
    return bound(asks(case.load()), case.nodes * 8).best_s


def _file(table: str) -> Path:
    return RESULTS / f"planner_policy_{table}.jsonl"


def _rows(table: str) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Return the cells measured so far; a later line of one cell replaces an earlier one."""
    if not _file(table).exists():
        return {}
    found = [json.loads(line) for line in _file(table).read_text(encoding="utf-8").splitlines()]
    return {(row["trace"], row["seed"], row["policy"]): row for row in found}


def _keep(table: str, row: Mapping[str, Any]) -> None:
    rows = _rows(table)
    rows[row["trace"], row["seed"], row["policy"]] = dict(row)
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(rows[key], sort_keys=True) + "\n" for key in sorted(rows))
    temporary = _file(table).with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(_file(table))


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _words(given: str | None, default: Iterable[str]) -> list[str]:
    return [word for word in given.split(",") if word] if given else list(default)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.planner_policy")
    for name in ("table", "traces", "policies", "seeds", "again"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--report", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
