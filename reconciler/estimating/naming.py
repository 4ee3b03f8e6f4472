"""Finds a model or a GPU by the name people write, and the nearest ones where there is none.

A name that is not in the catalogue is refused, never guessed: a Qwen3-70B does not exist, and
an estimate for it would be an estimate for something else.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from math import log

from reconciler.estimating.hardware import Gpu
from reconciler.estimating.model import Model


class UnknownNameError(ValueError):
    """Nothing has this name; ``nearest`` lists what might have been meant, best first."""

    def __init__(self, kind: str, name: str, nearest: tuple[str, ...]) -> None:
        hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
        super().__init__(f"no {kind} named {name!r} is known{hint}")
        self.name = name
        self.nearest = nearest


VARIANTS = re.compile(
    r"-(instruct|chat|base|hf|it|thinking|sft|dpo|pt|v\d+(\.\d+)*|\d{4}|"
    r"awq|gptq|int[48]|fp8|4bit|8bit|bnb|unsloth|mlx|bf16)$"
)
"""Endings that do not change a model's shape."""


def model_named(name: str, known: Mapping[str, Model]) -> Model:
    """Return the shape of ``name``: a catalogue name, a Hub id, or a fine-tuned variant of one.

    ``known`` is keyed by casefolded names and aliases.  Raises ``UnknownNameError``.
    """
    stem = name.strip().casefold().rstrip("/").rpartition("/")[2]
    while True:
        for spelling in (stem, stem.removeprefix("meta-")):
            if spelling in known:
                return known[spelling]
        shorter = VARIANTS.sub("", stem)
        if shorter == stem:
            names = {model.name for model in known.values()}
            raise UnknownNameError("model", name, nearest_models(name, names))
        stem = shorter


def nearest_models(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return up to three names: of the same size in the family, then the sizes around it."""
    stem = name.rpartition("/")[2]
    ordered = sorted(names)
    size, family = _size(stem), _family(stem)
    vendor = re.match(r"[a-z]*", family)
    relatives = [one for one in ordered if vendor and _family(one).startswith(vendor[0] or "?")]
    if size is None or not relatives:
        return tuple(get_close_matches(stem, ordered, n=3, cutoff=0.5))

    def distance(one: str) -> float:
        other = _size(one)
        return abs(log(other / size)) if other else 9.0

    close = [one for one in relatives if distance(one) < 0.1]
    close.sort(key=lambda one: (_family(one), one), reverse=True)
    same = sorted(
        (one for one in relatives if _family(one) == family),
        key=lambda one: (distance(one), one),
    )
    around = same[:1] + [one for one in same if (_size(one) or 0) > size][:1]
    rest = sorted(relatives, key=lambda one: (distance(one), one))
    return tuple(dict.fromkeys([*close[:1], *around, *rest]))[:3]


def _size(name: str) -> float | None:
    """Return billions of parameters as a name states them; millions count as such."""
    found = re.search(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)([bm])(?![a-z])", name.casefold())
    if found is None:
        return None
    return float(found[1]) * (1e-3 if found[2] == "m" else 1.0)


def _family(name: str) -> str:
    """Return what stands before the size: ``qwen3``, ``llama-3.1``."""
    folded = name.casefold()
    found = re.search(r"-?\d+(?:\.\d+)?[bm](?![a-z])", folded)
    return folded[: found.start()] if found else folded


def gpu_named(name: str, known: Mapping[str, Gpu]) -> Gpu:
    """Return the GPU type of ``name`` or of one of its other spellings.

    Raises ``UnknownNameError`` with the nearest types.
    """
    found = known.get(name.strip().casefold())
    if found is not None:
        return found
    names = sorted({gpu.name for gpu in known.values()})
    folded = {one.casefold(): one for one in names}
    close = get_close_matches(name.casefold(), folded, n=3, cutoff=0.4)
    raise UnknownNameError("GPU type", name, tuple(folded[one] for one in close))


def gpu_like(name: str, memory_gb: float, known: Mapping[str, Gpu]) -> Gpu:
    """Return the named type, or the smallest type that has the memory, under the given name.

    For tables whose rows say "24GB" instead of a type: the memory is right, the speed a guess.
    """
    try:
        return gpu_named(name, known)
    except UnknownNameError:
        pass
    fits = [gpu for gpu in known.values() if gpu.memory_gib * 1.1 >= memory_gb]
    closest = min(
        fits or known.values(), key=lambda gpu: (gpu.memory_gib, -gpu.bf16_tflops, gpu.name)
    )
    return replace(closest, name=name, memory_gib=USABLE_SHARE * memory_gb)


USABLE_SHARE = 0.985
"""GiB a process can use over the gigabytes on the label: 79.15 of 80, 39.4 of 40, 23.6 of 24."""
