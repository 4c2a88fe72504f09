"""Messages of a command or a library beside its answers: one line on standard error, and the operating system's reason
for a refusal in words; symd's own refusal to write over what it reads; and what a misspelled word may have meant.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from symd.errors import InvalidInput
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


def check_no_input(targets: Iterable[Path | str], inputs: Iterable[Path | str]) -> None:
    """Raises ``InvalidInput`` where a file that is to be written is one that is read, by whatever name or link: it may
    be the only copy. "-" is standard input among ``inputs`` and standard output among ``targets``. What is no regular
    file (a terminal, a pipe) may be both."""
    read = [status for status in map(_status, inputs) if status is not None and stat.S_ISREG(status.st_mode)]
    for target in targets:
        written = None if str(target) == "-" else _status(target)
        if written is not None and any(os.path.samestat(written, each) for each in read):
            raise InvalidInput("this is the input itself", where=str(target), hint="give another name")


def _status(path: Path | str) -> os.stat_result | None:
    """The status of the file behind a path, or of standard input; None where there is none."""
    try:
        return os.fstat(sys.stdin.fileno()) if str(path) == "-" else Path(path).stat()
    except (OSError, ValueError):
        return None


def alike(word: str, others: Sequence[str], most: int = 3, least: float = 0.6) -> list[str]:
    """The words among ``others`` that ``word`` may be a misspelling of, at most ``most`` of them, the nearest first.
    ``least`` is the part of both words that must be the same, as ``difflib`` measures it."""
    return get_close_matches(word, others, most, least)
