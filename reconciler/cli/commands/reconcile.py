"""``headway reconcile``: the live loop, or one cycle of it."""

from pathlib import Path

import click

STATE_DIR = "headway-state"


@click.command()
@click.option(
    "--repo",
    metavar="URL|PATH",
    envvar="HEADWAY_REPO",
    default=".",
    show_default=True,
    help="The fleet's repository: a URL, or the path of a (bare) repository.",
)
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(STATE_DIR),
    show_default=True,
    help="This reconciler's own folder: mirror, caches, outbox, lock.",
)
@click.option(
    "--runs",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Root of the run directories.  [default: launcher.runs_dir of conf]",
)
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Folder that relative dataset paths of jobs start from.",
)
@click.option("--once/--loop", default=False, help="One cycle, or until stopped.  [default: loop]")
@click.option("--standby", is_flag=True, help="Wait for a lease that another reconciler holds.")
@click.option("--holder", metavar="NAME", help="Name in the lease.  [default: host and state id]")
@click.option(
    "--accept-history",
    metavar="OID",
    help="Go on from this commit of a main that was rewritten.",
)
def reconcile(
    repo: str,
    state: Path,
    runs: Path | None,
    data: Path | None,
    once: bool,
    standby: bool,
    holder: str | None,
    accept_history: str | None,
) -> None:
    """Run the fleet: plan, record, launch.

    Reads main, decides, records each decision as a commit on status/<cluster>, then acts.  One
    line an event on stderr.  SIGTERM finishes the cycle under way and leaves runs alive.

    Exit codes: 0 stopped when asked; 5 git or a launcher needs a person; 70 our bug, with a
    saved snapshot; 75 another reconciler holds the lease.
    """
    from reconciler.engine.logging import Log
    from reconciler.engine.service import Options, now
    from reconciler.engine.service import reconcile as run
    from reconciler.store.git.command import full_id

    run(
        Options(
            repo=repo,
            state=state,
            runs=runs,
            data=data,
            holder=holder,
            once=once,
            standby=standby,
            accept_history=full_id(accept_history) if accept_history else None,
        ),
        log=Log(now),
    )
