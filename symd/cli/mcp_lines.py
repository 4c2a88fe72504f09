r"""The lines that an assistant's program writes to ``symd mcp``, with whole characters.

JSON may escape half a character (``\ud800``), which no text can hold: the package that reads the messages drops such a message, and whoever
wrote it waits for ever. Half a character becomes U+FFFD here, so that the question is answered."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from threading import Thread
from typing import Final

_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""What a backslash begins: a whole character of two escapes; half a character, which is the group; or anything else."""


def read_whole_characters() -> None:
    """From now on standard input has lines whose characters are whole."""
    source = os.dup(0)
    read_end, write_end = os.pipe()
    os.dup2(read_end, 0)
    os.close(read_end)
    Thread(target=_copy, args=(source, write_end), name="symd-mcp-lines", daemon=True).start()


def with_whole_characters(line: bytes) -> bytes:
    """A line of JSON in which half characters are U+FFFD."""
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], line)


def _copy(source: int, target: int) -> None:
    with suppress(OSError), os.fdopen(source, "rb") as lines, os.fdopen(target, "wb") as repaired:
        for line in lines:
            repaired.write(with_whole_characters(line))
            repaired.flush()
