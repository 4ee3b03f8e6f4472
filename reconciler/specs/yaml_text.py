"""What does a YAML file say, where every reader would agree?  With line and column for each value.

Strict and bounded: one mapping, no anchors, aliases, merge keys or tags, no key twice, nothing
invisible, nothing that two YAML versions read differently (``scalars``).  LF or CRLF and one
leading byte order mark are accepted.  The events of libyaml are read in one loop, so no nesting
reaches the C stack.  Every problem of a file is reported, up to the first syntax error.
"""

import re
from typing import Any

import yaml

from reconciler.domain.problem import SpecProblem
from reconciler.specs.characters import CONTROL, name_of, refused_characters
from reconciler.specs.codes import Code
from reconciler.specs.fields import ANYTHING, Shape
from reconciler.specs.interpolation import (
    FORBIDDEN_KEYS,
    interpolation_problem,
    is_interpolated,
)
from reconciler.specs.paths import MAX_BYTES, too_large
from reconciler.specs.scalars import ScalarError, read_plain
from reconciler.specs.syntax import full_width_problem, syntax_problem
from reconciler.specs.text import Path, Text, place_of

MAX_DEPTH = 24
MAX_NODES = 5000

_LOADER: Any = getattr(yaml, "CLoader", yaml.Loader)
_KEY = re.compile(r"[A-Za-z0-9_*][A-Za-z0-9_.:/@*+\[\]-]{0,127}\Z")
_DEFAULTS_KEY = re.compile(r"[A-Za-z0-9_/@. :-]{1,160}\Z")


def read_yaml(data: bytes, file: str, shape: Shape = ANYTHING) -> Text:
    """Read one file; ``shape`` says which fields keep numbers and dates as written text."""
    text = Text(file)
    decoded = _decode(data, text)
    if decoded is None:
        return text
    text.problems += refused_characters(decoded, file)
    lines_at_fault = {problem.line for problem in text.problems}
    reader = _Reader(text, shape, lines_at_fault)
    try:
        reader.read(decoded)
    except yaml.YAMLError as error:
        if not text.problems:
            text.problems.append(syntax_problem(error, decoded, file))
        return text
    if reader.top is None and not text.problems:
        text.problems.append(
            SpecProblem(
                file=file,
                line=1,
                column=1,
                code=Code.NOT_A_MAPPING,
                message="the file is not a mapping of keys to values",
                hint="start with `api_version: headway/v1`",
            )
        )
    text.value = reader.top
    return text


def _decode(data: bytes, text: Text) -> str | None:
    if len(data) > MAX_BYTES:
        text.problems.append(too_large(text.file, len(data)))
        return None
    try:
        return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8"
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            message = "the file is UTF-16, not UTF-8"
        text.problems.append(
            SpecProblem(
                file=text.file,
                line=line,
                column=1,
                code=Code.NOT_UTF8,
                message=message,
                hint="save the file as UTF-8",
            )
        )
        return None


class _Frame:
    """An open mapping or list."""

    __slots__ = ("container", "key", "key_event", "keys", "path", "shape")

    def __init__(self, container: Any, shape: Shape, path: Path) -> None:
        self.container = container
        self.shape = shape
        self.path = path
        self.key: str | None = None
        self.key_event: Any = None
        self.keys: dict[str, Any] = {}


class _Stop(Exception):  # noqa: N818  (control flow: the rest of the file is not read)
    """A bound was passed; what comes after it is not looked at."""


