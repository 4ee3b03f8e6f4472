"""Does a document of a run directory keep its contract?

The schemas are package data of ``reconciler.specs``, the same bytes as the trainer's own.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from reconciler import specs


def first_problem(kind: str, document: Mapping[str, Any]) -> str:
    """Return where and how ``document`` breaks ``<kind>.schema.json``; empty: it does not."""
    error = next(iter(_validator(kind).iter_errors(document)), None)
    if error is None:
        return ""
    where = ".".join(str(part) for part in error.absolute_path) or "the document"
    return f"{where}: {' '.join(str(error.message).split())[:160]}"


@cache
def _validator(kind: str) -> Any:
    from jsonschema import Draft202012Validator

    folder = Path(str(specs.__file__)).parent / "contract"
    schema = json.loads((folder / f"{kind}.schema.json").read_text(encoding="utf-8"))
    return Draft202012Validator(schema)
