"""How is a remote read and written?  Explicit refs only, and every push is a compare-and-swap.

The push is the lock: it moves a ref only from the commit its writer planned on.  Forges word a
lost race in many ways, so no wording is trusted for it: after any refusal the remote is asked what
it holds.  It moved: somebody else was first.  It did not, and it names a hook, a protection or a
permission: a person must act.  Else it was busy, which also means to read and plan again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.domain.units import CommitId
from reconciler.errors import GitError, StaleRevisionError
from reconciler.store.git.command import NETWORK_TIMEOUT_S, Completed, failure, full_id, git

NEEDS_A_PERSON = (
    "authentication failed", "could not read username", "could not read password",
    "permission denied", "access denied", "not authorized", "unauthorized", "forbidden",
    "returned error: 401", "returned error: 403", "host key verification failed", "read-only",
    "repository not found", "insufficient permission", "protocol 'ext' not supported",
    "transport 'ext' not allowed", "dubious ownership",
)  # fmt: skip
"""What remotes say, in lower case, when waiting cannot help."""

REFUSALS = (
    "hook declined", "protected branch", "denied", "deny", "not allowed", "not permitted",
    "prohibited", "refusing", "disabled", "unpacker error",
)  # fmt: skip
"""The same for a push whose ref did not move; anything else is taken for a ref that was busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefUpdate:
    """Move ``ref`` of the remote from ``old`` to ``new``; None means that it does not exist."""

    ref: str
    old: CommitId | None
    new: CommitId | None


def fetch_ref(repo: Path, remote: str, ref: str, into: str) -> CommitId | None:
    """Fetch one ref of the remote into the local ref ``into`` and return where it points.

    None: the remote answers and has no such ref; ``into`` is deleted then.  The local ref
    follows the remote wherever it went; whether that was forward is the caller's question.
    Raises ``GitError``, retryable where the remote did not answer.
    """
    fetched = git(
        repo, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc",
        "--refmap=", "--end-of-options", remote, f"+{ref}:{into}",
        ok=None, timeout_s=NETWORK_TIMEOUT_S,
    )  # fmt: skip
    if fetched.returncode == 0:
        return full_id(git(repo, "rev-parse", "--verify", "--end-of-options", into).text)
    if fetched.returncode == 128 and remote_ref(repo, remote, ref) is None:
        git(repo, "update-ref", "-d", into)
        return None
    raise _failed(repo, "fetch", fetched)


def remote_ref(repo: Path, remote: str, ref: str) -> CommitId | None:
    """Return where ``ref`` of the remote points; None where there is none.  Raises ``GitError``."""
    return remote_refs(repo, remote, ref).get(ref)


def remote_refs(repo: Path, remote: str, *patterns: str) -> dict[str, CommitId]:
    """Return the remote's refs that match, sorted by name, asking once.  Raises ``GitError``."""
    listed = git(
        repo, "ls-remote", "--quiet", "--end-of-options", remote, *patterns,
        ok=None, timeout_s=NETWORK_TIMEOUT_S,
    )  # fmt: skip
    if listed.returncode != 0:
        raise _failed(repo, "ls-remote", listed)
    lines = (line.partition("\t") for line in listed.text.splitlines())
    return {name: full_id(oid) for oid, _, name in sorted(lines, key=lambda line: line[2])}


def push(repo: Path, remote: str, updates: Sequence[RefUpdate]) -> None:
    """Move all refs or none, each only from its ``old``.

    Raises ``StaleRevisionError`` when the remote holds something else than ``old``: read again
    and plan again, nothing may be pushed a second time.  Raises ``GitError`` when the remote
    refuses for another reason (a hook, a protected branch, no permission) or does not answer.
    """
    words = ["push", "--porcelain", "--no-verify", "--no-follow-tags", "--atomic"]
    words += [f"--force-with-lease={each.ref}:{each.old or ''}" for each in updates]
    refspecs = [f"{each.new or ''}:{each.ref}" for each in updates]
    done = git(
        repo, *words, "--end-of-options", remote, *refspecs, ok=None, timeout_s=NETWORK_TIMEOUT_S
    )
    if done.returncode == 0:
        return
    refused = [line for line in done.text.splitlines() if line.startswith("!")]
    if not refused:
        raise _failed(repo, "push", done)
    for each in updates:
        held = remote_ref(repo, remote, each.ref)
        if held != each.old:
            raise StaleRevisionError(
                f"{each.ref} was expected at {each.old or 'nothing'} and is at "
                f"{held or 'nothing'}: somebody else wrote first"
            )
    raise _refused(updates[0].ref, refused[0].split("\t")[-1], done.stderr)


def _refused(ref: str, reason: str, stderr: str) -> GitError | StaleRevisionError:
    """Tell a remote that does not let us write from one that was only busy with the ref."""
    said = "; ".join(line[7:].strip() for line in stderr.splitlines() if line.startswith("remote:"))
    words = f"{reason} ({said[:400]})" if said else reason
    if any(word in words.lower() for word in (*REFUSALS, *NEEDS_A_PERSON)):
        return GitError(
            f"git push: the remote refuses {ref}: {words}. headway writes status before it acts, "
            "so nothing starts until this account may push",
            retryable=False,
        )
    return StaleRevisionError(f"{ref} could not be moved now: {words}")


def _failed(repo: Path, command: str, done: Completed) -> GitError:
    said = done.stderr.lower()
    return GitError(
        failure(repo, command, done),
        retryable=not any(words in said for words in NEEDS_A_PERSON),
    )
