"""The ``train:`` section as the libraries' arguments, for what every task shares."""

import math
from typing import Any

from trainer.config import Request
from trainer.optimizers.table import OPTIMIZERS, name_of


def shared_arguments(request: Request, *, total_steps: int, evaluates: bool) -> dict[str, Any]:
    """Return keyword arguments of ``TrainingArguments`` for this request."""
    train = request.train
    every = request.checkpoint.every_steps
    return {
        # the loop never writes here: trainer.callbacks.checkpoint gives it other folders
        "output_dir": str(request.run_dir),
        "seed": request.seed,
        "max_steps": total_steps,
        "per_device_train_batch_size": request.per_device_batch,
        "per_device_eval_batch_size": train["per_device_eval_batch_size"],
        "gradient_accumulation_steps": request.accumulation,
        "learning_rate": train["learning_rate"],
        "lr_scheduler_type": train["lr_scheduler_type"],
        # rounded here, because the library would read a ratio of 1 or more as a number of steps
        "warmup_steps": math.ceil(train["warmup_ratio"] * total_steps),
        "weight_decay": train["weight_decay"],
        "adam_beta1": train["adam_beta1"],
        "adam_beta2": train["adam_beta2"],
        "adam_epsilon": train["adam_epsilon"],
        "max_grad_norm": train["max_grad_norm"],
        # where this trainer makes the optimizer, the loop asks trainer.optimizers for it
        "optim": OPTIMIZERS[name_of(train)].transformers_name or "adamw_torch",
        "gradient_checkpointing": checkpoints_gradients(request),
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "dataloader_num_workers": train["dataloader_num_workers"],
        "dataloader_pin_memory": not request.on_cpu,
        "logging_strategy": "steps",
        "logging_steps": train["logging_steps"],
        "logging_nan_inf_filter": False,  # would hide a loss that is not a number
        "eval_strategy": "steps" if evaluates else "no",
        "eval_steps": (train["eval_steps"] or total_steps) if evaluates else None,
        "prediction_loss_only": True,
        "save_strategy": "no" if every is None else "steps",
        "save_steps": every or total_steps,
        "use_cpu": request.on_cpu,
        "bf16": False,  # the type of the weights is the type of the arithmetic
        "fp16": False,
        "ddp_backend": ("gloo" if request.on_cpu else "nccl") if request.world_size > 1 else None,
        "ddp_find_unused_parameters": False,
        "ddp_broadcast_buffers": False,
        "average_tokens_across_devices": True,
        "remove_unused_columns": False,
        "report_to": "none",
        "disable_tqdm": True,
    }


def checkpoints_gradients(request: Request) -> bool:
    """Return whether activations are recomputed: as asked, else on GPUs."""
    asked = request.train["gradient_checkpointing"]
    return not request.on_cpu if asked is None else bool(asked)
