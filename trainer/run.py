"""One attempt from request to result: the only module that knows the order of things.

Rules kept: the exit code is what ``result.json`` says (0 succeeded, 83 stopped after a durable
checkpoint or before anything was lost, 84 diverged, 1 failed); whatever happens, a process that
could read its request leaves a result behind.
"""

import traceback
from pathlib import Path

from trainer import processes
from trainer.config import RequestError, load_request
from trainer.record import Record, refuse, result_of, say
from trainer.stop import StopFlag

EXIT_CODES = {"succeeded": 0, "failed": 1, "stopped": 83, "diverged": 84}


def run(run_dir: Path, *, stop: StopFlag) -> int:
    """Do what ``run_dir`` asks for and return the exit code of this process."""
    try:
        request = load_request(run_dir)
    except RequestError as error:
        return _refuse(run_dir, error)
    if (ended := result_of(run_dir)) is not None:
        say(f"{run_dir} has already ended: {ended.get('outcome')}; a new try needs a new folder")
        return EXIT_CODES["failed"]
    processes.keep_to_devices(request)
    record = Record(request, rank=processes.rank(), on_stop_file=lambda: stop.set("the file stop"))
    record.start()
    try:
        processes.check_world_size(request, processes.launched_world_size())
        from trainer.training import train

        outcome = train(request, record, stop)
        record.close()
        if record.rank == 0:
            record.finish(**outcome)
        processes.part()
    except BaseException as error:
        record.close()
        _fail(record, error)
        if not isinstance(error, Exception):
            raise
    result = result_of(run_dir) or {}
    return EXIT_CODES.get(str(result.get("outcome")), EXIT_CODES["failed"])


def _refuse(run_dir: Path, error: RequestError) -> int:
    """Write a result for a request that was read but not accepted."""
    say(str(error))
    refuse(run_dir, message=str(error))
    return EXIT_CODES["failed"]


def _fail(record: Record, error: BaseException) -> None:
    if isinstance(error, RequestError):
        record.finish(outcome="failed", reason="invalid_request", message=str(error))
        return
    if not isinstance(error, KeyboardInterrupt):
        traceback.print_exception(error)
    record.finish(
        outcome="failed",
        reason=_reason(error),
        message=f"rank {record.rank}: {type(error).__name__}: {error}",
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "out_of_memory"
    return "error"
