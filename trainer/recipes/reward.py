"""A reward model: of two answers, the better one is given the higher score.

What is trained is a language model that ends in one number for a whole conversation.
"""

from typing import TYPE_CHECKING

from trl import RewardConfig, RewardTrainer

from trainer.loop import Seams
from trainer.recipes.recipe import Materials, Recipe
from trainer.tokens import encode_comparisons

if TYPE_CHECKING:
    from trainer.loop import Run


class ComparisonTrainer(Seams, RewardTrainer):  # type: ignore[misc]
    """TRL's trainer with our seams; its accuracy and margin are reported at each step."""


def build(materials: Materials, *, run: "Run") -> ComparisonTrainer:
    """Return the trainer of this task."""
    train = materials.train
    arguments = RewardConfig(
        **materials.arguments,
        max_length=None,  # cut, or left out and counted, when they were encoded
        center_rewards_coefficient=train["center_rewards_coefficient"] or None,
        disable_dropout=False,  # lora_dropout is asked for by name
    )
    return ComparisonTrainer(
        run=run,
        model=materials.model,
        peft_config=materials.adapter,
        args=arguments,
        train_dataset=materials.dataset,
        eval_dataset=materials.eval_dataset,
        processing_class=materials.tokenizer,
        callbacks=materials.callbacks,
    )


RECIPE = Recipe(encode=encode_comparisons, build=build, kind="classifier")
