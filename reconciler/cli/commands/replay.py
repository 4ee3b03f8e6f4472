"""``headway replay``: derives recorded decisions again, from commits alone."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.options import View, reads_history
from reconciler.cli.output import emit_items, output_option
from reconciler.cli.phrases import count
from reconciler.domain.units import CommitId
from reconciler.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from reconciler.engine.replay import Replayed


@click.command()
@click.argument("commit", required=False)
@click.option("--all", "whole", is_flag=True, help="Every commit of the status branch.")
@reads_history
@output_option("table", "json", "yaml")
@click.pass_context
def replay(ctx: click.Context, view: View, commit: str | None, whole: bool, output: str) -> None:
    """Derive the decision of COMMIT of the status branch again (without it: the newest).

    The statuses before it, the inputs it recorded and main at the commit they name are planned
    anew, in this process; the digests of snapshot and plan must be those the commit states.

    Exit codes: 0 everything was derived again, 1 something differs.
    """
    from reconciler.engine.replay import Replayer

    if commit and whole:
        raise UsageError("say a COMMIT or --all, not both")
    replayer = Replayer(view.repository.git_dir)
    if whole:
        replayed: Iterable[Replayed] = replayer.replay_all(view.branch.ref.commit)
    else:
        found = replayer.newest_decision(view.branch.ref.commit)
        if commit:
            found = _resolved(view, commit)
        replayed = (replayer.replay(found),)
    done = []
    for each in replayed:
        done.append(each)
        if output == "table":
            view.say(line(each))
    failed = [each for each in done if not each.holds]
    if output == "table":
        decisions = count(sum(each.is_decision for each in done), "decision")
        view.say(f"{decisions} derived again, {len(failed)} different")
        for each in failed:
            view.note(f"{each.commit} was decided with {_words(each.versions)}")
    else:
        emit_items("ReplayList", [item(each) for each in done], output, state=view.state_item())
    ctx.exit(1 if failed else 0)


def _resolved(view: View, commit: str) -> CommitId:
    from reconciler.store.git.command import resolve

    found = resolve(view.repository.git_dir, commit)
    if found is None:
        raise NotFoundError(f"no commit {commit} in {view.repository.git_dir}")
    return found


def line(replayed: "Replayed") -> str:
    """Return one line: the verdict, the commit, the plan's digest, the subject."""
    verdict = "same" if replayed.holds else "DIFFERENT"
    if not replayed.is_decision:
        verdict = "-"
    digest = (replayed.plan or "").removeprefix("sha256:")[:12] or "no decision"
    return f"{verdict:9}  {replayed.commit[:10]}  {digest:12}  {replayed.subject}"


def item(replayed: "Replayed") -> dict[str, Any]:
    """Return one commit for machines."""
    return {
        "commit": replayed.commit,
        "subject": replayed.subject,
        "is_decision": replayed.is_decision,
        "holds": replayed.holds,
        "plan": {"stated": replayed.stated_plan, "derived": replayed.plan},
        "inputs": {"stated": replayed.stated_inputs, "derived": replayed.inputs},
        "versions": dict(replayed.versions),
    }


def _words(versions: Any) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
