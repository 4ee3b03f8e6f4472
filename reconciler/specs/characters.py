"""Which characters of a file would a person not see, or misread?

Everything here is refused wherever it stands, comments included: an editor shows nothing, or
something else than the parser reads.  Inside double quotes each can be written as an escape.
"""

import re
import unicodedata

from reconciler.domain.problem import SpecProblem
from reconciler.specs.codes import Code

_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_INVISIBLE = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\uffff\ud800-\udfff\ue000-\uf8ff"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
_REFUSED = re.compile(f"[\t{_SPACES}{_INVISIBLE}]|\r(?!\n)")
_SPACE = re.compile(f"[{_SPACES}]")
_PER_FILE = 20

CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""No value may hold one, not even as an escape: programs and terminals choke on them."""


def refused_characters(text: str, file: str) -> list[SpecProblem]:
    """Return one problem for each line and kind of refused character, at most 20."""
    problems: list[SpecProblem] = []
    seen: set[tuple[int, Code]] = set()
    for match in _REFUSED.finditer(text):
        start = match.start()
        line = text.count("\n", 0, start) + 1
        column = start - (text.rfind("\n", 0, start) + 1) + 1
        code, message, hint = _describe(match.group(), text, start, line)
        if (line, code) in seen:
            continue
        seen.add((line, code))
        problems.append(
            SpecProblem(file=file, line=line, column=column, code=code, message=message, hint=hint)
        )
        if len(problems) == _PER_FILE:
            break
    return problems


def is_utf8(text: str) -> bool:
    """Return whether ``text`` can be written as UTF-8: an argument may hold stray bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def name_of(character: str) -> str:
    """Return ``U+00A0 NO-BREAK SPACE``: how a message names what nobody can see."""
    return f"U+{ord(character):04X} {unicodedata.name(character, 'control character')}"


def _describe(character: str, text: str, start: int, line: int) -> tuple[Code, str, str]:
    if character == "\t":
        before = text[text.rfind("\n", 0, start) + 1 : start]
        where = f"line {line} starts with a tab" if not before.strip() else f"tab in line {line}"
        return Code.TAB, where, "use two spaces; inside double quotes write \\t"
    if character == "\r":
        return Code.INVISIBLE, "carriage return without a line feed", "end lines with LF or CRLF"
    if _SPACE.match(character):
        return (
            Code.WIDE_SPACE,
            f"{name_of(character)} looks like a space and is none to YAML",
            "use a plain space",
        )
    return (
        Code.INVISIBLE,
        f"{name_of(character)} is not allowed in a spec",
        "remove it; inside double quotes it can be written as an escape such as \\u2028",
    )
