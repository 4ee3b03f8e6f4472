"""The table of tasks: ``train.task`` to its recipe, loaded when it is asked for."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from trainer import models
from trainer.config import Request, RequestError
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


def recipe_of(request: Request, location: str) -> Recipe:
    """Return the recipe of a request for the model at ``location``.

    Raises RequestError where that model sees images and the request does not go with it.
    """
    recipe = recipe_for(request.train["task"])
    recipe.check(request)
    searches = request.train["task"] in ("embedding", "reranker")  # of texts, whatever the model
    if not searches and models.sees(location, revision=request.train["model_revision"]):
        from trainer.recipes import pictures

        return pictures.recipe(request, location)
    if not request.train["freeze_vit"]:
        raise RequestError("train.freeze_vit: this model has no vision weights to train; remove it")
    return recipe
