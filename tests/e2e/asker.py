"""A process that has trained nothing: it loads what a training left, and predicts with it.

``python -m tests.e2e.asker`` reads one JSON list a line from standard input, a program and its
arguments, and writes one JSON list a line: exit code, what it said, and how it failed.  One process
is asked many times, because its start costs more than a small training.
"""

import contextlib
import io
import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]


class Asker:
    """Starts the process when it is first asked, and ends it with its ``with`` block."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()  # its input ends, and with it the process

    def ask(self, program: str, *arguments: str) -> str:
        """Return what the program said; raise ``RuntimeError`` with how it failed."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.asker"],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([program, *arguments]) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with {process.wait()}")
        code, said, failed = json.loads(line)
        if code != 0:
            raise RuntimeError(failed)
        return str(said).strip()


def loss(arguments: list[str]) -> int:
    """Print a language model's mean loss per token on the texts of a sample: WEIGHTS SAMPLE."""
    import torch

    from trainer.answer import load

    weights, sample = arguments
    model, tokenizer = load(weights)
    path = REPOSITORY / "trainer" / "sample_data" / f"{sample}.jsonl"
    losses = []
    for line in path.read_text(encoding="utf-8").splitlines():
        ids = tokenizer(json.loads(line)["text"], return_tensors="pt")["input_ids"]
        with torch.no_grad():
            losses.append(float(model(input_ids=ids, labels=ids, use_cache=False).loss))
    print(sum(losses) / len(losses))
    return 0


def run(program: str, arguments: list[str]) -> int:
    """Run one program in this process and return its exit code."""
    from trainer import answer, score

    programs: dict[str, Any] = {"answer": answer.main, "score": score.main, "loss": loss}
    code: int = programs[program](arguments)
    return code


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        program, *arguments = json.loads(line)
        said, failed = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(failed):
            try:
                code = run(program, arguments)
            except Exception:
                code = 1
                traceback.print_exc()
        print(json.dumps([code, said.getvalue(), failed.getvalue()[-2000:]]), flush=True)


if __name__ == "__main__":
    main()
