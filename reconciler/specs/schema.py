"""What does an editor know of a spec?  A JSON Schema (draft 7) a kind, from the documents' fields.

``# yaml-language-server: $schema=../../.headway/schema/job.json`` in a file's first line gives
completion and descriptions; the validator stays the judge.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.specs.shape import document_schema

KINDS = {"job": "Job", "reservation": "Reservation"}
FOLDER = ".headway/schema"
_DROPPED = frozenset(("title", "default", "ge", "gt", "le"))


def editor_schema(kind: str) -> dict[str, Any]:
    """Return the schema of ``job`` or ``reservation``."""
    schema = _draft_7(document_schema(KINDS[kind]))
    schema["properties"]["defaults"] = {
        "description": "Groups of conf/ to compose from, then `_self_`: this file's own keys.",
        "type": "array",
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"headway {KINDS[kind]}",
        **schema,
        # what groups fill in need not be in the file itself
        "required": ["api_version", "kind"],
    }


def schema_text(kind: str) -> str:
    """Return the schema as it is printed and written to disk."""
    return json.dumps(editor_schema(kind), indent=2, ensure_ascii=False) + "\n"


def write_schemas(root: Path) -> list[Path]:
    """Write every schema under ``root`` and return the paths."""
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in KINDS:
        path = folder / f"{kind}.json"
        path.write_text(schema_text(kind), encoding="utf-8")
        written.append(path)
    return written


def _draft_7(node: Any, *, is_table: bool = False) -> Any:
    """Return a pydantic schema in draft-7 words, without titles, and without ``required`` below
    the top: a section may be filled by a group.  ``is_table``: the keys are names, not words."""
    if isinstance(node, list):
        return [_draft_7(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    result = {}
    for key, value in node.items():
        if is_table:
            result[key] = _draft_7(value)
        elif key == "$ref":
            result[key] = value.replace("#/$defs/", "#/definitions/")
        elif key == "$defs":
            result["definitions"] = _draft_7(value, is_table=True)
        elif key not in _DROPPED and key != "required":
            result[key] = _draft_7(value, is_table=key == "properties")
    return result
