"""Which files and which words make a plan fact?  One commit of the status branch, as a value.

Changed statuses, the cursor, the recorded inputs, and the forecast when it is due.  Pure: the
same decision is the same commit, but for its time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.domain.plan import Plan
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import StatusUpdate
from reconciler.domain.units import Instant
from reconciler.planning.forecast import forecast_moved
from reconciler.snapshots.inputs import Inputs, Recorded, encode
from reconciler.snapshots.snapshot_digest import snapshot_digest
from reconciler.specs.serialize import (
    Budgets,
    Cursor,
    Forecast,
    budgets_to_json,
    cursor_to_json,
    forecast_to_json,
    reservation_to_json,
    status_to_json,
)
from reconciler.store.commit_message import status_message
from reconciler.store.status_tree import (
    BUDGETS_FILE,
    CURSOR_FILE,
    FORECAST_FILE,
    HISTORY_FILE,
    status_path,
)

FORECAST_EVERY_S = 60
"""Each version of the forecast is a published prediction that will be scored: not more often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One cycle's plan with all that its commit is made from."""

    snapshot: Snapshot
    plan: Plan
    update: StatusUpdate
    inputs: Inputs
    before: Recorded | None
    """The inputs of the decision before this one on the branch."""
    published: Forecast | None
    """The forecast that lies there."""
    runs_dir: str
    epoch: int
    history: bytes | None = None
    """The history with what attempts that end here taught; None: it stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCommit:
    files: Mapping[str, bytes | None]
    message: str
    recorded: Recorded
    published: Forecast | None
    """The forecast as it lies on the branch after this commit."""


def decision_commit(decided: Decided) -> DecisionCommit | None:
    """Return the commit that records the plan; None where nothing happened that must be kept."""
    forecast = _due_forecast(decided)
    if not decided.update and forecast is None:
        return None
    files: dict[str, bytes | None] = {
        status_path(status.job): status_to_json(status) for status in decided.update.changed
    }
    for kept in decided.update.reservations:
        files[status_path(kept.reservation)] = reservation_to_json(kept)
    if decided.plan.budgets and decided.update:
        budgets = Budgets(at=decided.snapshot.now, uses=decided.plan.budgets)
        files[BUDGETS_FILE] = budgets_to_json(budgets)
    if not decided.snapshot.desired.is_rewritten:
        nodes = decided.snapshot.cluster.nodes
        cursor = Cursor(
            desired=decided.inputs.desired,
            runs=decided.runs_dir,
            devices=sum(len(node.devices) for node in nodes),
        )
        files[CURSOR_FILE] = cursor_to_json(cursor)
    if decided.history is not None:
        files[HISTORY_FILE] = decided.history
    if forecast is not None:
        files[FORECAST_FILE] = forecast_to_json(forecast)
    inputs, recorded = encode(decided.inputs, decided.before)
    message = status_message(
        decided.update,
        epoch=decided.epoch,
        desired=decided.inputs.desired,
        plan=decided.plan,
        inputs=snapshot_digest(decided.snapshot),
        note=_note(decided),
    )
    return DecisionCommit(
        files={**files, **inputs},
        message=message,
        recorded=recorded,
        published=forecast or decided.published,
    )


def _due_forecast(decided: Decided) -> Forecast | None:
    """Return the forecast to publish: at most once a minute, and only where it moved."""
    now, old = decided.snapshot.now, decided.published
    if old is not None and _age_s(old, now) < FORECAST_EVERY_S:
        return None  # the forecast is made when it is read: not in every cycle
    new = decided.plan.forecast
    if old is None:
        return Forecast(published_at=now, jobs=new) if new else None
    if not forecast_moved(old.jobs, new, now):
        return None
    return Forecast(published_at=now, jobs=new)


def _age_s(forecast: Forecast, now: Instant) -> int:
    return now - forecast.published_at


def _note(decided: Decided) -> str:
    """Return a sentence about requests that should alarm somebody, with who brought them."""
    jobs = decided.snapshot.desired.jobs
    refused = sorted(
        each.job for each in decided.update.transitions if each.reason is Reason.WILDCARD_REQUEST
    )
    if not refused:
        return ""
    who = sorted({jobs[job].author for job in refused if job in jobs} - {""})
    return f"security: refused {', '.join(refused)}" + (f", by {', '.join(who)}" if who else "")
