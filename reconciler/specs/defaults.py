"""Is a ``defaults:`` list one that only picks groups?  Checked before Hydra sees it.

Entries are ``_self_``, ``/group: option`` (or relative, or a list of options) and
``/group/option``.  ``_self_`` must be there: without it the place of the document's own keys
would depend on Hydra's version.
"""

import re
from collections.abc import Iterator
from typing import Any

from reconciler.domain.problem import SpecProblem
from reconciler.specs.codes import Code
from reconciler.specs.text import Path, Text

_PART = r"[a-z0-9][a-z0-9_.-]{0,62}"
_PACKAGE = r"(?:@(?:_here_|_global_|[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*))?"
_GROUP = re.compile(rf"(?:override |optional )?/?{_PART}(?:/{_PART})*{_PACKAGE}\Z")
_OPTION = re.compile(rf"{_PART}(?:/{_PART})*\Z")
_WHOLE = re.compile(rf"/?{_PART}(?:/{_PART})*{_PACKAGE}\Z")
MAX_ENTRIES = 64


def defaults_problems(text: Text, *, needs_self: bool) -> list[SpecProblem]:
    """Return what is wrong with the defaults list of a file, if it has one."""
    if text.value is None or "defaults" not in text.value:
        return []
    return [
        _problem(text, path, message, hint)
        for path, message, hint in _faults(text.value["defaults"], needs_self)
    ]


def ends_with_self(defaults: Any) -> bool:
    """Return whether the document's own keys go over everything its groups set."""
    return isinstance(defaults, list) and bool(defaults) and defaults[-1] == "_self_"


def _faults(defaults: Any, needs_self: bool) -> Iterator[tuple[Path, str, str]]:
    form = "write `defaults: [/model: qwen3-8b, /task: dpo, _self_]`"
    if not isinstance(defaults, list):
        yield ("defaults",), "defaults must be a list", form
        return
    if len(defaults) > MAX_ENTRIES:
        yield ("defaults",), f"{len(defaults)} entries in defaults, at most {MAX_ENTRIES}", form
        return
    count = defaults.count("_self_")
    if needs_self and count != 1:
        said = "`_self_` is missing from defaults" if count == 0 else "`_self_` is given twice"
        yield (
            ("defaults",),
            f"{said}: it says where this file's own keys go",
            "put `_self_` last, so that this file goes over what its groups set",
        )
    for number, entry in enumerate(defaults):
        if entry != "_self_" and (fault := _entry_fault(entry)) is not None:
            yield ("defaults", number), fault, form


def _entry_fault(entry: Any) -> str | None:
    if isinstance(entry, str):
        return _name_fault(entry, _WHOLE)
    if not isinstance(entry, dict) or len(entry) != 1:
        return "an entry of defaults is `/group: option` or `_self_`"
    group, option = next(iter(entry.items()))
    if (fault := _name_fault(group, _GROUP)) is not None:
        return fault
    options = option if isinstance(option, list) else [option]
    for each in options:
        if not isinstance(each, str):
            return f"the option of `{group}` must be the name of a file"
        if (fault := _name_fault(each, _OPTION)) is not None:
            return fault
    return None


def _name_fault(name: str, grammar: re.Pattern[str]) -> str | None:
    if "hydra" in name.lower():
        return f"`{name}`: Hydra's own settings are not a spec's to change"
    if ".." in name:
        return f"`{name}` leaves the folder of groups"
    if grammar.match(name) is None:
        return f"`{name}` is not the name of a group or option"
    return None


def _problem(text: Text, path: Path, message: str, hint: str) -> SpecProblem:
    place = text.place(path) or text.place(path[:1], key=True)
    return SpecProblem(
        file=text.file,
        line=place.line if place else 1,
        column=place.column if place else 1,
        code=Code.BAD_DEFAULTS,
        message=message,
        hint=hint,
    )
