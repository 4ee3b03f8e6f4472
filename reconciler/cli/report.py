"""The report a bug leaves behind: enough for someone else to find it, and no secrets.

One text file in the user's state folder (the temporary folder where that cannot be written),
readable by the user alone.
"""

import os
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from reconciler.cli.commands.version import installed_version

_SECRET_OPTION = re.compile(
    r"(--?[\w-]*(?:token|secret|password|passwd|key|credential)[\w-]*)", re.I
)
_IN_URL = re.compile(r"([a-z][a-z0-9+.-]*://)[^/\s@]+@", re.I)
_ASSIGNED = re.compile(r"((?:token|secret|password|passwd|api_?key)\w*\s*[=:]\s*)[^\s,;'\"]+", re.I)
HIDDEN = "***"


def hide(text: str) -> str:
    """Return ``text`` without the credentials of URLs and without assigned secrets."""
    return _ASSIGNED.sub(rf"\1{HIDDEN}", _IN_URL.sub(rf"\1{HIDDEN}@", text))


def hide_arguments(argv: Sequence[str]) -> list[str]:
    """Return ``argv`` with the values of secret-looking options, and of URLs, hidden."""
    shown, hides_next = [], False
    for argument in argv:
        name, equals, _ = argument.partition("=")
        if hides_next:
            shown.append(HIDDEN)
            hides_next = False
        elif _SECRET_OPTION.fullmatch(name):
            shown.append(f"{name}={HIDDEN}" if equals else name)
            hides_next = not equals
        else:
            shown.append(hide(argument))
    return shown


def write_report(error: BaseException, argv: Sequence[str]) -> Path | None:
    """Write the report and return its path; None where no folder can be written."""
    now = datetime.now(UTC)
    text = "\n".join(
        (
            f"headway {installed_version()}, report of {now:%Y-%m-%dT%H:%M:%SZ}",
            f"python {sys.version.split()[0]} on {platform.platform()}",
            f"command: {' '.join(hide_arguments(argv))}",
            "",
            hide("".join(traceback.format_exception(error))),
        )
    )
    name = f"report-{now:%Y%m%dT%H%M%S}-{os.getpid()}.txt"
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = folder / name
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            continue
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        return path
    return None


def _folders() -> tuple[Path, ...]:
    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state else Path("~").expanduser() / ".local" / "state"
    return home / "headway", Path(tempfile.gettempdir()) / f"headway-{os.getuid()}"
