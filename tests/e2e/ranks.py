"""Processes that are forks of the test process: they have its imports, which take seconds.

Ranks meet as those of a launcher do.  What a launcher does itself (signals, dead ranks, the exit
code) is no matter of forks: tests of that start ``trainer.launch``.
"""

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.run_requests import events
from trainer.recipes.table import recipe_for
from trainer.run import run
from trainer.stop import SIGNALS, StopFlag

LIMIT_S = 300.0
LEAVE_S = 15.0
"""How long forks may go on after the first of them has ended."""

Variables = dict[str, str]


class StopByFile(StopFlag):
    """Asks for a stop by the file while ``step`` is running, and goes on when that was heard."""

    def __init__(self, run_dir: Path, step: int) -> None:
        self.cause = ""
        self._known = threading.Event()
        self._run_dir = run_dir
        self._step = step

    def set(self, cause: str) -> None:
        self.cause = cause
        self._known.set()

    @property
    def is_set(self) -> bool:  # type: ignore[override]
        # a step reports itself after the ranks have agreed whether to go on
        if not self._known.is_set() and len(events(self._run_dir, "step")) >= self._step - 1:
            (self._run_dir / "stop").touch()
            assert self._known.wait(30), "nobody looks for the file"
        return self._known.is_set()


class Forks:
    """Forks that run one function, each with environment variables of its own."""

    def __init__(
        self, variables: Sequence[Variables], function: Callable[..., Any], *args: Any
    ) -> None:
        context = multiprocessing.get_context("fork")
        self.processes: list[multiprocessing.context.ForkProcess] = []
        self._results: list[Connection] = []
        for each in variables:
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(theirs, each, function, args))
            process.start()
            theirs.close()
            self.processes.append(process)
            self._results.append(ours)

    def wait(self) -> list[Any]:
        """Return what each returned.

        Raises AssertionError where one ended otherwise, or much later than the first.
        """
        returned: dict[int, Any] = {}
        waiting = {id(result): place for place, result in enumerate(self._results)}
        deadline = time.monotonic() + LIMIT_S
        while waiting and (left := deadline - time.monotonic()) > 0:
            for result in wait([each for each in self._results if id(each) in waiting], left):
                assert isinstance(result, Connection)
                place = waiting.pop(id(result))
                try:
                    returned[place] = result.recv()
                except EOFError:
                    sys.stderr.write(f"process {place} has ended without a result\n")
                deadline = min(deadline, time.monotonic() + LEAVE_S)
        missing = sorted(set(range(len(self.processes))) - returned.keys())
        running = sorted(waiting.values())
        assert not missing, f"no result of processes {missing}, of which {running} still run"
        return [returned[place] for place in sorted(returned)]

    def kill(self) -> None:
        """Leave none behind."""
        for process in self.processes:
            process.kill()
            process.join()
        for result in self._results:
            result.close()


@contextmanager
def ranks(count: int, function: Callable[..., Any], *args: Any) -> Iterator[Forks]:
    """Start ``function(*args)`` in ``count`` ranks, and kill what a failed test leaves of them."""
    from torch.distributed import TCPStore

    # held here and not by rank 0, so that no port is looked for and lost before it is taken
    meeting = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    started = Forks([_of_rank(each, count, meeting.port) for each in range(count)], function, *args)
    try:
        yield started
    finally:
        started.kill()


def in_ranks(count: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """Return what ``function(*args)`` returns in each of ``count`` ranks; it must be picklable."""
    with ranks(count, function, *args) as started:
        return started.wait()


def in_fork(function: Callable[..., Any], *args: Any) -> Any:
    """Return what ``function(*args)`` returns in a process of its own; it must be picklable."""
    started = Forks([{}], function, *args)
    try:
        return started.wait()[0]
    finally:
        started.kill()


@contextmanager
def training_ranks(run_dir: Path, *, stop_after: int | None = None) -> Iterator[Forks]:
    """Start the ranks of one attempt; the last asks for a stop during step ``stop_after``."""
    request = json.loads((run_dir / "request.json").read_bytes())  # refused, if at all, by ranks
    recipe_for(request["train"]["task"])  # its libraries, once for all ranks
    with ranks(request["world_size"], _train, run_dir, stop_after) as started:
        yield started


def train_ranks(run_dir: Path, *, stop_after: int | None = None) -> int:
    """Run one attempt to its end and return the exit code that all its ranks agree on."""
    with training_ranks(run_dir, stop_after=stop_after) as started:
        return agreed(started.wait())


def agreed(codes: list[int]) -> int:
    """Return the exit code of all ranks."""
    assert len(set(codes)) == 1, f"the ranks ended with {codes}"
    return codes[0]


def _train(run_dir: Path, stop_after: int | None) -> int:
    is_last = int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1
    by_file = stop_after is not None and is_last
    stop = StopByFile(run_dir, stop_after or 0) if by_file else StopFlag()
    stop.listen()
    return run(run_dir, stop=stop)


def _child(
    result: Connection, variables: Variables, function: Callable[..., Any], args: Sequence[Any]
) -> None:
    """Run the function; nothing that the test process would do at its end is done here."""
    try:
        os.environ.update(variables)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _forget()
        result.send(function(*args))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _forget() -> None:
    """Leave nothing of a training that ran in the test process before."""
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._shared_state.clear()


def _of_rank(rank: int, count: int, port: int) -> Variables:
    """Return the variables that torch's launcher gives a rank."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "forks",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
