"""Programs that are no drivers (disassemblers, demanglers), run on bytes that may be hostile: an empty folder, an environment
without the user's settings, and one error for each way in which they fail."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from symd.child.ending import Limit
from symd.child.process import ProcessLimits, clean_environment
from symd.child.run import Ended, run
from symd.errors import DeadlineExceeded, LimitExceeded, ToolCrashed, ToolFailed

INPUT: Final = "input"
"""The file that holds a tool's input in the folder in which it runs."""


def run_tool(
    command: Sequence[str],
    limits: ProcessLimits,
    *,
    data: bytes | None = None,
    stdin: bytes = b"",
    own_pipe: bool = False,
    environment: Mapping[str, str] | None = None,
    hint: str = "",
) -> Ended:
    """Run a program in a folder that is empty but for the file ``input``, which holds ``data`` where that is given.

    ``own_pipe`` as in ``run.run``; ``environment`` in place of the clean one; ``hint`` goes into the errors. Raises
    DeadlineExceeded, LimitExceeded when it answers too much, ToolFailed when it cannot be started. Neither a signal nor an
    exit status is an error here: the caller knows what they mean (``tool_error``).
    """
    program = Path(command[0]).name
    if os.sep in command[0]:  # the tool starts in a folder from which a relative path leads elsewhere
        command = [os.path.abspath(command[0]), *command[1:]]  # noqa: PTH100 - follows no link
    with tempfile.TemporaryDirectory(prefix="symd-tool-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if data is not None:
            (folder / INPUT).write_bytes(data)
        try:
            ended = run(
                command,
                limits,
                folder=folder,
                environment=clean_environment(folder) if environment is None else environment,
                stdin=stdin,
                own_pipe=own_pipe,
            )
        except OSError as error:
            raise ToolFailed(f"it cannot be started: {error}", where=program, hint=hint) from error
    match ended.ending.limit:
        case Limit.SECONDS:
            raise DeadlineExceeded(f"no end within {limits.seconds:g} seconds", where=program, hint=hint)
        case Limit.CPU_SECONDS:
            raise DeadlineExceeded(
                f"no end within {limits.cpu_seconds} seconds of processor time", where=program, hint=hint
            )
        case Limit.ANSWER:
            raise LimitExceeded(f"it wrote more than {limits.answer} bytes", where=program, hint=hint)
        case Limit.FILE_SIZE:
            raise LimitExceeded(f"it wrote a file of more than {limits.file_size} bytes", where=program, hint=hint)
    return ended


def tool_error(program: str, ended: Ended, hint: str = "") -> ToolFailed:
    """The error for a tool that gave no answer: ToolCrashed where it died of a signal, else ToolFailed with its exit status
    and the last words that it printed."""
    words = f"; its last words: {ended.last_words}" if ended.last_words else ""
    if ended.ending.signal:
        return ToolCrashed(
            f"it {ended.ending}{words}", where=program, hint=hint, metadata={"signal": ended.ending.signal}
        )
    status = str(ended.ending.status)
    return ToolFailed(f"it {ended.ending}{words}", where=program, hint=hint, metadata={"exit_status": status})
