"""What a GPU type offers: memory a process can use, arithmetic, bandwidth, links.

The table is data with a source for each row (``data/gpus.json``).  A type that no published
measurement used is *uncalibrated*; every estimate on it says so.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU type.  Rates are dense peaks of the data sheet; links count both directions."""

    name: str
    memory_gib: float
    """What a process can use, as the driver reports it: an A100-80GB has 79.15 GiB."""
    bf16_tflops: float
    """Peak of 16-bit matrix products with 32-bit sums; fp16 where there is no bf16."""
    fp8_tflops: float = 0.0
    """0: no 8-bit matrix units."""
    memory_tb_s: float = 0.0
    scale_up_gb_s: float = 0.0
    """Link to a neighbour in the same node: NVLink, xGMI, or PCIe."""
    scale_out_gb_s: float = 50.0
    """Network a GPU has towards other nodes; 50 is one 400 Gb/s port."""
    gpus_per_node: int = 8
    has_bf16: bool = True
    is_switched: bool = True
    """Whether neighbours talk over NVLink or its like; False: over PCIe through the host."""
    source: str = ""


CPU = Gpu(
    name="cpu",
    memory_gib=float("inf"),
    bf16_tflops=0.5,
    memory_tb_s=0.05,
    scale_up_gb_s=10.0,
    gpus_per_node=8,
    is_switched=False,
    source="a process on the host: no device memory, no matrix units",
)
"""Stands in for a CPU slot: memory is counted, never compared."""
