"""How the process of a command ends."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from symd.model.light_typing import NoReturn


def end(code: int, *, at_once: bool) -> NoReturn:
    """End the process with an exit code. ``at_once``: nobody waits for the end, and to take modules and indexes apart takes as long as to answer thousands."""
    gc.freeze()  # the process gives all its memory back at once: nothing is looked through before
    gc.disable()
    if at_once and not atexit._ncallbacks() and not _has_other_threads():  # noqa: SLF001 - nothing else tells
        if sys.stderr is not None:
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _has_other_threads() -> bool:
    threading = sys.modules.get("threading")  # most who answer a file need no thread, and do not import it
    return threading is not None and threading.active_count() > 1
