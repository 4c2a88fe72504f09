"""The time that a question may take, and its client."""

from __future__ import annotations

import time
from collections.abc import Callable

from symd.config import Limits
from symd.errors import LimitExceeded

MESSAGE_SECONDS = 30.0
"""The longest a call may take to send its message after its headers, or the first message of a stream."""
WRITE_SECONDS = 60.0
"""The longest a client may take to take a message of a stream."""


def deadline_check(limits: Limits) -> Callable[[], None]:
    """What a question that may take long calls between its steps. It raises ``LimitExceeded`` where ``question_seconds`` have passed since now."""
    end = time.monotonic() + limits.question_seconds

    def check() -> None:
        if time.monotonic() > end:
            raise LimitExceeded(
                f"the question takes longer than {limits.question_seconds:g} seconds",
                hint="ask for less: fewer names or modules, a shorter pattern, or one code object; question_seconds may be raised where the daemon is started",
                metadata={"limit": "question_seconds", "value": f"{limits.question_seconds:g}"},
            )

    return check
