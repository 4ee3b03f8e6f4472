"""What composition takes and gives: plain values that can cross a pipe.

Imports nothing heavy: the process that asks never loads hydra.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reconciler.specs.codes import Code

DOCUMENT = "_document_"
BASE = "_base_"
"""Names of the mounted document and base; no defaults list can spell them."""


class GroupFile(NamedTuple):
    """One file of a group.  ``value`` None: it has problems of its own."""

    value: Mapping[str, Any] | None
    package: str | None
    """From ``# @package``; None: the group's own name."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A composed document and where it came from."""

    document: Mapping[str, Any]
    """Resolved; unset fields are null."""
    sections: Sequence[tuple[str, str]] = ()
    """(configuration path, package) of the group files, in the order they were merged."""
    touched: Sequence[str] = ()
    """Dotted keys the command line set."""
    loaded: Sequence[str] = ()
    """Group files read, relative to conf/, sorted."""
    listed: Sequence[str] = ()
    """Folders of conf/ whose names decided, sorted."""


@dataclass(slots=True)
class ComposeError(Exception):
    """Why a document cannot be composed.  ``about`` names an option, a key or a file."""

    code: Code
    message: str
    about: str = ""
    hint: str = ""
    loaded: Sequence[str] = field(default_factory=tuple)
    listed: Sequence[str] = field(default_factory=tuple)

    def __str__(self) -> str:
        return self.message


def mapping_over_list(key: str = "") -> ComposeError:
    """Return the error of a mapping written where a group gives a list.

    ``key`` is the dotted key, where it is known.
    """
    return ComposeError(
        Code.BAD_VALUE,
        "a key holds a mapping where the groups of the defaults list give it a list",
        about=key,
        hint="write a list there; `headway render` without this key shows what the groups give",
    )
