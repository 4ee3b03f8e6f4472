"""How is a problem shown?  The same finding for people, GitHub, programs and code scanning.

Text that came out of a file is cleaned of everything that could move a cursor or hide a line.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from reconciler.domain.problem import Severity, SpecProblem
from reconciler.specs.codes import TITLES, Code

FORMATS = ("text", "github", "json", "sarif")
DOCS = "docs/problems.md"
GITHUB_LIMIT = 10
"""Annotations of one severity a step may make; GitHub drops the rest in silence."""

_TOKEN = re.compile(r'"[^"\n]*"?|\'[^\'\n]*\'?|[^\s,\]}#]+')
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

Sources = Callable[[str], str | None]
"""Gives the text of a file, None where there is none to show."""


def counts(problems: Iterable[SpecProblem]) -> tuple[int, int]:
    """Return how many errors and how many warnings there are."""
    severities = [problem.severity for problem in problems]
    return severities.count(Severity.ERROR), severities.count(Severity.WARNING)


def as_text(problems: Sequence[SpecProblem], sources: Sources, files: int) -> str:
    """Return one block a problem and a line that sums up; ``files`` is how many were looked at."""
    blocks = [_block(problem, sources(problem.file)) for problem in problems]
    return "\n".join([*blocks, summary(problems, files)])


def summary(problems: Sequence[SpecProblem], files: int) -> str:
    """Return ``2 errors, 0 warnings in 1 of 37 files``."""
    errors, warnings = counts(problems)
    touched = len({problem.file for problem in problems})
    many = "file" if files == 1 else "files"
    return f"{_many(errors, 'error')}, {_many(warnings, 'warning')} in {touched} of {files} {many}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _block(problem: SpecProblem, source: str | None) -> str:
    where = shown(problem.file)
    if problem.line:
        where += f":{problem.line}:{problem.column}"
    lines = [f"{where}: {problem.severity.value}[{problem.code}]: {shown(problem.message)}"]
    if source is not None and problem.line:
        lines += _excerpt(source, problem.line, problem.column)
    if problem.hint:
        lines.append(f"   help: {shown(problem.hint)}")
    if problem.is_security_event:
        lines.append("   note: this request is recorded as a security event")
    lines.append(f"   docs: {DOCS}#{problem.code.lower()}")
    return "\n".join(lines)


def _excerpt(source: str, line: int, column: int) -> list[str]:
    """Return the line, the one before it, and carets under the value."""
    every = source.removeprefix("\ufeff").splitlines()
    if line > len(every):
        return []
    numbers = [number for number in (line - 1, line) if number >= 1]
    width = len(str(line)) + 3
    lines = [f"{number:>{width}} | {shown(every[number - 1])}" for number in numbers]
    text = every[line - 1]
    token = _TOKEN.match(text, column - 1)
    under = token.group().rstrip(":") if token is not None else text[column - 1 : column]
    gap = " " * _columns(shown(text[: column - 1]))
    return [*lines, f"{'':>{width}} | {gap}{'^' * max(_columns(shown(under)), 1)}"]


def shown(text: str) -> str:
    """Return text in which nothing is invisible: control and format characters as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _columns(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def as_github(problems: Sequence[SpecProblem], changed: Collection[str] = ()) -> str:
    """Return workflow commands: errors first, those in ``changed`` files before the others.

    Above GitHub's limit of a severity the last annotation says how many more the log has.
    """
    ordered = sorted(problems, key=lambda problem: (problem.file not in changed, problem))
    lines: list[str] = []
    for severity in (Severity.ERROR, Severity.WARNING):
        those = [problem for problem in ordered if problem.severity is severity]
        room = len(those) if len(those) <= GITHUB_LIMIT else GITHUB_LIMIT - 1
        lines += [_annotation(problem) for problem in those[:room]]
        if rest := len(those) - room:
            lines.append(f"::{severity.value} title=headway::{rest} more are in this step's log")
    return "\n".join(lines)


def _annotation(problem: SpecProblem) -> str:
    properties = {}
    if "/" in problem.file:
        properties["file"] = problem.file
    if problem.line:
        properties |= {"line": str(problem.line), "col": str(problem.column)}
    event = ", security event" if problem.is_security_event else ""
    properties["title"] = f"{problem.code} {title_of(problem)}{event}"
    message = problem.message + (f"\n{problem.hint}" if problem.hint else "")
    if "file" not in properties:
        message = f"{problem.file}: {message}"
    said = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{problem.severity.value} {said}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def title_of(problem: SpecProblem) -> str:
    """Return the title of the problem's code."""
    return TITLES[Code(problem.code)]


def as_json(problems: Sequence[SpecProblem], files: int) -> str:
    """Return ``{"api_version", "kind": "ProblemList", "summary", "items"}``."""
    errors, warnings = counts(problems)
    document = {
        "api_version": "headway/v1",
        "kind": "ProblemList",
        "summary": {"errors": errors, "warnings": warnings, "files": files},
        "items": [_item(problem) for problem in problems],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _item(problem: SpecProblem) -> Mapping[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line or None,
        "column": problem.column or None,
        "severity": problem.severity.value,
        "code": str(problem.code),
        "title": title_of(problem),
        "message": problem.message,
        "hint": problem.hint,
        "is_security_event": problem.is_security_event,
    }


def as_sarif(problems: Sequence[SpecProblem], version: str) -> str:
    """Return a SARIF 2.1.0 log for code scanning and editors."""
    codes = sorted({Code(problem.code) for problem in problems})
    driver = {
        "name": "headway",
        "version": version,
        "rules": [
            {
                "id": code.value,
                "name": TITLES[code].title().replace(" ", ""),
                "shortDescription": {"text": TITLES[code]},
                "helpUri": f"{DOCS}#{code.value.lower()}",
            }
            for code in codes
        ],
    }
    results = [_result(problem, codes) for problem in problems]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    log = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False)


def _result(problem: SpecProblem, codes: Sequence[Code]) -> Mapping[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": _uri(problem.file)}}
    if problem.line:
        location["region"] = {"startLine": problem.line, "startColumn": max(problem.column, 1)}
    text = problem.message + (f"\n{problem.hint}" if problem.hint else "")
    result: dict[str, Any] = {
        "ruleId": str(problem.code),
        "ruleIndex": codes.index(Code(problem.code)),
        "level": problem.severity.value,
        "message": {"text": text},
        "locations": [{"physicalLocation": location}],
    }
    if problem.is_security_event:
        result["properties"] = {"tags": ["security"]}
    return result


def _uri(file: str) -> str:
    from urllib.parse import quote

    return quote(file)
