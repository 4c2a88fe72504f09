r"""The lines that an assistant's program writes to ``symd mcp``, with whole characters.

JSON may escape half a character (``\ud800``), which no text can hold: the package that reads the messages drops such a message, and whoever
wrote it waits for ever. Half a character becomes U+FFFD here, so that the question is answered."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import suppress
from threading import Thread
from typing import Final

from symd.cli.termination import AWAKE_SECONDS

_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""What a backslash begins: a whole character of two escapes; half a character, which is the group; or anything else."""


async def whole_lines() -> AsyncIterator[str]:
    """The lines of standard input, which nobody else reads then. They are read by a thread that nobody waits for, so that a signal ends the command
    while the input is open."""
    read: asyncio.Queue[bytes] = asyncio.Queue(1)
    thread = Thread(target=_read, args=(_taken(), read, asyncio.get_running_loop()), name="symd-mcp-lines", daemon=True)
    thread.start()
    awake = asyncio.create_task(_awake())
    try:
        while line := await read.get():
            yield with_whole_characters(line).decode("utf-8", "replace")
    finally:
        awake.cancel()


async def _awake() -> None:
    """A loop that only waits for lines would not hear of some signals."""
    while True:  # noqa: ASYNC110 - for nothing in particular
        await asyncio.sleep(AWAKE_SECONDS)


def with_whole_characters(line: bytes) -> bytes:
    """A line of JSON in which half characters are U+FFFD."""
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], line)


def _taken() -> int:
    """Standard input under another number; what is run meanwhile finds none."""
    source = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return source


def _read(source: int, read: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop) -> None:
    with suppress(OSError, RuntimeError, CancelledError), os.fdopen(source, "rb") as lines:  # the loop has ended
        for line in lines:
            asyncio.run_coroutine_threadsafe(read.put(line), loop).result()
        asyncio.run_coroutine_threadsafe(read.put(b""), loop).result()
