"""The child that composes: ``python -m reconciler.specs.worker``, JSON lines in, JSON lines out.

Hostile input meets Hydra here and nowhere else: memory is limited, no resolver exists, and
``bounded`` kills the process when an answer takes too long.
"""

import json
import resource
import sys
from dataclasses import asdict
from typing import Any

from reconciler.specs.codes import Code
from reconciler.specs.compose import Composer, forget_resolvers
from reconciler.specs.composed import ComposeError, GroupFile

MEMORY_BYTES = 1 << 30


def main() -> None:
    """Answer requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    forget_resolvers()
    composers: dict[str, Composer] = {}
    for line in sys.stdin:
        request = json.loads(line)
        root = request["root"]
        if "files" in request:
            files = {path: GroupFile(*row) for path, row in request["files"].items()}
            composers[root] = Composer(files, root)
            answer: dict[str, Any] = {"ready": True}
        else:
            answer = _answer(composers[root], request)
        sys.stdout.write(json.dumps(answer, allow_nan=False) + "\n")
        sys.stdout.flush()


def _answer(composer: Composer, request: dict[str, Any]) -> dict[str, Any]:
    try:
        composed = composer.compose(request["base"], request["body"], request["overrides"])
    except ComposeError as error:
        return {"error": asdict(error)}
    except (MemoryError, RecursionError) as error:
        limit = f"{MEMORY_BYTES >> 20} MiB" if isinstance(error, MemoryError) else "its depth"
        return {
            "error": asdict(ComposeError(Code.UNBOUNDED, f"composition needs more than {limit}"))
        }
    return {"composed": asdict(composed)}


if __name__ == "__main__":
    main()
