"""From one blob to one judged document: text, composition, shape, meaning.

Two ways to compose give one result.  The full way asks Hydra in its bounded child.  The short
way asks it once per distinct defaults list, then lays the document's own keys over that as plain
mappings; it is taken where ``_self_`` is last and nothing is interpolated, and a property test
holds it equal to the full one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from reconciler.domain.problem import SpecProblem
from reconciler.specs.bounded import WALL, BoundedComposer
from reconciler.specs.characters import CONTROL, is_utf8
from reconciler.specs.codes import Code
from reconciler.specs.composed import Composed, ComposeError, mapping_over_list
from reconciler.specs.defaults import defaults_problems, ends_with_self
from reconciler.specs.fields import Shape
from reconciler.specs.findings import KeyPath
from reconciler.specs.group_files import GroupFiles
from reconciler.specs.interpolation import interpolation_problem
from reconciler.specs.names import nearest
from reconciler.specs.origins import COMMAND_LINE, Origins
from reconciler.specs.shape import (
    MODELS,
    base_document,
    document_shape,
    field_paths,
    shape_findings,
)
from reconciler.specs.text import Text
from reconciler.specs.yaml_text import read_yaml

MAX_OVERRIDES = 100
MAX_OVERRIDE_CHARACTERS = 4096


@dataclass(slots=True)
class Judged:
    """What became of one blob, before it is compared with the platform."""

    kind: str = "Job"
    document: Mapping[str, Any] | None = None
    """Composed, nulls dropped; None where composition was not reached."""
    problems: list[SpecProblem] = field(default_factory=list)
    origins: Origins | None = None
    loaded: Sequence[str] = ()
    listed: Sequence[str] = ()
    is_lasting: bool = True
    """False where the verdict rests on time or memory spent: it is not kept."""


def _any_kind_shape() -> Shape:
    job, reservation = document_shape("Job"), document_shape("Reservation")
    return Shape(keys={**reservation.keys, **job.keys})


@dataclass(frozen=True, slots=True)
class Prefix:
    """A base with the groups of a defaults list over it."""

    composed: Composed
    is_plain: bool
    """No group of it is interpolated: a document can be laid over it key by key."""


class Prefixes(Protocol):
    """Where composed prefixes are kept between runs."""

    def get(self, key: str) -> Prefix | None:
        """Return the prefix kept under ``key``, if all it rests on is unchanged."""
        ...

    def put(self, key: str, prefix: Prefix) -> None:
        """Keep a prefix."""
        ...


class Pipeline:
    """Judges the documents of one tree."""

    def __init__(
        self, groups: GroupFiles, composer: BoundedComposer, kept: Prefixes | None = None
    ) -> None:
        self._groups = groups
        self._composer = composer
        self._kept = kept
        self._shape = _any_kind_shape()
        self._prefixes: dict[str, Prefix | ComposeError] = {}

    def judge(self, path: str, data: bytes, overrides: Sequence[str] = ()) -> Judged:
        """Return the document of one blob, or its problems."""
        text = read_yaml(data, path, self._shape)
        judged = Judged(problems=text.problems, origins=Origins(text))
        if text.value is None:
            return judged
        text.problems += _header_problems(data, path)
        text.problems += defaults_problems(text, needs_self=True)
        text.problems += _override_problems(overrides)
        kind = text.value.get("kind")
        judged.kind = kind if isinstance(kind, str) and kind in MODELS else "Job"
        stops = {Code.BAD_DEFAULTS, Code.INTERPOLATION, Code.FORBIDDEN_KEY, Code.BAD_OVERRIDE}
        if any(problem.code in stops for problem in text.problems):
            return judged
        try:
            composed = self._compose(judged.kind, text, overrides)
        except ComposeError as error:
            judged.problems.append(_compose_problem(error, text, judged.kind, overrides))
            judged.loaded, judged.listed = error.loaded, error.listed
            judged.is_lasting = error.about != WALL
            return judged
        judged.loaded, judged.listed = composed.loaded, composed.listed
        judged.origins = Origins(text, lambda: self._group_texts(composed), composed.touched)
        judged.document = document = without_nulls(composed.document, base_document(judged.kind))
        judged.problems += _shape_problems(judged, document, text)
        return judged

    def _compose(self, kind: str, text: Text, overrides: Sequence[str]) -> Composed:
        body = text.value or {}
        defaults = body.get("defaults", ["_self_"])
        if not overrides and text.is_plain and ends_with_self(defaults):
            prefix = self._prefix(kind, defaults)
            if prefix.is_plain:
                own = {key: value for key, value in body.items() if key != "defaults"}
                return replace(prefix.composed, document=laid_over(prefix.composed.document, own))
        return self._composer.compose("jobs", base_document(kind), body, overrides)

    def _prefix(self, kind: str, defaults: Sequence[Any]) -> Prefix:
        """Return the base with the groups of a defaults list over it, composed once."""
        key = json.dumps([kind, defaults])
        found = self._prefixes.get(key) or (self._kept and self._kept.get(key))
        if not found:
            found = self._new_prefix(kind, defaults)
            if self._kept is not None and isinstance(found, Prefix):
                self._kept.put(key, found)
        self._prefixes[key] = found
        if isinstance(found, ComposeError):
            raise found
        return found

    def _new_prefix(self, kind: str, defaults: Sequence[Any]) -> Prefix | ComposeError:
        body = {"defaults": list(defaults)}
        try:
            composed = self._composer.compose("jobs", base_document(kind), body)
        except ComposeError as error:
            return error
        is_plain = all(self._groups.text(name).is_plain for name in composed.loaded)
        return Prefix(composed, is_plain)

    def _group_texts(self, composed: Composed) -> list[tuple[Text, KeyPath]]:
        return [
            (self._groups.text(f"{name}.yaml"), tuple(package.split(".")) if package else ())
            for name, package in composed.sections
        ]


def laid_over(
    below: Mapping[str, Any], above: Mapping[str, Any], at: KeyPath = ()
) -> dict[str, Any]:
    """Return ``above`` merged onto ``below`` as OmegaConf merges plain values: mappings key by
    key, everything else (lists and nulls too) replaced.

    Raises :class:`ComposeError` where a mapping meets a list, which OmegaConf cannot merge.
    """
    merged = dict(below)
    for key, value in above.items():
        there = merged.get(key)
        if isinstance(value, Mapping) and isinstance(there, list):
            raise mapping_over_list(".".join(map(str, (*at, key))))
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            merged[key] = laid_over(there, value, (*at, key))
        else:
            merged[key] = value
    return merged


def without_nulls(
    document: Mapping[str, Any], known: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the document without unset keys and without sections that hold nothing.

    A key that ``known`` (the base) does not have stays, null or not: it is still unknown.
    """
    kept: dict[str, Any] = {}
    for key, value in document.items():
        if known is not None and key not in known:
            kept[key] = value
        elif isinstance(value, Mapping):
            below = None if known is None else known[key]
            inner = without_nulls(value, below if isinstance(below, Mapping) else None)
            if inner:
                kept[key] = inner
        elif value is not None:
            kept[key] = value
    return kept


