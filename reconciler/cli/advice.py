"""What a person can do about a reason, in one sentence; empty where waiting is all there is."""

from collections.abc import Mapping

from reconciler.domain.reason import Reason
from reconciler.domain.status import JobStatus

_ADVICE: Mapping[Reason, str] = {
    Reason.DEPENDENCY_FAILED: (
        "run that job again (raise its `generation`), or take it out of `after:` in {file}"
    ),
    Reason.NEVER_FITS: "ask for fewer GPUs, another type or a wider `within` in {file}",
    Reason.LOST_TOO_OFTEN: (
        "look at the nodes it ran on, then raise `generation` in {file} to let it try again"
    ),
    Reason.HISTORY_REWRITTEN: (
        "an operator looks at main and accepts it: `headway reconcile --accept-history COMMIT`"
    ),
    Reason.SPEC_INVALID: "correct it: `headway validate {file}` names every mistake",
    Reason.SPEC_INVALID_KEEPS_RUNNING: "correct it: `headway validate {file}` names every mistake",
    Reason.WILDCARD_REQUEST: "write the number of GPUs it needs in {file}",
    Reason.SUSPEND_ASKED: "set `suspend: false` in {file}",
    Reason.DELETION_GRACE: (
        "nothing, if it is meant to end; {file} put back now is a new submission, from step 0"
    ),
    Reason.PRUNE_BLOCKED: (
        "put {file} back, or an admin commits to main with the trailer `Headway-Allow-Prune: N`"
    ),
    Reason.COMMAND_FAILED: (
        "read `headway logs {job} --stderr`; to run it again, raise `generation` in {file}"
    ),
    Reason.KILLED_BY_SIGNAL: (
        "read `headway logs {job} --stderr`; to run it again, raise `generation` in {file}"
    ),
    Reason.NO_COMPLETION_RECORD: (
        "read `headway logs {job} --stderr`; to run it again, raise `generation` in {file}"
    ),
    Reason.TIME_LIMIT: (
        "raise `time.limit` and `generation` in {file}; "
        "`train.init_from` starts from its last checkpoint"
    ),
    Reason.NON_FINITE_LOSS: (
        "lower the learning rate or look at the data, then raise `generation` in {file}"
    ),
    Reason.ALREADY_FINISHED: "raise `generation` in {file} to run it again",
    Reason.NODES_UNAVAILABLE: "an operator makes the nodes ready again",
    Reason.LAUNCHER_SILENT: "an operator looks at the launcher; the job itself may be well",
}


def advice(status: JobStatus) -> str:
    """Return what to do about where the job stands; empty where there is nothing to do."""
    text = _ADVICE.get(status.reason, "")
    return text.format(job=status.job, file=f"jobs/{status.job}.yaml")
