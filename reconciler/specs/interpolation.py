"""Which ``${...}`` may stand in a spec?  Only a plain path to another key, a few per value.

Resolvers (``${oc.env:TOKEN}``) would leak the environment of whoever validates; nested ones are
programs.  What is allowed can still be made to double: that is why composition is bounded too.
"""

import re

from reconciler.specs.codes import Code

MAX_PER_VALUE = 4

FORBIDDEN_KEYS = frozenset(
    ("_target_", "_partial_", "_recursive_", "_convert_", "_args_", "hydra", "_self_")
)

_PLAIN = re.compile(
    r"\$\{(\.{0,4}[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\])*)\}"
)


def is_interpolated(text: str) -> bool:
    """Return whether Hydra would read ``text`` as more than text: ``${`` or the missing mark."""
    return "${" in text or text == "???"


def interpolation_problem(text: str) -> tuple[Code, str, str] | None:
    """Return (code, message, hint) where ``text`` holds an interpolation that is not allowed."""
    rest = _PLAIN.sub("", text)
    if "${" in rest:
        message = "only `${section.key}` may stand in a spec"
        if ":" in rest:
            message += ": resolvers such as `${oc.env:NAME}` could read what a spec must not see"
        elif "${" in text[text.find("${") + 2 :]:
            message += ", and never one inside another"
        return Code.INTERPOLATION, message, "write the value out"
    if "\\${" in text:
        return Code.INTERPOLATION, "a backslash before `${` is not allowed", "write the value out"
    if text.count("${") > MAX_PER_VALUE:
        return (
            Code.INTERPOLATION,
            f"{text.count('${')} interpolations in one value, at most {MAX_PER_VALUE}",
            "write the value out",
        )
    return None
