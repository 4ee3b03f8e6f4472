"""A mistake in a document, as a value: where it is, what is wrong, what to do.

All problems of a file are reported at once, in text, GitHub annotations, JSON and SARIF
(``reconciler.specs.problems``).
"""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SpecProblem:
    """Lines and columns count from 1; 0 means the whole file."""

    file: str
    line: int = 0
    column: int = 0
    code: str
    """``HW001`` and so on; each has prose in ``docs/problems.md``."""
    message: str
    hint: str = ""
    severity: Severity = Severity.ERROR
    is_security_event: bool = False
    """A wildcard, negative or absurd request: recorded with author and commit, and alerted."""
