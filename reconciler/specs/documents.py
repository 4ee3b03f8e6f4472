"""What a job or reservation document may hold: every field, its type and its bounds.

Strict (no ``"4"`` for 4, no ``true`` for 1), closed (unknown keys are refused), and the one place
fields are declared: the base every document is composed onto, the strict loader's knowledge of
text fields and the editor's JSON Schema are all derived from these models.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from reconciler.specs.codes import Code
from reconciler.specs.durations import parse_duration, parse_instant, parse_memory
from reconciler.specs.findings import GOT

_NAME = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"


def refuse(code: Code, message: str, hint: str = "") -> PydanticCustomError:
    """Return the error of a field: it becomes a problem with this code, message and hint."""
    return PydanticCustomError(str(code), "{text}", {"text": message, "hint": hint})


def _grammar(code: Code, parse: Callable[[str], object]) -> AfterValidator:
    def check(value: str) -> str:
        try:
            parse(value)
        except ValueError as error:
            said, _, advice = str(error).partition(": ")
            raise refuse(code, said, advice) from None
        return value

    return AfterValidator(check)


def _gpus(value: Any) -> Any:
    """Whole GPUs, at least one.  A wildcard or a negative number is a security event."""
    rule = "must be a whole number of GPUs, at least 1, got " + GOT
    hint = "write the number you need, such as `4`"
    if isinstance(value, bool):
        raise refuse(Code.BAD_GPUS, rule, hint)
    if isinstance(value, float):
        if value == int(value) and value > 0:
            raise refuse(Code.BAD_GPUS, rule, f"write {int(value)}")
        if value < 0:
            raise refuse(Code.WILDCARD, rule, hint)
        raise refuse(Code.BAD_GPUS, rule, "GPUs are whole: a gang gets cards, not shares of cards")
    if isinstance(value, str):
        if "*" in value or value.strip().lower() in ("all", "any", "max", "inf"):
            raise refuse(Code.WILDCARD, rule, hint)
        if value.strip().lstrip("-").isdigit():
            number = int(value)
            code = Code.WILDCARD if number < 0 else Code.BAD_GPUS
            raise refuse(code, rule, f"write {number} without quotes" if number > 0 else hint)
        raise refuse(Code.BAD_GPUS, rule, hint)
    if isinstance(value, int) and value < 1:
        raise refuse(Code.WILDCARD if value < 0 else Code.BAD_GPUS, rule, hint)
    return value


def _text_list(value: Any) -> Any:
    """One text stands for a list of one."""
    return [value] if isinstance(value, str) else value


Gpus = Annotated[int, Field(ge=1), BeforeValidator(_gpus)]
Duration = Annotated[
    str,
    _grammar(Code.BAD_DURATION, parse_duration),
    Field(json_schema_extra={"pattern": "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$"}),
]
Memory = Annotated[
    str,
    _grammar(Code.BAD_MEMORY, parse_memory),
    Field(json_schema_extra={"pattern": "^[0-9]+(\\.[0-9]+)?(GiB|MiB)$"}),
]
When = Annotated[str, _grammar(Code.BAD_INSTANT, parse_instant)]
JobRef = Annotated[str, Field(pattern=f"^{_NAME}/{_NAME}$")]
Name = Annotated[str, Field(pattern=f"^{_NAME}$")]
GpuTypes = Annotated[
    list[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]],
    BeforeValidator(_text_list, json_schema_input_type=list[str] | str),
    Field(min_length=1),
]


class Section(BaseModel):
    """Strict, closed, finite numbers only."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Preemption(Section):
    allowed: bool | None = None
    """May this job be stopped for a more urgent one?  Default: true where it can checkpoint."""
    grace: Duration | None = None
    """Time it gets to write a checkpoint before it is killed.  Default: 10m."""


class Elastic(Section):
    min_gpus: Gpus
    """The fewest GPUs the job may run on."""
    max_gpus: Gpus
    """The most GPUs the job may run on."""


