"""Opening what a user names: files, code object URIs, standard input, modules of a daemon. Meanwhile the garbage
collector stays away: a command allocates, answers and ends, so most of its objects need not be searched."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