def _shape_problems(judged: Judged, document: Mapping[str, Any], text: Text) -> list[SpecProblem]:
    """Return shape problems, but for places where the text already has one."""
    if judged.origins is None:
        return []
    reported = {problem.line for problem in text.problems if problem.line}
    found = [
        judged.origins.problem(finding, document)
        for finding in shape_findings(judged.kind, document)
    ]
    return [
        problem for problem in found if problem.file != text.file or problem.line not in reported
    ]


def _header_problems(data: bytes, path: str) -> list[SpecProblem]:
    if b"# @package" not in data:
        return []
    line = data[: data.index(b"# @package")].count(b"\n") + 1
    return [
        SpecProblem(
            file=path,
            line=line,
            column=1,
            code=Code.BAD_DEFAULTS,
            message="`# @package` belongs into group files, not into a job",
            hint="remove the line",
        )
    ]


def _override_problems(overrides: Sequence[str]) -> list[SpecProblem]:
    problems = []
    for override in overrides[: MAX_OVERRIDES + 1]:
        message, hint = "", ""
        if len(override) > MAX_OVERRIDE_CHARACTERS:
            message = f"an override of {len(override)} characters"
        elif CONTROL.search(override) or not is_utf8(override):
            message, hint = "an override with characters nobody sees", "type it by hand"
        elif "${" in override and (found := interpolation_problem(override)) is not None:
            _, message, hint = found
            message = f"`{override}`: {message}"
        if message:
            problems.append(
                SpecProblem(file=COMMAND_LINE, code=Code.BAD_OVERRIDE, message=message, hint=hint)
            )
    if len(overrides) > MAX_OVERRIDES:
        message = f"{len(overrides)} overrides, at most {MAX_OVERRIDES}"
        problems.append(SpecProblem(file=COMMAND_LINE, code=Code.BAD_OVERRIDE, message=message))
    return problems


def _compose_problem(
    error: ComposeError, text: Text, kind: str, overrides: Sequence[str]
) -> SpecProblem:
    """Return a composition error as a problem at the entry or override that asked for it."""
    hint = error.hint
    if error.code in (Code.SWEEP, Code.BAD_OVERRIDE, Code.BAD_NUMBER):
        if not hint and error.about:
            close = nearest(error.about, field_paths(kind))
            hint = f"did you mean `{close}`?" if close else "`headway schema` lists the keys"
        return SpecProblem(file=COMMAND_LINE, code=error.code, message=error.message, hint=hint)
    if error.code == Code.BAD_VALUE:
        path = tuple(error.about.split(".")) if error.about else ()
        return Origins(text).at(error.code, error.message, hint, path)
    group, _, option = error.about.removesuffix(".yaml").rpartition("/")
    if any(f"{group}={option}" in override for override in overrides):
        return SpecProblem(file=COMMAND_LINE, code=error.code, message=error.message, hint=hint)
    return Origins(text).at(error.code, error.message, hint, _entry_of(text, group, option))


def _entry_of(text: Text, group: str, option: str) -> KeyPath:
    """Return the path of the defaults entry that names ``group: option``, else of the list."""
    defaults = (text.value or {}).get("defaults", [])
    for number, entry in enumerate(defaults if isinstance(defaults, list) else []):
        if isinstance(entry, dict):
            for key, value in entry.items():
                if key.strip("/").split("@")[0].endswith(group) and option in (
                    value if isinstance(value, list) else [value]
                ):
                    return ("defaults", number, key)
    return ("defaults",)
