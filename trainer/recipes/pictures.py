"""Supervised fine-tuning of models that see: conversations with images whose answers are imitated.

The recipe of ``sft`` for models that take images; it needs the model's image processor, so it is
made for a request instead of standing in the table.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl import SFTConfig

from trainer import tuners
from trainer.config import Request, RequestError
from trainer.recipes import sft
from trainer.recipes.recipe import Materials, Recipe
from trainer.vision import probe
from trainer.vision.batches import Collator, pack
from trainer.vision.rows import Eyes, encode, open_eyes, reader

if TYPE_CHECKING:
    from trainer.loop import Run

TOWER = r".*\bvisual\b.*"
"""Layers that make tokens of an image."""


def recipe(request: Request, location: str) -> Recipe:
    """Return the recipe for a model that sees; raise RequestError for what it does not do."""
    if text := "\n".join(_problems(request)):
        raise RequestError(text)
    eyes = open_eyes(location, root=request.data_root, revision=request.train["model_revision"])
    return replace(
        sft.RECIPE,
        parse=reader(eyes, system=request.train["system"]),
        encode=partial(encode, eyes=eyes),
        arrange=pack,
        load=load,
        build=partial(build, eyes=eyes),
        prove=partial(prove, eyes=eyes),
        stamp=eyes.stamp(),
    )


def _problems(request: Request) -> Iterator[str]:
    train, layout = request.train, request.layout
    why = "with a model that sees images"
    if train["task"] != "sft":
        yield f"train.task: {train['task']} reads text alone; {why} only sft is there"
    if train["truncation_strategy"] != "delete":
        yield f"train.truncation_strategy: half an image is none; {why} write delete"
    if train["quant_method"] is not None or train["use_galore"] or train["merge_lora"]:
        yield f"train: quant_method, use_galore and merge_lora are not there {why}; remove them"
    if layout.data != request.world_size or layout.sharding is not None:
        yield f"train: weights and rows are not split {why}; remove fsdp and ..._parallel_size"
    if not train["freeze_vit"] and request.world_size > 1:
        yield (
            "train.freeze_vit: on several devices a batch without images would leave the vision "
            "weights without a gradient; write true"
        )


def load(location: str, *, train: Any, root: Path) -> tuple[Any, Any]:
    """Return the model and its new adapter; what makes tokens of images is frozen if asked."""
    model, adapter = tuners.start(location, train=train, root=root, kind="seeing")
    if train["freeze_vit"]:
        for name, parameter in model.named_parameters():
            if ".visual." in f".{name}":
                parameter.requires_grad_(False)
        if adapter is not None:
            adapter.exclude_modules = TOWER
    return model, adapter


class PictureTrainer(sft.ConversationTrainer):
    """The trainer of conversations, which also keeps the image processor with the weights."""

    eyes: Eyes

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        super()._save(output_dir, state_dict)
        if output_dir is not None and self.args.should_save:
            self.eyes.processor.save_pretrained(output_dir)


def build(materials: Materials, *, run: "Run", eyes: Eyes) -> PictureTrainer:
    """Return the trainer of this task."""
    train = materials.train
    trainer = PictureTrainer(
        run=run,
        model=materials.model,
        peft_config=materials.adapter,
        args=SFTConfig(
            **materials.arguments,
            max_length=None,  # longer ones were left out when they were encoded
            dataset_kwargs={"skip_prepare_dataset": True},
        ),
        data_collator=Collator(
            eyes, pad_token=materials.tokenizer.pad_token_id or 0, packs=train["packing"]
        ),
        train_dataset=materials.dataset,
        eval_dataset=materials.eval_dataset,
        processing_class=materials.tokenizer,
        callbacks=materials.callbacks,
    )
    trainer.eyes = eyes
    return trainer


def prove(model: Any, run: "Run", *, eyes: Eyes) -> Any:
    """Return what was measured of samples that share a row, texts and images."""
    return probe.prove(model, eyes, attention=run.request.train["attn_impl"])
