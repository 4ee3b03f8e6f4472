"""Searches to samples: which texts go with which query, for embedding and reranker.

Rules kept: no text is dropped in silence.  Every positive becomes a sample with its query; rows
with fewer negatives than others repeat them, rows without any beside rows with some are refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainer.config import RequestError
from trainer.rows import SearchRow
from trainer.tokens import Encoded

Sample = dict[str, Any]


def encode_vectors(
    rows: Iterable[SearchRow], *, tokenizer: Any, train: Mapping[str, Any]
) -> Encoded:
    """Return query, positives, negatives and score of each row; the library tokenises them."""

    def sample(row: SearchRow) -> tuple[Sample, int]:
        _check_score(row, train)
        if not row.positives:
            raise RequestError(
                f"train.dataset: {row.source}: embedding needs a text that answers the query"
            )
        texts = (row.query, *row.positives, *row.negatives)
        longest = max(len(ids) for ids in tokenizer(list(texts))["input_ids"])
        return {
            "query": row.query,
            "positives": list(row.positives),
            "negatives": list(row.negatives),
            "score": row.score,
        }, longest

    return _encode(rows, sample, train)


def encode_lists(rows: Iterable[SearchRow], *, tokenizer: Any, train: Mapping[str, Any]) -> Encoded:
    """Return query, documents, their labels and their tokens with the query, of each row."""

    def sample(row: SearchRow) -> tuple[Sample, int]:
        if row.score is not None:
            raise RequestError(
                f"train.dataset: {row.source}: a reranker learns from 0 and 1, not from a score "
                "between; write query, document and label"
            )
        if train["loss_type"] == "listwise_reranker" and not (row.positives and row.negatives):
            raise RequestError(
                f"train.dataset: {row.source}: loss_type: listwise_reranker compares the texts of "
                "one row, which needs a positive and a negative; nearest: pointwise_reranker"
            )
        documents = [*row.positives, *row.negatives]
        pairs = tokenizer([row.query] * len(documents), documents)["input_ids"]
        return {
            "query": row.query,
            "documents": documents,
            "labels": [1.0] * len(row.positives) + [0.0] * len(row.negatives),
            "tokens": [min(len(ids), train["max_length"]) for ids in pairs],
        }, max(len(ids) for ids in pairs)

    return _encode(rows, sample, train)


def _encode(rows: Iterable[SearchRow], sample: Any, train: Mapping[str, Any]) -> Encoded:
    samples: list[Sample] = []
    too_long: list[str] = []
    for row in rows:
        made, longest = sample(row)
        if longest > train["max_length"] and train["truncation_strategy"] == "delete":
            too_long.append(row.source)
        else:
            samples.append(made)
    return Encoded(samples=tuple(samples), too_long=tuple(too_long), nothing_to_learn=())


def _check_score(row: SearchRow, train: Mapping[str, Any]) -> None:
    wants_score = train["loss_type"] == "cosine_similarity"
    if wants_score and row.score is None:
        raise RequestError(
            f"train.dataset: {row.source}: loss_type: cosine_similarity learns from sentence1, "
            "sentence2 and score; nearest: loss_type: infonce"
        )
    if not wants_score and row.score is not None:
        raise RequestError(
            f"train.dataset: {row.source}: loss_type: infonce does not read a score; nearest: "
            "loss_type: cosine_similarity"
        )


def vector_columns(dataset: Any, train: Mapping[str, Any]) -> Any:
    """Return one row for each positive, in columns of single texts as the losses read them."""
    from datasets import Dataset

    if train["loss_type"] == "cosine_similarity":
        return Dataset.from_list(
            [
                {"sentence1": row["query"], "sentence2": row["positives"][0], "score": row["score"]}
                for row in dataset
            ]
        )
    counts = [len(row["negatives"]) for row in dataset]
    most = max(counts)
    if most and not min(counts):
        raise RequestError(
            f"train.dataset: {sum(not count for count in counts)} of {len(counts)} rows have no "
            "negative, the others have; give every row one, or none"
        )
    return Dataset.from_list(list(_vector_rows(dataset, most)))


def _vector_rows(dataset: Iterable[Sample], negatives: int) -> Iterator[dict[str, str]]:
    for row in dataset:
        chosen = [row["negatives"][number % len(row["negatives"])] for number in range(negatives)]
        numbered = {f"negative_{number}": text for number, text in enumerate(chosen, start=1)}
        for positive in row["positives"]:
            yield {"query": row["query"], "positive": positive} | numbered


def pair_columns(dataset: Any, train: Mapping[str, Any]) -> Any:
    """Return one row for each query and document, or as they are where lists are compared."""
    from datasets import Dataset

    if train["loss_type"] == "listwise_reranker":
        return dataset
    return Dataset.from_list(
        [
            {"query": row["query"], "document": document, "label": label, "tokens": tokens}
            for row in dataset
            for document, label, tokens in zip(
                row["documents"], row["labels"], row["tokens"], strict=True
            )
        ]
    )


def answers_by_query(rows: Iterable[Sample]) -> dict[str, tuple[list[str], list[str]]]:
    """Return the texts that answer each query and those that do not, from columns of any form."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for row in rows:
        good, bad = found.setdefault(row["query"], ([], []))
        for text, is_good in _judged(row):
            side = good if is_good else bad
            if text not in side:
                side.append(text)
    return found


def _judged(row: Sample) -> Iterator[tuple[str, bool]]:
    if "document" in row:
        yield row["document"], bool(row["label"])
    elif "documents" in row:
        for text, label in zip(row["documents"], row["labels"], strict=True):
            yield text, bool(label)
    else:
        for name, text in row.items():
            if name == "positive" or name.startswith("negative"):
                yield text, name == "positive"


def texts_of(found: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> list[str]:
    """Return every text of the searches once, in the order they came."""
    return list(dict.fromkeys(text for sides in found.values() for side in sides for text in side))
