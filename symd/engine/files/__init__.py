"""Opening what a user names: files, code object URIs, standard input, modules of a daemon.

Here are messages of a command about the file that it reads: a notice on a terminal when reading takes longer than a
second, hints with the file's name in place of FILE, so that they can be typed, and advice to copy a truncated file
again. And control of the garbage collector: a command allocates, answers and ends, so most of its objects need not be
searched."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from shlex import quote
from threading import Event, Thread
from typing import TextIO

from symd.errors import KernelNotFound, Malformed, ObjectNotFound, SymdError


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Let Python collect nothing inside, and never look later through what was made inside (imported modules, an
    open file): it stays until the process ends."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Let Python collect nothing inside, where of what is made little refers to anything else."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


AFTER_SECONDS, EVERY_SECONDS = 1.0, 0.5
_CLEAR = "\r\x1b[K"
"""The sequence that goes to the beginning of the line and clears it."""


@contextmanager
def working(what: str, stream: TextIO | None = None, after: float = AFTER_SECONDS) -> Iterator[None]:
    """While it lasts, and after the seconds ``after``, a line on standard error says ``what`` is done and for how long;
    it is gone at the end. Nothing is written where that is no terminal."""
    out = stream or sys.stderr
    if not out.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return

    done = Event()
    teller = Thread(target=_tell, args=(what, out, after, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, out: TextIO, after: float, done: Event) -> None:
    if done.wait(after):
        return
    seconds = after
    while True:
        out.write(f"{_CLEAR}symd: {what}, {seconds:.0f} s")
        out.flush()
        if done.wait(EVERY_SECONDS):
            break
        seconds += EVERY_SECONDS
    out.write(_CLEAR)
    out.flush()


WHERE_CUT_OFF = "was the file cut off on its way? Copy or build it again"
_ENDS_EARLY = r"the file ends inside|past (the \w+'s )?\d"
"""How readers say that something would be behind the end."""


_COMMANDS: Mapping[type[SymdError], str] = {
    KernelNotFound: "symd names FILE --kind kernel '*' lists them",
    ObjectNotFound: "symd info FILE lists them",
}
"""What to type after an error that has no hint: errors travel to clients in other languages, commands do not."""


@contextmanager
def hints_name(file: str) -> Iterator[None]:
    """Errors from here say which command helps where they say nothing else, and have ``file`` in the place of FILE
    behind a verb, unless that is standard input, which was read; those about its end say what to do."""
    try:
        yield
    except SymdError as error:
        error.hint = error.hint or _COMMANDS.get(type(error), "")
        if error.hint and file != "-":
            error.hint = _named(error.hint, file)
        elif isinstance(error, Malformed) and _ends_early(error.message):
            error.hint = WHERE_CUT_OFF
        raise


def _named(hint: str, file: str) -> str:
    return re.sub(r"(?<=\bsymd )([a-z]+) FILE\b", lambda found: f"{found[1]} {quote(file)}", hint)


def _ends_early(message: str) -> bool:
    return re.search(_ENDS_EARLY, message) is not None
