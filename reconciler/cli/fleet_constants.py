"""Which constants does an estimate rest on?  The shipped ones, refined by this fleet's own runs.

The runs are those of ``.headway/history.json`` on the fetched status branch.  Where there is no
repository, no branch or no finished run, the shipped constants are used, and their origin says so.
"""

from dataclasses import replace

from reconciler.errors import HeadwayError
from reconciler.estimating.constants import Constants
from reconciler.specs.model_catalogue import shipped_constants

NO_RUNS = "no finished run of this fleet is known here"


def fleet_constants(repo: str | None) -> Constants:
    """Return the constants for the repository at ``repo``, ``HEADWAY_REPO`` or here."""
    shipped = shipped_constants()
    text = _history(repo)
    if text is not None:
        from reconciler.snapshots.learned import refined_constants

        try:
            found = refined_constants(text)
        except HeadwayError as error:
            return replace(shipped, origin=f"{shipped.origin}; {error}")
        if found is not shipped:
            return found
    return replace(shipped, origin=f"{shipped.origin}; {NO_RUNS}")


def _history(repo: str | None) -> bytes | None:
    """Return the history file of the only status branch; None where there is none."""
    from reconciler.cli.branch import open_branch
    from reconciler.cli.repository import Repository

    try:
        return open_branch(Repository.find(repo), fetches=False).history
    except HeadwayError:
        return None
