"""What is trained: all weights or a new adapter, and the weights training starts from.

Rule kept: at step 0 the model is exactly the named one, or the named one with the weights of
``train.init_from``; an adapter that does not have the rank and scale asked for is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.checkpoints import candidates, choose
from trainer.config import RequestError
from trainer.models import load_model

ADAPTER = "adapter_config.json"


def start(
    location: str, *, train: Mapping[str, Any], root: Path, kind: str = "causal"
) -> tuple[Any, Any]:
    """Return the model to train and the configuration of the adapter to add to it, if any.

    Raises RequestError where ``init_from`` leads nowhere or does not go with the tuner.
    """
    source = None if train["init_from"] is None else weights_folder(root / train["init_from"])
    if source is None:
        model = load_model(location, train=train, kind=kind)
    elif not (source / ADAPTER).is_file():
        model = load_model(str(source), train=dict(train) | {"model_revision": None}, kind=kind)
    else:
        return _from_adapter(load_model(location, train=train, kind=kind), source, train)
    return model, adapter_config(train, model, kind) if train["tuner_type"] == "lora" else None


def weights_folder(path: Path) -> Path:
    """Return the folder with weights that ``path`` means: itself, or its newest checkpoint."""
    if candidates(path):
        chosen = choose(path)
        if chosen.checkpoint is None:
            raise RequestError(
                f"train.init_from: {path} has no whole checkpoint: {'; '.join(chosen.skipped)}"
            )
        return chosen.checkpoint.folder
    if not (path / ADAPTER).is_file() and not (path / "config.json").is_file():
        raise RequestError(f"train.init_from: {path} holds neither an adapter nor a model")
    return path


TASK_TYPES = {
    "causal": "CAUSAL_LM",
    "seeing": "CAUSAL_LM",
    "classifier": "SEQ_CLS",
    "encoder": "FEATURE_EXTRACTION",
}
"""What a model ends in, and peft's word for it."""
HEADS = ("score", "classifier")
"""Names that architectures give the layer a classifier ends in."""


def adapter_config(train: Mapping[str, Any], model: Any, kind: str = "causal") -> Any:
    """Return peft's configuration of the adapter that ``train`` describes for ``model``.

    The head of a classifier is new, so it is trained whole and saved with the adapter.
    """
    from peft import LoraConfig

    from trainer.quantised import adapters

    targets = train["target_regex"] or train["target_modules"]
    if train["target_regex"] is None and "all-linear" in targets:
        if len(targets) > 1:
            raise RequestError("train.target_modules: all-linear already names every linear layer")
        targets = adapters.all_linear(model)
    config = LoraConfig(
        task_type=TASK_TYPES[kind],
        r=train["lora_rank"],
        lora_alpha=train["lora_alpha"],
        lora_dropout=train["lora_dropout"],
        bias=train["lora_bias"],
        target_modules=targets,
        modules_to_save=_trained_whole(train, model, kind),
        use_rslora=train["use_rslora"],
        use_dora=train["use_dora"],
    )
    return adapters.teach(config)


def _trained_whole(train: Mapping[str, Any], model: Any, kind: str) -> list[str] | None:
    asked = list(train["modules_to_save"] or [])
    if kind == "classifier":
        asked += [name for name, _ in model.named_children() if name in HEADS and name not in asked]
    return asked or None


def _from_adapter(base: Any, source: Path, train: Mapping[str, Any]) -> tuple[Any, Any]:
    from trainer.quantised.adapters import with_saved_adapter

    trains_adapter = train["tuner_type"] == "lora"
    model = with_saved_adapter(
        base,
        source,
        trains=trains_adapter,
        dropout=train["lora_dropout"] if trains_adapter else None,
    )
    if not trains_adapter:
        # merging leaves the weights frozen, as they were below the adapter
        return model.merge_and_unload().requires_grad_(True), None
    found = model.peft_config["default"]
    for key, value in (("lora_rank", found.r), ("lora_alpha", found.lora_alpha)):
        if value != train[key]:
            raise RequestError(
                f"train.{key}: the adapter in {source} has {value}, not {train[key]}; "
                f"write {key}: {value}"
            )
    return model, None
