"""How is a domain value spelt in a stored file, and read back?

One rule a type, found once from the type hints, so a field that is added to a value is stored
without a second list of fields to forget:

* an instant is RFC 3339 in UTC, a priority its name (``P1``), any other enum its value;
* an allocation is ``{node: [device, ...]}``;
* a dataclass is an object without the fields that hold their default, a tuple a list.

Reading is strict: a key nobody knows, a wrong type or a missing field raises ``FormatError``
that says where.  A default may therefore never change within one ``api_version``; a test pins
them.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, NewType, Union, get_args, get_origin, get_type_hints

from reconciler.domain.cluster import Allocation, NodeShare
from reconciler.domain.job import PriorityClass
from reconciler.domain.units import DeviceId, Instant, NodeName, rfc3339
from reconciler.errors import BackendError


class FormatError(BackendError):
    """A stored file is not what this version writes; waiting does not help."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class Codec(NamedTuple):
    """``encode`` makes JSON types; ``decode(data, where)`` makes the value again."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any, str], Any]


@cache
def codec(kind: Any) -> Codec:
    """Return how values of type ``kind`` are spelt.  Raises ``TypeError`` for unknown types."""
    if kind is Instant:
        return Codec(rfc3339, _decode_instant)
    if isinstance(kind, NewType):
        return codec(kind.__supertype__)
    if kind is Allocation:
        return Codec(_encode_allocation, _decode_allocation)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _optional(kind)
    if origin is tuple and get_args(kind)[1:] == (Ellipsis,):
        return _sequence(codec(get_args(kind)[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(codec(get_args(kind)[1]))
    if isinstance(kind, type):
        if is_dataclass(kind):
            return _object(kind)
        if issubclass(kind, PriorityClass):
            return Codec(lambda value: value.name, _decode_priority)
        if issubclass(kind, Enum):
            return _enum(kind)
        if kind in (str, int, float, bool):
            return _scalar(kind)
    raise TypeError(f"no stored spelling for {kind}")


def _scalar(kind: type) -> Codec:
    accepted: tuple[type, ...] = (int, float) if kind is float else (kind,)

    def decode(data: Any, where: str) -> Any:
        if type(data) not in accepted:
            raise FormatError(f"{where}: expected {kind.__name__}, found {_seen(data)}")
        return float(data) if kind is float else data

    return Codec(lambda value: value, decode)


def _enum(kind: type[Enum]) -> Codec:
    members = {member.value: member for member in kind}

    def decode(data: Any, where: str) -> Enum:
        if not isinstance(data, str | int) or data not in members:
            raise FormatError(f"{where}: {_seen(data)} is no {kind.__name__} of this version")
        return members[data]

    return Codec(lambda value: value.value, decode)


def _optional(kind: Any) -> Codec:
    choices = [choice for choice in get_args(kind) if choice is not NoneType]
    if len(choices) != 1 or len(get_args(kind)) != 2:
        raise TypeError(f"no stored spelling for {kind}")
    inner = codec(choices[0])
    return Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda data, where: None if data is None else inner.decode(data, where),
    )


def _sequence(item: Codec) -> Codec:
    def decode(data: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(data, list):
            raise FormatError(f"{where}: expected a list, found {_seen(data)}")
        return tuple(item.decode(each, f"{where}[{at}]") for at, each in enumerate(data))

    return Codec(lambda value: [item.encode(each) for each in value], decode)


def _mapping(item: Codec) -> Codec:
    def decode(data: Any, where: str) -> dict[str, Any]:
        found = _expect_object(data, where)
        return {key: item.decode(found[key], f"{where}.{key}") for key in sorted(found)}

    return Codec(lambda value: {str(key): item.encode(value[key]) for key in sorted(value)}, decode)


def _object(kind: Any) -> Codec:
    hints = get_type_hints(kind)
    parts = {item.name: codec(hints[item.name]) for item in fields(kind)}
    defaults = {
        item.name: item.default if item.default_factory is MISSING else item.default_factory()
        for item in fields(kind)
    }

    def encode(value: Any) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for name, part in parts.items():
            held = getattr(value, name)
            if held != defaults[name]:
                data[name] = part.encode(held)
        return data

    def decode(data: Any, where: str) -> Any:
        found = _expect_object(data, where)
        values: dict[str, Any] = {}
        for name, each in found.items():
            part = parts.get(name)
            if part is None:
                raise FormatError(f"{where}: this version knows no key {name!r}")
            values[name] = part.decode(each, f"{where}.{name}")
        try:
            return kind(**values)
        except (TypeError, ValueError) as error:
            raise FormatError(f"{where}: {error}") from None

    return Codec(encode, decode)


def _encode_allocation(value: Allocation) -> dict[str, list[str]]:
    return {share.node: list(share.devices) for share in value.shares}


def _decode_allocation(data: Any, where: str) -> Allocation:
    devices = _ALLOCATION.decode(data, where)
    return Allocation(
        shares=tuple(
            NodeShare(node=NodeName(node), devices=tuple(DeviceId(each) for each in ids))
            for node, ids in devices.items()
        )
    )


def _decode_priority(data: Any, where: str) -> PriorityClass:
    if not isinstance(data, str) or data not in PriorityClass.__members__:
        raise FormatError(f"{where}: {_seen(data)} is not one of P0 to P4")
    return PriorityClass[data]


def _decode_instant(data: Any, where: str) -> Instant:
    if isinstance(data, str) and len(data) == 20 and data[10] == "T" and data[19] == "Z":
        try:
            return Instant(int(datetime.fromisoformat(data).timestamp()))
        except ValueError:
            pass
    raise FormatError(f"{where}: {_seen(data)} is not an instant like 2026-11-30T09:00:00Z")


def _expect_object(data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise FormatError(f"{where}: expected an object, found {_seen(data)}")
    return data


def _seen(data: Any) -> str:
    return f"{data!r:.60}"


_ALLOCATION = _mapping(_sequence(_scalar(str)))
