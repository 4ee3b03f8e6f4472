"""What machines read: JSON and YAML with ``api_version``, UTC instants, seconds, whole GPUs.

The keys are a promise: they are added to, never renamed.  ``-o name`` prints names that paste
into ``describe``.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from reconciler.domain.cluster import Allocation
from reconciler.domain.units import Instant, rfc3339

API_VERSION = "headway/v1"
Command = TypeVar("Command", bound=Callable[..., Any])


def output_option(*forms: str, default: str = "table") -> Callable[[Command], Command]:
    """Return the ``-o`` option over ``forms``, the ``default`` among them."""
    choices = list(forms) if default in forms else [default, *forms]
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices),
        default=default,
        show_default=True,
        help="What to print.",
    )


def emit(document: Mapping[str, Any], form: str) -> None:
    """Print one document as ``json`` or ``yaml``, ``api_version`` first."""
    click.echo(as_text(document, form))


def emit_items(kind: str, items: Sequence[Any], form: str, **facts: Any) -> None:
    """Print a list document: its kind, where it was read, the items."""
    click.echo(list_text(kind, items, form, **facts))


def list_text(kind: str, items: Sequence[Any], form: str, **facts: Any) -> str:
    """Return what :func:`emit_items` prints."""
    return as_text({"kind": kind, **facts, "items": list(items)}, form)


def emit_names(names: Iterable[str]) -> None:
    """Print one name a line."""
    for name in names:
        click.echo(name)


def as_text(document: Mapping[str, Any], form: str) -> str:
    """Return the text of a document as ``json``, ``json line`` or ``yaml``, ``api_version`` first.

    There is no line end after the last line.
    """
    told = {"api_version": API_VERSION, **document}
    if form == "yaml":
        import yaml

        text: str = yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=100)
        return text.rstrip("\n")
    return json.dumps(told, indent=None if form == "json line" else 2, ensure_ascii=False)


def instant(value: Instant | None) -> str | None:
    """Return the instant in RFC 3339, UTC; None stays None."""
    return None if value is None else rfc3339(value)


def allocation(value: Allocation | None) -> list[dict[str, Any]] | None:
    """Return the devices by node; None stays None."""
    if value is None:
        return None
    return [{"node": share.node, "devices": list(share.devices)} for share in value.shares]
