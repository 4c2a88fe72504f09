"""A program of the user's own that is asked line by line and answers each line before the next."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from symd.errors import ToolFailed
from symd.system.os_errors import system_reason


class Dialogue:
    """Raises ToolFailed when the program cannot be started, and when it ends while it is asked."""

    def __init__(self, command: Sequence[str]) -> None:
        self._program = command[0]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise ToolFailed(f"it cannot be started: {system_reason(error)}", where=self._program) from error

    def ask(self, line: str, is_last: Callable[[bytes], bool]) -> str:
        """Its answer to one line, up to the line that ``is_last`` (which sees it with its newline)."""
        given, taken = self._process.stdin, self._process.stdout
        assert given is not None  # noqa: S101 - both are pipes
        assert taken is not None  # noqa: S101
        answer: list[bytes] = []
        try:
            given.write(f"{line}\n".encode(errors="surrogateescape"))
            given.flush()
        except OSError as error:
            raise ToolFailed("it ended", where=self._program) from error
        while not answer or not is_last(answer[-1]):
            answer.append(taken.readline())
            if not answer[-1]:
                raise ToolFailed("it ended before it answered", where=self._program)
        return b"".join(answer).decode(errors="surrogateescape")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def answer_of(command: Sequence[str], line: str) -> str:
    """What the program says of one line and nothing more. Raises ToolFailed."""
    try:
        done = subprocess.run(
            command, input=f"{line}\n".encode(errors="surrogateescape"), stdout=subprocess.PIPE, check=False
        )
    except OSError as error:
        raise ToolFailed(f"it cannot be started: {system_reason(error)}", where=command[0]) from error
    return done.stdout.decode(errors="surrogateescape")
