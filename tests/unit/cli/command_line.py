"""Runs the command line in this process, at a fixed instant, and catches what it says."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.cli.boundary import main
from reconciler.cli.options import Session
from tests.unit.cli.sample_fleet import NOW


@dataclass(frozen=True, slots=True)
class Said:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Headway = Callable[..., Said]


def in_process(capsys: pytest.CaptureFixture[str], repo: Path | None, now: float = NOW) -> Headway:
    """Return ``headway(*words)``, which reads ``repo`` with Shanghai's clock."""

    def headway(*words: str) -> Said:
        before = ["--repo", str(repo)] if repo else []
        capsys.readouterr()
        code = main([*before, "--tz", "Asia/Shanghai", *words], obj=Session(clock=lambda: now))
        caught = capsys.readouterr()
        return Said(code, caught.out, caught.err)

    return headway
