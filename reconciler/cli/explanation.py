"""Why a job waits, asked of the planner itself: its conditions one by one, its rank, its score.

The snapshot is the one the reconciler would meet now, as far as commits tell: the statuses of the
branch's tip, main at the commit acted on last, and the observations recorded with the newest
decision.  Imported only for a job that waits: reading specs may need Hydra and pydantic.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconciler.cli.output import instant
from reconciler.cli.times import duration
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import CommitId, Instant, JobId
from reconciler.planning.counterfactual import Suggestion, suggestions
from reconciler.planning.explain import Apart, Explanation, explain
from reconciler.planning.plan import plan
from reconciler.planning.risk import Risk, risks
from reconciler.snapshots.assemble import Assembler
from reconciler.snapshots.recorded import recorded_at
from reconciler.specs.cache import SpecCache, user_folder
from reconciler.specs.reading import read_specs
from reconciler.store.spec_source import SpecSource
from reconciler.store.status_tree import read_status_tree

SCORE_PARTS = ("priority_class", "deadline", "serves_online", "model_heat", "brevity")


def explain_at(git_dir: Path, tip: CommitId, job: JobId, now: Instant) -> Explanation:
    """Return what the planner says of ``job`` at ``now``.

    Raises ``GitError`` where main or the recorded inputs are not in this repository.
    """
    snapshot = snapshot_at(git_dir, tip, now)
    planned, _ = plan(snapshot)
    return replace(
        explain(snapshot, planned, job),
        suggestions=suggestions(snapshot, planned, job),
        risks=tuple(risks(snapshot, planned, job)),
    )


def snapshot_at(git_dir: Path, tip: CommitId, now: Instant) -> Snapshot:
    """Return what the reconciler would meet at ``now``, as far as commits tell.

    Raises ``GitError`` where main or the recorded inputs are not in this repository.
    """
    source = SpecSource(git_dir, remote="unused")
    recorded = recorded_at(git_dir, tip).inputs()
    inputs = replace(recorded, now=max(now, recorded.now), cursor=recorded.desired)
    cache = SpecCache(user_folder())
    reading = read_specs(source.tree(inputs.desired), cache=cache)
    return Assembler(source, cache).assemble(reading, read_status_tree(git_dir, tip), inputs)


def explanation_item(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as JSON."""
    score = explanation.score
    return {
        "decision": explanation.headline,
        "checks": [
            {"name": check.name, "is_met": check.is_met, "words": check.words}
            for check in explanation.checks
        ],
        "rank": explanation.rank,
        "ranked": explanation.ranked,
        "ahead": list(explanation.ahead),
        "apart": None if explanation.apart is None else apart_item(explanation.apart),
        "suggestions": [suggestion_item(each) for each in explanation.suggestions],
        "risks": [risk_item(each) for each in explanation.risks],
        "score": None
        if score is None
        else {"total": round(score.total, 4)}
        | {name: round(getattr(score, name), 4) for name in SCORE_PARTS}
        | {"favour": score.favour},
    }


def apart_item(apart: Apart) -> dict[str, Any]:
    """Return what a job gives up that waits for a better place, as JSON."""
    shares = apart.allocation.shares
    return {
        "nodes": {share.node: len(share.devices) for share in shares},
        "end_p50": instant(apart.end_p50),
        "slowdown": apart.slowdown,
        "slowdown_runs": apart.runs,
    }


def score_words(explanation: Explanation) -> str:
    """Return ``score 0.41 = class 0.15 + deadline 0.20 + ...``, empty without a score."""
    score = explanation.score
    if score is None:
        return ""
    words = {"priority_class": "class", "serves_online": "serves online", "model_heat": "heat"}
    parts = [
        f"{words.get(name, name)} {getattr(score, name):.2f}"
        for name in SCORE_PARTS
        if getattr(score, name)
    ]
    if not parts:
        return f"score {score.total:.2f}"
    if score.favour != 1.0:
        said = f"({' + '.join(parts)}) x {score.favour:.2f} for fair use"
        return f"score {score.total:.2f} = {said}"
    return f"score {score.total:.2f} = {' + '.join(parts)}"


def risk_item(risk: Risk) -> dict[str, Any]:
    """Return what would make a running job leave, as JSON."""
    return {
        "words": risk.words,
        "team": risk.team,
        "priority": risk.priority.name,
        "gpus": risk.gpus,
        "resumes": None if risk.resumes is None else instant(risk.resumes),
    }


def suggestion_item(suggestion: Suggestion) -> dict[str, Any]:
    """Return one verified change as JSON."""
    return {
        "change": suggestion.change.value,
        "words": suggestion.words,
        "gpus": suggestion.gpus,
        "starts_now": suggestion.starts_now,
        "start_p50": instant(suggestion.start_p50),
        "end_p50": instant(suggestion.end_p50),
        "sooner_s": suggestion.sooner_s,
        "later_end_s": suggestion.later_end_s,
        "other": suggestion.other,
    }


def suggestion_words(suggestion: Suggestion, clock: Callable[[Instant], str]) -> str:
    """Return ``now with 3 GPUs (ends 2h later)``; ``clock`` words an instant."""
    when = "now" if suggestion.starts_now else f"~{clock(suggestion.start_p50)}"
    later = suggestion.later_end_s
    shift = "ends as forecast"
    if abs(later) >= 60:
        shift = f"ends {duration(abs(later))} {'later' if later > 0 else 'sooner'}"
    return f"{when} {suggestion.words} ({shift})"
