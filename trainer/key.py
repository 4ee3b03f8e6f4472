"""What one ``train:`` key is: its type, bounds, default and meaning.

Loads nothing but the standard library.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

KeyType = Literal["string", "integer", "number", "boolean", "strings", "numbers"]
"""``strings``: one text or a list of texts; ``numbers`` likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One ``train:`` key."""

    type: KeyType
    text: str
    """What it means, for people; becomes the description in editors."""
    default: Any = None
    """Used where the key is absent; None: absent means something of its own, told in ``text``."""
    required: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None
    """Exclusive lower bound."""
    maximum: float | None = None
    below: float | None = None
    """Exclusive upper bound."""
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Read only where these other keys have one of these values; elsewhere it is refused."""
