"""``python -m trainer.answer WEIGHTS QUESTION...``: what a model says, to look at a training.

WEIGHTS is the folder a training left (an adapter or a model) or any name that ``train.model``
takes.  Greedy, so that the same weights give the same answer.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
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
    """Return the answer to one question, at most ``tokens`` tokens long.

    Without a chat template it is what the model writes after the question.
    """
    if tokenizer.chat_template is None:
        return _written(model, tokenizer, tokenizer(question, return_tensors="pt"), tokens)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    return _written(model, tokenizer, asked, tokens)


def answer_seeing(
    model: Any, tokenizer: Any, question: str, images: Sequence[str], *, tokens: int = TOKENS
) -> str:
    """Return the answer to one question about images, given by path.

    Raises RequestError where the model takes no images, or one can not be read.
    """
    from trainer.models import SEEING
    from trainer.vision.rows import ask, open_eyes

    if model.config.model_type not in SEEING:
        raise RequestError(f"a {model.config.model_type} model takes no images")
    eyes = open_eyes(model.config.name_or_path, root=Path())
    return _written(model, tokenizer, ask(question, images, eyes=eyes, tokenizer=tokenizer), tokens)


def _written(model: Any, tokenizer: Any, asked: Mapping[str, Any], tokens: int) -> str:
    import torch

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
    parser.add_argument(
        "--image", action="append", default=[], metavar="PATH", help="shown before each question"
    )
    options = parser.parse_args(argv)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from trainer.training import quieten

    quieten()
    try:
        model, tokenizer = load(options.weights)
        for question in options.question:
            if options.image:
                text = answer_seeing(
                    model, tokenizer, question, options.image, tokens=options.tokens
                )
            else:
                text = answer(model, tokenizer, question, tokens=options.tokens)
            sys.stdout.write(" ".join(text.split()) + "\n")
    except RequestError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
