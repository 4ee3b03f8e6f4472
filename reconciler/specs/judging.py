"""Judges what the cache does not know: the one door to YAML, Hydra and pydantic.

Imported only when something has to be judged, so that a read of an unchanged tree stays light.
"""

from collections.abc import Mapping, Sequence

from reconciler.ports import Tree
from reconciler.specs.bounded import BoundedComposer
from reconciler.specs.cache import SpecCache
from reconciler.specs.catalogue import read_platform
from reconciler.specs.composed import Composed
from reconciler.specs.conf_files import ConfFiles
from reconciler.specs.group_files import GroupFiles
from reconciler.specs.pipeline import Judged, Pipeline, Prefix
from reconciler.specs.platform import PlatformDocuments


class Judge:
    """Everything needed to judge documents of one tree; :meth:`close` ends its child process."""

    def __init__(self, tree: Tree, conf: ConfFiles, cache: SpecCache | None) -> None:
        self._tree = tree
        self._groups = GroupFiles(tree, conf)
        roots = {"jobs": self._groups.for_jobs, "platform": self._groups.for_platform}
        self._composer = BoundedComposer(roots)
        kept = None if cache is None else _KeptPrefixes(cache, conf)
        self._pipeline = Pipeline(self._groups, self._composer, kept)

    def close(self) -> None:
        """End the child process, if one was needed."""
        self._composer.close()

    def platform(self, cluster: str | None) -> PlatformDocuments:
        """Return the platform's documents; ``cluster`` picks another option of its group."""
        return read_platform(self._groups, self._composer, cluster)

    def judge(self, path: str, data: bytes, overrides: Sequence[str]) -> Judged:
        """Return what became of one blob."""
        return self._pipeline.judge(path, data, overrides)


class _KeptPrefixes:
    """Prefixes in the cache, each with the blobs and listings it rests on."""

    def __init__(self, cache: SpecCache, conf: ConfFiles) -> None:
        self._cache = cache
        self._conf = conf

    def get(self, key: str) -> Prefix | None:
        try:
            row = self._cache.shared("prefixes", key)
            if row is None or not self._conf.are_current(row["rests_on"]):
                return None
            sections = [(name, package) for name, package in row["sections"]]
            composed = Composed(
                row["document"], sections, loaded=row["loaded"], listed=row["listed"]
            )
            return Prefix(composed, bool(row["is_plain"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, key: str, prefix: Prefix) -> None:
        composed = prefix.composed
        row: Mapping[str, object] = {
            "rests_on": self._conf.dependencies(composed.loaded, composed.listed),
            "document": composed.document,
            "sections": [list(pair) for pair in composed.sections],
            "loaded": list(composed.loaded),
            "listed": list(composed.listed),
            "is_plain": prefix.is_plain,
        }
        self._cache.add_shared("prefixes", key, row)
