"""What does the status branch cost on a fleet of 10,000 jobs?  CPU of this process and of git.

The remote is a bare repository on the same disk, so the server's share of a push is counted too.
"""

import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from reconciler.domain.job import PriorityClass
from reconciler.domain.status import JobPhase, JobStatus, StatusUpdate, Summary
from reconciler.domain.units import CommitId
from reconciler.specs.serialize import status_to_json
from reconciler.store.commit_message import status_message
from reconciler.store.spec_source import SpecSource
from reconciler.store.status_tree import read_status_tree, status_path
from tests.benchmarks.figure import Figure
from tests.git_worlds import START, Reconciler, Remote, a_status, many_jobs

JOBS = 10_000
BATCH = 100
ROUNDS = 9
TEAMS = 40


def figures() -> list[Figure]:
    """Measure on one scratch fleet."""
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as folder:
        remote = Remote(Path(folder) / "remote.git")
        main = remote.commit(many_jobs(JOBS, teams=TEAMS))
        reconciler = Reconciler(remote)
        reconciler.acquire()
        record(reconciler, [a_job(number, 0) for number in range(JOBS)])
        return [*status_figures(reconciler), *submission_figures(remote, reconciler, main)]


def status_figures(reconciler: Reconciler) -> list[Figure]:
    tip = reconciler.store.seen()
    assert tip is not None
    whole_s = cpu_s(lambda: read_status_tree(reconciler.mirror, tip))
    reconciler.store.read(tip)
    writing, reading = [], []
    for round_ in range(1, ROUNDS + 1):
        statuses = [a_job((round_ * BATCH + number) * 97 % JOBS, round_) for number in range(BATCH)]
        writing.append(cpu_s(lambda batch=statuses: record(reconciler, batch)))  # type: ignore[misc]
        new = reconciler.store.seen()
        reading.append(cpu_s(lambda at=new: reconciler.store.read(at)))  # type: ignore[misc]
    idle_s = cpu_s(reconciler.store.fetch)
    return [
        Figure(
            name="status_batch_100_cpu", value=round(median(writing) * 1000, 1), unit="ms CPU",
            target=150, better="lower",
        ),
        Figure(
            name="status_read_10000_cpu", value=round(whole_s, 3), unit="s CPU", target=None,
            better="lower",
        ),
        Figure(
            name="status_read_100_changed_of_10000_cpu", value=round(median(reading) * 1000, 1),
            unit="ms CPU", target=None, better="lower",
        ),
        Figure(
            name="status_fetch_unchanged_cpu", value=round(idle_s * 1000, 1), unit="ms CPU",
            target=None, better="lower",
        ),
    ]  # fmt: skip


def submission_figures(remote: Remote, reconciler: Reconciler, main: CommitId) -> list[Figure]:
    """A first start over 10,000 jobs, a tenth of them edited once; then a push of one job."""
    jobs = list(many_jobs(JOBS, teams=TEAMS).items())
    edited = remote.commit({path: text + "suspend: true\n" for path, text in jobs[::10]})
    tip = remote.commit({"jobs/team-00/one-more.yaml": "api_version: headway/v1\n"})
    source = SpecSource(reconciler.mirror, "origin")
    source.fetch()
    found: dict[str, int] = {}

    def look(name: str, cursor: CommitId | None) -> None:
        found[name] = len(source.submissions_between(cursor, tip))

    first_s = cpu_s(lambda: look("first", None))
    next_s = cpu_s(lambda: look("next", edited))
    if found != {"first": JOBS + 1, "next": 1}:
        raise RuntimeError(f"measured the wrong thing: {found}, main was {main}")
    return [
        Figure(
            name="submissions_first_start_10000_cpu", value=round(first_s, 3), unit="s CPU",
            target=None, better="lower",
        ),
        Figure(
            name="submissions_of_one_push_of_10000_cpu", value=round(next_s * 1000, 1),
            unit="ms CPU", target=None, better="lower",
        ),
    ]  # fmt: skip


def a_job(number: int, round_: int) -> JobStatus:
    """Return a status as long as a real pending one."""
    return a_status(
        f"team-{number % TEAMS:02d}/job-{number:05d}",
        JobPhase.PENDING,
        message="waits for 8 GPUs of type A100-80GB behind team-07/job-00042 and 11 others",
        submission=CommitId(f"{number:040x}"),
        observed_commit=CommitId(f"{number:040x}"),
        lost=round_,
        summary=Summary(
            priority=PriorityClass.P2, gpus=8, gpu_types=("A100-80GB",), model="Qwen/Qwen3-8B",
            submitted_at=START,
        ),
    )  # fmt: skip


def record(reconciler: Reconciler, statuses: list[JobStatus]) -> CommitId:
    """Write one batch as the live loop does: files, message, commit, push."""
    parent = reconciler.store.seen()
    assert parent is not None
    files = {status_path(each.job): status_to_json(each) for each in statuses}
    message = status_message(
        StatusUpdate(changed=tuple(statuses)), epoch=reconciler.lease.epoch, desired=parent
    )
    return reconciler.store.commit(parent, files, message, at=START)


def cpu_s(call: Callable[[], object]) -> float:
    """Return the CPU seconds of ``call``, children and theirs included."""
    before = _spent()
    call()
    return _spent() - before


def _spent() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
