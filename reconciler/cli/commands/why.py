"""``headway why``: why a job waits, runs or ended, who is ahead, and what a person can do.

The answer is made from the status branch and its forecast.  For a job that waits (for devices, or
for a person), the planner
itself is asked for its conditions, rank and score (``cli.explanation``, loaded only then); where
it cannot be asked, the answer is the status branch's alone, and says so.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.advice import advice
from reconciler.cli.commands.describe import expected
from reconciler.cli.commands.queue import Row, rows_of
from reconciler.cli.items import forecast_item, job_item, waited_s
from reconciler.cli.options import View, complete_job, reads_history
from reconciler.cli.output import emit, output_option
from reconciler.cli.phrases import PHASE_STYLES, phrase_and_code
from reconciler.cli.places import place
from reconciler.cli.terminal import clean, wrap
from reconciler.cli.times import duration, time_of_day, zone_name
from reconciler.domain.plan import Expectation
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import Instant, JobId
from reconciler.errors import BackendError, NotFoundError

if TYPE_CHECKING:
    from reconciler.planning.explain import Explanation

AHEAD_SHOWN = 5


@click.command()
@click.argument("job", shell_complete=complete_job)
@click.option("--quick", is_flag=True, help="Only what the status branch says; read no specs.")
@click.option("--risk", is_flag=True, help="Plan what would make a running job leave.")
@output_option("text", "json", "yaml", default="text")
@reads_history
def why(view: View, job: str, quick: bool, risk: bool, output: str) -> None:
    """Say why JOB (TEAM/NAME) waits, runs or ended.

    For a job that waits: each thing it needs (ok or x), when that is expected, and who is ahead.
    For any other: how it came to where it is, and what to do about it.
    """
    status = view.status_of(job)
    waits = status.phase in (JobPhase.PENDING, JobPhase.HELD)
    asks = (waits and not quick) or risk
    explanation = _explanation(view, status.job) if asks else None
    ahead = _ahead(view, status, explanation)
    if output != "text":
        emit(_document(view, status, ahead, explanation), output)
        return
    lines = [_headline(view, status, explanation)]
    lines += _waiting(view, status, ahead, explanation) if waits else _standing(view, status)
    if risk and explanation is not None and not waits:
        lines += _risks(view, explanation)
    if what_to_do := advice(status):
        lines.append(f"What to do: {what_to_do}.")
    view.say("\n".join(wrap(line, view.terminal.width, "     ") for line in lines))


def _explanation(view: View, job: JobId) -> "Explanation | None":
    from reconciler.cli.explanation import explain_at

    try:
        return explain_at(view.repository.git_dir, view.branch.ref.commit, job, view.now)
    except (BackendError, NotFoundError) as error:
        view.note(f"warning: the conditions could not be checked one by one: {error}")
        return None


def _document(
    view: View, status: JobStatus, ahead: Sequence[JobId], explanation: "Explanation | None"
) -> dict[str, Any]:
    expectation = _expectation(view, status.job, explanation)
    rests_on = expectation.rests_on if expectation else ()
    document = {
        "kind": "Why",
        "state": view.state_item(),
        **job_item(status, expectation, view.now),
        "rests_on": [
            {"job": each, "forecast": forecast_item(view.branch.forecast[each])}
            for each in rests_on
            if each in view.branch.forecast
        ],
        "ahead": list(ahead),
        "advice": advice(status),
    }
    if explanation is not None:
        from reconciler.cli.explanation import explanation_item

        document["explanation"] = explanation_item(explanation)
    return document


def _ahead(view: View, status: JobStatus, explanation: "Explanation | None") -> tuple[JobId, ...]:
    """Return who goes first: by rank where the planner was asked, else by expected start."""
    if status.phase is not JobPhase.PENDING:
        return ()
    if explanation is not None:
        return explanation.ahead
    rows: Sequence[Row] = rows_of(view.branch.statuses().values(), view.branch.forecast)
    pending = [row.status.job for row in rows if row.position is not None]
    return tuple(pending[: pending.index(status.job)])


def _headline(view: View, status: JobStatus, explanation: "Explanation | None") -> str:
    phase = view.terminal.paint(status.phase, PHASE_STYLES[status.phase])
    zone = f" ({zone_name(view.zone)})"
    starts = " It starts when all of these hold:" if explanation else ""
    if status.phase is JobPhase.PENDING:
        summary = status.summary
        since = summary.submitted_at if summary else status.since
        when = f" since {time_of_day(since, view.zone, view.now)}" if since else ""
        waited = duration(waited_s(status, view.now) or 0)
        return f"{status.job} is {phase}{when}, {waited} in all{zone}.{starts}"
    if status.since is None:
        return f"{status.job} is {phase}."
    long = duration(view.now - status.since)
    when = time_of_day(status.since, view.zone, view.now)
    if status.phase.is_finished:
        was = "was " if status.phase is JobPhase.CANCELLED else ""
        return f"{status.job} {was}{phase} at {when}, {long} ago{zone}."
    return f"{status.job} is {phase} since {when}, {long}{zone}.{starts}"


def _said(status: JobStatus) -> str:
    said = phrase_and_code(status.reason)
    return f"{said}: {clean(status.message)}" if status.message else said


def _waiting(
    view: View,
    status: JobStatus,
    ahead: Sequence[JobId],
    explanation: "Explanation | None",
) -> list[str]:
    lines = []
    if explanation is not None:
        widest = max((len(check.name) for check in explanation.checks), default=0)
        for check in explanation.checks:
            mark = view.terminal.paint("ok", "good") if check.is_met else _cross(view)
            lines.append(f"  {mark} {check.name:<{widest}}  {clean(check.words)}")
        lines.append(f"Decided: {_said(status)}.")
    else:
        lines.append(f"  {_cross(view)} {_said(status)}")
    if status.phase is JobPhase.HELD:
        return lines
    expectation = _expectation(view, status.job, explanation)
    if expectation is None:
        lines.append("No start is forecast yet.")
    else:
        lines += _next(view, expectation)
        lines.append(f"It {expected(view, status, expectation)}.")
        lines += _apart(view, explanation)
    return [*lines, *_order(ahead, explanation), *_sooner(view, explanation)]


def _apart(view: View, explanation: "Explanation | None") -> list[str]:
    """Return what a job gives up that waits for a place closer together."""
    if explanation is None or explanation.apart is None:
        return []
    apart = explanation.apart
    ends = time_of_day(apart.end_p50, view.zone, view.now)
    runs = (
        f"the policy and {apart.runs} runs of this fleet say" if apart.runs else "the policy says"
    )
    return [
        f"Spread over {place(apart.allocation)} it could start now, and would end ~{ends}: it takes"
        f" {apart.slowdown:g} times as long so, {runs}."
    ]


def _sooner(view: View, explanation: "Explanation | None") -> list[str]:
    """Return the changes that would start it sooner, each planned before it is said."""
    if explanation is None or not explanation.suggestions:
        return []
    from reconciler.cli.explanation import suggestion_words

    def clock(at: Instant) -> str:
        return time_of_day(at, view.zone, view.now)

    lines = ["It would start sooner, as planned for each change alone:"]
    for each in explanation.suggestions:
        ends = view.branch.forecast.get(each.other) if each.other else None
        when = f", which is expected ~{clock(ends.end_p50)}" if ends else ""
        lines.append(f"     {suggestion_words(each, clock)}{when}")
    return lines


def _risks(view: View, explanation: "Explanation") -> list[str]:
    """Return for whom a running job would leave, each newcomer planned before it is said."""
    if not explanation.risks:
        return ["As planned for a newcomer of any team that may, it would not be asked to leave."]
    lines = ["It would be asked to leave, as planned for each newcomer alone:"]
    for each in explanation.risks:
        again = ""
        if each.resumes is not None:
            again = f" (back ~{time_of_day(each.resumes, view.zone, view.now)})"
        lines.append(f"     {each.words}{again}")
    return lines


def _expectation(view: View, job: JobId, explanation: "Explanation | None") -> Expectation | None:
    """Return what the planner says now, where it was asked, else what was published last."""
    if explanation is not None and explanation.expected is not None:
        return explanation.expected
    return view.branch.forecast.get(job)


def _cross(view: View) -> str:
    return view.terminal.paint("x ", "bad")


def _standing(view: View, status: JobStatus) -> list[str]:
    """Return how a job that does not wait came to where it is."""
    lines = [f"  {_said(status)}"]
    live = status.live_attempt
    if live:
        lines.append(f"  attempt {live.number} on {place(live.allocation)}")
        if expectation := view.branch.forecast.get(status.job):
            lines.append(f"  {expected(view, status, expectation)}")
    elif status.attempts:
        last = status.attempts[-1]
        step = "" if last.step is None else f" at step {last.step}"
        ran = duration(last.running_s(view.now))
        lines.append(f"  attempt {last.number} {last.phase} after {ran}{step}")
    return lines


def _next(view: View, expectation: Expectation) -> list[str]:
    """Return one line for each job whose end this one's start rests on."""
    lines = []
    for job, held in view.branch.statuses(expectation.rests_on).items():
        ends = view.branch.forecast.get(job)
        when = f", ends ~{time_of_day(ends.end_p50, view.zone, view.now)}" if ends else ""
        where = f" on {place(held.live_attempt.allocation)}" if held.live_attempt else ""
        lines.append(f"     next: {clean(job)} ({held.phase}{where}{when})")
    return lines


def _order(ahead: Sequence[JobId], explanation: "Explanation | None") -> list[str]:
    more = f" and {len(ahead) - AHEAD_SHOWN} more" if len(ahead) > AHEAD_SHOWN else ""
    named = ", ".join(ahead[:AHEAD_SHOWN]) or "nothing"
    lines = [f"Ahead of it: {named}{more}."]
    if explanation is not None and explanation.rank is not None:
        from reconciler.cli.explanation import score_words

        lines.append(
            f"Rank {explanation.rank} of {explanation.ranked}, {score_words(explanation)}."
        )
    return lines
