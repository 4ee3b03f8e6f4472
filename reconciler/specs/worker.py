"""The child that composes: ``python -m reconciler.specs.worker``, JSON lines in, JSON lines out.

Hostile input meets Hydra here and nowhere else: memory is limited, no resolver exists, and
``bounded`` kills the process when an answer takes too long.
"""

import json
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from reconciler.specs.codes import Code
from reconciler.specs.compose import Composer, forget_resolvers
from reconciler.specs.composed import ComposeError, GroupFile

MEMORY_BYTES = 1 << 30
CPU_S = 8.0
"""CPU seconds one document may take; a usual one needs 0.03.  Not wall seconds: a document that
passes this bound does so on a quiet machine too, so the verdict can be kept."""


class _TooLong(BaseException):
    """Nothing inside Hydra may swallow it."""


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGVTALRM, _raise_too_long)
    with suppress(ValueError, OSError):  # a system that cannot still has the bound on CPU time
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
        sys.stdout.write(_line(answer))
        sys.stdout.flush()


def _raise_too_long(_signal: int, _frame: object) -> None:
    raise _TooLong


def _answer(composer: Composer, request: dict[str, Any]) -> dict[str, Any]:
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    try:
        composed = composer.compose(request["base"], request["body"], request["overrides"])
        return {"composed": asdict(composed)}
    except ComposeError as error:
        return {"error": asdict(error)}
    except MemoryError:
        return _unbounded(f"{MEMORY_BYTES >> 20} MiB of memory")
    except RecursionError:
        return _unbounded("any depth")
    except Exception as error:  # noqa: BLE001  whatever Hydra meets in one document stays there
        said = f"cannot be composed: {type(error).__name__}: {error}"
        return {"error": asdict(ComposeError(Code.BAD_DEFAULTS, said[:300]))}
    except _TooLong:
        return _unbounded(f"{CPU_S:g} s of CPU time")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _unbounded(bound: str) -> dict[str, Any]:
    error = ComposeError(
        Code.UNBOUNDED,
        f"composition needs more than {bound}",
        hint="use fewer groups and interpolations",
    )
    return {"error": asdict(error)}


def _line(answer: dict[str, Any]) -> str:
    try:
        return json.dumps(answer, allow_nan=False) + "\n"
    except ValueError:
        said = "a value is not a finite number"
        error = ComposeError(Code.BAD_NUMBER, said, hint="write a number")
        return json.dumps({"error": asdict(error)}) + "\n"


if __name__ == "__main__":
    main()
