"""The ``headway`` command: which verbs exist, and where each one lives.

``headway --help`` imports no verb, and a verb imports only itself: the table below is all that
is read at start-up.  A new verb is a module in ``commands/`` and a row here; tests hold that
every row imports and that ``docs/cli.md`` documents it.

Options given before the verb are defaults for the verb's options of the same name, so
``headway --repo DIR queue`` and ``headway queue --repo DIR`` are one.
"""

# ruff: noqa: ARG002  the methods have click's signatures

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

WORK = "Write and check specs (no cluster needed)"
READ = "See what runs, what waits, and why (read only)"
RUN = "Run a fleet"
ABOUT = "About this command"
HELP_WIDTH = 96


@dataclass(frozen=True, slots=True)
class Verb:
    """One row: the module and attribute that hold the click command, and its line of help."""

    section: str
    module: str
    attribute: str
    help: str


def _row(section: str, name: str, summary: str) -> tuple[str, Verb]:
    module = name.replace("-", "_")
    return name, Verb(section, f"reconciler.cli.commands.{module}", module, summary)


VERBS: Mapping[str, Verb] = dict(
    (
        _row(WORK, "init", "Make a new fleet repository"),
        _row(WORK, "validate", "Check specs; every mistake with line, column and fix"),
        _row(WORK, "render", "Show a job as it will run, after composition and overrides"),
        _row(WORK, "plan", "Show what a change would do to the schedule, before it is merged"),
        _row(WORK, "estimate", "Memory, speed and smallest gang of a training, before it runs"),
        _row(WORK, "advise", "Rank the ways to share GPUs for a model; print the train: lines"),
        _row(WORK, "simulate", "Play a trace on a fleet of paper, beside other policies"),
        _row(WORK, "reserve", "Write the document of a reservation: GPUs kept for a time"),
        _row(WORK, "schema", "Print the JSON Schema an editor uses for specs"),
        _row(READ, "queue", "Who runs, who waits, and when each job starts"),
        _row(READ, "get", "List jobs, attempts, teams or reservations"),
        _row(READ, "describe", "Everything known about one job or reservation"),
        _row(READ, "budgets", "GPU-hours used, promised and left of every budget"),
        _row(READ, "why", "Why a job waits, runs or ended"),
        _row(READ, "logs", "Print or follow what a job writes"),
        _row(READ, "audit", "Who asked for what, what was decided, when and why"),
        _row(READ, "eta-report", "How good the predicted starts and ends were"),
        _row(READ, "bisect-eta", "Which commit moved a job's predicted start, and by how much"),
        _row(READ, "whatif", "The recorded past again under another policy: who gains, who loses"),
        _row(RUN, "reconcile", "Run the loop: plan, record, launch"),
        _row(RUN, "replay", "Derive a recorded decision again from commits alone"),
        _row(ABOUT, "completion", "Print the completion script of a shell"),
        _row(ABOUT, "version", "Print the version"),
    )
)


class LazyGroup(click.Group):
    """A group that knows its verbs by name and imports one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every verb, in the order of the table."""
        return list(VERBS)

    def get_command(
        self,
        ctx: click.Context,
        cmd_name: str,
    ) -> click.Command | None:
        """Return the verb's command, importing its module; None for a name that is no verb."""
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        command = getattr(import_module(verb.module), verb.attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{verb.module}:{verb.attribute} is no click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; a name close to one gets it as advice."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, n=1)
            advice = f"Did you mean '{near[0]}'?" if near else "See `headway --help`."
            ctx.fail(f"No such command '{args[0]}'. {advice}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the verbs by section, from the table alone."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, verb in VERBS.items():
            sections.setdefault(verb.section, []).append((name, verb.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Return the verbs that start with ``incomplete``, without importing any."""
        from click.shell_completion import CompletionItem

        verbs = [
            CompletionItem(name, help=verb.help)
            for name, verb in VERBS.items()
            if name.startswith(incomplete)
        ]
        return verbs if not incomplete.startswith("-") else super().shell_complete(ctx, incomplete)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH},
)
@click.option("--repo", metavar="PATH", help="Clone or bare repository.  [HEADWAY_REPO, or here]")
@click.option("--tz", metavar="ZONE", help="Show clock times in this zone, as Asia/Shanghai.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), help="Colour the words.")
@click.option("-q", "--quiet", is_flag=True, default=None, help="No footers, no warnings.")
@click.option("-v", "--verbose", is_flag=True, default=None, help="Say what is read, and whence.")
@click.pass_context
def headway(ctx: click.Context, /, **given: Any) -> None:
    """A shared GPU fleet, run from a git repository.

    Specs are files on main; what was decided and what came of it is the log of the status
    branch. Every verb has --help; docs/cli.md has the exit codes.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        return
    defaults = {name: value for name, value in given.items() if value is not None}
    ctx.default_map = dict.fromkeys(VERBS, defaults)


def run(argv: Sequence[str], *, prog_name: str = "headway", obj: object = None) -> int:
    """Run one command line and return its exit code.  Raises what the boundary words."""
    asked = os.environ.get(f"_{prog_name.upper()}_COMPLETE")
    if asked:
        from click.shell_completion import shell_complete

        return shell_complete(headway, {}, prog_name, f"_{prog_name.upper()}_COMPLETE", asked)
    with headway.make_context(prog_name, list(argv), obj=obj) as ctx:
        outcome = headway.invoke(ctx)
    return outcome if isinstance(outcome, int) else 0
