"""``headway whatif``: the recorded past again under another policy, with winners and losers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.options import View, reads_history
from reconciler.cli.output import emit, output_option
from reconciler.cli.phrases import count
from reconciler.cli.tables import Cell, Column, render
from reconciler.cli.terminal import clean
from reconciler.cli.times import duration, parse_since
from reconciler.domain.units import JobId
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.simulate.past import Fared, Side

SHOWN = 5
FIGURES = (
    ("mean wait", "wait_mean_s"),
    ("P50 wait", "wait_p50_s"),
    ("P95 wait", "wait_p95_s"),
    ("longest wait", "wait_max_s"),
)


@click.command()
@click.option(
    "--policy",
    "file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A policy file, as conf/policy/ holds them, to try instead.",
)
@click.option("--since", metavar="WHEN", help="Only jobs submitted since: 2d, a date, RFC 3339.")
@output_option("table", "json", "yaml")
@reads_history
def whatif(view: View, file: Path, since: str | None, output: str) -> None:
    """Play the recorded jobs again under another policy and say who gains and who loses.

    Who asked for what, when, and how long it really ran is taken from the status branch; the
    production cycle decides on virtual time, once under the policy of main and once under
    --policy. Prices nobody can know (what people would have done otherwise) are left out of both.
    """
    from reconciler.cli.explanation import snapshot_at
    from reconciler.cli.past import OtherPolicy, past_of
    from reconciler.simulate.past import Fleet, fared, moved, side
    from reconciler.specs.cache import SpecCache, user_folder
    from reconciler.specs.reading import read_specs
    from reconciler.store.spec_source import SpecSource

    git_dir, cache = view.repository.git_dir, SpecCache(user_folder())
    snapshot = snapshot_at(git_dir, view.branch.ref.commit, view.now)
    tree = SpecSource(git_dir, remote="unused").tree(snapshot.desired.commit)
    replaced = OtherPolicy(tree, file.read_bytes())
    other = read_specs(replaced, cache=cache, paths=())
    said = [each for each in other.problems if each.file == replaced.path]
    if said:
        hint = f"; {said[0].hint}" if said[0].hint else ""
        raise UsageError(f"{file}:{said[0].line or 1}: {said[0].message}{hint}")
    past = past_of(
        git_dir, snapshot, view.branch.forecast, cache=cache,
        since=parse_since(since, view.zone, view.now) if since else None,
    )  # fmt: skip
    fleet = Fleet(cluster=snapshot.cluster, teams=snapshot.teams, budgets=snapshot.budgets)
    before = fared(past.jobs, fleet, snapshot.policy)
    after = fared(past.jobs, fleet, other.platform.policy)
    figures = (side(before.values()), side(after.values()))
    changes = moved(before, after)
    if output != "table":
        emit(
            {
                "kind": "WhatIf",
                "state": view.state_item(),
                "jobs": len(past.jobs),
                "unfinished": past.unfinished,
                "left_out": list(past.left_out),
                "before": side_item(figures[0]),
                "after": side_item(figures[1]),
                "changes": [{"job": job, "wait_s": seconds} for job, seconds in changes],
            },
            output,
        )
        return
    view.say(render(_HEADS, _rows(figures), view.terminal))
    view.say("\n".join(_teams(before, after)))
    view.say("\n".join(_changes(changes)))
    if not view.is_quiet:
        line = (
            f"{count(len(past.jobs), 'job')} of the status branch, {past.unfinished} of them not"
            f" ended (taken to run as forecast), {len(past.left_out)} left out"
        )
        view.say(view.terminal.paint(line, "dim"))


_HEADS = (Column("FIGURE"), Column("NOW", "right"), Column("THEN", "right"))


def _rows(figures: "tuple[Side, Side]") -> list[list[str | Cell]]:
    rows: list[list[str | Cell]] = [
        [words, *(duration(round(getattr(each, name))) for each in figures)]
        for words, name in FIGURES
    ]
    rows.append(["preemptions", *(str(each.preemptions) for each in figures)])
    rows.append(["without an end", *(str(each.unfinished) for each in figures)])
    return rows


def _teams(before: "Mapping[JobId, Fared]", after: "Mapping[JobId, Fared]") -> list[str]:
    """Return a line a team: its mean wait on both sides."""
    lines = ["Mean wait of each team:"]
    for team in sorted({job.split("/")[0] for job in before}):
        means = []
        for results in (before, after):
            waits = [
                each.wait_s
                for job, each in results.items()
                if job.split("/")[0] == team and each.wait_s is not None
            ]
            means.append(duration(round(sum(waits) / len(waits))) if waits else "-")
        lines.append(f"  {clean(team)}: {means[0]} -> {means[1]}")
    return lines


def _changes(changes: Sequence[tuple[JobId, int]]) -> list[str]:
    if not changes:
        return ["No job would wait longer or shorter."]
    lines = []
    for words, group in (
        ("Would wait less:", [each for each in changes if each[1] < 0]),
        ("Would wait longer:", [each for each in reversed(changes) if each[1] > 0]),
    ):
        if not group:
            continue
        lines.append(words)
        lines += [
            f"  {clean(job)}: {'-' if moved_s < 0 else '+'}{duration(abs(moved_s))}"
            for job, moved_s in group[:SHOWN]
        ]
        if len(group) > SHOWN:
            lines.append(f"  and {len(group) - SHOWN} more")
    return lines


def side_item(figures: "Side") -> dict[str, Any]:
    """Return the figures of one side as JSON."""
    return {
        "wait_mean_s": round(figures.wait_mean_s, 1),
        "wait_p50_s": figures.wait_p50_s,
        "wait_p95_s": figures.wait_p95_s,
        "wait_max_s": figures.wait_max_s,
        "preemptions": figures.preemptions,
        "unfinished": figures.unfinished,
    }
