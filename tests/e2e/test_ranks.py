"""The forks that stand in for ranks: each is one, and what goes wrong in one is not overlooked."""

import os
import time

import pytest

from tests.e2e import ranks
from tests.e2e.ranks import in_ranks

pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_each_is_a_rank_and_the_test_process_is_none() -> None:
    def met() -> tuple[int, int, int]:
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        total = torch.tensor([dist.get_rank() + 1])
        dist.all_reduce(total)
        return dist.get_rank(), int(total), os.getppid()

    assert in_ranks(3, met) == [(rank, 6, os.getpid()) for rank in range(3)]
    assert "RANK" not in os.environ


def test_a_rank_that_fails_or_stays_fails_the_test_and_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ranks, "LEAVE_S", 0.5)

    def first_fails() -> None:
        if os.environ["RANK"] == "0":
            raise ValueError("no room")
        time.sleep(60)

    with ranks.ranks(2, first_fails) as started:
        with pytest.raises(AssertionError, match=r"no result of processes \[0, 1\]"):
            started.wait()
        assert started.processes[1].is_alive()

    assert [process.is_alive() for process in started.processes] == [False, False]
    assert "ValueError: no room" in capfd.readouterr().err
