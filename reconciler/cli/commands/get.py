"""``headway get``: lists of what the status branch knows: jobs, attempts, teams, reservations."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from reconciler.cli.commands.describe import attempt_cells
from reconciler.cli.footer import devices_in_use
from reconciler.cli.items import attempt_item, gpu_seconds, job_item
from reconciler.cli.options import View, complete_job, job_of, reads_fleet, team_option
from reconciler.cli.output import emit_items, emit_names, output_option
from reconciler.cli.phrases import PHASE_STYLES, why_in_short
from reconciler.cli.reserved import by_name, calendar_table, idle_gpu_s, reservation_item
from reconciler.cli.tables import Cell, Column, render
from reconciler.cli.terminal import clean
from reconciler.cli.times import clock, zone_name
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import JobId
from reconciler.errors import NotFoundError

Rows = list[list[str | Cell]]
KINDS = ("jobs", "attempts", "teams", "reservations")
_SINGULAR = {kind.removesuffix("s"): kind for kind in KINDS}


class KindType(click.Choice[str]):
    """``jobs`` and ``job`` alike."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the plural of a kind."""
        return super().convert(_SINGULAR.get(value, value), param, ctx)


@click.command()
@click.argument("kind", type=KindType(KINDS))
@click.argument("names", nargs=-1, metavar="[JOB]...", shell_complete=complete_job)
@team_option
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice([str(phase) for phase in JobPhase]),
    help="Only jobs in this phase; may be given more than once.",
)
@click.option("--no-headers", is_flag=True, help="Leave out the line of heads.")
@output_option("table", "json", "yaml", "name")
@reads_fleet
def get(
    view: View,
    kind: str,
    names: Sequence[str],
    team: str | None,
    phases: Sequence[str],
    no_headers: bool,
    output: str,
) -> None:
    """List KIND: jobs, attempts (the last five of each job), teams or reservations.

    All of them, or of JOB. Finished jobs are listed too; `headway queue` has the order in which
    jobs run. Of reservations, every occurrence that is remembered or booked is a line.
    """
    if kind == "reservations":
        _reservations(view, names, team, no_headers, output)
        return
    statuses = _chosen(view, names, team, phases)
    listed = _LISTS[kind]
    if output == "name":
        emit_names(listed.names(statuses))
    elif output in ("json", "yaml"):
        items = listed.items(view, statuses)
        emit_items(f"{_title(kind)}List", items, output, state=view.state_item())
    else:
        heads, rows = listed.table(view, statuses)
        if rows:
            view.say(render(heads, rows, view.terminal, heads=not no_headers))
        else:
            view.note(f"no {kind}")


def _reservations(
    view: View, names: Sequence[str], team: str | None, no_headers: bool, output: str
) -> None:
    wanted = [job_of(name) for name in names] or None
    found = by_name(view.branch.reservations(wanted).values(), team)
    for name in wanted or ():
        if name not in found:
            raise NotFoundError(f"no reservation {name} on {view.branch.ref.name}")
    if output == "name":
        emit_names(f"reservation/{name}" for name in found)
    elif output in ("json", "yaml"):
        items = [reservation_item(each, view.now) for each in found.values()]
        emit_items("ReservationList", items, output, state=view.state_item())
    else:
        heads, rows = calendar_table(found.values(), view.zone, view.now, shows_all=True)
        if rows:
            view.say(render(heads, rows, view.terminal, heads=not no_headers))
        else:
            view.note("no reservations")


def _chosen(
    view: View, names: Sequence[str], team: str | None, phases: Sequence[str]
) -> tuple[JobStatus, ...]:
    if names:
        found: Mapping[JobId, JobStatus] = {
            job_of(name): view.status_of(name) for name in sorted(set(names))
        }
    else:
        found = view.branch.statuses()
    return tuple(
        status
        for job, status in found.items()
        if (not team or job.partition("/")[0] == team) and (not phases or status.phase in phases)
    )


