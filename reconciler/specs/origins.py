"""Which file set a key, and where?  A problem of a composed document points at its cause.

Looked for in the order of precedence: the command line, the document, its groups from the last
merged to the first; then the nearest section above.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconciler.domain.problem import Severity, SpecProblem
from reconciler.specs.codes import Code
from reconciler.specs.findings import GOT, Finding, KeyPath, dotted
from reconciler.specs.text import Place, Text

COMMAND_LINE = "command line"


class Origins:
    """Where the keys of one composed document come from.

    ``groups`` gives the group files that were merged, in order, when one is first needed.
    """

    def __init__(
        self,
        document: Text,
        groups: Callable[[], Sequence[tuple[Text, KeyPath]]] = tuple,
        touched: Sequence[str] = (),
    ) -> None:
        self._document = document
        self._groups = groups
        self._touched = tuple(touched)

    def problem(self, finding: Finding, composed: Mapping[str, Any]) -> SpecProblem:
        """Return the finding as a problem at the place that caused it."""
        file, place, written = self._find(finding.path, finding.on_key)
        message = finding.message
        if GOT in message:
            got = written if written is not None else _shown(composed, finding.path)
            message = message.replace(GOT, got)
        return SpecProblem(
            file=file,
            line=place.line if place else 0,
            column=place.column if place else 0,
            code=finding.code,
            message=message,
            hint=finding.hint,
            severity=Severity.WARNING if finding.is_warning else Severity.ERROR,
            is_security_event=finding.is_security_event,
        )

    def at(self, code: Code, message: str, hint: str, path: KeyPath = ()) -> SpecProblem:
        """Return a problem at a key of the document itself."""
        return self.problem(Finding(path, code, message, hint, on_key=True), {})

    def _find(self, path: KeyPath, on_key: bool) -> tuple[str, Place | None, str | None]:
        files = [(self._document, ()), *reversed(self._groups())]
        for length in range(len(path), 0, -1):
            part = path[:length]
            exact = length == len(path)
            if self._is_touched(part):
                return COMMAND_LINE, None, None
            for text, package in files:
                if part[: len(package)] != package:
                    continue
                inner = part[len(package) :]
                if (place := text.place(inner, key=on_key or not exact)) is not None:
                    return text.file, place, text.written(inner) if exact else None
        return self._document.file, Place(1, 1), None

    def _is_touched(self, path: KeyPath) -> bool:
        name = dotted(path)
        return any(name == key or name.startswith((f"{key}.", f"{key}[")) for key in self._touched)


def _shown(composed: Mapping[str, Any], path: KeyPath) -> str:
    """Return the composed value at ``path`` as text for a message, cut at 80 characters."""
    node: Any = composed
    for part in path:
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            return "nothing"
    text = json.dumps(node, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
