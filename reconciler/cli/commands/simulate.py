"""``headway simulate``: the production cycle over a load on virtual time, beside other policies."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.output import output_option
from reconciler.cli.tables import Column, render
from reconciler.cli.terminal import find_terminal
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.domain.cluster import Cluster
    from reconciler.domain.policy import Policy
    from reconciler.simulate.arena import Setup
    from reconciler.simulate.load import Load

POLICIES = (
    *("headway", "fifo", "fifo-skip", "easy", "conservative"),
    *("multifactor", "kueue", "las", "srtf"),
)


@click.command()
@click.argument("load", metavar="LOAD")
@click.option("--nodes", type=click.IntRange(min=1), help="Equal nodes to play on.")
@click.option("--load", "rho", type=float, metavar="RHO", help="As many as give this load.")
@click.option("--gpus-per-node", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--cluster", metavar="NAME", help="Play on a cluster of conf/cluster/ instead.")
@click.option("--from", "since", type=int, metavar="S", help="First second of the load to take.")
@click.option("--to", "until", type=int, metavar="S", help="Last second of the load to take.")
@click.option("--team", metavar="NAME", help="Take this team's jobs only.")
@click.option("--tor-size", type=click.IntRange(min=1), metavar="N",
              help="Nodes a switch; charges gangs that spread.  [no charge]")  # fmt: skip
@click.option("--tick", type=click.IntRange(min=1), default=300, show_default=True, metavar="S",
              help="How often las and srtf decide.")  # fmt: skip
@click.option("--policy", "policies", type=click.Choice(POLICIES), multiple=True, metavar="NAME",
              help="headway, fifo, fifo-skip, easy, conservative, multifactor, kueue, las, srtf; "
                   "may be given again.  [headway]")  # fmt: skip
@click.option("--policy-file", type=click.Path(path_type=Path), help="headway's policy.")
@click.option("--overlay", type=click.Choice(["full", "none"]), default="none",
              show_default=True, help="Classes, teams, deadlines: full or none.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--estimates", type=click.Choice(["E0", "E1", "E2", "E3", "F4"]), default="E2",
              show_default=True, help="What planners are told of durations.")  # fmt: skip
@click.option("--restart-cost", default="1", show_default=True, metavar="K",
              help="K times the measured costs, or flat as 60s.")  # fmt: skip
@click.option("--elastic", is_flag=True, help="Let a part of the wide gangs be resized.")
@click.option("--bound", "with_bound", is_flag=True, help="Also bound the mean JCT from below.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="OUT",
              help="Also write the JSON to a file.")  # fmt: skip
@click.option("--repo", metavar="PATH", envvar="HEADWAY_REPO", help="Where --cluster is read.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto",
              help="Colour the words.")  # fmt: skip
@output_option("table", "json", "html")
def simulate(**given: Any) -> None:
    """Play LOAD on a fleet of paper: when would everybody have started?

    LOAD is a trace (normalised CSV, SWF, Philly's JSON) or made up (synthetic:500). headway is
    played by its production cycle, on virtual time; the other policies are there to compare with.
    """
    from reconciler.simulate.page import page
    from reconciler.simulate.report import HEADS, document, heading, remarks, rows
    from reconciler.simulate.simulation import simulate as play

    load, name = _load(given)
    cluster = _cluster(given["cluster"], given["repo"])
    setup = _setup(given, load, cluster)
    done = play(
        name,
        load,
        setup,
        given["policies"] or ("headway",),
        policy=_policy(given["policy_file"]),
        cluster=cluster,
        with_bound=given["with_bound"],
    )
    said = document(done)
    if given["json_file"] is not None:
        _write(given["json_file"], json.dumps(said, indent=1) + "\n")
    if given["output"] == "json":
        click.echo(json.dumps(said, indent=1))
    elif given["output"] == "html":
        click.echo(page(said, done.played), nl=False)
    else:
        click.echo(heading(said))
        columns = [Column(head, "left" if head == HEADS[0] else "right") for head in HEADS]
        click.echo(render(columns, rows(said), find_terminal(given["color"])))
        for line in remarks(said):
            click.echo(f"note: {line}")


def _load(given: dict[str, Any]) -> "tuple[Load, str]":
    from reconciler.simulate.load import select
    from reconciler.simulate.readers.files import open_load

    load = open_load(given["load"], seed=given["seed"])
    load = select(load, since_s=given["since"], until_s=given["until"], team=given["team"])
    return load, Path(given["load"]).name.removesuffix(".gz").removesuffix(".csv")


def _setup(given: dict[str, Any], load: "Load", cluster: "Cluster | None") -> "Setup":
    from reconciler.simulate.arena import Setup
    from reconciler.simulate.asks import Estimates, Overlay
    from reconciler.simulate.costs import Costs
    from reconciler.simulate.load import nodes_for
    from reconciler.simulate.simulation import are_equal, equal_nodes

    ways = [given["nodes"], given["rho"], cluster]
    if sum(way is not None for way in ways) != 1:
        raise UsageError("say how large the fleet is: one of --nodes N, --load RHO, --cluster NAME")
    nodes, per_node = given["nodes"], given["gpus_per_node"]
    if cluster is not None:
        nodes, per_node = equal_nodes(cluster)
        others = [name for name in given["policies"] if name != "headway"]
        if others and not are_equal(cluster):
            raise UsageError(
                f"{cluster.id} has nodes of different sizes: only --policy headway can be played "
                f"on it, not {', '.join(others)}"
            )
    elif nodes is None:
        nodes = nodes_for(load, rho=given["rho"], gpus_per_node=per_node)
    return Setup(
        nodes=nodes,
        gpus_per_node=per_node,
        tor_size=given["tor_size"],
        tick_s=given["tick"],
        overlay=Overlay(given["overlay"]),
        estimates=Estimates(given["estimates"]),
        seed=given["seed"],
        costs=Costs.parse(given["restart_cost"]),
        elastic=given["elastic"],
    )


def _cluster(name: str | None, repo: str | None) -> "Cluster | None":
    if name is None:
        return None
    from reconciler.cli.specs_options import check_cluster, print_problems, spec_source
    from reconciler.specs.reading import read_specs

    source = spec_source(repo, None)
    check_cluster(name, source.tree.entries)
    reading = read_specs(source.tree, cache=source.cache(), paths=(), cluster=name)
    if not reading.platform.cluster.nodes:
        print_problems(reading.problems, "text", source, files=1, err=True)
        raise UsageError(f"--cluster {name}: conf/ has mistakes, see above")
    return reading.platform.cluster


def _policy(file: Path | None) -> "Policy | None":
    if file is None:
        return None
    from reconciler.specs.policy_file import read_policy

    try:
        return read_policy(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"--policy-file {file}: {error.strerror}") from None


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--json {file}: {error.strerror}") from None
