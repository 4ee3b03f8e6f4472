"""What does a YAML syntax error mean to a person?  The parser's words, made into advice."""

import re
from typing import Any

from reconciler.domain.problem import SpecProblem
from reconciler.specs.codes import Code
from reconciler.specs.scalars import Kind

_FULL_WIDTH_COLON = re.compile(r"\s*(?:- )*([A-Za-z_][\w.-]*)\s*\uff1a")
_FULL_WIDTH_FIRST = "\u2018\u2019\u201c\u201d\uff02\uff07\uff08\uff3b\uff5b\u3010\u300c\uff0d"
_WILDCARD = re.compile(r"\s*(?:min_|max_)?gpus\s*:\s*\*\s*(?:#.*)?$")

_ADVICE = (
    ("mapping values are not allowed", "quote text that holds a colon and a space"),
    ("could not find expected ':'", "a key needs a colon and a space after it"),
    ("did not find expected key", "look for a missing colon or a wrong indentation above"),
    ("did not find expected '-' indicator", "list items must stand in one column"),
    ("did not find expected ',' or ']'", "a list in brackets is not closed"),
    ("did not find expected ',' or '}'", "a mapping in braces is not closed"),
    ("cannot start any token", "quote the value"),
    ("unexpected end of stream", "a quote is not closed"),
    ("exceeded maximum", "nested too deep"),
)


def full_width_problem(text: str, kind: Kind | None) -> tuple[str, str] | None:
    """Return (message, hint) where a plain scalar was typed with full-width punctuation.

    ``kind`` None: the scalar is a key.  Full-width signs inside text are left alone.
    """
    if text.isascii():
        return None
    if (match := _FULL_WIDTH_COLON.match(text)) is not None and kind is not Kind.TEXT:
        key = match.group(1)
        return (
            f"full-width colon U+FF1A after `{key}`: this is no key",
            f"write `{key}: ` with a plain colon and a space",
        )
    if text[0] in _FULL_WIDTH_FIRST and kind is not Kind.TEXT:
        return (
            f"full-width or curly sign U+{ord(text[0]):04X} does not quote or group",
            "use plain ' \" [ ] { }",
        )
    return None


def syntax_problem(error: Any, text: str, file: str) -> SpecProblem:
    """Return the problem of a ``yaml.YAMLError``, by the likely cause where there is one."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    lines = text.splitlines()
    line = min(mark.line + 1, max(len(lines), 1)) if mark is not None else 1
    column = mark.column + 1 if mark is not None else 1
    for number in range(max(line - 3, 1), line + 1):
        source = lines[number - 1] if number <= len(lines) else ""
        if (match := _FULL_WIDTH_COLON.match(source)) is not None:
            return SpecProblem(
                file=file,
                line=number,
                column=match.start(1) + 1,
                code=Code.FULL_WIDTH,
                message=f"full-width colon U+FF1A after `{match.group(1)}`: this is no key",
                hint=f"write `{match.group(1)}: ` with a plain colon and a space",
            )
        if _WILDCARD.match(source):
            return SpecProblem(
                file=file,
                line=number,
                column=source.index("*") + 1,
                code=Code.WILDCARD,
                message="gpus must be a whole number, got a wildcard `*`",
                hint="write the number you need, such as `gpus: 4`",
                is_security_event=True,
            )
    said = str(getattr(error, "problem", None) or "not YAML")
    context = getattr(error, "context", None)
    return SpecProblem(
        file=file,
        line=line,
        column=column,
        code=Code.SYNTAX,
        message=f"not YAML: {said}" + (f" ({context})" if context else ""),
        hint=next((advice for part, advice in _ADVICE if part in said), "check the indentation"),
    )
