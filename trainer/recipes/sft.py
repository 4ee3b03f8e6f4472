"""Supervised fine-tuning: conversations whose answers are imitated."""

from typing import TYPE_CHECKING, Any

from transformers import Trainer
from trl import SFTConfig, SFTTrainer

from trainer.loop import Seams
from trainer.packing import STRATEGY, pack, packing_length
from trainer.parallel import sequence
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
        if sequence.BORDERS in inputs:
            inputs = sequence.enter(inputs)
        inputs["use_cache"] = False
        if self.run.request.train["packing"] and "attention_mask" in inputs:
            raise RuntimeError("an attention mask would join the samples of a packed row")
        return Trainer.compute_loss(
            self, model, inputs, return_outputs, num_items_in_batch=num_items_in_batch
        )


def build(materials: Materials, *, run: "Run") -> ConversationTrainer:
    """Return the trainer of this task."""
    train = materials.train
    arguments = SFTConfig(
        **materials.arguments,
        max_length=packing_length(train) if train["packing"] else train["max_length"],
        packing=train["packing"],
        packing_strategy=STRATEGY,
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
