"""Fleets with quiet defaults: only what matters to a test is named."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reconciler.domain.units import JobId
from reconciler.domain.value_state import Held
from reconciler.planning.value.belief import Beliefs
from reconciler.planning.value.fleet import Fleet, JobFacts, Nodes
from reconciler.planning.value.index import Residuals
from reconciler.planning.value.ranking import Valuation
from reconciler.planning.value.rules import RULES, Rules

NOW = 1_000_000
"""A multiple of neither the rerank period nor a day: nothing depends on that."""


def nodes(count: int, size: int = 8, *, sizes: Sequence[int] | None = None) -> Nodes:
    sizes = tuple(sizes) if sizes else (size,) * count
    return Nodes(
        names=tuple(f"n{row:02}" for row in range(len(sizes))),
        sizes=sizes,
        pool=(0,) * len(sizes),
        pools=("a",),
        rack=tuple(row // 4 for row in range(len(sizes))),
        node=tuple(range(len(sizes))),
    )


def job(name: str, gpus: int = 1, **changes: Any) -> JobFacts:
    facts = JobFacts(job=JobId(f"t/{name}"), gpus=gpus, arrived=NOW, limit=14_400, predicted=3600)
    return replace(facts, **changes)


def runs(name: str, held: Held, *, ran_s: int = 3600, **changes: Any) -> JobFacts:
    """A job that has made progress for ``ran_s`` seconds and never waited."""
    gpus = sum(count for _, count in held)
    changes = {"arrived": NOW - ran_s, "since": NOW - ran_s, **changes}
    return job(name, gpus, held=held, **changes)


def fleet(
    where: Nodes,
    *,
    waiting: Sequence[JobFacts] = (),
    running: Sequence[JobFacts] = (),
    **changes: Any,
) -> Fleet:
    free = list(where.sizes)
    for facts in (*running, *changes.get("aside", ())):
        for row, count in facts.held:
            free[row] -= count
    for row in changes.get("shut", ()):
        free[row] = 0
    return Fleet(nodes=where, free=free, waiting=waiting, running=running, **changes)


def valuation(
    *, now: int = NOW, budget_s: float = 86_400.0, rules: Rules = RULES, beliefs: Beliefs
) -> Valuation:
    return Valuation(
        now=now,
        ranked_at=now - now % rules.rerank_every_s,
        budget_s=budget_s,
        residuals=Residuals(beliefs),
        rules=rules,
    )
