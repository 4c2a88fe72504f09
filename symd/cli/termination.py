"""A signal that asks a command to end ends it as Ctrl-C does: what the command made for itself goes first.

How the process of a command ends.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn


def end(code: int, *, at_once: bool) -> NoReturn:
    """End the process with an exit code. ``at_once``: nobody waits for the end, and to take modules and indexes
    apart takes as long as to answer thousands."""
    gc.freeze()  # the process gives all its memory back at once: nothing is looked through before
    gc.disable()
    if at_once and not atexit._ncallbacks() and not _has_other_threads():  # noqa: SLF001 - nothing else tells
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _has_other_threads() -> bool:
    threading = sys.modules.get("threading")  # most who answer a file need no thread, and do not import it
    return threading is not None and threading.active_count() > 1


_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP)
AWAKE_SECONDS: Final = 1.0
"""How long a command that lasts waits at a time. The system may hand a signal to another thread, or to the main one just before that begins to
wait: what Python does about the signal is done when the main thread runs again."""


class Terminated(SystemExit):
    """The signal of this number came. Event loops let a ``SystemExit`` through."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Raises ``Terminated`` inside where such a signal comes that nobody else handles, and ends the process of that signal then. A second one
    ends it at once. For the main thread."""
    process = os.getpid()

    def end(number: int, _frame: object) -> None:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
        if os.getpid() == process:
            raise Terminated(number)
        os.kill(os.getpid(), number)  # a process that was forked meanwhile has made nothing

    taken = [number for number in _ENDINGS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    except Terminated as terminated:
        atexit._run_exitfuncs()  # noqa: SLF001 - a signal runs none
        os.kill(process, terminated.number)
        raise
