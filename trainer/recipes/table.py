"""The table of tasks: ``train.task`` to its recipe, loaded when it is asked for."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from trainer.recipes.recipe import Recipe

RECIPES: Mapping[str, str] = MappingProxyType(
    {
        "pretrain": "trainer.recipes.pretrain",
        "sft": "trainer.recipes.sft",
        "dpo": "trainer.recipes.dpo",
        "grpo": "trainer.recipes.grpo",
        "embedding": "trainer.recipes.embedding",
        "reranker": "trainer.recipes.reranker",
        "reward": "trainer.recipes.reward",
    }
)
"""Task and the module that holds its ``RECIPE``; the same names as ``train.task`` accepts."""


def recipe_for(task: str) -> Recipe:
    """Return the recipe of a task of the table."""
    recipe: Recipe = import_module(RECIPES[task]).RECIPE
    return recipe
