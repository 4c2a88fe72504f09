"""How a child process ended: by which limit, of which signal, or with which exit status."""

from __future__ import annotations

import enum
import signal
from dataclasses import dataclass


class Limit(enum.Enum):
    """What a child had too much of; the names are those of the fields of ``ProcessLimits``."""

    SECONDS = "seconds"
    """The clock: this side killed it."""
    ANSWER = "answer"
    """It answered with too many bytes: this side killed it."""
    MEMORY = "memory"
    """It was refused memory, and said so."""
    CPU_SECONDS = "cpu_seconds"
    """Processor time: the kernel ended it with SIGXCPU."""
    FILE_SIZE = "file_size"
    """It wrote a file too large: the kernel ended it with SIGXFSZ."""
    WRITTEN = "written"
    """Its files together were too large: this side killed it."""
    FILES = "files"
    """It made too many files and folders: this side killed it."""
    THREADS = "threads"
    """It had too many threads: this side killed it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """``status`` is the exit status, or minus the number of the signal that ended the child. ``limit`` is the limit that
    did; None when it ended by itself."""

    status: int
    limit: Limit | None = None

    @property
    def signal(self) -> str:
        """The name of the signal that the child died of ("SIGSEGV"), or "" when it exited or a limit ended it."""
        return signal_name(-self.status) if self.status < 0 and self.limit is None else ""

    def __str__(self) -> str:
        """What became of the child, as the rest of a sentence about it."""
        if self.limit is not None:
            return f"was ended: it passed its limit of {self.limit.value}"
        return f"died of {self.signal}" if self.signal else f"ended with exit status {self.status}"


@dataclass(frozen=True, slots=True)
class Defect:
    """An exception that is none of symd's, in the child: the name of its class, its text, and the traceback."""

    exception: str
    message: str
    traceback: str


def limit_of(status: int) -> Limit | None:
    """The limit by which the kernel ended a child with this status: SIGXCPU and SIGXFSZ have no other use (setrlimit(2))."""
    return {-signal.SIGXCPU: Limit.CPU_SECONDS, -signal.SIGXFSZ: Limit.FILE_SIZE}.get(status)


def signal_name(number: int) -> str:
    """ "SIGSEGV" for 11; "signal 40" for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
