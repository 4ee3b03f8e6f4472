"""What does a plain scalar mean, where every YAML reader must agree?

PyYAML and Hydra read YAML 1.1, editors read 1.2.  What both read alike becomes a value; exponent
floats (``2e-5``) are numbers although 1.1 reads text, because everybody means a number; all else
that differs is refused with advice to quote it.  Where text is wanted (``Kind.TEXT``) numbers and
dates stay as written, so ``1.10`` and commit ids survive.
"""

import math
import re
from enum import Enum
from typing import TypeAlias

from reconciler.specs.codes import Code


class Kind(Enum):
    """What a field wants.  ``ANY``: not known here, or several kinds."""

    TEXT = "text"
    NUMBER = "number"
    WHOLE = "whole number"
    FLAG = "true or false"
    ANY = "any"


Scalar: TypeAlias = str | int | float | bool | None

MAX_DIGITS = 20

_WORDS = {"yes", "no", "on", "off", "y", "n"}
_NULLS = {"", "~", "null", "Null", "NULL"}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_EXPONENT_ONLY = re.compile(r"[0-9]+[eE][-+]?[0-9]+\Z")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?\Z")
_OTHER_BASE = re.compile(r"[-+]?0[xXoObB][0-9A-Fa-f_]+\Z")
_UNDERSCORE = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?\Z")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-9]{1,2})+(?:\.[0-9_]*)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.?(?:inf|Inf|INF|nan|NaN|NAN)\Z")


class ScalarError(ValueError):
    """A plain scalar that is refused: a code, what is wrong, what to write instead."""

    def __init__(self, code: Code, message: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def read_plain(text: str, kind: Kind) -> Scalar:
    """Return the value of a plain (unquoted) scalar.  Raises :class:`ScalarError`."""
    first = text[:1]
    if first.isalpha() and first not in "yYnNoOtTfFiI":
        return text
    if text in _NULLS:
        return None
    if text == "true" or text == "false":
        return text == "true"
    if first.isdigit() or first in "-+.":
        return _read_number(text, kind)
    return _read_word(text, kind)


def _read_word(text: str, kind: Kind) -> Scalar:
    lower = text.lower()
    if lower in _WORDS or lower in ("true", "false"):
        if kind is Kind.FLAG or lower in ("true", "false"):
            truth = "true" if lower in ("true", "yes", "on", "y") else "false"
            hint = f"write `{truth}`" if kind is Kind.FLAG else f"write `{truth}` or quote it"
        else:
            hint = f"quote it: '{text}'"
        raise ScalarError(
            Code.AMBIGUOUS,
            f"`{text}` is a boolean to YAML 1.1 and text to YAML 1.2 (your editor)"
            if lower in _WORDS
            else f"`{text}`: only `true` and `false` are booleans here",
            hint,
        )
    if _NOT_FINITE.match(text) and kind is not Kind.TEXT:
        raise ScalarError(Code.BAD_NUMBER, f"`{text}` is not a finite number", "write a number")
    return text


def _read_number(text: str, kind: Kind) -> Scalar:
    if _INTEGER.match(text):
        if kind is Kind.TEXT:
            return text
        if len(text) > MAX_DIGITS:
            raise ScalarError(
                Code.BAD_NUMBER, f"a whole number of {len(text)} characters", "at most 20"
            )
        return int(text)
    if _FLOAT.match(text):
        if kind is not Kind.TEXT:
            return _read_float(text)
        if _EXPONENT_ONLY.match(text):
            raise _differs(text, "a number to YAML 1.2 (your editor) and text to YAML 1.1")
        return text
    _refuse_ambiguous(text)
    if _NOT_FINITE.match(text):
        raise ScalarError(Code.BAD_NUMBER, f"`{text}` is not a finite number", "write a number")
    return text


def _read_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ScalarError(Code.BAD_NUMBER, f"`{text}` is too large for a number", "write it out")
    return value


def _refuse_ambiguous(text: str) -> None:
    """Raise for spellings that YAML 1.1 and 1.2 read as different values."""
    if _LEADING_ZERO.match(text):
        raise _differs(text, "octal to YAML 1.1 and decimal to YAML 1.2 (your editor)")
    if _OTHER_BASE.match(text):
        raise _differs(text, "a number to some YAML readers and text to others")
    if _BASE_60.match(text):
        seconds = _base_60(text)
        reads = f"{seconds}, a number in base 60," if seconds is not None else "a number in base 60"
        raise ScalarError(
            Code.AMBIGUOUS,
            f"`{text}` reads as {reads} to YAML 1.1 and as text to YAML 1.2 (your editor)",
            f"quote it: '{text}'; a duration is written as 72h or 1h30m",
        )
    if "_" in text and _UNDERSCORE.match(text):
        raise _differs(text, "a number to YAML 1.1 and text to YAML 1.2 (your editor)")


def _differs(text: str, how: str) -> ScalarError:
    plain = text.replace("_", "").lstrip("+-").lstrip("0")
    number = f" or write the number {plain}" if plain.isdigit() else ""
    return ScalarError(Code.AMBIGUOUS, f"`{text}` is {how}", f"quote it: '{text}'{number}")


def _base_60(text: str) -> int | None:
    if "." in text or "_" in text or len(text) > MAX_DIGITS:
        return None
    total = 0
    for part in text.lstrip("+-").split(":"):
        total = total * 60 + int(part)
    return -total if text.startswith("-") else total
