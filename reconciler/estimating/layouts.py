"""Enumerates the ways a gang can share one model, and only those that divide evenly.

Rules: tensor ranks stay inside a node and divide the key-value heads; a pipeline stage has at
least one layer, and its chunks the same number of layers; contexts are split only where enough
of the sequence is left for each; expert ranks divide the experts; the global batch divides over
replicas and micro-batches.  DeepSpeed has no pipeline for transformers' models, so tensor and
pipeline parallelism mean Megatron.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.estimating.hardware import Gpu
from reconciler.estimating.workload import (
    Checkpointing,
    Engine,
    Layout,
    Sharding,
    Workload,
)

LARGEST_MICRO_BATCH = 16
SHORTEST_CONTEXT = 4096
"""Tokens of a sequence that each context-parallel rank keeps at least."""
CHUNKS = (1, 2, 3, 4)
"""Model chunks a stage may hold (interleaved schedule)."""
CHECKPOINTING = (Checkpointing.NONE, Checkpointing.FULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What to look through."""

    gpus: int
    global_batch: int
    engines: tuple[Engine, ...] = (Engine.TRANSFORMERS, Engine.MEGATRON)


def layouts(workload: Workload, gpu: Gpu, limits: Limits) -> Iterator[Workload]:
    """Yield every valid way to run ``workload`` on ``limits.gpus`` GPUs of type ``gpu``."""
    for engine in limits.engines:
        shapes = _megatron if engine is Engine.MEGATRON else _data_parallel
        for layout in shapes(workload, gpu, limits.gpus):
            yield from _batches(replace(workload, engine=engine, layout=layout), limits)


def _batches(workload: Workload, limits: Limits) -> Iterator[Workload]:
    data = workload.layout.data
    if limits.global_batch % data:
        return
    per_replica = limits.global_batch // data
    pipeline = workload.layout.pipeline
    for micro in range(1, min(per_replica, LARGEST_MICRO_BATCH) + 1):
        if per_replica % micro or micro & (micro - 1):
            continue
        if workload.layout.virtual > 1 and (per_replica // micro) % pipeline:
            continue  # an interleaved schedule needs whole rounds of micro-batches
        for checkpointing in CHECKPOINTING:
            yield replace(
                workload,
                micro_batch=micro,
                accumulation=per_replica // micro,
                checkpointing=checkpointing,
            )


def _data_parallel(workload: Workload, gpu: Gpu, gpus: int) -> Iterator[Layout]:
    """Yield replicas whole, and sharded in each of the usual ways."""
    yield Layout(data=gpus)
    if gpus == 1:
        return
    if not workload.is_adapter:
        yield Layout(data=gpus, sharding=Sharding.ZERO2)
    yield Layout(data=gpus, sharding=Sharding.ZERO3)
    yield Layout(data=gpus, sharding=Sharding.FSDP)
    for context in _contexts(workload, gpu, gpus):
        if context > 1 and workload.model.kv_heads % context == 0:
            yield Layout(data=gpus // context, context=context, sharding=Sharding.ZERO3)


def _megatron(workload: Workload, gpu: Gpu, gpus: int) -> Iterator[Layout]:
    model = workload.model
    experts = model.experts.count if model.experts else 1
    for tensor in _divisors(gpus, gpu.gpus_per_node):
        if model.kv_heads % tensor or model.heads % tensor:
            continue
        for pipeline in _divisors(gpus // tensor, model.layers):
            for context in _contexts(workload, gpu, gpus // tensor // pipeline):
                data = gpus // tensor // pipeline // context
                for expert in _divisors(data * context * tensor, experts):
                    if experts % expert or max(tensor, pipeline, expert) == 1:
                        continue
                    for virtual in _chunks(model.layers, pipeline):
                        yield Layout(
                            data=data,
                            sharding=Sharding.DISTRIBUTED_OPTIMIZER,
                            tensor=tensor,
                            pipeline=pipeline,
                            virtual=virtual,
                            context=context,
                            expert=expert,
                            sequence=tensor > 1,
                        )


def _chunks(layers: int, pipeline: int) -> Iterator[int]:
    """Yield how many chunks a stage may be cut into; an uneven pipeline is not interleaved."""
    for virtual in CHUNKS:
        if virtual == 1 or (pipeline > 1 and layers % (pipeline * virtual) == 0):
            yield virtual


def _contexts(workload: Workload, gpu: Gpu, gpus: int) -> list[int]:
    enough = max(workload.seq_len // SHORTEST_CONTEXT, 1)
    return _divisors(gpus, min(gpu.gpus_per_node, enough))


def _divisors(number: int, largest: int) -> list[int]:
    return [one for one in range(1, min(number, largest) + 1) if number % one == 0]
