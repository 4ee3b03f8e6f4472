"""What is wrong at one key of a composed document, before it is known which file set the key."""

from dataclasses import dataclass
from typing import TypeAlias

from reconciler.specs.codes import Code

GOT = "{got}"
"""Stands in messages for the value as the file has it."""

KeyPath: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, at which key.  The message may hold :data:`GOT`."""

    path: KeyPath
    code: Code
    message: str
    hint: str = ""
    on_key: bool = False
    """Point at the key, not at its value."""
    is_warning: bool = False

    @property
    def is_security_event(self) -> bool:
        """Wildcard, negative and absurd requests are recorded with author and commit."""
        return self.code is Code.WILDCARD


def dotted(path: KeyPath) -> str:
    """Return ``train.dataset[0]`` for ``("train", "dataset", 0)``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