class _Reader:
    """The loop over parser events."""

    def __init__(self, text: Text, shape: Shape, lines_at_fault: set[int]) -> None:
        self.text = text
        self.shape = shape
        self.lines_at_fault = lines_at_fault
        self.stack: list[_Frame] = []
        self.top: dict[str, Any] | None = None
        self.nodes = 0
        self.documents = 0

    def read(self, decoded: str) -> None:
        """Fill ``text`` and ``top``.  Raises ``yaml.YAMLError`` at a syntax error."""
        try:
            for event in yaml.parse(decoded, Loader=_LOADER):
                name = type(event)
                if name is yaml.ScalarEvent:
                    self._count(event)
                    self._scalar(event)
                elif name is yaml.MappingStartEvent:
                    self._count(event)
                    self._open(event, {})
                elif name is yaml.SequenceStartEvent:
                    self._count(event)
                    self._open(event, [])
                elif name in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
                    self.stack.pop()
                elif name is yaml.AliasEvent:
                    self._problem(event, Code.ANCHOR, "alias", _NO_ANCHORS)
                    self._put(event, None)
                elif name is yaml.DocumentStartEvent:
                    self._document(event)
        except _Stop:
            self.top = None

    def _problem(self, event: Any, code: Code, message: str, hint: str) -> None:
        line, column, _ = place_of(event)
        if line not in self.lines_at_fault:
            self.text.problems.append(
                SpecProblem(
                    file=self.text.file,
                    line=line,
                    column=column,
                    code=code,
                    message=message,
                    hint=hint,
                )
            )

    def _document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            self._problem(
                event,
                Code.MANY_DOCUMENTS,
                "a second document starts here; a file holds one",
                "one document a file: move it to a file of its own",
            )
            raise _Stop

    def _count(self, event: Any) -> None:
        self.nodes += 1
        if event.anchor is not None:
            self._problem(event, Code.ANCHOR, f"anchor `&{event.anchor}`", _NO_ANCHORS)
        if event.tag is not None:
            self._problem(
                event,
                Code.TAG,
                f"tag `{event.tag}` is not allowed",
                "remove it; values have no tags",
            )
        if self.nodes > MAX_NODES:
            self._problem(event, Code.TOO_DEEP, f"more than {MAX_NODES} values", "make it smaller")
            raise _Stop

    def _open(self, event: Any, container: Any) -> None:
        frame = self.stack[-1] if self.stack else None
        if frame is None:
            shape: Shape = self.shape
            path: Path = ()
            if isinstance(container, dict):
                self.top = container
        else:
            if isinstance(frame.container, dict) and frame.key_event is None:
                self._problem(event, Code.BAD_KEY, "a key must be text", "write a plain word")
                raise _Stop
            shape, path = self._below(frame)
            if len(self.stack) >= MAX_DEPTH:
                self._problem(
                    event, Code.TOO_DEEP, f"nested deeper than {MAX_DEPTH}", "make it flatter"
                )
                raise _Stop
            self._put(event, container)
        self.stack.append(_Frame(container, shape, path))

    def _below(self, frame: _Frame) -> tuple[Shape, Path]:
        if isinstance(frame.container, list):
            return frame.shape.item(), (*frame.path, len(frame.container))
        key = frame.key or ""
        return frame.shape.at(key), (*frame.path, key)

    def _put(self, event: Any, value: Any) -> None:
        """Store a finished value in the open container, with its place."""
        frame = self.stack[-1] if self.stack else None
        if frame is None:
            return
        if isinstance(frame.container, list):
            self.text.values[(*frame.path, len(frame.container))] = event
            frame.container.append(value)
            return
        key, key_event = frame.key, frame.key_event
        frame.key = frame.key_event = None
        if key is None:
            return  # the key was refused
        path = (*frame.path, key)
        self.text.keys[path] = key_event
        if not isinstance(value, dict | list) and event.start_mark.index != event.end_mark.index:
            self.text.values[path] = event
        frame.container[key] = value

    def _scalar(self, event: Any) -> None:
        frame = self.stack[-1] if self.stack else None
        if frame is None:
            return
        if isinstance(frame.container, dict) and frame.key_event is None:
            self._key(event, frame)
            return
        shape, path = self._below(frame)
        value: Any = event.value
        if not event.style:
            if (found := full_width_problem(value, shape.scalar)) is not None:
                self._problem(event, Code.FULL_WIDTH, *found)
            try:
                value = read_plain(value, shape.scalar)
            except ScalarError as error:
                self._problem(event, error.code, str(error), error.hint)
        if isinstance(value, str):
            if is_interpolated(value):
                self._interpolated(event, value, path)
            if (control := CONTROL.search(value)) is not None:
                said = f"a value holds {name_of(control.group())}"
                self._problem(event, Code.INVISIBLE, said, "remove it, also as an escape")
        self._put(event, value)

    def _interpolated(self, event: Any, value: str, path: Path) -> None:
        self.text.is_plain = False
        if path[0] == "defaults":
            self._problem(
                event, Code.BAD_DEFAULTS, "no interpolation in a defaults list", "name the option"
            )
        elif (found := interpolation_problem(value)) is not None:
            self._problem(event, *found)

    def _key(self, event: Any, frame: _Frame) -> None:
        key = event.value
        frame.key_event = event
        frame.key = None
        if not event.style and key == "<<":
            self._problem(event, Code.ANCHOR, "merge key `<<`", _NO_ANCHORS)
            return
        if (found := self._key_problem(event, frame.path)) is not None:
            self._problem(event, *found)
            return
        if key in frame.keys:
            first = place_of(frame.keys[key]).line
            self._problem(
                event,
                Code.DUPLICATE_KEY,
                f"key `{key}` is given twice: first in line {first}, again in line "
                f"{place_of(event).line}",
                "keep one of the two",
            )
            return
        frame.keys[key] = event
        frame.key = key

    def _key_problem(self, event: Any, path: Path) -> tuple[Code, str, str] | None:
        key: str = event.value
        if not event.style and (found := full_width_problem(key, None)) is not None:
            return Code.FULL_WIDTH, *found
        if key in FORBIDDEN_KEYS:
            return (
                Code.FORBIDDEN_KEY,
                f"key `{key}` is not allowed in a spec",
                "specs are data: they choose values, never code or search paths",
            )
        grammar = _DEFAULTS_KEY if path[:1] == ("defaults",) else _KEY
        if not grammar.match(key):
            strange = next((name_of(c) for c in key if not c.isascii()), "")
            return (
                Code.BAD_KEY,
                f"key {key!r} is not allowed" + (f": it holds {strange}" if strange else ""),
                "keys are ASCII letters, digits and `_`",
            )
        if not event.style:
            try:
                value = read_plain(key, self.shape.scalar)
            except ScalarError as error:
                return error.code, f"key {error}", error.hint
            if not isinstance(value, str):
                return Code.BAD_KEY, f"key `{key}` is not text", f"quote it: '{key}'"
        return None


_NO_ANCHORS = "anchors, aliases and merge keys are refused: repeat the values or use a group file"
