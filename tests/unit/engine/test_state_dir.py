"""The reconciler's own folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.domain.units import CommitId, Instant
from reconciler.engine.state_dir import CRASHES_KEPT, StateDir
from reconciler.errors import DeposedError


def test_a_second_process_on_the_same_folder_is_refused_and_told_who_has_it(
    tmp_path: Path,
) -> None:
    code = (
        "import os, sys, pathlib; from reconciler.engine.state_dir import StateDir\n"
        "with StateDir(pathlib.Path(sys.argv[1])).locked():\n"
        "    print(os.getpid(), flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        pid = holder.stdout.readline().strip()
        with pytest.raises(DeposedError, match=f"pid {pid}"), StateDir(tmp_path).locked():
            pass
        holder.kill()
        holder.wait()
    with StateDir(tmp_path).locked():
        pass


def test_what_was_handed_on_is_remembered(tmp_path: Path) -> None:
    assert StateDir(tmp_path).handed_on() is None
    StateDir(tmp_path).hand_on(CommitId("a" * 40))

    assert StateDir(tmp_path).handed_on() == "a" * 40


def test_only_the_newest_crash_snapshots_stay(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    paths = [state.save_crash({"n": n}, Instant(1000 + n)) for n in range(CRASHES_KEPT + 2)]

    assert [path.exists() for path in paths] == [False, False] + [True] * CRASHES_KEPT
