"""Does a composed document have the right keys, each with a value of the right kind?"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reconciler.specs.codes import Code
from reconciler.specs.contract_files import train_schema
from reconciler.specs.documents import Job, ReservationDocument
from reconciler.specs.fields import Shape, nulls_of, shape_of
from reconciler.specs.findings import GOT, Finding, KeyPath, dotted
from reconciler.specs.names import advice_for_key, nearest
from reconciler.specs.train_section import train_findings

MODELS: dict[str, type[BaseModel]] = {"Job": Job, "Reservation": ReservationDocument}


@lru_cache(maxsize=2)
def document_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind, with the trainer's section in its place."""
    schema = MODELS[kind].model_json_schema(by_alias=True)
    if kind == "Job":
        train = {key: value for key, value in train_schema().items() if key != "$schema"}
        schema["properties"]["train"] = {"anyOf": [train, {"type": "null"}]}
    return schema


@lru_cache(maxsize=2)
def document_shape(kind: str) -> Shape:
    """Return what each field of a kind wants, for the strict loader."""
    return shape_of(document_schema(kind))


@lru_cache(maxsize=2)
def base_document(kind: str) -> dict[str, Any]:
    """Return the packaged base: every field of a kind, null."""
    return nulls_of(document_schema(kind))


@lru_cache(maxsize=2)
def field_paths(kind: str) -> tuple[str, ...]:
    """Return the dotted path of every field, sorted."""
    return tuple(sorted(_paths(base_document(kind), "")))


def shape_findings(kind: str, document: Mapping[str, Any]) -> list[Finding]:
    """Return everything wrong with the shape of a composed document without nulls."""
    findings: list[Finding] = []
    try:
        MODELS[kind].model_validate(document)
    except ValidationError as error:
        findings = [_finding(kind, details) for details in error.errors(include_url=False)]
    if kind == "Job":
        findings += _train_or_run(document)
        train = document.get("train")
        if isinstance(train, Mapping):
            findings += train_findings(train)
    return findings


def _train_or_run(document: Mapping[str, Any]) -> Iterator[Finding]:
    has_train, has_run = "train" in document, "run" in document
    if has_train and has_run:
        message = "a job has `train:` or `run:`, not both"
        yield Finding(("run",), Code.TRAIN_OR_RUN, message, "remove one of the two", True)
    elif not has_train and not has_run:
        message = "the job says nothing to run: neither `train:` nor `run:`"
        yield Finding((), Code.TRAIN_OR_RUN, message, "add `train:`, or groups that fill it")


def _finding(kind: str, details: ErrorDetails) -> Finding:
    path: KeyPath = tuple(details["loc"])
    name, context = details["type"], details.get("ctx", {})
    if name.startswith("HW"):
        said = str(context["text"])
        joint = ": " if said.startswith("`") else " "
        return Finding(path, Code(name), f"{dotted(path)}{joint}{said}", str(context["hint"]))
    if name == "extra_forbidden":
        return _unknown_key(kind, path)
    if name == "missing":
        return _missing_key(path)
    message, hint = _said(name, context, details["input"])
    return Finding(path, Code.BAD_VALUE, f"{dotted(path)} {message}", hint)


def _missing_key(path: KeyPath) -> Finding:
    if path == ("resources",):
        path = ("resources", "gpus")
    below = f" under `{dotted(path[:-1])}:`" if path[:-1] else ""
    hint = f"add `{path[-1]}:`{below}"
    return Finding(path, Code.MISSING_KEY, f"key `{dotted(path)}` is missing", hint, True)


def said_of(details: ErrorDetails) -> tuple[str, str]:
    """Return (message, hint) of any error, without the path: for the platform's documents."""
    context = details.get("ctx", {})
    if details["type"].startswith("HW"):
        return str(context["text"]), str(context["hint"])
    if details["type"] == "extra_forbidden":
        return "is no known key", ""
    if details["type"] == "missing":
        return "is missing", ""
    return _said(details["type"], context, details["input"])


def _unknown_key(kind: str, path: KeyPath) -> Finding:
    section = dotted(path[:-1])
    node: Any = base_document(kind)
    for part in path[:-1]:
        node = node.get(part) if isinstance(node, Mapping) else None
    known = tuple(node) if isinstance(node, Mapping) else ()
    hint = advice_for_key(str(path[-1]), section, known, field_paths(kind))
    return Finding(path, Code.UNKNOWN_KEY, f"unknown key `{dotted(path)}`", hint, on_key=True)


_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
}


_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("above", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("below", "lt"),
}


def _said(name: str, context: Mapping[str, Any], value: Any) -> tuple[str, str]:
    """Return (message, hint) for one of pydantic's own kinds of error."""
    if name in _WANTED:
        hint = ""
        if name == "list_type":
            hint = f"write [{value}]"
        elif name == "string_type" and not isinstance(value, list | dict):
            hint = "quote it"
        elif name == "int_type" and isinstance(value, float) and value == int(value):
            hint = f"write {int(value)}"
        elif name == "bool_type":
            hint = "write true or false"
        return f"must be {_WANTED[name]}, got {GOT}", hint
    if name == "literal_error":
        choices = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        close = nearest(str(value), choices.split(", "))
        return f"must be one of {choices}; got {GOT}", f"did you mean `{close}`?" if close else ""
    if name in _BOUNDS:
        words, key = _BOUNDS[name]
        return f"must be {words} {context[key]}, got {GOT}", ""
    if name == "string_pattern_mismatch":
        return f"is not written as it must be, got {GOT}", _pattern_hint(str(context["pattern"]))
    if name == "too_long":
        return f"holds more than {context['max_length']} items", ""
    if name in ("too_short", "string_too_short"):
        return "must not be empty", ""
    return f"is not allowed: {name}, got {GOT}", ""


def _pattern_hint(pattern: str) -> str:
    if "/" in pattern:
        return "write team/name, such as support/t1-sft"
    if "A-Z" in pattern:
        return "write a device type, such as H100-80GB"
    return "names are lower-case letters, digits and `-`"


def _paths(node: Mapping[str, Any], above: str) -> Iterator[str]:
    for key, value in node.items():
        path = f"{above}.{key}" if above else key
        yield path
        if isinstance(value, Mapping):
            yield from _paths(value, path)
