"""Free devices of every row over time, built in bulk from holds.

All changes of all rows are packed into one array of integers, ``row | instant | step``, so that
one sort orders them and one running sum adds them up: the changes of a row sum to nothing, and
the sum starts anew with the next row.
"""

from dataclasses import dataclass

import numpy as np

from reconciler.domain.units import Instant
from reconciler.planning.capacity.grid import Ints
from reconciler.planning.capacity.holds import Holds

TIME_BITS = 36
FOREVER = 1 << TIME_BITS
"""No instant is this late: the year 4147."""
_STEP_BITS = 10
_NO_STEP = 1 << (_STEP_BITS - 1)
_STEPS = (1 << _STEP_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Step functions of all rows, one after another.

    Row ``r`` has ``free[i]`` devices free from ``at[i]`` to the next entry, for ``i`` from
    ``first[r]`` to ``first[r + 1]``; the last entry holds for ever.
    """

    at: Ints
    free: Ints
    row: Ints
    first: list[int]


def step_functions(size: Ints, now: Instant, holds: Holds) -> Steps:
    """Return the free devices of rows of these sizes from ``now`` on, under ``holds``.

    Raises ``ValueError`` for a hold that ends later than an instant can be.
    """
    held = holds.since(now)
    if len(held.end) and int(held.end.max()) >= FOREVER:
        raise ValueError(f"a hold ends at {int(held.end.max())}, later than an instant can be")
    rows = np.arange(len(size), dtype=np.int64)
    key = np.concatenate(
        (
            _packed(rows, np.full(len(size), now, np.int64), 0),
            _packed(held.row, held.start, -held.count),
            _packed(held.row, held.end, held.count),
        )
    )
    key.sort()
    total = np.cumsum((key & _STEPS) - _NO_STEP)
    key >>= _STEP_BITS
    is_last = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=is_last[:-1])
    key = key[is_last]
    row = key >> TIME_BITS
    free = total[is_last] + size[row]
    is_change = np.ones(len(key), bool)
    is_change[1:] = (free[1:] != free[:-1]) | (row[1:] != row[:-1])
    row = row[is_change]
    return Steps(
        at=key[is_change] & (FOREVER - 1),
        free=free[is_change],
        row=row,
        first=np.searchsorted(row, np.arange(len(size) + 1)).tolist(),
    )


def _packed(row: Ints, instant: Ints, step: Ints | int) -> Ints:
    packed: Ints = (((row << TIME_BITS) | instant) << _STEP_BITS) + (_NO_STEP + step)
    return packed
