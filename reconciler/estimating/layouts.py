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
from reconciler.estimating.training import (
    Checkpointing,
    Engine,
    Layout,
    Sharding,
    Training,
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


def layouts(training: Training, gpu: Gpu, limits: Limits) -> Iterator[Training]:
    """Yield every valid way to run ``training`` on ``limits.gpus`` GPUs of type ``gpu``."""
    for engine in limits.engines:
        shapes = _megatron if engine is Engine.MEGATRON else _data_parallel
        for layout in shapes(training, gpu, limits.gpus):
            yield from _batches(replace(training, engine=engine, layout=layout), limits)


def _batches(training: Training, limits: Limits) -> Iterator[Training]:
    data = training.layout.data
    if limits.global_batch % data:
        return
    per_replica = limits.global_batch // data
    pipeline = training.layout.pipeline
    for micro in range(1, min(per_replica, LARGEST_MICRO_BATCH) + 1):
        if per_replica % micro or micro & (micro - 1):
            continue
        if training.layout.virtual > 1 and (per_replica // micro) % pipeline:
            continue  # an interleaved schedule needs whole rounds of micro-batches
        for checkpointing in CHECKPOINTING:
            yield replace(
                training,
                micro_batch=micro,
                accumulation=per_replica // micro,
                checkpointing=checkpointing,
            )


def _data_parallel(training: Training, gpu: Gpu, gpus: int) -> Iterator[Layout]:
    """Yield replicas whole, and sharded in each of the usual ways."""
    yield Layout(data=gpus)
    if gpus == 1:
        return
    if not training.is_adapter:
        yield Layout(data=gpus, sharding=Sharding.ZERO2)
    yield Layout(data=gpus, sharding=Sharding.ZERO3)
    yield Layout(data=gpus, sharding=Sharding.FSDP)
    for context in _contexts(training, gpu, gpus):
        if context > 1 and training.model.kv_heads % context == 0:
            for sharding in (Sharding.ZERO3, Sharding.FSDP):
                yield Layout(data=gpus // context, context=context, sharding=sharding)


def _megatron(training: Training, gpu: Gpu, gpus: int) -> Iterator[Layout]:
    model = training.model
    experts = model.experts.count if model.experts else 1
    for tensor in _divisors(gpus, gpu.gpus_per_node):
        if model.kv_heads % tensor or model.heads % tensor:
            continue
        for pipeline in _divisors(gpus // tensor, model.layers):
            for context in _contexts(training, gpu, gpus // tensor // pipeline):
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


def _contexts(training: Training, gpu: Gpu, gpus: int) -> list[int]:
    enough = max(training.seq_len // SHORTEST_CONTEXT, 1)
    return _divisors(gpus, min(gpu.gpus_per_node, enough))


def _divisors(number: int, largest: int) -> list[int]:
    return [one for one in range(1, min(number, largest) + 1) if number % one == 0]
