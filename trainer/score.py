"""``python -m trainer.score WEIGHTS QUERY TEXT...``: one number a text, to look at a training.

WEIGHTS is what a training of an embedding (cosine of query and text), a reranker (relevance of the
text) or a reward model (worth of the text as an answer) left: a model folder or an adapter.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainer.config import RequestError
from trainer.files import read_json
from trainer.models import resolve
from trainer.tuners import ADAPTER

Scores = Callable[[str, Sequence[str]], list[float]]


def load(weights: str) -> Scores:
    """Return the function that scores texts for a query.

    Raises RequestError where the weights do not score anything.
    """
    location = weights if Path(weights).is_dir() else resolve(weights)
    settings = read_json(Path(location) / "config_sentence_transformers.json")
    if settings is None:
        return _answers(location)
    if settings.get("model_type") == "CrossEncoder":
        from sentence_transformers import CrossEncoder

        pairs = CrossEncoder(location, device="cpu")
        return lambda query, texts: [float(pairs.predict((query, text))) for text in texts]
    from sentence_transformers import SentenceTransformer

    vectors = SentenceTransformer(location, device="cpu")

    def cosines(query: str, texts: Sequence[str]) -> list[float]:
        found = vectors.similarity(vectors.encode([query]), vectors.encode(list(texts)))
        return [float(value) for value in found[0]]

    return cosines


def _answers(location: str) -> Scores:
    """Return the scores of a reward model."""
    import torch

    from trainer.recipes.grpo import judge

    adapter = read_json(Path(location) / ADAPTER)
    config = adapter or read_json(Path(location) / "config.json") or {}
    ends_in = config.get("task_type") or " ".join(config.get("architectures") or ())
    if "SEQ_CLS" not in ends_in and "SequenceClassification" not in ends_in:
        raise RequestError(
            f"{location} is no embedding, reranker or reward model; a language model answers "
            "with `python -m trainer.answer`"
        )
    model, tokenizer = judge(location, root=Path())

    def worth(query: str, texts: Sequence[str]) -> list[float]:
        return [_worth(model, tokenizer, query, text, torch) for text in texts]

    return worth


def _worth(model: Any, tokenizer: Any, query: str, text: str, torch: Any) -> float:
    asked = [{"role": "user", "content": query}, {"role": "assistant", "content": text}]
    written = tokenizer.apply_chat_template(asked, tokenize=False).rstrip()
    read = tokenizer(written, add_special_tokens=False, return_tensors="pt")
    with torch.no_grad():
        return float(model(**read).logits[0, 0])


def main(argv: list[str] | None = None) -> int:
    """Print a score and its text on a line each, the best first; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer.score", description=__doc__)
    parser.add_argument("weights", help="folder of an adapter or a model")
    parser.add_argument("query", help="what is searched for, or asked")
    parser.add_argument("text", nargs="+")
    options = parser.parse_args(argv)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from trainer.training import quieten

    quieten()
    try:
        scores = load(options.weights)(options.query, options.text)
    except RequestError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    ranked = sorted(zip(scores, options.text, strict=True), key=lambda item: -item[0])
    for score, text in ranked:
        sys.stdout.write(f"{score:8.4f}  {' '.join(text.split())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
