"""Where the samples of a training are kept between attempts and processes.

Rules kept: the name of an entry is a digest of everything that makes its content (files, tokenizer,
settings, this program), so that a changed input is never answered from an old entry; an entry is
whole or not there; of all processes on a machine one makes it while the others wait.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainer import models
from trainer.config import Request
from trainer.files import sync_tree

UNUSED_AFTER_S = 30 * 86400
"""Entries that nobody has read for so long are removed when a new one is made."""
WITHOUT_EFFECT = frozenset(
    (
        "learning_rate",
        "lr_scheduler_type",
        "warmup_ratio",
        "weight_decay",
        "adam_beta1",
        "adam_beta2",
        "adam_epsilon",
        "max_grad_norm",
        "optim",
        "lorap_lr_ratio",
        "lora_rank",
        "lora_alpha",
        "lora_dropout",
        "lora_bias",
        "target_modules",
        "target_regex",
        "modules_to_save",
        "use_rslora",
        "use_dora",
        "merge_lora",
        "freeze_vit",
        "report_to",
        "fsdp",
        "sequence_parallel_size",
        "sequence_parallel_attention",
        "tuner_type",
        "per_device_train_batch_size",
        "per_device_eval_batch_size",
        "gradient_accumulation_steps",
        "num_train_epochs",
        "max_steps",
        "eval_steps",
        "logging_steps",
        "async_save",
        "gradient_checkpointing",
        "dataloader_num_workers",
        "group_by_length",
        "torch_dtype",
        "attn_impl",
        "init_from",
        "model",
        "model_revision",
        "dataset",
        "val_dataset",
    )
)
"""Keys that change neither rows nor tokens: tokenizer and files are in the digest themselves."""


def digest_of(request: Request, tokenizer: Any, files: Mapping[str, list[str]]) -> str:
    """Return the digest of all that samples are made from.

    ``files``: purpose and the sha256 of its data files, in order.
    """
    program = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        program.update(path.read_bytes())
    backend = getattr(tokenizer, "backend_tokenizer", None)
    made_from = {
        "program": program.hexdigest(),
        "files": files,
        "tokenizer": [
            type(tokenizer).__name__,
            backend.to_str() if backend is not None else repr(tokenizer),
            getattr(tokenizer, "chat_template", None),
            repr(getattr(tokenizer, "special_tokens_map", None)),
        ],
        "train": {key: value for key, value in request.train.items() if key not in WITHOUT_EFFECT},
        "seed": request.seed if request.train["split_dataset_ratio"] else None,
    }
    text = json.dumps(made_from, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def root() -> Path:
    """Return the folder of all entries."""
    return models.cache_root().with_name("samples")


def entry(digest: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of an entry, calling ``make(temporary)`` where it is not there yet."""
    folder = root() / digest
    root().mkdir(parents=True, exist_ok=True)
    with models.locked(root() / f".{digest}.lock"):
        if not folder.is_dir():  # another process may have made it while this one waited
            _forget_unused()
            temporary = root() / f".making-{digest}"
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            try:
                make(temporary)
                sync_tree(temporary)
                temporary.rename(folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        os.utime(folder)
    return folder


def _forget_unused() -> None:
    for path in root().iterdir():
        try:
            old = time.time() - path.stat().st_mtime > UNUSED_AFTER_S
        except FileNotFoundError:
            continue
        if old and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif old:
            path.unlink(missing_ok=True)
