"""Whether anybody still waits for an answer: who asks says how to find out (``waited_for``), and verbs that may take
long check it now and then (``check_wanted``). Threads that a verb starts do not check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


def check_wanted() -> None:
    """Raise what the check of ``waited_for`` raises where nobody waits for the answer any more."""
    check = _check.get()
    if check is not None:
        check()


@contextmanager
def waited_for(check: Callable[[], None]) -> Iterator[None]:
    """Inside, in this thread, verbs call ``check`` now and then; what it raises ends them."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)
