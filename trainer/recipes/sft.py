"""Supervised fine-tuning: conversations whose answers are imitated."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from transformers import Trainer
from trl import SFTConfig, SFTTrainer
from trl import pack_dataset as trl_pack_dataset

from trainer.loop import Seams
from trainer.recipes.recipe import Materials, Recipe
from trainer.tokens import encode_conversations

if TYPE_CHECKING:
    from trainer.loop import Run


class ConversationTrainer(Seams, SFTTrainer):  # type: ignore[misc]
    """TRL's trainer without its entropy and accuracy of every step, a third of its time."""

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Return the mean negative log-likelihood per learnt token of the whole global batch."""
        inputs["use_cache"] = False
        return Trainer.compute_loss(
            self, model, inputs, return_outputs, num_items_in_batch=num_items_in_batch
        )


def pack(dataset: Any, train: Mapping[str, Any]) -> Any:
    """Return rows of ``packing_length`` tokens, best fit first; samples stay whole.

    The collator restarts positions at each sample and masks its first label; with no attention
    mask given, eager and sdpa attention keep the samples of a row apart.
    """
    if not train["packing"]:
        return dataset
    return trl_pack_dataset(dataset, packing_length(train), "bfd")


def packing_length(train: Mapping[str, Any]) -> int:
    """Return the tokens of a packed row."""
    return int(train["packing_length"] or train["max_length"])


def build(materials: Materials, *, run: "Run") -> ConversationTrainer:
    """Return the trainer of this task."""
    train = materials.train
    arguments = SFTConfig(
        **materials.arguments,
        max_length=packing_length(train) if train["packing"] else train["max_length"],
        packing=train["packing"],
        packing_strategy="bfd",
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    return ConversationTrainer(
        run=run,
        model=materials.model,
        peft_config=materials.adapter,
        args=arguments,
        train_dataset=materials.dataset,
        eval_dataset=materials.eval_dataset,
        processing_class=materials.tokenizer,
        callbacks=materials.callbacks,
    )


RECIPE = Recipe(encode=encode_conversations, arrange=pack, build=build)
