"""How is a composed document written out?  As YAML that the strict loader reads back unchanged.

PyYAML leaves some text plain that YAML 1.2 reads as a number; such text is quoted here, and
floats keep every digit, so a document may go through a file any number of times.
"""

import json
from collections.abc import Mapping
from typing import Any

import yaml

from reconciler.specs.scalars import Kind, ScalarError, read_plain


class _Writer(yaml.SafeDumper):
    """Quotes every text that is not plainly text to all readers."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(writer: _Writer, value: str) -> yaml.ScalarNode:
    try:
        is_plain = all(read_plain(value, kind) == value for kind in (Kind.ANY, Kind.TEXT))
    except ScalarError:
        is_plain = False
    style = "|" if "\n" in value else None if is_plain else "'"
    return writer.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Writer.add_representer(str, _text)


def document_yaml(document: Mapping[str, Any]) -> str:
    """Return the document as YAML, keys in the order of the fields, ending in a newline."""
    text: str = yaml.dump(
        _plain(document), Dumper=_Writer, sort_keys=False, allow_unicode=True, width=100
    )
    return text


def document_json(document: Mapping[str, Any]) -> str:
    """Return the document as indented JSON, ending in a newline."""
    return json.dumps(_plain(document), indent=2, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
