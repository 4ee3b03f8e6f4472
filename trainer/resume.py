"""Where training goes on: the newest whole checkpoint, or step 0.

Rule kept: what is passed over is said, with the reason; a checkpoint of another global batch is
refused, because its position in the data means something else.
"""

from trainer import checkpoints, processes
from trainer.checkpoints import Checkpoint
from trainer.config import Request, RequestError
from trainer.record import Record


def choose(request: Request, record: Record) -> Checkpoint | None:
    """Return the checkpoint to resume, the same one in every process; None: start at step 0."""
    if request.resume_from is None:
        return None
    # read once: the others would hash the same gigabytes, and might see another newest one
    choice = processes.from_first(
        checkpoints.choose(request.resume_from) if record.rank == 0 else None
    )
    for reason in choice.skipped:
        record.warn(f"checkpoint {reason}")
    found: Checkpoint | None = choice.checkpoint
    if found is None:
        record.warn(f"no whole checkpoint in {request.resume_from}: starting from step 0")
        return None
    if found.global_batch != request.global_batch:
        raise RequestError(
            f"{found.folder} was saved with a global batch of {found.global_batch}, this attempt "
            f"has {request.global_batch}: the position in the data would be lost"
        )
    progress = record.progress
    progress.step = found.step
    progress.samples_seen = found.samples_seen
    progress.last_checkpoint = {"step": found.step, "finished_at": found.finished_at}
    record.event("phase", phase="resuming", from_step=found.step, path=str(found.folder))
    return found
