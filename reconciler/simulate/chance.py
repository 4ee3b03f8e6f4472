"""Chance that is the same on every machine, in any order, for any part of a trace.

One hash an attribute and a job: nothing depends on how many numbers were drawn before, so a window
of a trace gives its jobs what the whole trace gives them.
"""

from bisect import bisect_right
from hashlib import sha256
from itertools import accumulate
from statistics import NormalDist

_DIGITS = 13
_NORMAL = NormalDist()


def uniform(seed: int, tag: str, job: str) -> float:
    """Return a number in [0, 1) that depends on the three arguments alone."""
    text = sha256(f"{seed}:{tag}:{job}".encode()).hexdigest()
    return float(int(text[:_DIGITS], 16)) / float(16**_DIGITS)


def normal(seed: int, tag: str, job: str) -> float:
    """Return a standard normal number, by the inverse distribution of :func:`uniform`."""
    return _NORMAL.inv_cdf(min(max(uniform(seed, tag, job), 1e-12), 1 - 1e-12))


def zipf(u: float, count: int) -> int:
    """Return which of ``count`` ranks ``u`` falls on; rank r has weight 1 / (r + 1)."""
    bounds = list(accumulate(1 / (rank + 1) for rank in range(count)))
    return min(bisect_right(bounds, u * bounds[-1]), count - 1)
