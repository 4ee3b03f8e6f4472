"""What a person asks for: one training job, as declared under ``jobs/``.

Everything here is a frozen value: comparable, hashable, free of I/O.  YAML documents
become these values in ``reconciler.specs``; the planner never sees a document.

Units: GPU memory in GiB, durations in whole seconds, instants in Unix seconds (UTC).
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from reconciler.domain.units import CommitId, Digest, Instant, JobId, JobName, Seconds, TeamName


class PriorityClass(IntEnum):
    """What the submitter asked for.  P0 is the most urgent."""

    P0 = 0
    P1 = 1
    P2 = 2
    P3 = 3
    P4 = 4


class TopologyDomain(StrEnum):
    """The smallest part of the cluster that must hold the whole gang."""

    NVLINK = "nvlink"
    NODE = "node"
    RACK = "rack"
    CLUSTER = "cluster"


class Interconnect(StrEnum):
    """The slowest link a gang accepts between its GPUs; within a node any link is fast enough for
    ``rdma``."""

    ANY = "any"
    NVLINK = "nvlink"
    RDMA = "rdma"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """A gang of identical GPUs: all of them are granted together, or none."""

    count: int
    within: TopologyDomain
    """Filled by conversion: the smallest domain that can hold the gang, unless asked for."""
    min_memory_gib: float = 0.0
    """Usable memory, as the device reports it: an A100-80GB has 79.15 GiB."""
    types: tuple[str, ...] = ()
    """Device types that will do, such as ``A100-80GB``; empty accepts any."""
    interconnect: Interconnect = Interconnect.ANY

    @property
    def wants_rdma(self) -> bool:
        """True for a gang that may go over several nodes, but only where RDMA joins them."""
        is_wide = self.within in (TopologyDomain.RACK, TopologyDomain.CLUSTER)
        return is_wide and self.count > 1 and self.interconnect is Interconnect.RDMA

    def domain(self, *, spans_rdma: bool) -> TopologyDomain:
        """Return the smallest domain that must hold the whole gang, its links considered.

        ``spans_rdma``: racks with RDMA reach each other by it.
        """
        if self.interconnect is Interconnect.NVLINK and self.count > 1:
            return TopologyDomain.NVLINK
        if self.wants_rdma and not spans_rdma:
            return TopologyDomain.RACK
        return self.within

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"a gang needs at least 1 GPU, got count={self.count}")


LONG_SEQUENCE = 32_768
"""Tokens a sample may have from which on what GPUs tell each other weighs as much as what they
compute: such gangs get the fastest links first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFacts:
    """What conversion takes from ``train:`` for the planner; everything else there is opaque.

    ``None`` means the document does not say (a ``run:`` job says none of it).
    """

    model: str = ""
    """The model as the document names it, such as ``Qwen/Qwen3-8B``; empty for ``run:`` jobs."""
    task: str = ""
    tuner: str = ""
    data: tuple[str, ...] = ()
    max_length: int | None = None
    """Tokens a sample may have."""
    global_batch: int | None = None
    """Samples per optimizer step, over all GPUs and accumulation; kept at every gang size."""
    per_device_batch: int | None = None
    model_parallel: int = 1
    """tensor x pipeline x context x expert parallel size: it must divide the gang."""
    max_steps: int | None = None

    @property
    def is_long(self) -> bool:
        """True for a training over long sequences."""
        return self.max_length is not None and self.max_length >= LONG_SEQUENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticRange:
    """The gang sizes a person allows; which of them are legal is computed."""

    min_gpus: int
    max_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSize:
    """One legal size of a job, with what is expected of it there."""

    gpus: int
    gpu_type: str
    """Empty: any type the request accepts."""
    duration_p50_s: Seconds
    duration_p90_s: Seconds
    memory_p50_gib: float | None = None
    """Per GPU; None where nothing is known (a ``run:`` job)."""
    memory_p90_gib: float | None = None


class SizeEstimate(NamedTuple):
    """What the formulas and their shipped constants say of one legal size on one device type.

    Follows from the document alone, so it never changes with time; what the fleet's own runs
    teach is laid over it when a snapshot is assembled.  A plain tuple, because ten thousand
    specs are read at once.
    """

    gpus: int
    gpu_type: str
    memory_gib: float
    """Expected peak of one device (p50)."""
    evidence: str
    """Class of runs whose measured errors apply: ``exact``, ``sharded`` or ``variable``."""
    step_s: float
    """Time of one optimizer step."""
    is_calibrated: bool = True
    """Whether a published run on such a device was measured; else only a fleet's own runs say
    what ``step_s`` is worth."""
    is_cpu: bool = False
    """On CPU slots memory is counted and compared with nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What one document asks for, at one commit.  Nothing here changes with time."""

    team: TeamName
    name: JobName
    gpus: GpuRequest
    spec_digest: Digest = Digest("")
    """Digest of the whole composed document, opaque parts included."""
    facts: WorkloadFacts = WorkloadFacts()
    priority: PriorityClass = PriorityClass.P2
    deadline: Instant | None = None
    serves_online: bool = False
    after: tuple[JobId, ...] = ()
    budget_group: str | None = None
    max_gpu_hours: float | None = None
    preemptible: bool = True
    grace_s: Seconds = Seconds(600)
    """Time a running attempt gets to write a checkpoint before it is killed."""
    elastic: ElasticRange | None = None
    estimate_s: Seconds | None = None
    """The submitter's own guess of the running time of one generation."""
    limit_s: Seconds | None = None
    """Bound on the summed running time of one generation."""
    checkpoint_every_steps: int | None = None
    notify_on_start: tuple[str, ...] = ()
    notify_on_finish: tuple[str, ...] = ()
    suspend: bool = False
    generation: int = 1
    runs_command: bool = False
    """``run:`` instead of ``train:``: judged by exit status, no result file."""
    estimates: tuple[SizeEstimate, ...] = ()
    """Of each legal size on each device type that will do, the requested size first; empty for a
    ``run:`` job and where the model's shape is not known."""

    @property
    def id(self) -> JobId:
        """``<team>/<name>``."""
        return JobId(f"{self.team}/{self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The main commit in which (path, generation) was first seen, and its committer time."""

    commit: CommitId
    committed_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJob:
    """A spec together with what is known about it at one moment.

    ``submitted_at`` is set once by the reconciler, so editing a spec does not cost the job
    its place and nobody can backdate it.  ``remaining_s`` is the p50 of what is left to run.
    """

    spec: JobSpec
    submitted_at: Instant
    remaining_s: Seconds
    remaining_p90_s: Seconds

    def latest_start(self) -> Instant | None:
        """Return the last start that is expected to meet the deadline, if there is one."""
        if self.spec.deadline is None:
            return None
        return Instant(self.spec.deadline - self.remaining_s)
