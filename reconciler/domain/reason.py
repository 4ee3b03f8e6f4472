"""Why something was decided: a closed list, each with prose in ``docs/reasons.md``.

A test fails for a reason without prose, and for one that no scenario reaches.
"""

from enum import StrEnum


class Reason(StrEnum):
    """snake_case, stable for ever: people search for these in ``git log``."""

    # Start
    GPUS_FREE = "gpus_free"
    GPUS_FREED_BY_VICTIM = "gpus_freed_by_victim"
    # Wait
    GPUS_BUSY = "gpus_busy"
    NODES_UNAVAILABLE = "nodes_unavailable"
    BEHIND_HIGHER_RANK = "behind_higher_rank"
    PREEMPTING = "preempting"
    BETTER_PLACE_SOON = "better_place_soon"
    QUOTA_EXCEEDED = "quota_exceeded"
    BUDGET_EXCEEDED = "budget_exceeded"
    GPUS_RESERVED = "gpus_reserved"
    RACK_POWER = "rack_power"
    RESERVATION_PLANNED = "reservation_planned"
    DEPENDENCY_RUNNING = "dependency_running"
    DEPENDENCY_FAILED = "dependency_failed"
    RETRY_BACKOFF = "retry_backoff"
    HISTORY_REWRITTEN = "history_rewritten"
    NEVER_FITS = "never_fits"
    LOST_TOO_OFTEN = "lost_too_often"
    # Keep
    RUNS = "runs"
    LAUNCH_ASKED_AGAIN = "launch_asked_again"
    STOPPING = "stopping"
    LAUNCHER_SILENT = "launcher_silent"
    SPEC_INVALID_KEEPS_RUNNING = "spec_invalid_keeps_running"
    DELETION_GRACE = "deletion_grace"
    PRUNE_BLOCKED = "prune_blocked"
    ALREADY_FINISHED = "already_finished"
    # Preempt
    FREED_FOR_PREEMPTOR = "freed_for_preemptor"
    # Suspend
    SUSPEND_ASKED = "suspend_asked"
    NODE_DRAINING = "node_draining"
    RESERVATION_STARTS = "reservation_starts"
    # Cancel
    FILE_DELETED = "file_deleted"
    NEW_SUBMISSION = "new_submission"
    # Finish
    COMPLETED = "completed"
    COMMAND_FAILED = "command_failed"
    KILLED_BY_SIGNAL = "killed_by_signal"
    NO_COMPLETION_RECORD = "no_completion_record"
    TIME_LIMIT = "time_limit"
    GPU_HOURS_LIMIT = "gpu_hours_limit"
    NON_FINITE_LOSS = "non_finite_loss"
    ATTEMPT_LOST = "attempt_lost"
    # Reject
    SPEC_INVALID = "spec_invalid"
    WILDCARD_REQUEST = "wildcard_request"
    # Reservations: Book, Release, Close, Refuse (Open says reservation_starts)
    WINDOW_FREE = "window_free"
    WINDOW_MOVED = "window_moved"
    WINDOW_TAKEN = "window_taken"
    WINDOW_BLOCKED = "window_blocked"
    WINDOW_PAST = "window_past"
    RESERVATION_IDLE = "reservation_idle"
    RESERVATION_OVER = "reservation_over"
    RESERVATION_CHANGED = "reservation_changed"
