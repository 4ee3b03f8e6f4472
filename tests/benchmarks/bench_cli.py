"""What a look at the queue costs, from a cold process: git, Python and all."""

import tempfile
from pathlib import Path

from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase
from reconciler.specs.serialize import status_to_json
from tests.benchmarks.figure import PYTHON, Figure, cpu_seconds
from tests.unit.cli.sample_fleet import CLUSTER, a_bare_repository, a_status, write_branch

ROUNDS = 7
MANY = 2_000


def figures() -> list[Figure]:
    """Return the CPU seconds of ``headway queue`` on a small fleet and on one of 2,000 jobs."""
    with tempfile.TemporaryDirectory() as folder:
        small = a_bare_repository(Path(folder))
        small_s = _median_s(small)
        _add_jobs(small)
        large_s = _median_s(small)
    return [
        Figure(name="cli_queue_start", value=small_s, unit="s CPU", target=0.3, better="lower"),
        Figure(
            name="cli_queue_2000_jobs", value=large_s, unit="s CPU", target=None, better="lower"
        ),
    ]


def _median_s(repo: Path) -> float:
    command = [PYTHON, "-m", "reconciler.cli.boundary", "--repo", str(repo), "-q", "queue"]
    spent = sorted(cpu_seconds(command)[0] for _ in range(ROUNDS))
    return spent[ROUNDS // 2]


def _add_jobs(repo: Path) -> None:
    jobs = [f"team-{number % 20}/job-{number}" for number in range(MANY)]
    write_branch(
        repo,
        {
            f"status/{job}.json": status_to_json(
                a_status(job, JobPhase.PENDING, Reason.GPUS_BUSY, message="8 wanted, 3 free")
            )
            for job in jobs
        },
        ref=f"refs/heads/status/{CLUSTER}",
    )
