"""The garbage collector, told what is not worth looking through."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept() -> Iterator[None]:
    """What is made inside stays until the process ends: modules, an open file. Nothing of it is ever looked through."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
