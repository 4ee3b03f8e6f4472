"""One row a launcher: how the shared contract suite makes it, and makes it again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.domain.launch import RunRef
from reconciler.launchers import processes
from reconciler.launchers.table import launcher
from reconciler.ports import Launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherWorld:
    """A launcher over a folder of its own."""

    kind: str
    root: Path

    def again(self) -> Launcher:
        """Return another launcher over the same runs, as after a restart."""
        return launcher(self.kind, self.root)

    def run_dir(self, run: RunRef) -> Path:
        return self.root / run.path

    def members(self, run: RunRef) -> tuple[processes.Process, ...]:
        """Return what runs of that attempt."""
        membership = processes.Membership(run.attempt, str(self.run_dir(run)))
        return processes.members([membership])[membership]


def _local(folder: Path) -> LauncherWorld:
    return LauncherWorld(kind="local", root=folder / "runs")


WORLDS: Mapping[str, Callable[[Path], LauncherWorld]] = {"local": _local}
