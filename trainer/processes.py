"""The processes of one attempt: who this one is, and how all of them come to one decision.

Rule kept: what runs is what was asked for.  ``accelerate launch`` starts one process in silence
where several were wanted, so the number is compared with the request before and after the
processes have met.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

from trainer.config import Request, RequestError


def rank() -> int:
    """Return the rank the launcher gave this process; 0 without a launcher."""
    return int(os.environ.get("RANK", "0"))


def check_world_size(request: Request, found: int) -> None:
    """Raise RequestError unless ``found`` processes run."""
    if found != request.world_size:
        raise RequestError(
            f"request.json asks for {request.world_size} processes, but {found} run: start it "
            "with `python -m trainer.launch RUN_DIR` or `accelerate launch --multi_gpu "
            f"--num_processes {request.world_size} -m trainer RUN_DIR` (`accelerate launch --cpu` "
            "starts a single process)"
        )


def launched_world_size() -> int:
    """Return how many processes the launcher says there are; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def keep_to_devices(request: Request) -> None:
    """Keep this process to what was granted; must run before torch is imported.

    A CPU slot is one thread.  GPUs are those of the request, where the launcher has not said so.
    """
    if request.on_cpu:
        for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ[variable] = "1"
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
    else:
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", ",".join(request.devices))


def meet(request: Request) -> None:
    """Check the device, join the other processes and count them.

    Raises RequestError where GPUs were given and none is seen, or the number is another one.
    """
    import torch

    if request.on_cpu:
        torch.set_num_threads(1)
    elif not torch.cuda.is_available():
        raise RequestError("the request is for GPUs, but torch sees none in this process")
    if launched_world_size() > 1 and not _joined():
        if not request.on_cpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        torch.distributed.init_process_group("gloo" if request.on_cpu else "nccl")
    check_world_size(request, torch.distributed.get_world_size() if _joined() else 1)


def part() -> None:
    """Leave the other processes, after all have come here."""
    if _joined():
        import torch

        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def summed(values: Sequence[float]) -> list[float]:
    """Return the sums of ``values`` over all processes; every process must call this."""
    return _reduced(values, "SUM")


def largest(values: Sequence[float]) -> list[float]:
    """Return the largest of each value over all processes; every process must call this."""
    return _reduced(values, "MAX")


def _reduced(values: Sequence[float], operation: str) -> list[float]:
    if not _joined():
        return list(values)
    import torch

    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(tensor, getattr(torch.distributed.ReduceOp, operation))
    return [float(value) for value in tensor.tolist()]


def any_of(flag: bool) -> bool:
    """Return whether any process says yes; every process must call this."""
    return summed([float(flag)])[0] > 0


def from_first(value: Any) -> Any:
    """Return rank 0's ``value`` (small and picklable) in every process."""
    if not _joined():
        return value
    import torch

    box = [value]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]


def _joined() -> bool:
    torch: Any = sys.modules.get("torch")  # without it there is nothing that could be joined
    return bool(torch and torch.distributed.is_available() and torch.distributed.is_initialized())


def gpu_samples() -> list[dict[str, Any]]:
    """Return what this process holds of its GPU, in GiB; nothing without one."""
    import torch

    if not torch.cuda.is_available():
        return []
    index = torch.cuda.current_device()
    return [
        {
            "index": index,
            "memory_allocated_gib": round(torch.cuda.memory_allocated(index) / 2**30, 3),
            "memory_peak_gib": round(torch.cuda.max_memory_allocated(index) / 2**30, 3),
        }
    ]
