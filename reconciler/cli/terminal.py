"""Where the words go: is it a terminal, how wide is it, may it be coloured?

Colour is only ever a second sign beside a word.  ``--color`` wins over ``NO_COLOR`` and
``FORCE_COLOR`` (https://no-color.org), and those over what the stream is.  Text that people or
pull requests wrote is cleaned before it reaches a terminal, so that no commit subject can move
the cursor or hide a line.
"""

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

STYLES: Mapping[str, str] = {
    "head": "\x1b[1m",
    "dim": "\x1b[2m",
    "good": "\x1b[32m",
    "busy": "\x1b[36m",
    "wait": "\x1b[33m",
    "bad": "\x1b[31m",
}
RESET = "\x1b[0m"
NARROWEST = 40
"""Columns below which a terminal is treated as this wide: shorter cuts help nobody."""
_SGR = re.compile(r"\x1b\[[0-9;]*m")
_TERMINAL_ORDER = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)", re.S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """How standard output wants its text.  ``width`` is None where nothing may be cut off."""

    width: int | None = None
    color: bool = False

    def paint(self, text: str, style: str | None) -> str:
        """Return ``text`` in one of :data:`STYLES`, or unchanged where colour is off."""
        if not self.color or not style or not text:
            return text
        return f"{STYLES[style]}{text}{RESET}"


def find_terminal(color: str = "auto", stream: TextIO | None = None) -> Terminal:
    """Return how to write to ``stream`` (standard output when None); ``color`` is the option."""
    stream = sys.stdout if stream is None else stream
    is_terminal = stream.isatty()
    width = max(shutil.get_terminal_size().columns, NARROWEST) if is_terminal else None
    return Terminal(width=width, color=_wants_color(color, is_terminal, os.environ))


def _wants_color(option: str, is_terminal: bool, environment: Mapping[str, str]) -> bool:
    if option != "auto":
        return option == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return environment["FORCE_COLOR"] != "0"
    return is_terminal and environment.get("TERM") != "dumb"


def clean(text: str) -> str:
    """Return ``text`` on one line, without characters that steer a terminal or reorder letters."""
    spaced = " ".join(_TERMINAL_ORDER.sub("", text).split())
    return "".join(letter for letter in spaced if unicodedata.category(letter) not in _STEERING)


_STEERING = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def clean_log(text: str) -> str:
    """Return a piece of a log fit for a terminal: colours, tabs and line ends stay, orders go."""
    kept = _TERMINAL_ORDER.sub(
        lambda found: found.group() if _SGR.fullmatch(found.group()) else "", text
    )
    return "".join(
        letter
        for letter in kept
        if letter in "\n\r\t\x1b" or unicodedata.category(letter) not in ("Cc", "Cs")
    )


def width_of(text: str) -> int:
    """Return how many columns ``text`` takes: wide East Asian letters two, combining marks and
    colours none."""
    if "\x1b" in text:
        text = _SGR.sub("", text)
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def cut(text: str, width: int) -> str:
    """Return ``text`` in at most ``width`` columns; what is cut off is marked by an ellipsis."""
    if width_of(text) <= width:
        return text
    kept, used = [], 0
    for letter in text:
        used += _columns(letter)
        if used > width - 1:
            break
        kept.append(letter)
    return "".join(kept).rstrip() + "…"


def wrap(text: str, width: int | None, indent: str, *, first: int = 0) -> str:
    """Return ``text`` broken between words so that lines fit; later lines start with ``indent``.

    ``first`` is how many columns of the first line are taken already.  ``width`` None leaves the
    text on one line.
    """
    if width is None:
        return text
    bare = text.lstrip(" ")
    line = " " * (len(text) - len(bare))
    used, is_empty = first + len(line), True
    lines = []
    for word in bare.split(" "):
        columns = width_of(word)
        if not is_empty and used + 1 + columns > width:
            lines.append(line)
            line, used, is_empty = indent, len(indent), True
        line += word if is_empty else f" {word}"
        used += columns + (not is_empty)
        is_empty = False
    return "\n".join([*lines, line])


def _columns(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1
