"""``python -m trainer.launch RUN_DIR``: all processes of an attempt on this machine.

What launchers of others get wrong, and this one does not: a stop signal reaches every rank, the
ranks get the request's whole grace before they are killed, the exit code is the outcome of the
training and never the launcher's own, and as many processes run as the request says.

One process is not launched but becomes this one, so nothing stands between it and its signals.
Several run under torch's elastic agent, which leads each in its own process group.
"""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.config import Request, RequestError, load_request
from trainer.processes import keep_to_devices
from trainer.record import refuse, result_of, say
from trainer.run import EXIT_CODES
from trainer.stop import SIGNALS

LEAST_GRACE_S = 30
MARGIN_S = 15
"""Longer than the request's grace: whoever asked for the stop does the killing, not the agent."""


def main(argv: list[str] | None = None) -> int:
    """Launch the attempt and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer.launch", description=__doc__)
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    run_dir = parser.parse_args(argv).run_dir.resolve()
    for number in SIGNALS:  # until someone listens who can do more, some seconds from now
        signal.signal(number, lambda *_: (run_dir / "stop").touch())
    try:
        request = load_request(run_dir)
    except RequestError as error:
        say(str(error))
        refuse(run_dir, message=str(error))
        return EXIT_CODES["failed"]
    if request.world_size == 1:
        # kept back until the trainer can hear them, so that none of them kills it by default
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        os.execv(  # noqa: S606  (our own interpreter, no shell)
            sys.executable, [sys.executable, "-m", "trainer", str(run_dir)]
        )
    return launch(request)


def launch(request: Request) -> int:
    """Run every rank to its end and return the exit code of the attempt."""
    keep_to_devices(request)
    logging.disable(logging.ERROR)  # the agent calls every exit code but 0 an error
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    configuration, command, arguments = _elastic(request)
    failures: dict[int, Any] = {}
    heard = None
    try:
        elastic_launch(configuration, entrypoint=command)(*arguments)
    except ChildFailedError as error:
        failures = error.failures
    except SignalException as error:
        heard = error.sigval.name
    return exit_code(request, failures, heard)


def _elastic(request: Request) -> Any:
    from torch.distributed.run import config_from_args, get_args_parser

    timeout_s = max(request.grace_s, LEAST_GRACE_S) + MARGIN_S
    return config_from_args(
        get_args_parser().parse_args(
            [
                "--nnodes=1",
                f"--nproc-per-node={request.world_size}",
                "--rdzv-backend=c10d",
                "--rdzv-endpoint=127.0.0.1:0",
                "--local-addr=127.0.0.1",  # not the host's name, which may not resolve
                "--max-restarts=0",
                "--signals-to-handle=SIGTERM,SIGINT,SIGUSR1",
                f"--shutdown-timeout={timeout_s}",
                "--module",
                "trainer",
                str(request.run_dir),
            ]
        )
    )


def exit_code(request: Request, failures: Mapping[int, Any], heard: str | None) -> int:
    """Return the code of the result, unless a rank ended otherwise than the result says."""
    result = result_of(request.run_dir)
    if result is None:
        say(f"the trainer left no result: {_ends(failures) or heard or 'no rank failed'}")
        return EXIT_CODES["failed"]
    code = EXIT_CODES[result["outcome"]]
    # once the first rank has left, the agent ends the others with SIGTERM (-15)
    strange = {rank: end for rank, end in failures.items() if end.exitcode not in (code, -15)}
    if code != EXIT_CODES["failed"] and strange:
        say(f"the result says {result['outcome']}, but {_ends(strange)}")
        return EXIT_CODES["failed"]
    return code


def _ends(failures: Mapping[int, Any]) -> str:
    return ", ".join(
        f"rank {rank} ended with {end.exitcode if end.exitcode >= 0 else end.signal_name()}"
        for rank, end in sorted(failures.items())
    )


if __name__ == "__main__":
    sys.exit(main())
