"""Messages of a command or a library beside its answers: one line on standard error, and the operating system's reason
for a refusal in words.
"""

from __future__ import annotations

import errno
import sys
from typing import Final

from symd.model.frame_text import printable

_OF_THE_PATH: Final = frozenset(
    (
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ELOOP,
        errno.ENAMETOOLONG,
    )
)
_OF_THE_SYSTEM: Final = frozenset((errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM))


def os_error_text(error: Exception) -> str:
    """The system's words as they are inside a sentence, "no such file or directory"; an abbreviation at their
    beginning stays. An exception without words is told by its kind."""
    words = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if not words:
        return f"{type(error).__name__}, without a word"
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]


def refusal(error: OSError) -> str:
    """Who refused to read or write a file, and why: a disk is innocent of a path that leads nowhere, and of rights."""
    if error.errno in _OF_THE_PATH:
        return f"the path cannot be used: {os_error_text(error)}"
    return f"{'the system' if error.errno in _OF_THE_SYSTEM else 'the disk'} refused: {os_error_text(error)}"


def complain(text: str) -> None:
    """Write one line on standard error, whatever is in the text."""
    line = " ".join(text.split())
    sys.stderr.write(printable(f"symd: {line}") + "\n")
