"""Programs that are no drivers (disassemblers, demanglers), run on bytes that may be hostile: an empty folder, an
environment without the user's settings, and one error for each way in which they fail."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from symd.errors import DeadlineExceeded, LimitExceeded, SymdError, ToolCrashed, ToolFailed
from symd.system.messages import os_error_text
from symd.system.private_files import write_bytes
from symd.system.process.confinement import LIBRARIES, READ, USE_DEVICE, WRITE, LandlockAccess
from symd.system.process.process import ProcessLimits, clean_environment
from symd.system.process.run import Ended, Limit, run
from symd.system.process.starter import Confined, Starter
from symd.system.temporary_folders import child_folder

_SCRIPT_LINE: Final = 256
"""Bytes of a script's first line that the kernel reads (BINPRM_BUF_SIZE)."""
INPUT: Final = "input"
"""The file that holds a tool's input in the folder in which it runs."""


def run_tool(
    command: Sequence[str],
    limits: ProcessLimits,
    *,
    data: bytes | None = None,
    stdin: bytes = b"",
    own_pipe: bool = False,
    starter: Starter | None = None,
    environment: Mapping[str, str] | None = None,
    hint: str = "",
) -> Ended:
    """Run a program in a folder that is empty but for the file ``input``, which holds ``data`` where that is given.

    ``own_pipe`` as in ``run.run``. With a ``starter`` the program is confined, where the kernel can do that: it reads
    itself, shared libraries and its folder, in which it may write, and has no socket and no further process.
    ``environment`` in place of the clean one; ``hint`` goes into the errors.
    Raises DeadlineExceeded, LimitExceeded when it answers too much, ToolFailed when it cannot be started. Neither a
    signal nor an exit status is an error here: the caller knows what they mean (``tool_error``).
    """
    program = Path(command[0]).name
    if os.sep in command[0]:  # the tool starts in a folder from which a relative path leads elsewhere
        command = [os.path.abspath(command[0]), *command[1:]]  # noqa: PTH100 - follows no link
    confined = None
    if starter is not None and Starter.confines() and os.sep in command[0]:
        confined = Confined(starter, [*_allowed(command[0])])
    try:
        with child_folder("tool") as folder:
            if data is not None:
                write_bytes(folder / INPUT, data)
            ended = run(
                command,
                limits,
                folder=folder,
                environment=clean_environment(folder) if environment is None else environment,
                stdin=stdin,
                own_pipe=own_pipe,
                confined=confined,
            )
    except OSError as error:
        metadata = {"tool": program}
        reason = f"it cannot be started: {os_error_text(error)}"
        raise ToolFailed(reason, where=program, hint=hint, metadata=metadata) from error
    _check_limit(ended, limits, program, hint)
    return ended


def _allowed(program: str) -> Iterator[tuple[str, LandlockAccess]]:
    """What a program is made of, and what the C library reads. The loader of shared libraries is a program too."""
    real = Path(program).resolve()
    yield ".", WRITE
    for each in (real, *_interpreter(real)):
        yield str(each), READ | LandlockAccess.EXECUTE
        for name in ("lib", "lib64"):
            yield str(each.parent.parent / name), READ
    for path in LIBRARIES:
        yield path, READ | LandlockAccess.EXECUTE
    for path in ("/etc/ld.so.cache", "/proc/self"):
        yield path, READ
    for path in ("/dev/null", "/dev/urandom"):
        yield path, USE_DEVICE


def _interpreter(program: Path) -> Iterator[Path]:
    """The program that reads a script (execve(2))."""
    with contextlib.suppress(OSError), program.open("rb") as stream:
        line = stream.readline(_SCRIPT_LINE)
        if line.startswith(b"#!") and (words := line[2:].split()):
            yield Path(os.fsdecode(words[0])).resolve()


def _check_limit(ended: Ended, limits: ProcessLimits, program: str, hint: str) -> None:
    """Raises the error of a program that one of its limits ended."""
    kind: type[SymdError] = LimitExceeded
    match ended.ending.limit:
        case Limit.SECONDS:
            kind, what = DeadlineExceeded, f"no end within {limits.seconds:g} seconds"
        case Limit.CPU_SECONDS:
            kind, what = DeadlineExceeded, f"no end within {limits.cpu_seconds} seconds of processor time"
        case Limit.ANSWER:
            what = f"it wrote more than {limits.answer} bytes"
        case Limit.FILE_SIZE:
            what = f"it wrote a file of more than {limits.file_size} bytes"
        case Limit.WRITTEN | Limit.FILES:
            what = f"it wrote more than {limits.written} bytes of files, or {limits.files} files"
        case _:
            return
    raise kind(what, where=program, hint=hint, metadata={"tool": program})


def tool_error(program: str, ended: Ended, hint: str = "") -> ToolFailed:
    """The error for a tool that gave no answer: ToolCrashed where it died of a signal, else ToolFailed with its exit
    status and the last words that it printed."""
    words = f"; its last words: {ended.last_words}" if ended.last_words else ""
    name = Path(program).name
    if ended.ending.signal:
        metadata = {"tool": name, "signal": ended.ending.signal}
        return ToolCrashed(f"it {ended.ending}{words}", where=name, hint=hint, metadata=metadata)
    metadata = {"tool": name, "exit_status": str(ended.ending.status)}
    return ToolFailed(f"it {ended.ending}{words}", where=name, hint=hint, metadata=metadata)


def run_filter(
    command: Sequence[str], lines: Sequence[str], *, seconds: float, memory: int, most_bytes: int, hint: str
) -> list[str]:
    """What a program writes for each of ``lines``, which it reads from standard input. Raises what ``run_tool`` raises,
    and ToolFailed and ToolCrashed."""
    stdin = "\n".join(lines) + "\n"
    ended = run_tool(command, ProcessLimits(seconds, memory, most_bytes), stdin=stdin.encode(), hint=hint)
    if ended.ending.status:
        raise tool_error(command[0], ended, hint)
    return ended.answer.decode("utf-8", "replace").splitlines()
