"""Runs the trainer's memory tracer on one request and reads what it says.

The tracer needs torch, which this side never imports: it is a child process with a time limit,
its request a file it is given, its answer one line of JSON.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.errors import LauncherError

TIMEOUT_S = 1200


def traced(
    request: Mapping[str, Any], *, python: str = sys.executable, timeout_s: int = TIMEOUT_S
) -> dict[str, Any]:
    """Return the tracer's figures in bytes.  Raises ``LauncherError`` that says what it lacks."""
    with tempfile.TemporaryDirectory(prefix="headway-exact-") as folder:
        path = Path(folder) / "request.json"
        path.write_text(json.dumps(request), encoding="utf-8")
        try:
            done = subprocess.run(
                (python, "-m", "trainer.exact_memory", str(path)),
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LauncherError(f"tracing took more than {timeout_s} s") from error
        except OSError as error:
            raise LauncherError(f"{python} cannot be started: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        if "ModuleNotFoundError" in last:
            last += "; install headway[train] beside this command"
        raise LauncherError(f"the memory tracer failed: {last}", retryable=False)
    try:
        figures: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise LauncherError("the memory tracer did not answer in JSON") from error
    return figures
