"""How long a thread of the daemon runs Python before it lets another one (sys.setswitchinterval)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 0.0005
"""A question about one address takes the event loop and gRPC's thread a few turns, and each of them may have to wait for every thread of
a work queue's thread that is at work. With the interpreter's 5 ms that was half a second beside eight of them."""


@contextmanager
def frequent_thread_switches() -> Iterator[None]:
    """Let threads take turns every ``SECONDS``."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
