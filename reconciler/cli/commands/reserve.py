"""``headway reserve``: writes the document of a reservation, ready for a pull request."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from reconciler.cli.options import Session, job_of
from reconciler.cli.times import find_zone
from reconciler.cli.working_tree import top_folder
from reconciler.domain.units import Instant, JobId
from reconciler.errors import UsageError
from reconciler.specs.durations import parse_duration
from reconciler.specs.paths import job_at

FOUND = 1


@click.command()
@click.argument("name", metavar="TEAM/NAME")
@click.option("--gpus", type=click.IntRange(min=1), required=True, help="How many GPUs to keep.")
@click.option("--for", "duration", metavar="TIME", required=True, help="How long, as 72h or 1d12h.")
@click.option("--start", metavar="WHEN", help="RFC 3339, or local time as 2026-12-02T18:00.")
@click.option("--in", "ahead", metavar="TIME", help="Start this long from now, instead of --start.")
@click.option("--zone", metavar="ZONE", help="Time zone of a local --start, as Asia/Shanghai.")
@click.option("--weekly", is_flag=True, help="Every week at the same clock time.")
@click.option("--until", metavar="WHEN", help="Exclusive end of --weekly.")
@click.option("--gpu-type", "types", multiple=True, metavar="TYPE", help="Device type; repeatable.")
@click.option("--job", "jobs", multiple=True, metavar="JOB", help="Only for this job; repeatable.")
@click.option("--shared", is_flag=True, help="Others may use what is idle, and leave on demand.")
@click.option("--release-if-idle", metavar="TIME", help="Hand back after this long idle.")
@click.option("--budget", metavar="NAME", help="The budget group that pays.")
@click.option("--repo", metavar="PATH", help="The fleet's work tree.  [here]")
@click.option("--print", "prints", is_flag=True, help="Print the document; write no file.")
@click.pass_context
def reserve(ctx: click.Context, /, name: str, prints: bool, repo: str | None, **said: Any) -> None:
    """Write jobs/TEAM/NAME.yaml, which keeps GPUs from one instant to another.

    The document is judged like any other before it is written. Commit it and open a pull
    request: `headway plan` says there whether it fits, and if not, when it would.
    """
    reservation = job_of(name)
    path = f"jobs/{reservation}.yaml"
    if job_at(path) is None:
        raise UsageError(f"{name}: a team and a name are lower-case letters, digits and `-`")
    now = Instant(int((ctx.find_object(Session) or Session()).clock()))
    text = document(now, **said)
    top = top_folder(Path(repo or "."))
    if top is None:
        raise UsageError("a bare repository has no files: pass --repo with a work tree")
    if not prints and (top / path).exists():
        raise UsageError(f"{path} is there already: edit it, or choose another name")
    found = _problems(top, reservation, path, text)
    if found:
        for line in found:
            click.echo(line, err=True)
        ctx.exit(FOUND)
    if prints:
        click.echo(text, nl=False)
        return
    (top / path).parent.mkdir(parents=True, exist_ok=True)
    (top / path).write_text(text, encoding="utf-8")
    click.echo(
        f"wrote {path}\nNext: headway plan, then commit it and open a pull request;"
        " merging it is the reservation"
    )


def document(now: Instant, **said: Any) -> str:
    """Return the text of the document; raises ``UsageError`` for words that make none."""
    if bool(said["start"]) == bool(said["ahead"]):
        raise UsageError("say when it starts: --start WHEN or --in TIME, and not both")
    start, zone = said["start"], said["zone"]
    if said["ahead"]:
        start = _ahead(now, said["ahead"], zone)
    keys = {
        "start": f'"{start}"',
        "timezone": zone if said["start"] or said["weekly"] else None,
        "duration": said["duration"],
        "every": "weekly" if said["weekly"] else None,
        "until": f'"{said["until"]}"' if said["until"] else None,
        "gpus": said["gpus"],
        "gpu_type": _listed(said["types"]),
        "for": _listed(said["jobs"]),
        "exclusive": "false" if said["shared"] else None,
        "release_if_idle": said["release_if_idle"],
        "budget_group": said["budget"],
    }
    head = (
        "# yaml-language-server: $schema=../../.headway/schema/reservation.json\n"
        "api_version: headway/v1\nkind: Reservation\n"
    )
    return head + "".join(f"{key}: {value}\n" for key, value in keys.items() if value is not None)


def _ahead(now: Instant, ahead: str, zone: str | None) -> str:
    """Return the whole minute that far from now, with its offset."""
    try:
        at = now + parse_duration(ahead)
    except ValueError as error:
        raise UsageError(f"--in {ahead}: {error}") from None
    whole = -(-at // 60) * 60
    return datetime.fromtimestamp(whole, find_zone(zone)).isoformat()


def _listed(words: Sequence[str]) -> str | None:
    return f"[{', '.join(words)}]" if words else None


def _problems(top: Path, reservation: JobId, path: str, text: str) -> list[str]:
    """Return what is wrong with the document in this work tree, one line each."""
    from reconciler.cli.working_tree import WorkingTree
    from reconciler.specs.entries import has_errors
    from reconciler.specs.reading import read_specs

    tree = WorkingTree(top)
    tree.put(path, text.encode())
    reading = read_specs(tree, paths=(path,))
    conf = [each for each in reading.problems if each.file.startswith("conf/")]
    return [
        f"{each.file}:{each.line}:{each.column}: {each.code} {each.message}"
        + (f" ({each.hint})" if each.hint else "")
        for each in (*reading.entries[reservation].problems, *conf)
        if has_errors((each,))
    ]
