"""Direct preference optimisation: of two answers, the better one is made likelier.

The reference is always the model as it was before the first step, also after a resume: with an
adapter it is the base without it (or a frozen copy of the adapter training started from), with
full training a frozen copy made before any checkpoint is loaded.
"""

from copy import deepcopy
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from trl import DPOConfig, DPOTrainer
from trl.trainer.utils import add_fused_lm_head

from trainer.loop import Seams
from trainer.recipes.recipe import Materials, Recipe, keep_frozen_copy_out_of_files
from trainer.tokens import encode_pairs

if TYPE_CHECKING:
    from trainer.loop import Run

TRUNCATION = {"right": "keep_start", "left": "keep_end", "delete": "keep_start"}


NOT_COMPUTED = ("entropy", "mean_token_accuracy", "logits/chosen", "logits/rejected")


class PreferenceTrainer(Seams, DPOTrainer):  # type: ignore[misc]
    """TRL's trainer with our seams, without what it computes over the vocabulary only to log it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        keep_frozen_copy_out_of_files(self.model)
        only_log_probabilities(self.model)

    def _compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        loss = super()._compute_loss(*args, **kwargs)
        for measured in self._metrics.values():
            for name in NOT_COMPUTED:
                measured.pop(name, None)
        return loss


def only_log_probabilities(model: Any) -> None:
    """Make the head of ``model`` compute what the loss needs, and give zeros for the rest."""
    base = model.get_base_model() if hasattr(model, "peft_config") else model
    add_fused_lm_head(base)  # computes the log probabilities alone, unlike TRL's own call
    forward = base.forward

    @wraps(forward)
    def lean(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        if kwargs.get("fused_lm_head"):
            nothing = torch.zeros_like(output.log_probs, requires_grad=False)
            output.entropy = output.mean_logits = nothing
            output.is_top1 = nothing.bool()
        return output

    base.forward = lean


def build(materials: Materials, *, run: "Run") -> PreferenceTrainer:
    """Return the trainer of this task."""
    train = materials.train
    arguments = DPOConfig(
        **materials.arguments,
        max_length=train["max_length"],
        truncation_mode=TRUNCATION[train["truncation_strategy"]],
        beta=train["beta"],
        loss_type=[train["loss_type"]],
        label_smoothing=train["label_smoothing"],
        disable_dropout=False,  # lora_dropout is asked for by name
    )
    return PreferenceTrainer(
        run=run,
        model=materials.model,
        peft_config=materials.adapter,
        ref_model=_reference(materials),
        args=arguments,
        train_dataset=materials.dataset,
        eval_dataset=materials.eval_dataset,
        processing_class=materials.tokenizer,
        callbacks=materials.callbacks,
    )


def _reference(materials: Materials) -> Any:
    if materials.train["tuner_type"] == "lora":
        return None
    return deepcopy(materials.model)


RECIPE = Recipe(encode=encode_pairs, build=build)
