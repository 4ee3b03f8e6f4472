"""What does headway call a GPU?  ``NVIDIA A100-SXM4-80GB`` is an ``A100-80GB``.  Pure.

A type is the model and its marketed memory: what people write under ``gpu_type:``.  The form
factor is left out, because a job rarely cares.
"""

import re

MARKETED_GB = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 141, 180, 186, 192, 288)

_BRANDS = re.compile(r"\b(?:NVIDIA|TESLA|QUADRO|GEFORCE)\b", re.IGNORECASE)
_CARD = re.compile(
    r"\bRTX\s+(?P<pro>PRO\s+)?(?P<rtx>\d{3,4})(?:\s+(?P<suffix>Ti|SUPER|Ada|D))?"
    r"|\bGTX\s+(?P<gtx>\d{3,4})(?:\s+(?P<gtx_suffix>Ti|SUPER))?"
    r"|\b(?P<model>[A-Z]{1,2}\d{1,4}[A-Z]?)\b",
    re.IGNORECASE,
)


def gpu_type(name: str, memory_gib: float) -> str:
    """Return such as ``H100-80GB`` for a driver's ``name`` and the total memory it reports.

    An unknown name is kept, with whatever a YAML word cannot hold replaced by ``-``.
    """
    return f"{_model(_BRANDS.sub(' ', name))}-{_marketed_gb(memory_gib)}GB"


def _model(name: str) -> str:
    found = _CARD.search(name)
    if found is None:
        return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "GPU"
    if found["rtx"]:
        words = ("RTX", "PRO" if found["pro"] else "", found["rtx"], found["suffix"] or "")
        return "".join(words).upper()
    if found["gtx"]:
        return f"GTX{found['gtx']}{found['gtx_suffix'] or ''}".upper()
    return found["model"].upper()


def _marketed_gb(memory_gib: float) -> int:
    """Return the smallest size on the market that holds what the driver reports."""
    for size in MARKETED_GB:
        if memory_gib <= size + 0.5:
            return size
    return round(memory_gib)
