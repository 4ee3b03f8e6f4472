"""The errors headway raises, sorted by who must act.

A person's mistake in a document is a :class:`reconciler.domain.problem.SpecProblem`, a value,
not an exception; "not now" is a Decision with a Reason.  What is left: the world failed, someone
else was first, or we have a bug.  Exit codes are the table of ``docs/cli.md``.
"""


class HeadwayError(Exception):
    """Base of all; ``exit_code`` is what the command line returns for it."""

    exit_code = 70


class UsageError(HeadwayError):
    """The command was called in a way that makes no sense.  Say what to type instead."""

    exit_code = 64


class NotFoundError(HeadwayError):
    """A named thing does not exist."""

    exit_code = 3


class StaleRevisionError(HeadwayError):
    """Somebody else wrote first.  Drop what was planned, read again, plan again."""

    exit_code = 4


class DeposedError(HeadwayError):
    """Another reconciler holds the lease: this one must stop acting."""

    exit_code = 75


class BackendError(HeadwayError):
    """git, Slurm or a device did not answer.  ``retryable`` says whether waiting can help."""

    exit_code = 5

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class GitError(BackendError):
    """A git command failed, timed out or answered something unexpected."""


class LauncherError(BackendError):
    """A launcher could not do what it was asked."""


class InvariantError(HeadwayError):
    """Our own bug: a plan broke a rule.  Nothing was recorded or acted on."""

    exit_code = 70
