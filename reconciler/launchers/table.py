"""Which launchers there are: one row a kind, chosen by ``launcher.kind`` in conf."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from reconciler.errors import UsageError
from reconciler.launchers.local import LocalLauncher
from reconciler.ports import Launcher

Factory = Callable[[Path, Collection[str]], Launcher]


def _local(root: Path, pass_environment: Collection[str]) -> Launcher:
    return LocalLauncher(root, pass_environment=pass_environment)


LAUNCHERS: Mapping[str, Factory] = {
    "local": _local,
}


def launcher(kind: str, root: Path, *, pass_environment: Collection[str] = ()) -> Launcher:
    """Return the launcher of that kind, with its run directories below ``root``.

    ``pass_environment`` names variables of the reconciler that jobs get beside the usual ones.
    Raises ``UsageError`` for a kind that is not in the table.
    """
    factory = LAUNCHERS.get(kind)
    if factory is None:
        known = ", ".join(sorted(LAUNCHERS))
        raise UsageError(f"launcher.kind: there is no launcher {kind!r}; write one of: {known}")
    return factory(root, pass_environment)
