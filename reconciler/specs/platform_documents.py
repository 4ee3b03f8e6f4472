"""What the platform's files under ``conf/`` may hold: cluster, policy, launcher, teams, budgets,
sinks.  Strict and closed like a job's document.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, ValidationError

from reconciler.domain.policy import PreemptionPolicy
from reconciler.specs.cluster_documents import ClusterConf, cluster_findings
from reconciler.specs.codes import Code
from reconciler.specs.documents import Duration, Name, Section, refuse
from reconciler.specs.fields import Shape, shape_of
from reconciler.specs.findings import Finding, dotted
from reconciler.specs.names import nearest
from reconciler.specs.shape import said_of

Share = Annotated[float, Field(ge=0, le=1)]
Gpus = Annotated[int, Field(ge=1)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
ClassName = Literal["P0", "P1", "P2", "P3", "P4"]


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise refuse(
            Code.BAD_INSTANT, f"`{name}` is no time zone", "such as Asia/Shanghai"
        ) from None
    return name


Zone = Annotated[str, AfterValidator(_zone)]


class Weights(Section):
    priority_class: Share
    deadline: Share
    serves_online: Share
    model_heat: Share
    brevity: Share


class PreemptionConf(Section):
    victims_of: dict[ClassName, list[ClassName]] | None = None
    restart: Duration | None = None
    min_run: Duration | None = None
    max_per_job: Annotated[int, Field(ge=0)] | None = None


class RetryConf(Section):
    max_tries: Annotated[int, Field(ge=1)] | None = None
    backoff: Duration | None = None
    max_lost: Annotated[int, Field(ge=1)] | None = None


class DeletionConf(Section):
    grace: Duration | None = None
    brake_jobs: Annotated[int, Field(ge=0)] | None = None
    brake_share: Share | None = None


class SpreadSlowdownConf(Section):
    nodes: Annotated[float, Field(ge=1)] | None = None
    racks: Annotated[float, Field(ge=1)] | None = None


class FairUseConf(Section):
    half_life: Duration
    strength: Annotated[float, Field(ge=0, le=4)] | None = None


class PolicyConf(Section):
    order: Literal["score", "value"] | None = None
    weights: Weights | None = None
    model_heat: dict[str, Share] | None = None
    preemption: PreemptionConf | None = None
    retry: RetryConf | None = None
    deletion: DeletionConf | None = None
    waiting_bounds: dict[ClassName, Duration] | None = None
    spread_slowdown: SpreadSlowdownConf | None = None
    fair_use: FairUseConf | None = None
    cycle: Duration | None = None
    rerank_every: Duration | None = None
    lease: Duration | None = None
    default_duration: Duration | None = None
    lost_after: Duration | None = None
    checkpoint_floor_steps: Annotated[int, Field(ge=0)] | None = None
    max_request_gpus: Gpus | None = None


class LauncherConf(Section):
    kind: Literal["local"]
    runs_dir: Annotated[str, Field(min_length=1)]
    """Folder of the run directories, absolute or relative to where the reconciler runs."""
    pass_environment: list[Variable] = Field(default_factory=list)
    """Variables of the reconciler that jobs get as well: names, never values."""


class PlatformConf(Section):
    api_version: Literal["headway/v1"]
    cluster: ClusterConf
    policy: PolicyConf
    launcher: LauncherConf


class MemberConf(Section):
    name: Annotated[str, Field(min_length=1)]
    role: Name
    emails: list[Annotated[str, Field(pattern=r"^[^@\s<>]+@[^@\s<>]+$")]] = Field(
        default_factory=list
    )
    signing_keys: list[str] = Field(default_factory=list)


class TeamConf(Section):
    members: list[MemberConf] = Field(default_factory=list)
    quota: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """GPUs by device type held at once; `any` bounds all types together."""
    cohort: Name | None = None
    max_request: dict[str, Gpus] = Field(default_factory=dict)
    """Largest gang by member role; `any` holds for every other role."""
    may_use_p0: bool = False
    may_run_command: bool = False
    weights: Weights | None = None
    interruptions_per_day: Annotated[int, Field(ge=0)] | None = None
    sample_cluster: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")] | None = None
    """Cluster the team's jobs are judged against, where it is not the repository's own."""


class BudgetConf(Section):
    limit_gpu_hours: Annotated[float, Field(gt=0)]
    period: Literal["month", "quarter", "year"]
    timezone: Zone
    teams: list[Name] = Field(default_factory=list)
    """Empty: every team."""


class SinkConf(Section):
    kind: Literal["log", "file", "webhook"]
    path: str | None = None
    """`file`: where to append; relative paths lie in the reconciler's state folder."""
    url: str | None = None
    """`webhook`: where to post, https only."""
    secret_env: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] | None = None
    """Name of the environment variable that holds the signing key; never the key."""


