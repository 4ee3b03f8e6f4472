"""What a generated answer is worth: the functions that ``train.reward_funcs`` names.

Each takes the answer and the reference and returns a number from 0 to 1, or None where there is
no reference to compare with (the library leaves such a score out).  No torch here.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

Score = Callable[[str, str | None], float | None]

SHAPE = re.compile(r"\s*<think>.*?</think>\s*<answer>.*?</answer>\s*", re.DOTALL)
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
BRIEF, LONG = 20, 100
"""Words of an answer that is brief enough, and of one that is much too long."""
RUN = 3
"""Words of a run that an answer should not repeat."""


def accuracy(answer: str, reference: str | None) -> float | None:
    """Return 1 where the answer is the reference; spaces, case and commas in numbers aside."""
    if reference is None:
        return None
    said = ANSWER.findall(answer)
    return float(_plain(said[-1] if said else answer) == _plain(reference))


def _plain(text: str) -> Any:
    words = " ".join(text.split()).casefold().rstrip(".")
    if NUMBER.fullmatch(words):
        return float(words.replace(",", ""))
    return words


def overlap(answer: str, reference: str | None) -> float | None:
    """Return the F1 of the words that answer and reference share (SQuAD's measure)."""
    if reference is None:
        return None
    said, wanted = Counter(_words(answer)), Counter(_words(reference))
    shared = sum((said & wanted).values())
    return 2 * shared / (said.total() + wanted.total()) if shared else 0.0


def shape(answer: str, reference: str | None) -> float:  # noqa: ARG001
    """Return 1 where the answer is a thought and an answer in their tags, and nothing else."""
    return float(SHAPE.fullmatch(answer) is not None)


def brevity(answer: str, reference: str | None) -> float:  # noqa: ARG001
    """Return 1 up to ``BRIEF`` words, falling to 0 at ``LONG``; an empty answer is worth 0."""
    count = len(_words(answer))
    return 0.0 if not count else min(max((LONG - count) / (LONG - BRIEF), 0.0), 1.0)


def variety(answer: str, reference: str | None) -> float:  # noqa: ARG001
    """Return the share of runs of ``RUN`` words that come once; a short answer is worth 1."""
    words = _words(answer)
    runs = [tuple(words[start : start + RUN]) for start in range(len(words) - RUN + 1)]
    return len(set(runs)) / len(runs) if runs else float(bool(words))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


FUNCTIONS: Mapping[str, Score] = MappingProxyType(
    {
        "accuracy": accuracy,
        "overlap": overlap,
        "format": shape,
        "brevity": brevity,
        "variety": variety,
    }
)
"""The same names as ``trainer.recipes.keys.REWARD_FUNCTIONS``."""


def scorer(name: str) -> Callable[..., list[float | None]]:
    """Return the function of a name as TRL calls it: on a batch of conversations."""
    score = FUNCTIONS[name]

    def scores(
        *, completions: Sequence[Any], reference: Sequence[str | None], **_: Any
    ) -> list[float | None]:
        found = [
            score(_said(completion), known)
            for completion, known in zip(completions, reference, strict=True)
        ]
        assert all(value is None or math.isfinite(value) for value in found)
        return found

    scores.__name__ = name  # the library names its metrics by it
    return scores


def _said(completion: Any) -> str:
    return str(completion if isinstance(completion, str) else completion[-1]["content"])