class _Jobs:
    @staticmethod
    def names(statuses: Iterable[JobStatus]) -> list[str]:
        return [f"job/{status.job}" for status in statuses]

    @staticmethod
    def items(view: View, statuses: Iterable[JobStatus]) -> list[dict[str, Any]]:
        forecast = view.branch.forecast
        return [job_item(each, forecast.get(each.job), view.now) for each in statuses]

    @staticmethod
    def table(view: View, statuses: Iterable[JobStatus]) -> tuple[list[Column], Rows]:
        heads = [
            Column("JOB"), Column("PHASE"), Column("PRIO"), Column("GPUS", "right"),
            Column("ATTEMPTS", "right"), Column("GPU-HOURS", "right"),
            Column(f"SINCE ({zone_name(view.zone)})"), Column("REASON"),
        ]  # fmt: skip
        rows: Rows = [
            [
                clean(status.job),
                Cell(str(status.phase), PHASE_STYLES[status.phase]),
                status.summary.priority.name if status.summary else "",
                str(status.summary.gpus) if status.summary else "",
                str(status.attempts_made),
                f"{gpu_seconds(status, view.now) / 3600:.1f}",
                clock(status.since, view.zone, view.now) if status.since else "",
                clean(why_in_short(status)),
            ]
            for status in statuses
        ]
        return heads, rows


class _Attempts:
    @staticmethod
    def names(statuses: Iterable[JobStatus]) -> list[str]:
        return [attempt.id for status in statuses for attempt in status.attempts]

    @staticmethod
    def items(view: View, statuses: Iterable[JobStatus]) -> list[dict[str, Any]]:
        return [
            {"job": status.job, **attempt_item(attempt, view.now)}
            for status in statuses
            for attempt in status.attempts
        ]

    @staticmethod
    def table(view: View, statuses: Iterable[JobStatus]) -> tuple[list[Column], Rows]:
        heads = [
            Column("JOB"), Column("ATTEMPT", "right"), Column("PHASE"), Column("GPUS", "right"),
            Column("PLACE"), Column(f"STARTED ({zone_name(view.zone)})"), Column("RAN", "right"),
            Column("STEP", "right"), Column("CHECKPOINT", "right"), Column("EXIT", "right"),
            Column("REASON"),
        ]  # fmt: skip
        rows: Rows = [
            [clean(status.job), *attempt_cells(view, attempt)]
            for status in statuses
            for attempt in status.attempts
        ]
        return heads, rows


class _Teams:
    @staticmethod
    def names(statuses: Iterable[JobStatus]) -> list[str]:
        return [f"team/{team}" for team in _by_team(statuses)]

    @staticmethod
    def items(view: View, statuses: Iterable[JobStatus]) -> list[dict[str, Any]]:
        idle: dict[str, int] = {}
        for each in view.branch.reservations().values():
            name = clean(each.reservation.partition("/")[0])
            idle[name] = idle.get(name, 0) + idle_gpu_s(each, view.now)
        return [
            {
                "team": team,
                "jobs": len(theirs),
                "phases": _phases(theirs),
                "gpus_in_use": len(devices_in_use(theirs)),
                "gpu_seconds": sum(gpu_seconds(status, view.now) for status in theirs),
                "idle_reserved_gpu_seconds": idle.get(team, 0),
            }
            for team, theirs in _by_team(statuses).items()
        ]

    @staticmethod
    def table(view: View, statuses: Iterable[JobStatus]) -> tuple[list[Column], Rows]:
        heads = [
            Column("TEAM"), Column("JOBS", "right"), Column("RUNNING", "right"),
            Column("PENDING", "right"), Column("GPUS IN USE", "right"),
            Column("GPU-HOURS", "right"), Column("IDLE RESERVED", "right"), Column("PHASES"),
        ]  # fmt: skip
        rows: Rows = [
            [
                row["team"],
                str(row["jobs"]),
                str(row["phases"].get("running", 0) + row["phases"].get("stopping", 0)),
                str(row["phases"].get("pending", 0)),
                str(row["gpus_in_use"]),
                f"{row['gpu_seconds'] / 3600:.1f}",
                f"{row['idle_reserved_gpu_seconds'] / 3600:.1f}",
                ", ".join(f"{number} {phase}" for phase, number in row["phases"].items()),
            ]
            for row in _Teams.items(view, statuses)
        ]
        return heads, rows


def _by_team(statuses: Iterable[JobStatus]) -> dict[str, list[JobStatus]]:
    teams: dict[str, list[JobStatus]] = {}
    for status in statuses:
        teams.setdefault(clean(status.job.partition("/")[0]), []).append(status)
    return dict(sorted(teams.items()))


def _phases(statuses: Sequence[JobStatus]) -> dict[str, int]:
    return {
        str(phase): number
        for phase in JobPhase
        if (number := sum(status.phase is phase for status in statuses))
    }


def _title(kind: str) -> str:
    return kind.removesuffix("s").title()


_LISTS: Mapping[str, type[_Jobs] | type[_Attempts] | type[_Teams]] = {
    "jobs": _Jobs,
    "attempts": _Attempts,
    "teams": _Teams,
}
