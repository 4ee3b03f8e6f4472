"""Valid documents become the values the planner knows.

Light: needs no pydantic, so a warm start does not load it.  From ``train:`` come only the few
workload facts; the rest is opaque to the planner.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from reconciler.domain.job import (
    ElasticRange,
    GpuRequest,
    Interconnect,
    JobSpec,
    PriorityClass,
    TopologyDomain,
    WorkloadFacts,
)
from reconciler.domain.units import Digest, JobId, JobName, Seconds, TeamName
from reconciler.specs.capacity import Capacity
from reconciler.specs.contract_files import default_of
from reconciler.specs.durations import parse_duration, parse_instant, parse_memory

PRIORITIES = {
    "highest": PriorityClass.P0,
    "high": PriorityClass.P1,
    "medium": PriorityClass.P2,
    "low": PriorityClass.P3,
    "nrt": PriorityClass.P4,
    **{item.name: item for item in PriorityClass},
}
PARALLEL_KEYS = (
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "sequence_parallel_size",
)
DEFAULT_GRACE_S = Seconds(600)


def job_spec(
    job: JobId, document: Mapping[str, Any], capacity: Capacity, digest: Digest
) -> JobSpec:
    """Return the spec of a document that ``shape`` found valid."""
    team, name = job.split("/")
    time = document.get("time", {})
    preemption = document.get("preemption", {})
    elastic = document.get("elastic")
    notify = document.get("notify", {})
    grace = preemption.get("grace")
    hours = document.get("max_gpu_hours")
    return JobSpec(
        team=TeamName(team),
        name=JobName(name),
        gpus=gpu_request(document["resources"], capacity),
        spec_digest=digest,
        facts=workload_facts(document),
        priority=PRIORITIES[document.get("priority", "P2")],
        deadline=parse_instant(document["deadline"]) if "deadline" in document else None,
        serves_online=document.get("serves_online", False),
        after=tuple(JobId(other) for other in document.get("after", ())),
        budget_group=document.get("budget_group"),
        max_gpu_hours=None if hours is None else float(hours),
        preemptible=is_preemptible(document),
        grace_s=DEFAULT_GRACE_S if grace is None else parse_duration(grace),
        elastic=elastic and ElasticRange(**elastic),
        estimate_s=parse_duration(time["estimate"]) if "estimate" in time else None,
        limit_s=parse_duration(time["limit"]) if "limit" in time else None,
        checkpoint_every_steps=document.get("checkpoint", {}).get("every_steps"),
        notify_on_start=tuple(notify.get("on_start", ())),
        notify_on_finish=tuple(notify.get("on_finish", ())),
        suspend=document.get("suspend", False),
        generation=document.get("generation", 1),
        runs_command="run" in document,
    )


def can_checkpoint(document: Mapping[str, Any]) -> bool:
    """Return whether the job can be stopped without losing what it did."""
    if "run" in document:
        return bool(document["run"].get("checkpoint_on_term", False))
    return "every_steps" in document.get("checkpoint", {})


def is_preemptible(document: Mapping[str, Any]) -> bool:
    """Return whether the job may be stopped: as it says, else where it can checkpoint."""
    said = document.get("preemption", {}).get("allowed")
    return can_checkpoint(document) if said is None else bool(said)


def gpu_request(
    resources: Mapping[str, Any], capacity: Capacity, needed_gib: float = 0.0
) -> GpuRequest:
    """Return the gang of a ``resources`` section; ``within`` defaults to the smallest domain of
    the cluster that can hold it.

    ``needed_gib`` is the memory below which the run surely fails: devices with less will not do.
    """
    types = resources.get("gpu_type", ())
    memory = resources.get("min_gpu_memory")
    count = resources["gpus"]
    asked = resources.get("within")
    named = (types,) if isinstance(types, str) else tuple(types)
    least = max(0.0 if memory is None else parse_memory(memory), needed_gib)
    links = Interconnect(resources.get("interconnect", "any"))
    rdma = links is Interconnect.RDMA
    smallest = capacity.smallest_domain(count, named, least, has_rdma=rdma)
    return GpuRequest(
        count=count,
        within=TopologyDomain(asked) if asked else smallest,
        min_memory_gib=least,
        types=named,
        interconnect=links,
    )


def model_parallel(train: Mapping[str, Any]) -> int:
    """Return the product of the parallel sizes a ``train:`` section names: it divides the gang."""
    sizes = [train[key] for key in PARALLEL_KEYS if isinstance(train.get(key), int)]
    return prod(size for size in sizes if size > 0)


def workload_facts(document: Mapping[str, Any]) -> WorkloadFacts:
    """Return what the planner may know of the training; nothing for a ``run:`` job."""
    train = document.get("train")
    if train is None:
        return WorkloadFacts()
    parallel = model_parallel(train)
    batch = train.get("per_device_train_batch_size", default_of("per_device_train_batch_size"))
    steps = train.get("gradient_accumulation_steps", default_of("gradient_accumulation_steps"))
    data = train["dataset"]
    return WorkloadFacts(
        model=train["model"],
        task=train["task"],
        tuner=train.get("tuner_type", default_of("tuner_type")),
        data=(data,) if isinstance(data, str) else tuple(data),
        max_length=train.get("max_length", default_of("max_length")),
        global_batch=batch * steps * max(document["resources"]["gpus"] // parallel, 1),
        per_device_batch=batch,
        model_parallel=parallel,
        max_steps=train.get("max_steps"),
    )


def legal_sizes(spec: JobSpec) -> tuple[int, ...]:
    """Return the gang sizes at which the global batch stays what it is, ascending.

    k GPUs are legal where the parallel sizes divide k and the global batch divides by
    (per-device batch x data-parallel size).  Without an elastic range: the requested size alone.
    """
    if spec.elastic is None:
        return (spec.gpus.count,)
    return tuple(
        count
        for count in range(spec.elastic.min_gpus, spec.elastic.max_gpus + 1)
        if is_legal_size(spec.facts, count)
    )


def is_legal_size(facts: WorkloadFacts, gpus: int) -> bool:
    """Return whether a gang of ``gpus`` can keep the global batch."""
    if gpus % facts.model_parallel:
        return False
    if facts.global_batch is None or facts.per_device_batch is None:
        return True
    return facts.global_batch % (facts.per_device_batch * (gpus // facts.model_parallel)) == 0
