"""Reranker: a query and a text are read together and given a score.

Where the tokenizer puts nothing between the two, an end token is put there and the tokenizer
saved so: a model that can not tell where the query ends can not compare it with anything.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentence_transformers import CrossEncoder, CrossEncoderTrainer
from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss, ListNetLoss
from sentence_transformers.cross_encoder.training_args import CrossEncoderTrainingArguments

from trainer.recipes.recipe import Materials, Recipe
from trainer.recipes.sentences import Measure, SentenceSeams, wrapped
from trainer.rows import search_row
from trainer.searches import answers_by_query, encode_lists, pair_columns

if TYPE_CHECKING:
    from trainer.loop import Run

RANKED = 10
"""Depth of the metrics of an order."""


class PairTrainer(SentenceSeams, CrossEncoderTrainer):  # type: ignore[misc]
    """The library's trainer with our seams; its losses tokenise, so tokens come along as counts."""

    def tokens_of(self, batch: Any) -> int:
        """Return the tokens of one batch, padding not counted."""
        return sum(_counts(batch))

    def _places(self, batch: Any) -> int:
        counts = _counts(batch)
        return max(counts) * len(counts)

    def collect_features(self, inputs: dict[str, Any]) -> Any:
        """Return the texts and their labels."""
        inputs.pop("tokens", None)
        return super().collect_features(inputs)


def _counts(batch: Any) -> list[int]:
    counts: list[int] = []
    for each in batch["tokens"]:
        counts += each if isinstance(each, list) else [each]
    return counts


def load(location: str, *, train: Mapping[str, Any], root: Path) -> tuple[Any, None]:
    """Return the model as sentence-transformers has it; an adapter is inside already."""
    module = wrapped(location, train=train, root=root, kind="classifier")
    separate(module.tokenizer)
    return CrossEncoder(modules=[module], num_labels=1, device="cpu"), None


def separate(tokenizer: Any) -> None:
    """Make the tokenizer put an end token between two texts, where it puts nothing."""
    from tokenizers.processors import Sequence, TemplateProcessing

    one, two, both = (tokenizer(*texts)["input_ids"] for texts in (("a",), ("b",), ("a", "b")))
    if both != one + two or tokenizer.eos_token is None:
        return
    between = TemplateProcessing(
        single="$A",
        pair=f"$A {tokenizer.eos_token} $B:1",
        special_tokens=[(tokenizer.eos_token, tokenizer.eos_token_id)],
    )
    inner = tokenizer.backend_tokenizer
    before = [] if inner.post_processor is None else [inner.post_processor]
    inner.post_processor = Sequence([*before, between])


def build(materials: Materials, *, run: "Run") -> PairTrainer:
    """Return the trainer of this task."""
    is_listwise = materials.train["loss_type"] == "listwise_reranker"
    loss = ListNetLoss if is_listwise else BinaryCrossEntropyLoss
    return PairTrainer(
        run=run,
        model=materials.model,
        args=CrossEncoderTrainingArguments(**materials.arguments),
        train_dataset=materials.dataset,
        eval_dataset=materials.eval_dataset,
        loss=loss(materials.model),
        measure=_measure(materials),
        callbacks=materials.callbacks,
    )


def _measure(materials: Materials) -> Measure | None:
    """Return how well the texts of held-out queries are ordered: rank, NDCG, precision."""
    if materials.eval_dataset is None:
        return None
    found = answers_by_query(materials.eval_dataset)
    order = CrossEncoderRerankingEvaluator(
        [
            {"query": query, "positive": good, "negative": bad}
            for query, (good, bad) in found.items()
        ],
        at_k=RANKED,
        batch_size=materials.arguments["per_device_eval_batch_size"],
        show_progress_bar=False,
        write_csv=False,
    )
    kept = (f"mrr@{RANKED}", f"ndcg@{RANKED}", "map")

    def measure(model: Any) -> dict[str, float]:
        measured = order(model)
        return {name.replace("@", "_at_"): float(measured[name]) for name in kept}

    return measure


RECIPE = Recipe(
    encode=encode_lists,
    arrange=pair_columns,
    parse=search_row,
    build=build,
    load=load,
    kind="classifier",
    converses=False,
)
