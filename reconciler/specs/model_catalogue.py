"""Loads what estimating may know: shipped model shapes, GPU types, fitted constants, and the
shape of a model in a local folder.

The only module that opens these files; everything behind it is pure and gets values.  Light:
the read verbs of the command line import it.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reconciler.errors import UsageError
from reconciler.estimating.config_json import model_from_config
from reconciler.estimating.constants import Constants, constants_from
from reconciler.estimating.hardware import CPU, Gpu
from reconciler.estimating.model import (
    Experts,
    LatentAttention,
    LinearAttention,
    Model,
    VisionTower,
)
from reconciler.estimating.naming import model_named

VERSION = 1
"""Form of the shipped files; another one is refused."""

NESTED = {
    "experts": Experts,
    "latent": LatentAttention,
    "linear": LinearAttention,
    "vision": VisionTower,
}


@cache
def shipped_models() -> Mapping[str, Model]:
    """Return every shipped shape by casefolded name and alias."""
    known: dict[str, Model] = {}
    for entry in _document("models.json")["models"]:
        model = _model(entry)
        for name in (model.name, *entry.get("aliases", ())):
            known[name.casefold()] = model
    return MappingProxyType(known)


@cache
def published_parameters() -> Mapping[str, float]:
    """Return billions of parameters as published, by model name, where they are."""
    entries = _document("models.json")["models"]
    return {one["name"]: one["published_b"] for one in entries if one["published_b"]}


@cache
def shipped_gpus() -> Mapping[str, Gpu]:
    """Return every GPU type by casefolded name and alias, and the CPU that stands in for one."""
    known = {"cpu": CPU}
    for entry in _document("gpus.json")["gpus"]:
        gpu = Gpu(**{key: value for key, value in entry.items() if key != "aliases"})
        for name in (gpu.name, *entry.get("aliases", ())):
            known[name.casefold()] = gpu
    return MappingProxyType(known)


@cache
def shipped_constants() -> Constants:
    """Return the fitted constants."""
    return constants_from(_document("constants.json"))


def model_at(name: str, root: Path = Path()) -> Model:
    """Return the shape of a catalogue name, a Hub id, or a folder with a ``config.json``.

    A relative folder is looked for under ``root``.  Raises ``UnknownNameError`` with the nearest
    names, ``UsageError`` where a folder has no readable shape.
    """
    folder = root / name
    path = folder / "config.json" if folder.is_dir() else folder
    if folder.is_dir() or (folder.is_file() and folder.suffix == ".json"):
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            return model_from_config(config, name)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path} does not say what shape the model has: {error}") from error
    return model_named_here(name)


def model_named_here(name: str) -> Model:
    """Return the shape of a catalogue name or a Hub id, without looking at any disk.

    Raises ``UnknownNameError`` with the nearest names.
    """
    return model_named(name, shipped_models())


def _model(entry: Mapping[str, Any]) -> Model:
    values = {key: value for key, value in entry.items() if key not in ("published_b", "aliases")}
    for key, kind in NESTED.items():
        if key in values:
            values[key] = kind(**values[key])
    return Model(**values)


def _document(name: str) -> dict[str, Any]:
    text = files("reconciler.estimating").joinpath("data", name).read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    if document.get("version") != VERSION:
        raise ValueError(f"{name} has form {document.get('version')}, this release reads {VERSION}")
    return document