class Resources(Section):
    gpus: Gpus
    """The gang: whole GPUs, granted all together or not at all."""
    gpu_type: GpuTypes | None = None
    """Device types that will do.  Default: any."""
    min_gpu_memory: Memory | None = None
    """Usable memory each GPU must have: an A100-80GB has 79.15GiB."""
    interconnect: Literal["any", "nvlink", "rdma"] | None = None
    """The slowest link the gang accepts.  Default: any."""
    within: Literal["nvlink", "node", "rack", "cluster"] | None = None
    """Default: the smallest part of the cluster that can hold the gang."""


class Time(Section):
    estimate: Duration | None = None
    """Your guess of the running time."""
    limit: Duration | None = None
    """Bound on the summed running time of one generation."""


class Checkpoint(Section):
    every_steps: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Optimizer steps between two checkpoints."""
    keep: Annotated[int, Field(ge=1, le=1000)] | None = None
    """How many are kept.  Default: 3."""


class Run(Section):
    command: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    """argv; no shell.  Judged by its exit status."""
    checkpoint_on_term: bool | None = None
    """The command saves its state on SIGTERM, so it may be preempted."""


class Notify(Section):
    on_start: list[Name] | None = None
    """Names of sinks in conf/sinks/, never URLs."""
    on_finish: list[Name] | None = None
    """Names of sinks in conf/sinks/, never URLs."""


Priority = Literal["P0", "P1", "P2", "P3", "P4", "highest", "high", "medium", "low", "nrt"]


class Job(Section):
    """One training job.  Team and name come from the path."""

    api_version: Literal["headway/v1"]
    kind: Literal["Job"]
    priority: Priority | None = None
    """P0 to P4, or highest, high, medium, low, nrt.  Default: P2."""
    serves_online: bool | None = None
    """The job backs a production service."""
    deadline: When | None = None
    """RFC 3339 with an offset."""
    after: Annotated[list[JobRef], Field(max_length=50)] | None = None
    """Jobs (team/name) that must all have succeeded."""
    budget_group: Name | None = None
    """A budget of conf/budgets/."""
    max_gpu_hours: Annotated[float, Field(gt=0)] | None = None
    """Bound on the GPU-hours of one generation."""
    preemption: Preemption | None = None
    elastic: Elastic | None = None
    resources: Resources
    time: Time | None = None
    checkpoint: Checkpoint | None = None
    train: dict[str, Any] | None = None
    """The trainer's section."""
    run: Run | None = None
    """A command instead of train, where the team may."""
    notify: Notify | None = None
    suspend: bool | None = None
    """Stop at a checkpoint, and stay stopped while this is true."""
    generation: Annotated[int, Field(ge=1, le=999_999_999)] | None = None
    """Raise it to run a finished job again, from step 0.  Default: 1."""


class ReservationDocument(Section):
    """GPUs kept from one instant to another.  Team and name come from the path."""

    api_version: Literal["headway/v1"]
    kind: Literal["Reservation"]
    start: str
    """RFC 3339 with an offset, or local time with `timezone`."""
    timezone: str | None = None
    """IANA name such as Asia/Shanghai, for a start (and until) without an offset."""
    duration: Duration
    """Elapsed time, at most 7d."""
    every: Literal["weekly"] | None = None
    until: str | None = None
    """Exclusive end of a recurrence."""
    gpus: Gpus
    gpu_type: GpuTypes | None = None
    min_gpu_memory: Memory | None = None
    within: Literal["nvlink", "node", "rack", "cluster"] | None = None
    for_: Annotated[list[JobRef] | None, Field(alias="for")] = None
    """Jobs that may use it.  Default: the whole team."""
    exclusive: bool | None = None
    """False: preemptible work of others may use what is idle, and leaves when it is wanted."""
    release_if_idle: Duration | None = None
    """Hand the GPUs back when nothing ran on them for this long."""
    budget_group: Name | None = None
    """The budget of conf/budgets/ that pays for what idles.  Its hours are promised when booked."""
