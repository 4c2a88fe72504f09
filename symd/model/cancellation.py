"""The cancellation of a question that nobody waits for any more: who asks says how to find out (``cancelled_by``), and
verbs that may take long look now and then (``check_cancelled``). Threads that a verb starts do not look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


def check_cancelled() -> None:
    """Raise what the check of ``cancelled_by`` raises where nobody waits for the answer any more."""
    check = _check.get()
    if check is not None:
        check()


@contextmanager
def cancelled_by(check: Callable[[], None]) -> Iterator[None]:
    """Inside, in this thread, verbs call ``check`` now and then; what it raises ends them."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)
