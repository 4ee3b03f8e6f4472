"""The constants of the value order: one set for every fleet and every trace.

Sources and measured effect of each are in ``docs/planning-policy.md``.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the value order ranks, prices and guards.  Durations are seconds."""

    rerank_every_s: int = 120
    """Ranks use ``now`` rounded down to this."""
    least_ageing: float = 1e-4
    """A job at its waiting bound keeps this share of its expected GPU-seconds in the rank."""
    firm_share: float = 0.98
    """A waiting job becomes firm when its delay has used up this share of its budget."""
    least_budget_s: int = 2 * 3600
    """The waiting budget is never below this."""
    budget_factor: float = 1.0
    """Multiplies what the shadow schedule says of the longest wait."""
    forecast_every_s: int = 1800
    forecast_growth: float = 0.02
    """The shadow's coming waits are forecast anew after this time, or this share of them if that is
    longer."""
    forecast_factor: float = 1.0
    """Multiplies what the forecast of the shadow says of the longest coming wait."""
    relief_share: float = 0.003
    relief_jobs: int = 5
    """More firm jobs than relief_share x arrivals + relief_jobs raise the budget ..."""
    relief_step: float = 1.02
    """... by this factor for each one more."""
    hysteresis: float = 2.0
    """A preemptor's rate must exceed the sum of its victims' rates by this factor."""
    price_weight: float = 2.0
    """How much stopping and restoring counts against a preemption."""
    reassembly: float = 1000.0
    """Price of stopping a gang grows by this times the square of its share of the cluster."""
    quantum_s: int = 600
    """A job that made progress for less than this is no victim of the value test."""


RULES = Rules()
"""The one set."""
