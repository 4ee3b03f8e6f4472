"""What the platform decided: score weights, class rules, preemption prices, retries, bounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from math import isclose

from reconciler.domain.job import PriorityClass
from reconciler.domain.units import Seconds


class Order(StrEnum):
    """How the ranking is made; ``score`` is the weighted priority alone."""

    SCORE = "score"
    VALUE = "value"
    """Expected GPU-seconds to completion over the score, aged towards a waiting bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreWeights:
    """The share each factor has in a job's score.  Shares are >= 0 and sum to 1."""

    priority_class: float = 0.30
    deadline: float = 0.25
    serves_online: float = 0.20
    model_heat: float = 0.15
    brevity: float = 0.10

    def __post_init__(self) -> None:
        shares = [getattr(self, item.name) for item in fields(self)]
        if min(shares) < 0 or not isclose(sum(shares), 1.0, abs_tol=1e-9):
            raise ValueError(f"score weights must be >= 0 and sum to 1, got {shares}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPolicy:
    """Who may stop whom, and what a victim costs."""

    victims_of: Mapping[PriorityClass, tuple[PriorityClass, ...]] = field(
        default_factory=lambda: {
            PriorityClass.P0: (
                PriorityClass.P1, PriorityClass.P2, PriorityClass.P3, PriorityClass.P4,
            ),
            PriorityClass.P1: (PriorityClass.P3, PriorityClass.P4),
        }
    )  # fmt: skip
    """Classes a job of the key's class may stop; always strictly lower ones, so no loop exists."""
    restart_s: Seconds = Seconds(90)
    """Seconds a stopped gang loses to saving and loading again."""
    min_run_s: Seconds = Seconds(0)
    """An attempt younger than this is not a victim."""
    max_per_job: int = 20
    """A job stopped this often is no victim any more in its generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Only ``failed`` attempts use up a try; lost, preempted and cancelled ones do not."""

    max_tries: int = 3
    backoff_s: Seconds = Seconds(30)
    """Wait after the first failure; doubled after each further one."""
    max_lost: int = 10
    """Attempts lost to the infrastructure in one generation before the job is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPolicy:
    """When a file that left main ends its job."""

    grace_s: Seconds = Seconds(600)
    brake_jobs: int = 5
    brake_share: float = 0.10
    """More absent live jobs than max(brake_jobs, brake_share x live) at once need an admin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadSlowdown:
    """How much longer a gang takes that is spread further than it has to be, as measured.

    1 and 1: nothing was measured, and the planner does not weigh one place against another.
    """

    nodes: float = 1.0
    """Over more nodes than the fewest that can hold it, in as few racks as can be."""
    racks: float = 1.0
    """Over more racks than the fewest that can hold it."""

    def __post_init__(self) -> None:
        if not 1.0 <= self.nodes <= self.racks:
            raise ValueError(
                "a spread slowdown is at least 1, and over racks no less than over nodes, got"
                f" nodes {self.nodes:g}, racks {self.racks:g}"
            )

    def __bool__(self) -> bool:
        """True where something was measured."""
        return self.racks > 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FairUse:
    """What a team's use of the fleet lately does to its place in the order."""

    half_life_s: Seconds = Seconds(0)
    """A GPU-second counts half after this long; 0: use is not counted."""
    strength: float = 1.0
    """A team without any use lately is moved up by 2 to the power of this, one with twice its
    share or more down by as much."""

    def __post_init__(self) -> None:
        if self.half_life_s < 0 or self.strength < 0:
            raise ValueError(
                "fair use needs a half life and a strength of 0 or more, got"
                f" {self.half_life_s} s and {self.strength:g}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    order: Order = Order.VALUE
    weights: ScoreWeights = ScoreWeights()
    model_heat: Mapping[str, float] = field(default_factory=dict)
    """Model name to its share in [0, 1]."""
    preemption: PreemptionPolicy = PreemptionPolicy()
    retry: RetryPolicy = RetryPolicy()
    deletion: DeletionPolicy = DeletionPolicy()
    waiting_bounds: Mapping[PriorityClass, Seconds] = field(default_factory=dict)
    """How long a job of a class waits at most before its place is firm; a class that is not named
    has the bound that plain backfilling would have kept.  Used by the value order."""
    spread_slowdown: SpreadSlowdown = SpreadSlowdown()
    fair_use: FairUse = FairUse()
    cycle_s: Seconds = Seconds(15)
    """The longest time between two cycles of the loop."""
    rerank_every_s: Seconds = Seconds(120)
    """Ranks use ``now`` rounded down to this."""
    lease_s: Seconds = Seconds(30)
    default_duration_s: Seconds = Seconds(4 * 3600)
    """Expected running time of a job whose document gives neither estimate nor limit."""
    lost_after_s: Seconds = Seconds(120)
    """An attempt no launcher knows is lost after this long."""
    checkpoint_floor_steps: int = 0
    """The most steps a preemptible job may put between checkpoints; 0: no bound."""
    max_request_gpus: int = 10_000
    """Requests above this are absurd and refused as such."""
