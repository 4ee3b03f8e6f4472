"""What embedding and reranker share: a model as sentence-transformers wraps it, and its loop.

The wrapped model is loaded by ``trainer.models`` like any other, so that weights' type, attention
and quantisation mean the same everywhere; what is saved is a folder that sentence-transformers
loads by itself.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sentence_transformers.base.modules import Transformer
from transformers import Trainer

from trainer import processes, tuners
from trainer.config import RequestError
from trainer.loop import Seams
from trainer.snapshot import Deferring

LIBRARY_TASKS = {"encoder": "feature-extraction", "classifier": "sequence-classification"}
"""What a model ends in (``Kind``), and the library's word for it."""


Measure = Callable[[Any], dict[str, float]]
"""(model) -> what is measured of it on the held-out searches."""


class _Held(Transformer):  # type: ignore[misc]
    """The library's module around a model that is loaded already."""

    def _load_model(self, *_: Any, model: Any, **__: Any) -> Any:
        return model


def wrapped(location: str, *, train: Mapping[str, Any], root: Path, kind: str) -> Any:
    """Return the module that tokenises and runs the model, its adapter added if it has one.

    Raises RequestError where ``init_from`` is an adapter that would have to be trained on.
    """
    model, adapter = tuners.start(location, train=train, root=root, kind=kind)
    if adapter is None and train["tuner_type"] == "lora":
        raise RequestError(
            f"train.init_from: an adapter is not trained on with task: {train['task']}; nearest: "
            "tuner_type: full, which begins with the adapter merged in"
        )
    revision = {} if train["model_revision"] is None else {"revision": train["model_revision"]}
    module = _Held(
        location,
        transformer_task=LIBRARY_TASKS[kind],
        model_kwargs={"model": model},
        config_kwargs=dict(revision) | ({"num_labels": 1} if kind == "classifier" else {}),
        processor_kwargs=dict(revision),
        max_seq_length=train["max_length"],
    )
    module.__class__ = Transformer  # what is saved names the library's own
    if module.tokenizer.pad_token is None:
        module.tokenizer.pad_token = module.tokenizer.eos_token
    model.config.get_text_config().pad_token_id = module.tokenizer.pad_token_id
    if adapter is not None:
        _adapt(model, adapter)
        model.enable_input_require_grads()  # else recomputed activations give no gradient
    if kind == "encoder" and getattr(model, "pooler", None) is not None:
        # a vector is pooled from the tokens; several processes would wait for its gradients
        model.pooler.requires_grad_(False)
    return module


def _adapt(model: Any, adapter: Any) -> None:
    try:
        model.add_adapter(adapter)
    except ValueError as error:
        if "not found in the base model" not in str(error):
            raise
        raise RequestError(f"train.target_modules: {error}") from None


class SentenceSeams(Seams):
    """Our seams where the library has its own order of samples, saving and loading."""

    loss_is_scaled_for_ga = False

    def __init__(self, *args: Any, measure: Measure | None, **kwargs: Any) -> None:
        self.measure = measure
        super().__init__(*args, **kwargs)

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> Any:
        """Return the held-out loss with what rank 0 measures; the other ranks wait for it."""
        found = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        if self.measure is not None:
            is_first = self.args.process_index == 0
            measured = processes.from_first(self.measure(self.model) if is_first else None)
            found.metrics.update(
                {f"{metric_key_prefix}_{name}": value for name, value in measured.items()}
            )
        return found

    def get_train_dataloader(self) -> Any:
        """Return the batches of our order, as every task has them."""
        return Trainer.get_train_dataloader(self)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Return the batches to evaluate on."""
        return Trainer.get_eval_dataloader(self, eval_dataset)

    def tokens_of(self, batch: Any) -> int:
        """Return the tokens of one batch, padding not counted."""
        return sum(int(mask.sum()) for mask in _masks(batch))

    def _places(self, batch: Any) -> int:
        return sum(int(mask.numel()) for mask in _masks(batch))

    def add_model_card_callback(self, default_args_dict: Any) -> None:
        """Leave the model card to the trainer's own export."""

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:  # noqa: ARG002
        self.model.save_pretrained(output_dir, create_model_card=False)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if self.run.request.train["tuner_type"] == "full":
            # past our reader, which is of transformers' own models, to the library's
            super(Deferring, self)._load_from_checkpoint(resume_from_checkpoint)
            return
        from peft import load_peft_weights, set_peft_model_state_dict

        adapted = self.model.transformers_model if model is None else model.transformers_model
        saved = load_peft_weights(resume_from_checkpoint, device="cpu")
        # in files the names are those of a model inside peft's own, which this one is not
        found = {name.removeprefix("base_model.model."): value for name, value in saved.items()}
        set_peft_model_state_dict(adapted, found)


def _masks(batch: Any) -> list[Any]:
    return [value for name, value in batch.items() if name.endswith("attention_mask")]
