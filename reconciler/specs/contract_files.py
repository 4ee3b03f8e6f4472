"""What does the trainer accept?  The contract's files, as package data of this side.

The same bytes lie in the trainer's own package; neither side opens the other's.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

CONTRACT = Path(__file__).parent / "contract"


@lru_cache(maxsize=1)
def train_schema() -> Mapping[str, Any]:
    """Return the trainer's JSON Schema of the section."""
    return json.loads((CONTRACT / "train.schema.json").read_bytes())  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def train_rules() -> Mapping[str, Any]:
    """Return the trainer's rules: ``rules``, ``owned``, ``renamed``, ``absent``, ``whole_gang``."""
    return json.loads((CONTRACT / "train.rules.json").read_bytes())  # type: ignore[no-any-return]


def default_of(key: str) -> Any:
    """Return what the trainer takes where a document does not name ``key``; None: nothing."""
    return train_schema()["properties"].get(key, {}).get("default")
