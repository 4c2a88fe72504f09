"""A program that goes on when symd has ended: in a session of its own, so that no terminal ends it, and without
standard input. symd waits until it says that it is ready."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Sequence
from typing import Final

from symd.errors import Unavailable

_AWAKE_SECONDS: Final = 1.0
"""How long is waited at a time: a signal that another thread got is handled when the main one runs again."""
_END_SECONDS: Final = 10.0
"""How long a program that was not ready in time has to end before it is killed."""
_PIECE: Final = 1 << 16


class BackgroundProgram:
    """A program that is started now; what it writes to standard error goes to the descriptor ``errors``, and an error
    calls it ``name``."""

    def __init__(self, name: str, command: Sequence[str], errors: int) -> None:
        self._name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        self.process: Final = self._process.pid
        self.status: int | None = None
        """Its exit status, below 0 of a signal, where it ended before it was ready."""

    def lines(self, count: int, seconds: float) -> list[str]:
        """The first ``count`` lines that it writes, by which it says that it is ready; from then on nobody reads what
        it writes. Fewer where it ends before. Where it is not ready within ``seconds``, or symd is to end meanwhile,
        the program is ended. Raises Unavailable."""
        try:
            said = self._read(count, seconds)
        except BaseException:
            self._end()
            raise
        if len(said) < count:
            self.status = self._process.wait()
        else:
            self._process.returncode = 0  # nobody waits for it
        return said

    def _read(self, count: int, seconds: float) -> list[str]:
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        until, said = time.monotonic() + seconds, b""
        with self._process.stdout as output:
            poll = select.poll()
            poll.register(output, select.POLLIN)
            while said.count(b"\n") < count:
                left = until - time.monotonic()
                if left <= 0:
                    raise Unavailable(f"not ready within {seconds:g} seconds, and ended", where=self._name)
                if poll.poll(min(left, _AWAKE_SECONDS) * 1000):
                    piece = os.read(output.fileno(), _PIECE)
                    if not piece:
                        break
                    said += piece
        return said.decode().splitlines()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
