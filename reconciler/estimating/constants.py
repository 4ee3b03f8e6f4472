"""The fitted numbers: few, each with a physical meaning, all in ``data/constants.json``.

``python -m tests.benchmarks.calibrate`` fits them on published measurements and writes the
file; no constant belongs to a source, a model or a row.  What can be derived is derived in the
formulas and is not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConstants:
    """What the formulas of memory cannot derive."""

    fragmentation: float = 0.05
    """Share of the memory that comes and goes which the caching allocator holds beyond its
    use, where every step has the same shapes."""
    fragmentation_variable: float = 0.15
    """The same where lengths differ: freed blocks of one length do not fit the next."""
    fragmentation_gathered: float = 0.06
    """Share of everything, where layers are gathered and freed all the time (FSDP)."""
    fragmentation_zero: float = 0.12
    """The same under DeepSpeed's ZeRO, which adds its own contiguous buffers."""
    churn: float = 1.0
    """Logits held beyond their use, over their size, where lengths differ under an allocator
    without expandable segments."""
    churn_tokens: float = 3000.0
    """Row length up to which that grows: longer rows are too rare to pile up."""
    context_gib: float = 0.5
    """CUDA context and library handles, outside the allocator's own count."""
    communicator_gib: float = 0.4
    """NCCL buffers of one group of ranks, outside the allocator's count."""
    workspace_gib: float = 0.2
    """cuBLAS and attention workspaces inside the allocator's count."""
    logit_overlap: float = 1.0
    """Share of the copies of the logits that are alive at once."""
    streamed_layers: float = 6.0
    """Layers on the device at once where they stream from the host (blocks that another stream
    used are not reused at once); without that, the one in use and the next."""
    backward_share: float = 0.3
    """Gradients of activations alive inside one layer's backward pass, over what it keeps."""
    selective_op_share: float = 0.5
    """What keeping every second matrix product leaves of a layer's activations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """How sure a class of runs is, from measured over predicted memory."""

    p90: float = 1.25
    """Factor from p50 to p90."""
    fits: float = 1.0
    """k: a run is called fitting where p50 x k <= usable memory.  It may be below 1, because
    the allocator gives back what it caches before it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Margins:
    """One margin for each class of evidence (``margins.Evidence``)."""

    single: Margin = Margin()
    """Equal shapes in every step (packed or padded) on one GPU."""
    exact: Margin = Margin()
    """The same on several."""
    sharded: Margin = Margin()
    """The same under DeepSpeed's ZeRO, whose buffers come and go."""
    variable: Margin = Margin()
    """Lengths that differ between steps."""
    duration_p90: float = 1.4
    """Measured over predicted time that nine of ten runs stay under."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedConstants:
    """What the formulas of time cannot derive."""

    ridge: float = 600.0
    """Operations a byte at which a device reaches half its peak in large matrix products: the
    more arithmetic a device has for its bandwidth, the smaller the share it sustains."""
    narrow: float = 200.0
    """Width of a matrix (after tensor parallelism) at which half of that is left."""
    attention: float = 1.0
    """Attention kernels against the shares of their own papers."""
    ring: float = 0.5
    """What ring attention keeps of that."""
    fp8_gain: float = 1.6
    """Matrix products in 8 bit over those in 16 bit."""
    traffic: float = 5.0
    """Times a kept activation crosses device memory in forward and backward pass."""
    launch_s: float = 0.001
    """Host time to launch one eager layer's forward pass."""
    hook_s: float = 0.004
    """Host time of DeepSpeed's ZeRO-3 around one module that is gathered, a micro-batch."""
    exposed: float = 0.2
    """Share of communication that computation does not hide although it could."""
    link_share: float = 0.7
    """Share of a link's one-way rate that collectives reach."""
    broadcast_s: float = 0.0028
    """Time to announce one rank's updated shard to its group (ZeRO-1)."""
    expert_tokens: float = 1500.0
    """Tokens an expert needs at once to reach half of what a large product reaches."""
    variable_fill: float = 0.4
    """Mean over largest sample where lengths vary."""
    dequantise_bytes: float = 4.0
    """Device traffic to unpack one 4-bit weight with bitsandbytes."""
    gptq_bytes: float = 30.0
    """The same with GPTQ's torch kernels, through 32-bit integers."""
    host_gb_s: float = 12.0
    """Rate at which one GPU exchanges offloaded weights with the host."""
    host_update: float = 0.5e9
    """Parameters a second that the host updates for one GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """Factors that the fleet's own runs put on the shipped constants (``refine``)."""

    memory: Mapping[str, float] = field(default_factory=dict)
    """By class of evidence."""
    speed: Mapping[str, float] = field(default_factory=dict)
    """On tokens a second, by GPU type."""
    runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Everything fitted, with where it came from."""

    memory: MemoryConstants = MemoryConstants()
    margins: Margins = Margins()
    speed: SpeedConstants = SpeedConstants()
    refinement: Refinement = Refinement()
    measured: Mapping[str, int] = field(default_factory=dict)
    """Published measurements a GPU type has; types that are missing are uncalibrated."""
    origin: str = "defaults, not fitted"


Filled = TypeVar("Filled", MemoryConstants, SpeedConstants, Margin, Margins)


def _filled(default: Filled, given: Mapping[str, Any], name: str) -> Filled:
    unknown = sorted(given.keys() - {item.name for item in fields(default)})
    if unknown:
        raise ValueError(f"constants.json: {name} has no {', '.join(unknown)}")
    return replace(default, **given)


def constants_from(document: Mapping[str, Any]) -> Constants:
    """Return the constants of a parsed ``constants.json``.  Raises ``ValueError`` on others.

    A missing number keeps its default, so that a file of an older version still works; an
    unknown one is refused, because its meaning would be lost.
    """
    margins = {
        name: _filled(Margin(), given, f"margins.{name}") if isinstance(given, Mapping) else given
        for name, given in document.get("margins", {}).items()
    }
    return Constants(
        memory=_filled(MemoryConstants(), document.get("memory", {}), "memory"),
        speed=_filled(SpeedConstants(), document.get("speed", {}), "speed"),
        margins=_filled(Margins(), margins, "margins"),
        measured=dict(document.get("measured", {})),
        origin=str(document.get("origin", "")),
    )
