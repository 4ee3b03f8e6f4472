"""Where does a job's model lie already, and where its data?

Nodes say what is on their own disks (``conf/cluster``), jobs what they read: a name is the same
letter by letter or another one.  A place that has the model is better than one that has not,
whatever data they have; of places alike in that, the one with more of the job's data.

Rule kept: this settles ties and nothing else.  Places are compared by it once they are alike by
hops and by what they leave over, so it changes where a job starts, never whether or when.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from reconciler.domain.cluster import Node
from reconciler.domain.job import WorkloadFacts
from reconciler.domain.units import NodeName

Place = TypeVar("Place", NodeName, int)
Other = TypeVar("Other", NodeName, int)
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached(Generic[Place]):
    """Which places have what: nodes by name, or rows by number."""

    models: Mapping[str, frozenset[Place]] = field(default_factory=dict)
    data: Mapping[str, frozenset[Place]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.models or self.data)

    def near(self, model: str, data: Iterable[str]) -> dict[Place, int]:
        """Return what places with some of it are worth to a job; others are worth 0.

        The model counts for more than all of the data, each set of data for one.
        """
        wanted = dict.fromkeys(data)
        found = dict.fromkeys(self.models.get(model, ()), len(wanted) + 1)
        for name in wanted:
            for place in self.data.get(name, ()):
                found[place] = found.get(place, 0) + 1
        return found

    def moved(self, places: Callable[[Place], Iterable[Other]]) -> "Cached[Other]":
        """Return the same of other places: those that lie on each of these."""

        def all_of(names: Mapping[str, frozenset[Place]]) -> dict[str, frozenset[Other]]:
            return {
                name: frozenset(other for place in on for other in places(place))
                for name, on in names.items()
            }

        return Cached(models=all_of(self.models), data=all_of(self.data))


def cached_on(nodes: Iterable[Node]) -> Cached[NodeName]:
    """Return which of these nodes have what."""
    models: dict[str, set[NodeName]] = {}
    data: dict[str, set[NodeName]] = {}
    for node in nodes:
        if node.caches:
            for name in node.caches.models:
                models.setdefault(name, set()).add(node.name)
            for name in node.caches.data:
                data.setdefault(name, set()).add(node.name)
    return Cached(
        models={name: frozenset(models[name]) for name in sorted(models)},
        data={name: frozenset(data[name]) for name in sorted(data)},
    )


def rows_with(cached: Cached[NodeName], nodes: Sequence[NodeName]) -> Cached[int]:
    """Return which rows have what; ``nodes`` are the nodes the rows are on, row by row."""
    if not cached:
        return Cached()
    rows: dict[NodeName, list[int]] = {}
    for row, node in enumerate(nodes):
        rows.setdefault(node, []).append(row)
    return cached.moved(lambda node: rows.get(node, ()))


def nearest_first(
    items: Sequence[Item], alike: Sequence[Hashable], worth: Sequence[int]
) -> list[Item]:
    """Return ``items`` in their order, but among those alike the ones worth most first.

    Those alike only change places with each other: whoever takes the first few items gets as many
    of each kind as before.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, kind in enumerate(alike):
        groups.setdefault(kind, []).append(index)
    found = list(items)
    for indices in groups.values():
        by_worth = sorted(indices, key=lambda index: (-worth[index], index))
        for index, other in zip(indices, by_worth, strict=True):
            found[index] = items[other]
    return found


def cached_words(facts: WorkloadFacts, nodes: Sequence[NodeName], cached: Cached[NodeName]) -> str:
    """Return what a job reads that its nodes have, such as ``with its model and data cached``.

    Empty where they have none of it.
    """
    if not cached:
        return ""
    model = cached.models.get(facts.model, frozenset())
    data = [cached.data.get(name, frozenset()) for name in dict.fromkeys(facts.data)]
    has_all = [bool(data) and all(node in on for on in data) for node in nodes]
    has_some = [any(node in on for on in data) for node in nodes]
    parts = [("its model", [node in model for node in nodes])]
    parts.append(("its data", has_all) if any(has_all) else ("some of its data", has_some))
    parts = [(what, on) for what, on in parts if any(on)]
    if len(parts) == 2 and parts[0][1] == parts[1][1]:
        parts = [(f"its model and {parts[1][0].removeprefix('its ')}", parts[0][1])]
    said = [f"{what} cached{_where(on)}" for what, on in parts]
    return f"with {' and '.join(said)}" if said else ""


def _where(on: Sequence[bool]) -> str:
    return "" if all(on) else f" on {sum(on)} of {len(on)} nodes"
