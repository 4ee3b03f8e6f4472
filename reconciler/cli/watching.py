"""The same screen again and again: repainted on a terminal, added to a pipe when it changed.

A remote that does not answer for a while is a warning; the watch goes on until it is interrupted.
"""

from collections.abc import Callable
from time import sleep

from reconciler.cli.options import View
from reconciler.errors import BackendError

LOOK_EVERY_S = 2.0
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def watch(view: View, show: Callable[[View], str], *, is_screen: bool) -> None:
    """Print what ``show`` makes of the newest state until the person interrupts.

    ``is_screen``: on a terminal each look takes the place of the one before.
    """
    repaints = is_screen and view.terminal.width is not None
    last = ""
    if repaints:
        view.say("\x1b[2J", steers=True)
    while True:
        if repaints:
            lines = "".join(f"{line}{_REST_OF_LINE}\n" for line in show(view).splitlines())
            view.say(f"{_HOME}{lines}{_REST_OF_SCREEN}", steers=True)
        elif view.branch.ref.commit != last:
            view.say(show(view))
        last = view.branch.ref.commit
        sleep(LOOK_EVERY_S)
        try:
            view = view.again()
        except BackendError as error:
            view.note(f"warning: {error}")
