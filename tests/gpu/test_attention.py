"""Packed samples stay apart under the attentions only GPUs have; ring attention is attention."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.gpu.conftest import Gpus

pytestmark = pytest.mark.gpu

BACKENDS = ("eager", "sdpa", "flex_attention", "flash_attention_2")


@pytest.mark.parametrize("attention", BACKENDS)
def test_samples_of_a_packed_row_stay_apart(gpus: Gpus, attention: str) -> None:
    gpus(1)
    if attention == "flash_attention_2" and find_spec("flash_attn") is None:
        pytest.skip("the package flash-attn is not installed")
    import torch
    from transformers import AutoModelForCausalLM

    from trainer.isolation import prove
    from trainer.models import resolve

    model = AutoModelForCausalLM.from_pretrained(
        resolve("random:qwen3-tiny"), dtype=torch.bfloat16, attn_implementation=attention
    ).to("cuda")

    found = prove(model, attention=attention)  # raises where a sample sees its neighbour

    assert found.leak < 1e-6
    assert found.mixed > 0.1  # what the measure says where samples are not apart


RING = """
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import context_parallel_unshard
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
draw = torch.Generator("cuda").manual_seed(3)
tensors = [torch.randn(1, 4, 512, 64, generator=draw, device="cuda", dtype=torch.bfloat16)
           for _ in range(3)]
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    whole = attend(*tensors, is_causal=True)
    with context_parallel(mesh, buffers=tensors, buffer_seq_dims=[2, 2, 2]):
        (joined,) = context_parallel_unshard(mesh, [attend(*tensors, is_causal=True)], [2])
print("most", float((joined - whole).abs().max()))
dist.destroy_process_group()
"""


def test_ring_attention_over_two_gpus_is_the_attention_of_one(tmp_path: Path, gpus: Gpus) -> None:
    """What ``context_parallel_size`` would rest on; the trainer refuses it for packed rows."""
    gpus(2)
    program = tmp_path / "ring.py"
    program.write_text(RING)

    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
            *("--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", str(program)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    said = [line.split() for line in done.stdout.splitlines() if line.startswith("most ")]
    assert len(said) == 2
    assert all(float(most) < 0.02 for _, most in said)
