"""Which blobs does ``conf/`` have at one commit?  Enough to know whether a kept verdict holds,
without reading any of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from reconciler.ports import TreeEntry


class ConfFiles:
    """The files under ``conf/``, by path relative to it."""

    def __init__(self, entries: Mapping[str, TreeEntry], paths: Iterable[str]) -> None:
        self.oids = {path.removeprefix("conf/"): entries[path].oid for path in paths}
        self._listings: dict[str, str] = {}

    def key(self) -> str:
        """Return a digest of every path and blob."""
        text = "\n".join(f"{name} {oid}" for name, oid in sorted(self.oids.items()))
        return sha256(text.encode()).hexdigest()

    def listing(self, folder: str) -> str:
        """Return a digest of the names in ``folder``."""
        if folder not in self._listings:
            prefix = f"{folder}/" if folder else ""
            inside = (name[len(prefix) :] for name in self.oids if name.startswith(prefix))
            names = sorted({name.split("/")[0] for name in inside})
            self._listings[folder] = sha256("\n".join(names).encode()).hexdigest()[:16]
        return self._listings[folder]

    def dependencies(self, loaded: Sequence[str], listed: Sequence[str]) -> list[dict[str, str]]:
        """Return what a composition rests on: the blobs it loaded, the folders it looked into."""
        return [
            {name: self.oids[name] for name in loaded},
            {folder: self.listing(folder) for folder in listed},
        ]

    def are_current(self, dependencies: Sequence[Mapping[str, str]]) -> bool:
        """Return whether everything a composition rested on is here unchanged."""
        loaded, listed = dependencies
        return all(self.oids.get(name) == oid for name, oid in loaded.items()) and all(
            self.listing(folder) == digest for folder, digest in listed.items()
        )
