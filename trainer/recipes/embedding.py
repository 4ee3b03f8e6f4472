"""Embedding: texts become vectors, a query's near the vectors of the texts that answer it.

With ``infonce`` the other texts of the batch of one device are what a query must stay away from,
so the per-device batch is part of what is learnt; it does not change with the number of devices.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
)
from sentence_transformers.sentence_transformer.losses import (
    CosineSimilarityLoss,
    MultipleNegativesRankingLoss,
)
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.sentence_transformer.training_args import (
    SentenceTransformerTrainingArguments,
)

from trainer.recipes.recipe import Materials, Recipe
from trainer.recipes.sentences import Measure, SentenceSeams, wrapped
from trainer.rows import search_row
from trainer.searches import answers_by_query, encode_vectors, texts_of, vector_columns

if TYPE_CHECKING:
    from trainer.loop import Run

NEAREST = 10
"""Depth of the metrics of a search."""


class VectorTrainer(SentenceSeams, SentenceTransformerTrainer):  # type: ignore[misc]
    """The library's trainer with our seams."""


def load(location: str, *, train: Mapping[str, Any], root: Path) -> tuple[Any, None]:
    """Return the model as sentence-transformers has it; an adapter is inside already."""
    module = wrapped(location, train=train, root=root, kind="encoder")
    pooling = Pooling(module.get_embedding_dimension(), pooling_mode=_pooling(location, train))
    model = SentenceTransformer(modules=[module, pooling, Normalize()], device="cpu")
    return model, None


def _pooling(location: str, train: Mapping[str, Any]) -> str:
    if train["pooling"] is not None:
        return str(train["pooling"])
    source = train["init_from"] or location
    saved = Path(source) / "1_Pooling"
    if saved.is_dir():
        return str(Pooling.load(str(saved)).pooling_mode)
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(
        location, revision=train["model_revision"], trust_remote_code=False
    )
    names = config.architectures or [""]
    return "lasttoken" if names[0].endswith("ForCausalLM") else "mean"


def build(materials: Materials, *, run: "Run") -> VectorTrainer:
    """Return the trainer of this task."""
    train = materials.train
    if train["loss_type"] == "infonce":
        loss = MultipleNegativesRankingLoss(materials.model, scale=1 / train["infonce_temperature"])
    else:
        loss = CosineSimilarityLoss(materials.model)
    return VectorTrainer(
        run=run,
        model=materials.model,
        args=SentenceTransformerTrainingArguments(**materials.arguments),
        train_dataset=materials.dataset,
        eval_dataset=materials.eval_dataset,
        loss=loss,
        measure=_measure(materials),
        callbacks=materials.callbacks,
    )


def _measure(materials: Materials) -> Measure | None:
    rows = materials.eval_dataset
    if rows is None:
        return None
    size = materials.arguments["per_device_eval_batch_size"]
    if materials.train["loss_type"] == "cosine_similarity":
        return _likeness(rows, size)
    return _search(rows, size)


def _search(rows: Any, batch_size: int) -> Measure:
    """Return how well queries find their texts among all texts: rank, NDCG, recall, first hit."""
    found = answers_by_query(rows)
    names = {text: f"t{number}" for number, text in enumerate(texts_of(found))}
    search = InformationRetrievalEvaluator(
        {f"q{number}": query for number, query in enumerate(found)},
        {name: text for text, name in names.items()},
        {
            f"q{number}": {names[text] for text in good}
            for number, (good, _) in enumerate(found.values())
        },
        mrr_at_k=[NEAREST],
        ndcg_at_k=[NEAREST],
        accuracy_at_k=[1],
        precision_recall_at_k=[1, NEAREST],
        map_at_k=[NEAREST],
        batch_size=batch_size,
        write_csv=False,
    )
    kept = (f"mrr@{NEAREST}", f"ndcg@{NEAREST}", f"recall@{NEAREST}", "accuracy@1")

    def measure(model: Any) -> dict[str, float]:
        measured = search(model)
        return {name.replace("@", "_at_"): float(measured[f"cosine_{name}"]) for name in kept}

    return measure


def _likeness(rows: Any, batch_size: int) -> Measure:
    """Return how well cosines of pairs follow their scores: correlation of ranks and of values."""
    likeness = EmbeddingSimilarityEvaluator(
        rows["sentence1"],
        rows["sentence2"],
        rows["score"],
        batch_size=batch_size,
        write_csv=False,
        main_similarity="cosine",
    )

    def measure(model: Any) -> dict[str, float]:
        measured = likeness(model)
        return {name: float(measured[f"{name}_cosine"]) for name in ("spearman", "pearson")}

    return measure


RECIPE = Recipe(
    encode=encode_vectors,
    arrange=vector_columns,
    parse=search_row,
    build=build,
    load=load,
    kind="encoder",
    converses=False,
)
