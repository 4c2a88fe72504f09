"""A child dies with its parent, however that ends: nobody else would end one that hangs or is at work."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
"""prctl(2). The signal comes when the *thread* ends that started the child, so that it must be one that stays."""
_SIGKILL: Final = 9
"""signal(7)."""


def die_with(parent: int) -> None:
    """Called in the child: be killed when ``parent``, the process that started it, ends; end at once where it has ended."""
    ctypes.CDLL(None).prctl(ctypes.c_int(_PR_SET_PDEATHSIG), ctypes.c_ulong(_SIGKILL))
    if os.getppid() != parent:
        os._exit(1)
