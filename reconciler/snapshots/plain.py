"""How does a frozen value become JSON and come back?

One rule for every domain value: a dataclass is an object with all its fields, an enum its
value, a mapping an object with sorted text keys, a tuple or a set a list.  Equal values give
equal bytes in every process: nothing depends on hashing, and sets are sorted.

The spelling of status files is another, stable one (``reconciler.specs.serialize``); this one is
for what has a version of its own: recorded inputs, digests, saved snapshots.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from hashlib import sha256
from types import NoneType, UnionType
from typing import Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from reconciler.domain.units import Digest

T = TypeVar("T")


def plain(value: Any) -> Any:
    """Return ``value`` as JSON types.  Raises ``TypeError`` for what has no spelling."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str | int | float):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(value[key]) for key in value}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=canonical_text)
    raise TypeError(f"no JSON spelling for {type(value).__name__}")


def canonical_text(value: Any) -> str:
    """Return JSON types as text: sorted keys, no spaces, no infinities."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest_of(value: Any) -> Digest:
    """Return ``sha256:<hex>`` over the canonical text of ``plain(value)``."""
    return Digest("sha256:" + sha256(canonical_text(plain(value)).encode()).hexdigest())


def restore(kind: type[T], data: Any) -> T:
    """Return the value of type ``kind`` that :func:`plain` turned into ``data``.

    A field that ``data`` lacks takes its default, so a value may grow fields; a key that
    ``kind`` does not have is refused.  Raises ``ValueError`` on anything that does not fit.
    """
    made: T = _restore(kind, data)
    return made


def _restore(kind: Any, data: Any) -> Any:
    if isinstance(kind, NewType):
        return _restore(kind.__supertype__, data)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _restore_optional(kind, data)
    if origin is tuple:
        item = get_args(kind)[0]
        return tuple(_restore(item, each) for each in _expect(list, data, kind))
    if origin is not None and issubclass(origin, Mapping):
        key, item = get_args(kind)
        pairs = _expect(dict, data, kind).items()
        return {_restore_key(key, each): _restore(item, value) for each, value in pairs}
    if is_dataclass(kind):
        return _restore_dataclass(kind, _expect(dict, data, kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if kind is float:
        return float(_expect((int, float), data, kind))
    if kind in (int, str, bool, NoneType):
        return _expect(kind, data, kind)
    return data


def _restore_optional(kind: Any, data: Any) -> Any:
    if data is None and NoneType in get_args(kind):
        return None
    choices = [each for each in get_args(kind) if each is not NoneType]
    if len(choices) != 1:
        raise ValueError(f"cannot tell which of {kind} was written")
    return _restore(choices[0], data)


def _restore_key(kind: Any, key: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        by_text = {str(each.value): each for each in kind}
        return by_text[key]
    return _restore(kind, key)


def _restore_dataclass(kind: Any, data: dict[str, Any]) -> Any:
    hints = _hints(kind)
    unknown = sorted(set(data) - set(hints))
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(unknown)}")
    return kind(**{name: _restore(hints[name], each) for name, each in data.items()})


def _expect(kind: Any, data: Any, wanted: Any) -> Any:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind not in (bool,)):
        raise ValueError(f"expected {wanted}, got {type(data).__name__}")
    return data


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {item.name: hints[item.name] for item in fields(kind)}
