"""Which samples share a row, and how full the rows are.

Rule kept: no token is lost.  A sample longer than a row is cut into pieces, each a sample of its
own that does not see the one before it; such samples are counted and told.  Whether samples of a
row see each other is for ``trainer.isolation`` to prove.
"""

from collections.abc import Mapping, Sequence
from typing import Any

STRATEGY = "bfd_split"
"""TRL's name for: best fit, longest first, what does not fit a row cut and its tail kept."""


def packing_length(train: Mapping[str, Any]) -> int:
    """Return the tokens of a packed row."""
    return int(train["packing_length"] or train["max_length"])


def pack(dataset: Any, train: Mapping[str, Any]) -> Any:
    """Return rows of ``packing_length`` tokens with ``seq_lengths``; as it is without packing.

    The collator restarts positions at each sample and masks its first label; no attention mask is
    given, because any mask would switch off the separation that positions ask for.
    """
    if not train["packing"]:
        return dataset
    from trl import pack_dataset

    return pack_dataset(dataset, packing_length(train), STRATEGY)


def cut(lengths: Sequence[int], train: Mapping[str, Any]) -> int:
    """Return how many samples are longer than a row, and so are cut."""
    limit = packing_length(train)
    return sum(length > limit for length in lengths) if train["packing"] else 0


def fill(lengths: Sequence[int], limit: int, *, counts_last: bool = True) -> float:
    """Return the share of the places in rows of ``limit`` that hold a token, in [0, 1].

    ``counts_last`` False leaves the emptiest row out: there the data just end.
    """
    if not counts_last and len(lengths) > 1:
        lengths = sorted(lengths)[1:]
    return sum(lengths) / (len(lengths) * limit)
