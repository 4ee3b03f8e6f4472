"""Pretraining: plain texts, every token of which is learnt."""

from trainer.packing import pack
from trainer.recipes import sft
from trainer.recipes.recipe import Recipe
from trainer.rows import text_row
from trainer.tokens import encode_texts

RECIPE = Recipe(encode=encode_texts, arrange=pack, parse=text_row, build=sft.build, converses=False)
