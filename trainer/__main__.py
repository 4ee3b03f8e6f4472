"""``python -m trainer RUN_DIR``: one process of an attempt."""

import argparse
import sys
from pathlib import Path

from trainer.run import run
from trainer.stop import StopFlag


def main(argv: list[str] | None = None) -> int:
    """Run the attempt in ``RUN_DIR`` and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer",
        description="Train what RUN_DIR/request.json asks for. "
        "Exit code: 0 succeeded, 83 stopped after a checkpoint, 84 diverged, 1 failed.",
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    options = parser.parse_args(argv)
    stop = StopFlag()
    stop.listen()  # first of all: a stop during the imports below must not kill the process
    return run(options.run_dir.resolve(), stop=stop)


if __name__ == "__main__":
    sys.exit(main())
