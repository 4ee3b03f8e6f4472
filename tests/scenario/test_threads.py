"""What people complained about most is shown to be right here, each thread by a scenario.

The threads are public issues of schedulers; a scenario names those it answers (``thread:`` in a
YAML file, the docstring of a test), so that nobody has to believe that one was thought of.
"""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent

THREADS = {
    "kai-scheduler/KAI-Scheduler#1969": "large gangs never land, freed nodes go to small jobs",
    "kai-scheduler/KAI-Scheduler#1987": "who pays for a reservation, and must run times be known?",
    "kai-scheduler/KAI-Scheduler#1970": "an old job starves inside its queue",
    "kubernetes-sigs/kueue#8309": "strict order blocks other kinds, best effort starves gangs",
    "kubernetes-sigs/kueue#9715": "an admissible job deep in the queue is not reached",
    "kubernetes-sigs/kueue#14477": "one job a queue and cycle is looked at",
    "dstackai/dstack#4246": "retries back off with waiting, so priority inverts",
    "kubernetes-sigs/kueue#13662": "victims come back while the preemptor waits for the second",
    "kubernetes-sigs/kueue#3779": "endless preemption with fair sharing in cohorts",
    "kubernetes-sigs/kueue#2821": "endless preempt, admit, preempt with borrowing in a cohort",
    "kubernetes-sigs/kueue#6947": "a job that is not admissible has others stopped for ever",
    "ROCm/spur#888": "a job that cannot be placed stops somebody in every cycle",
    "kubernetes-sigs/kueue#477": "victims are chosen without regard to their last checkpoint",
    "volcano-sh/volcano#5998": "nobody writes down when a checkpoint was made",
    "ray-project/ray#63968": "a preemption wastes all work since the last checkpoint",
    "kubernetes-sigs/kueue#13159": "how long will my job wait?",
    "kubernetes-sigs/kueue#15614": "admission cannot be tried before submitting",
    "kubernetes-sigs/kueue#4580": "people submit an empty job to see whether it would wait",
    "kubernetes-sigs/kueue#7127": "how likely is what I borrowed to be taken back?",
    "fedonman/sqwatch#32": "nobody publishes how good expected starts were",
    "kubernetes-sigs/kueue#5243": "small jobs are stopped on four nodes and the gang still waits",
    "kubernetes-sigs/kueue#28": "no budgets",
    "kubernetes-sigs/kueue#10741": "no reservation for a daily window that reclaims in time",
    "kubernetes-sigs/kueue#8654": "no capacity for a time with a start and an end",
    "roscisz/TensorHive#336": "people reserve for days and forget it",
    "guilbaults/slurm-job-exporter#65": "GPUs that are held and idle are seen nowhere",
}


def named_by() -> dict[str, set[str]]:
    """Return for each thread that is named here which files name it."""
    found: dict[str, set[str]] = {}
    for path in sorted([*HERE.glob("*/*.yaml"), *HERE.glob("test_*.py")]):
        if path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        for thread in re.findall(r"[\w.-]+/[\w.-]+#\d+", text):
            found.setdefault(thread, set()).add(path.name)
    return found


@pytest.mark.parametrize("thread", THREADS)
def test_a_thread_has_a_scenario(thread: str) -> None:
    assert named_by().get(thread), f"no scenario answers {thread}: {THREADS[thread]}"
