"""Which headway judged?  A digest that changes whenever a verdict could come out differently."""

from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

_OWN = ("specs", "specs/contract", "domain", "estimating", "estimating/data")
_LIBRARIES = ("hydra_core-", "omegaconf-", "pydantic-", "pydantic_core-", "pyyaml-", "tzdata-")


@lru_cache(maxsize=1)
def judging_version() -> str:
    """Return a digest of the sources that judge and of the libraries' versions."""
    digest = sha256()
    package = Path(__file__).parents[1]
    for folder in _OWN:
        for path in sorted((package / folder).iterdir()):
            if path.suffix in (".py", ".json"):
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update("\n".join(_installed()).encode())
    return digest.hexdigest()


def _installed() -> list[str]:
    """Return the names of the libraries' ``.dist-info`` folders, which hold their versions."""
    found = find_spec("hydra")
    if found is None or found.origin is None:
        return []
    folder = Path(found.origin).parents[1]
    return sorted(
        path.name.lower()
        for path in folder.iterdir()
        if path.name.lower().startswith(_LIBRARIES) and path.name.endswith(".dist-info")
    )
