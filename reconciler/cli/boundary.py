"""The one error boundary: every way a command can end, as a message and an exit code.

The codes are the table of ``docs/cli.md``.  A person's or the world's mistake is one clear
message on stderr; our own bug is a report file and exit code 70; a reader that went away
(``headway queue | head``) is silence.
"""

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from reconciler.errors import HeadwayError

EXIT_USAGE = 64
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_READER_LEFT = 141
"""128 + SIGPIPE, as a shell shows it for every program whose reader left."""
NAMES = ("headway", "hw")


def main(argv: Sequence[str] | None = None, *, obj: object = None) -> int:
    """Run the command line and return its exit code; nothing is raised."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(arguments, obj)
    except BrokenPipeError:
        return _reader_left()
    finally:
        if argv is None:  # the process ends now: walking ten thousand specs frees nothing
            gc.freeze()


def _run(arguments: Sequence[str], obj: object) -> int:
    from reconciler.cli.main import run

    try:
        code = run(arguments, prog_name=_prog_name(), obj=obj)
        sys.stdout.flush()
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.UsageError as mistake:
        return _usage(mistake)
    except click.ClickException as mistake:
        return _say(mistake.format_message(), EXIT_USAGE)
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        raise
    except HeadwayError as error:
        if error.exit_code == EXIT_BUG:
            return _bug(error, arguments)
        return _say(str(error), error.exit_code)
    except Exception as error:  # noqa: BLE001  this is the boundary: nothing may pass it
        return _bug(error, arguments)
    return code


def _prog_name() -> str:
    name = Path(sys.argv[0]).name if sys.argv else ""
    return name if name in NAMES else NAMES[0]


def _usage(mistake: click.UsageError) -> int:
    where = mistake.ctx.command_path if mistake.ctx else NAMES[0]
    click.echo(f"{where}: {mistake.format_message()}", err=True)
    if mistake.ctx is not None:
        click.echo(mistake.ctx.get_usage(), err=True)
        click.echo(f"See `{where} --help`.", err=True)
    return EXIT_USAGE


def _say(message: str, code: int) -> int:
    click.echo(f"{NAMES[0]}: {message}", err=True)
    return code


def _bug(error: BaseException, arguments: Sequence[str]) -> int:
    from reconciler.cli.report import hide, write_report

    said = hide(f"{type(error).__name__}: {error}".strip().rstrip(":"))
    path = write_report(error, [NAMES[0], *arguments])
    if path is None:
        import traceback

        click.echo(hide("".join(traceback.format_exception(error))), err=True)
        where = "No report file could be written; the traceback is above."
    else:
        where = f"The report is in {path}: please send it to who runs headway here."
    return _say(f"this is a bug in headway: {said}\n{where}", EXIT_BUG)


def _reader_left() -> int:
    """Point stdout at nothing, so that the interpreter's last flush is silent too."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = None
    return EXIT_READER_LEFT


if __name__ == "__main__":
    sys.exit(main())
