"""Which fields exist, and what does each want?  Read from a JSON Schema, so that the strict
loader, the base that names every field and the editor's schema cannot disagree.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from reconciler.specs.scalars import Kind

Schema: TypeAlias = Mapping[str, Any]

_KINDS = {
    "string": Kind.TEXT,
    "number": Kind.NUMBER,
    "integer": Kind.WHOLE,
    "boolean": Kind.FLAG,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What may stand at one place: a scalar of a kind, list items, named keys, other keys."""

    scalar: Kind = Kind.ANY
    items: "Shape | None" = None
    keys: Mapping[str, "Shape"] = field(default_factory=dict)
    other: "Shape | None" = None

    def at(self, key: str) -> "Shape":
        """Return the shape under ``key``; an unknown key may hold anything."""
        return self.keys.get(key) or self.other or ANYTHING

    def item(self) -> "Shape":
        """Return the shape of a list item here."""
        return self.items or ANYTHING


ANYTHING = Shape()


def shape_of(schema: Schema, root: Schema | None = None) -> Shape:
    """Return the shape a JSON Schema (draft 7 or 2020-12, as ours are written) describes."""
    root = schema if root is None else root
    kinds: set[Kind] = set()
    items: Shape | None = None
    keys: dict[str, Shape] = {}
    other: Shape | None = None
    for choice in _choices(schema, root):
        name = choice.get("type")
        if name in _KINDS:
            kinds.add(_KINDS[name])
        if "items" in choice:
            items = shape_of(choice["items"], root)
        for key, below in choice.get("properties", {}).items():
            keys[key] = shape_of(below, root)
        below_any_key = list(choice.get("patternProperties", {}).values())
        if isinstance(choice.get("additionalProperties"), Mapping):
            below_any_key.append(choice["additionalProperties"])
        for below in below_any_key:
            other = shape_of(below, root)
    scalar = kinds.pop() if len(kinds) == 1 else Kind.ANY
    return Shape(scalar=scalar, items=items, keys=keys, other=other)


def nulls_of(schema: Schema, root: Schema | None = None) -> dict[str, Any]:
    """Return a document that names every field with null, sections as mappings: the base that
    lets a command line override any known key."""
    root = schema if root is None else root
    base: dict[str, Any] = {}
    for choice in _choices(schema, root):
        for key, below in choice.get("properties", {}).items():
            nested = nulls_of(below, root)
            base[key] = nested or None
    return base


def _choices(schema: Schema, root: Schema) -> Iterator[Schema]:
    """Yield the schema behind references and every branch of a union."""
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from _choices(target, root)
        return
    for word in ("anyOf", "oneOf", "allOf"):
        for branch in schema.get(word, ()):
            yield from _choices(branch, root)
    yield schema
