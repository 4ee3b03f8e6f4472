"""Where notifications go: named in ``conf/sinks/``, so that a job names a sink and never a URL."""

from dataclasses import dataclass
from enum import StrEnum


class SinkKind(StrEnum):
    FILE = "file"
    """One JSON object a line, appended."""
    HTTP = "http"
    """A signed POST, retried until it is answered with 2xx."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    name: str
    kind: SinkKind
    path: str = ""
    """``file``: where to append; a relative path lies in the reconciler's state folder."""
    url: str = ""
    """``http``: where to post."""
    secret_env: str = ""
    """``http``: the environment variable that holds the signing key; the key is never in git."""
    gets_security_events: bool = False
    """Also told of wildcard, negative and absurd requests that reached main."""
