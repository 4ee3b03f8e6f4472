"""Mappings that are never changed, and of which a new one costs what is different in it.

A snapshot of ten thousand jobs differs from the one before in two.  Copying mappings, and looking
for the two, costs more than deciding about them.  So a table that grew from another shares its
entries: the newest of a line has them all, an older one knows what was different in it.  Reading
any of them is right at any time; reading the newest is as fast as a dict, and whoever reads an
older one makes the line turn round.
"""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import compress
from operator import is_not
from typing import Any, Final, TypeVar, overload

Key = TypeVar("Key")
Value = TypeVar("Value")
Other = TypeVar("Other")

_NOTHING: Final[Any] = object()
"""Stands for no entry."""


class Table(Mapping[Key, Value]):
    """A mapping that is never changed once somebody else knows it.

    Views and ``read`` are of the moment: they are good until something grows from the table.
    """

    __slots__ = ("_here", "_next", "_undo")

    def __init__(self, entries: Mapping[Key, Value] | None = None) -> None:
        self._here: dict[Key, Value] | None = {} if entries is None else dict(entries)
        self._next: Table[Key, Value] | None = None
        """The table whose entries, but for those of ``_undo``, are this one's."""
        self._undo: dict[Key, Any] = {}

    def read(self) -> dict[Key, Value]:
        """Return all entries, not to be changed."""
        here = self._here
        return self._come_first() if here is None else here

    def grow(self) -> "tuple[Table[Key, Value], dict[Key, Any]]":
        """Return a table with the same entries, and the log in which its maker notes what was
        there before each change."""
        twin: Table[Key, Value] = Table.__new__(type(self))
        log: dict[Key, Any] = {}
        twin._here, twin._next, twin._undo = self.read(), None, {}
        self._here, self._next, self._undo = None, twin, log
        return twin, log

    def with_entries(self, entries: Mapping[Key, Value]) -> "Table[Key, Value]":
        """Return a table in which these entries take the place of what was there."""
        draft = Draft(self)
        for key, value in entries.items():
            draft[key] = value
        return draft.done()

    def changed_in(self, newer: "Table[Key, Value]") -> set[Key] | None:
        """Return the keys that do not have the very same object in both; None where ``newer`` did
        not grow from this table."""
        before = self._was(newer)
        if before is None:
            return None
        get = newer.read().get
        return {key for key, value in before.items() if get(key, _NOTHING) is not value}

    def changes_to(self, newer: "Table[Key, Value]") -> dict[Key, Value | None] | None:
        """Return what this table has, or None, under the keys that may have another object in
        ``newer``; None as a whole where that did not grow from this table."""
        before = self._was(newer)
        if before is None:
            return None
        return {key: None if value is _NOTHING else value for key, value in before.items()}

    def _was(self, newer: "Table[Key, Value]") -> dict[Key, Any] | None:
        before: dict[Key, Any] = {}
        at = self
        while at is not newer:
            if at._next is None:
                return None
            before = {**at._undo, **before} if before else dict(at._undo)
            at = at._next
        return before

    def _come_first(self) -> dict[Key, Value]:
        """Take the entries over from the newest of the line, and turn the line round."""
        line = [self]
        while (following := line[-1]._next) is not None:
            line.append(following)
        here = line[-1]._here
        assert here is not None  # the last of a line has the entries
        for at in range(len(line) - 2, -1, -1):
            this, other = line[at], line[at + 1]
            log = this._undo
            for key, value in log.items():
                log[key] = here.get(key, _NOTHING)
                if value is _NOTHING:
                    here.pop(key, None)
                else:
                    here[key] = value
            other._here, other._next, other._undo = None, this, log
            this._here, this._next, this._undo = here, None, {}
        return here

    def __getitem__(self, key: Key) -> Value:
        here = self._here
        return self.read()[key] if here is None else here[key]

    @overload
    def get(self, key: Key, /) -> Value | None: ...

    @overload
    def get(self, key: Key, default: Value | Other, /) -> Value | Other: ...

    def get(self, key: Key, default: Any = None, /) -> Any:
        """Return the entry, or ``default``."""
        here = self._here
        return (self.read() if here is None else here).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.read()

    def __iter__(self) -> Iterator[Key]:
        return iter(self.read())

    def __len__(self) -> int:
        return len(self.read())

    def keys(self) -> KeysView[Key]:
        """Return the keys."""
        return self.read().keys()

    def values(self) -> ValuesView[Value]:
        """Return the values."""
        return self.read().values()

    def items(self) -> ItemsView[Key, Value]:
        """Return the entries."""
        return self.read().items()

    def __repr__(self) -> str:
        return f"Table({self.read()!r})"


class Draft(Mapping[Key, Value]):
    """The next table while it is made; what it is made from stays as it is."""

    __slots__ = ("_log", "_table")

    def __init__(self, table: Mapping[Key, Value] | None = None) -> None:
        self._table: Table[Key, Value] = table if isinstance(table, Table) else Table(table)
        self._log: dict[Key, Any] | None = None

    def done(self) -> Table[Key, Value]:
        """Return the table; the very one it was made from where nothing was changed."""
        self._log = None
        return self._table

    def read(self) -> dict[Key, Value]:
        """Return all entries of the moment, not to be changed."""
        return self._table.read()

    def __setitem__(self, key: Key, value: Value) -> None:
        here, log = self._table.read(), self._log
        if log is None:
            log = self._grow()
        if key not in log:
            log[key] = here.get(key, _NOTHING)
        here[key] = value

    def pop(self, key: Key) -> Value | None:
        """Take out an entry and return it; None where there is none."""
        here = self._table.read()
        if key not in here:
            return None
        log = self._log
        if log is None:
            log = self._grow()
        value = here.pop(key)
        if key not in log:
            log[key] = value
        return value

    def _grow(self) -> dict[Key, Any]:
        self._table, self._log = self._table.grow()
        return self._log

    def __getitem__(self, key: Key) -> Value:
        return self._table.read()[key]

    @overload
    def get(self, key: Key, /) -> Value | None: ...

    @overload
    def get(self, key: Key, default: Value | Other, /) -> Value | Other: ...

    def get(self, key: Key, default: Any = None, /) -> Any:
        """Return the entry, or ``default``."""
        return self._table.read().get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._table.read()

    def __iter__(self) -> Iterator[Key]:
        return iter(self._table.read())

    def __len__(self) -> int:
        return len(self._table.read())

    def keys(self) -> KeysView[Key]:
        """Return the keys."""
        return self._table.read().keys()

    def values(self) -> ValuesView[Value]:
        """Return the values."""
        return self._table.read().values()

    def items(self) -> ItemsView[Key, Value]:
        """Return the entries."""
        return self._table.read().items()


def differing(old: Mapping[Key, Value], new: Mapping[Key, Value]) -> set[Key]:
    """Return the keys that do not have the very same object in both; no object is None."""
    if old is new:
        return set()
    if isinstance(old, Table) and isinstance(new, Table):
        known = old.changed_in(new)
        if known is not None:
            return known
        old, new = dict(old.read()), dict(new.read())
    found = set(compress(new, map(is_not, map(old.get, new), new.values())))
    return found | (old.keys() - new.keys())


def kept(values: Mapping[Key, Value]) -> Mapping[Key, Value]:
    """Return the values as nobody can change them: a table itself, a copy of anything else."""
    return values if isinstance(values, Table) else dict(values)
