"""What the value order is told and what it answers: nodes as counts, jobs as facts.

The core works on counts of devices per node; which devices those are is the pipeline's business.
A ``JobFacts`` changes only when something happened to its job, so a caller keeps it from cycle
to cycle and a cycle makes no object per job.  Instants are Unix seconds, durations seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from reconciler.domain.units import JobId
from reconciler.domain.value_state import Held, ValueState
from reconciler.planning.caches import Cached
from reconciler.planning.table import Table


class Within(IntEnum):
    """The smallest domain that must hold the whole gang."""

    UNIT = 0
    """One row of ``Nodes``: an NVLink island, or a node with only one."""
    NODE = 1
    RACK = 2
    POOL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The rows gangs are placed on.  A row is a node, or one NVLink island of a node that has
    several.  All columns have one entry a row; rows are in the cluster's order."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    """Devices of the row, whatever its state."""
    pool: tuple[int, ...]
    """Index into ``pools``: devices of one pool are interchangeable (one type, one memory)."""
    pools: tuple[str, ...]
    rack: tuple[int, ...]
    """Number of the rack."""
    node: tuple[int, ...]
    """Number of the physical node; rows of one node share it."""
    caches: Cached[int] = field(default_factory=Cached)
    """Which rows have which models and data on their node's own disks."""

    def __post_init__(self) -> None:
        count = len(self.names)
        columns = (self.sizes, self.pool, self.rack, self.node)
        if any(len(column) != count for column in columns):
            raise ValueError(f"every column of the nodes needs {count} entries")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """One job that waits for devices or holds some."""

    job: JobId
    gpus: int
    arrived: int
    """Since when it could have run: its delay counts from here."""
    served: int = 0
    """Useful running time of its ended attempts: what its checkpoints keep, in seconds."""
    since: int = 0
    """Running: since when the attempt makes progress (in the future while it restores)."""
    held: Held = ()
    """Running: the devices it holds, (row, count) pairs sorted by row."""
    limit: int = 0
    """The person's bound on the whole running time; 0: none was given."""
    predicted: int = 0
    """Predicted whole running time (estimate or history); 0: none."""
    weight: float = 1.0
    """Weight of its waiting, > 0.  Only ratios between jobs matter."""
    level: int = 2
    """Priority class: 0 is the most urgent."""
    preemptible: bool = True
    rush: bool = False
    """A P0 near its deadline: goes before everybody."""
    pools: int = -1
    """Bit ``i``: pool ``i`` will do; -1: any."""
    first_pools: int = 0
    """Pools to look in first, for their links; 0: all are alike to it."""
    within: Within = Within.POOL
    deadline: int = 0
    """Instant by which it should have ended; 0: none."""
    bound: int = 0
    """The waiting bound of its class in seconds; 0: the fleet's budget alone."""
    reach_s: int = 0
    """After how long it is gone if it starts and nobody asks it to leave; 0: nobody knows."""
    save_s: int = 20
    """What stopping it costs: seconds its devices stay held while it checkpoints."""
    restore_s: int = 60
    """Seconds until it makes progress again when it is started once more."""
    model: str = ""
    """What it trains, where some row has that cached; it only settles where it starts."""
    data: tuple[str, ...] = ()
    """What it reads, likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A job that left for good since the last recorded state."""

    facts: JobFacts
    served: int
    """Its whole useful running time, in seconds."""
    learns: bool = True
    """False where the duration says nothing: cancelled by a person, never ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """One instant of the fleet, as far as the value order needs it.

    ``waiting`` may be started, ``running`` may be stopped; ``aside`` are known but not to be
    decided on: stopping victims, launches that wait for their victims to leave.  A job that is in
    none of the three and not in ``ended`` is taken to have left without teaching anything.
    """

    nodes: Nodes
    free: Sequence[int]
    """Per row: devices nobody holds and on which something new may start."""
    waiting: Sequence[JobFacts]
    running: Sequence[JobFacts]
    aside: Sequence[JobFacts] = ()
    everybody: Table[JobId, JobFacts] | None = None
    """All of these by job, but for those of ``comes_back``, as a table that grew from the one of
    the call before: it saves looking for who came and went.  None: taken from the three."""
    line: Table[JobId, JobFacts] | None = None
    """``waiting`` by job, and perhaps others that are not asked about, as such a table."""
    runs: Table[JobId, JobFacts] | None = None
    """``running`` by job, as such a table; None: taken from there."""
    comes_back: Sequence[JobFacts] = ()
    """Those of ``aside`` that have just let go of their devices and are in no table yet."""
    ended: Sequence[Ended] = ()
    urgent: Sequence[JobFacts] = ()
    """Those of ``aside`` that go before everybody and for which stopping makes no room: rows are
    kept for them from work that cannot be stopped."""
    shut: frozenset[int] = frozenset()
    """Rows on which nothing may start: stopping somebody there makes no room."""
    edges: Sequence[tuple[int, int, int]] = ()
    """(row, devices, instant): so many devices of the row are promised from then on.  A job starts
    there only if it leaves them, or has let go of its own by then."""
    last: frozenset[int] = frozenset()
    """Rows to use only where no other will do as well: work got lost there lately."""
    headroom: Mapping[str, int] = field(default_factory=dict)
    """GPUs each account may still take; an account that is not named has no bound."""
    account: Mapping[JobId, str] = field(default_factory=dict)
    """Account a job's GPUs count against; a job that is not named has none."""
    favour: Mapping[str, float] = field(default_factory=dict)
    """What fair use multiplies the weights of a team's jobs by, in ranks and nowhere else; ``""``:
    of any team that is not named; empty: nobody's."""

    def running_by_job(self) -> Table[JobId, JobFacts]:
        """Return whoever may be stopped, by job."""
        if self.runs is not None:
            return self.runs
        return Table({facts.job: facts for facts in self.running})


class Cause(StrEnum):
    """Why a start was chosen."""

    FREE = "free"
    """It fits what is free."""
    VALUE = "value"
    """Its waiting is worth more than its victims' progress."""
    FIRM = "firm"
    """It reached its waiting bound."""
    RUSH = "rush"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One gang to start, whole.  ``victims`` leave first; the start then fits ``nodes``.

    A victim may itself be started in the same choices: it moves.  Starts are in the order they
    were decided: a later one may use what an earlier one's victims leave over, so whoever refuses
    one asks again without that job rather than keeping the later ones.
    """

    job: JobId
    nodes: Held
    victims: tuple[JobId, ...] = ()
    cause: Cause = Cause.FREE


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the value order decided for one fleet, and what it remembers from here on."""

    starts: tuple[Start, ...]
    stops: tuple[JobId, ...]
    """Every victim of ``starts``, sorted."""
    state: ValueState
    ranking: tuple[JobId, ...] = ()
    """The waiting jobs in the order they were considered."""
    scores: Mapping[JobId, float] = field(default_factory=dict)
    """Aged expected GPU-seconds over weight, of the waiting jobs: low goes first."""
    firm: frozenset[JobId] = frozenset()
    """Waiting or running jobs with a firm place."""
    budget_s: int = 0
    """The fleet's waiting budget W."""
