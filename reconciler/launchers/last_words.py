"""What a person should read first of a log that ended badly: one line, safe to publish.

The line may end up in a commit, so control characters and whatever looks like a secret are
taken out and its length is bounded.
"""

import re

LONGEST = 200

_ERROR = re.compile(r"^(?:\[?rank\d+\]?: ?)?(?:[\w.]*(?:Error|Exception|Interrupt|Exit)\b)")
_NOISE = re.compile(r"^[\s=\-_*~#|+.]*$")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_SECRETS = (
    (re.compile(r"(?i)(\b[\w-]*(?:token|secret|passw(?:or)?d|api[_-]?key|authorization|credential)"
                r"[\w-]*\b[\"']?\s*[=:]\s*)(?:bearer\s+|basic\s+)?[^\s,;]+"), r"\1***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s@]+@"), r"\1***@"),
    (re.compile(r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abprs]-|AKIA|ASIA|AIza)"
                r"[\w-]{8,}"), "***"),
    (re.compile(r"\beyJ[\w-]{10,}\.[\w-]+(?:\.[\w-]+)?"), "***"),
)  # fmt: skip


def last_error(log: bytes) -> str:
    """Return the last line that names an error, else the last with words in it, else nothing."""
    lines = [line.strip() for line in log.decode(errors="replace").splitlines()]
    spoken = [line for line in lines if not _NOISE.match(line)]
    named = [line for line in spoken if _ERROR.match(line)]
    return one_line((named or spoken or [""])[-1])


def one_line(text: str) -> str:
    """Return ``text`` on one line of at most 200 characters, without secrets it may show."""
    words = " ".join(_COLOUR.sub("", text).split())
    text = "".join(character for character in words if character.isprintable()).strip()
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
