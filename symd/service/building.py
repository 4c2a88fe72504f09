"""Indexing in processes of their own, so that a large module neither holds up a small question nor takes the daemon with
it: a deadline, a memory limit, and one clear error when a process dies."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final, Self

from symd.child.ending import Ending, Limit
from symd.child.pool import Pool
from symd.child.process import ProcessLimits
from symd.config import Limits
from symd.errors import DeadlineExceeded, LimitExceeded, SymdError, Unavailable

log = logging.getLogger(__name__)
_FUNCTION: Final = "symd.index.module:build_index"


class Workers:
    """Up to ``count`` processes, started when they are first needed and kept. Safe to use from several threads."""

    def __init__(self, count: int = 2) -> None:
        self._pool = Pool(_FUNCTION, count)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes that wait. One that works ends when its work is done."""
        self._pool.close()

    def build(self, data: bytes, limits: Limits) -> bytes:
        """``build_index`` in one of the processes. Raises what that raises; DeadlineExceeded after ``limits.build_seconds``,
        waiting for a free process not counted; LimitExceeded when it needs more than ``limits.build_memory``; Unavailable
        when the process dies or cannot be started."""
        process_limits = ProcessLimits(limits.build_seconds, limits.build_memory, answer=limits.build_memory)
        try:
            built = self._pool.call(data, limits, process_limits)
        except OSError as error:
            raise Unavailable(f"no process to index with could be started: {error.strerror}") from error
        if isinstance(built, Ending):
            raise _death(built, limits)
        return built


def _death(ending: Ending, limits: Limits) -> SymdError:
    if ending.limit is Limit.SECONDS:
        return DeadlineExceeded(
            f"indexing took longer than {limits.build_seconds:g} s", hint="raise the limit build_seconds"
        )
    if ending.limit in (Limit.MEMORY, Limit.ANSWER):
        return LimitExceeded(
            f"indexing takes more than {limits.build_memory} bytes of memory", hint="raise the limit build_memory"
        )
    log.error("a process that indexed %s", ending)
    return Unavailable(f"the process that indexed the module {ending}", hint="try again; its memory may have run out")
