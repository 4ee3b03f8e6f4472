"""``python -m trainer.answer WEIGHTS QUESTION...``: what a model says, to look at a training.

WEIGHTS is the folder a training left (an adapter or a model) or any name that ``train.model``
takes.  Greedy, so that the same weights give the same answer.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from trainer.config import RequestError
from trainer.models import resolve
from trainer.tuners import ADAPTER

TOKENS = 80


def load(weights: str) -> tuple[Any, Any]:
    """Return model and tokenizer of a folder with an adapter, a model folder or a model name."""
    from transformers import AutoTokenizer

    from trainer.quantised.loading import load_as_held

    location = resolve(weights) if not (Path(weights) / ADAPTER).is_file() else weights
    tokenizer = AutoTokenizer.from_pretrained(location, trust_remote_code=False)
    if (Path(location) / ADAPTER).is_file():
        from trainer.quantised.adapters import base_of, with_saved_adapter

        model = with_saved_adapter(load_as_held(base_of(location)), location, trains=False)
    else:
        model = load_as_held(location)
    return model.eval(), tokenizer


def answer(model: Any, tokenizer: Any, question: str, *, tokens: int = TOKENS) -> str:
    """Return the answer to one question, at most ``tokens`` tokens long."""
    import torch

    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    with torch.no_grad():
        written = model.generate(
            **asked,
            max_new_tokens=tokens,
            do_sample=False,
            repetition_penalty=1.1,  # a small model, decoded greedily, repeats itself for ever
            no_repeat_ngram_size=4,
            pad_token_id=tokenizer.pad_token_id,
        )
    new = written[0][asked["input_ids"].shape[1] :]
    return str(tokenizer.decode(new, skip_special_tokens=True)).strip()


def main(argv: list[str] | None = None) -> int:
    """Answer each question on a line of its own; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer.answer", description=__doc__)
    parser.add_argument("weights", help="folder of an adapter or a model, or a model name")
    parser.add_argument("question", nargs="+")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="longest answer")
    options = parser.parse_args(argv)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from trainer.training import quieten

    quieten()
    try:
        model, tokenizer = load(options.weights)
    except RequestError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for question in options.question:
        text = answer(model, tokenizer, question, tokens=options.tokens)
        sys.stdout.write(" ".join(text.split()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
