"""Runs the two verbs in this process."""

import json
from typing import Any

from click.testing import CliRunner, Result

from reconciler.cli.commands.advise import advise
from reconciler.cli.commands.estimate import estimate
from reconciler.errors import HeadwayError


def run(line: str) -> Result:
    """Return what ``headway <line>`` prints; the words are split at blanks."""
    verb, *words = line.split()
    return CliRunner().invoke({"estimate": estimate, "advise": advise}[verb], words)


def refusal(line: str) -> HeadwayError:
    """Return the error a command line is refused with."""
    error = run(line).exception
    assert isinstance(error, HeadwayError), error
    return error


def estimated(line: str) -> dict[str, Any]:
    """Return the first estimate of a command line, as JSON has it."""
    result = run(f"{line} -o json")
    document = json.loads(result.output)
    found: dict[str, Any] = document["items"][0]
    return found


def advised(line: str) -> dict[str, Any]:
    """Return the advice of a command line, as JSON has it."""
    found: dict[str, Any] = json.loads(run(f"{line} -o json").output)
    return found