MODELS: dict[str, type[Section]] = {
    "headway": PlatformConf,
    "teams": TeamConf,
    "budgets": BudgetConf,
    "sinks": SinkConf,
}


@lru_cache(maxsize=16)
def platform_shape(name: str) -> Shape:
    """Return what the fields of a file under ``conf/`` want; ``name`` is relative to it."""
    folder = name.partition("/")[0]
    if folder in MODELS:
        return _shape_of(folder)
    whole = _shape_of("headway")
    return whole if folder == "headway.yaml" else whole.at(folder)


def platform_findings(kind: str, document: Mapping[str, Any]) -> list[Finding]:
    """Return what is wrong with the composed ``headway.yaml`` or one team, budget or sink."""
    try:
        model = MODELS[kind].model_validate(document)
    except ValidationError as error:
        findings = []
        for details in error.errors(include_url=False):
            path = tuple(details["loc"])
            message, hint = said_of(details)
            if details["type"] == "extra_forbidden":
                known = _keys_at(kind, path[:-1])
                close = nearest(str(path[-1]), known)
                hint = f"did you mean `{close}`?" if close else "keys are " + ", ".join(known)
            findings.append(
                Finding(path, Code.BAD_PLATFORM, f"{dotted(path)} {message}".strip(), hint)
            )
        return findings
    match model:
        case PlatformConf():
            return _platform_meaning(model)
        case TeamConf(weights=Weights() as weights):
            return _weights_findings(weights, ("weights",))
        case SinkConf():
            return _sink_findings(model)
    return []


def _keys_at(kind: str, path: tuple[str | int, ...]) -> Iterable[str]:
    """Return the keys that a section of a document may have."""
    here = _shape_of(kind)
    for part in path:
        here = here.item() if isinstance(part, int) else here.at(part)
    return here.keys


@lru_cache(maxsize=8)
def _shape_of(kind: str) -> Shape:
    return shape_of(MODELS[kind].model_json_schema(by_alias=True))


def _platform_meaning(platform: PlatformConf) -> list[Finding]:
    findings = cluster_findings(platform.cluster)
    policy = platform.policy
    if policy.weights is not None:
        findings += _weights_findings(policy.weights, ("policy", "weights"))
    if policy.spread_slowdown is not None:
        findings += _slowdown_findings(policy.spread_slowdown)
    if policy.preemption is not None and policy.preemption.victims_of is not None:
        findings += _victims_findings(policy.preemption.victims_of)
    return findings


def _slowdown_findings(slowdown: SpreadSlowdownConf) -> list[Finding]:
    nodes, racks = slowdown.nodes or 1.0, slowdown.racks or 1.0
    if nodes <= racks:
        return []
    return [
        Finding(
            ("policy", "spread_slowdown"),
            Code.BAD_PLATFORM,
            f"a gang over racks takes no less long than over nodes, got nodes {nodes:g} and racks"
            f" {racks:g}",
        )
    ]


def _weights_findings(weights: Weights, path: tuple[str, ...]) -> list[Finding]:
    total = sum(weights.model_dump().values())
    if abs(total - 1.0) <= 1e-9:
        return []
    message = f"the five weights sum to {total:g}; they must sum to 1"
    return [Finding(path, Code.BAD_PLATFORM, message, "they are shares", on_key=True)]


def _victims_findings(victims_of: Mapping[ClassName, list[ClassName]]) -> list[Finding]:
    allowed = ", ".join(f"{a.name} > {b[0].name}.." for a, b in _DEFAULT_VICTIMS.items())
    return [
        Finding(
            ("policy", "preemption", "victims_of", stronger),
            Code.BAD_PLATFORM,
            f"{stronger} may only stop lower classes, not {weaker}",
            f"a class that stops its equals or betters makes loops; the default is {allowed}",
        )
        for stronger, victims in victims_of.items()
        for weaker in victims
        if weaker <= stronger
    ]


_DEFAULT_VICTIMS = PreemptionPolicy().victims_of


def _sink_findings(sink: SinkConf) -> list[Finding]:
    wanted = {"log": None, "file": "path", "webhook": "url"}[sink.kind]
    findings = []
    for name in ("path", "url"):
        given = getattr(sink, name) is not None
        if given != (name == wanted):
            verb = "takes no" if given else "needs a"
            findings.append(
                Finding((name,), Code.BAD_PLATFORM, f"a sink of kind {sink.kind} {verb} `{name}`")
            )
    if sink.url is not None and not sink.url.startswith(("https://", "http://127.0.0.1")):
        findings.append(Finding(("url",), Code.BAD_PLATFORM, "a webhook goes to https only"))
    return findings
