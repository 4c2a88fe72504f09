"""A child process from start to end: its answer and its output are read while its time runs, it
ends early where nobody waits any more, and ``ExitStatus`` says how it ended: by which limit, which signal, or with
which exit status. Programs that are no drivers (disassemblers, demanglers) run on bytes that may be hostile, so
``run_tool`` gives them an empty folder, an environment without the user's settings, and one error for each way in which
they fail.

The kernel bounds one process's memory and each file (``ProcessLimits.file_size``), not the number of files, their sum,
or threads, for a user without privileges. So the parent looks every ``LOOK_SECONDS``; in between a child may pass its
limits by as much as it can write in that time, and then it is ended.
"""

from __future__ import annotations

import contextlib
import enum
import math
import os
import selectors
import signal
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from symd.errors import DeadlineExceeded, LimitExceeded, SymdError, ToolCrashed, ToolFailed
from symd.model.cancellation import check_cancelled
from symd.system.messages import os_error_text
from symd.system.private_files import child_folder, write_bytes
from symd.system.process import confinement
from symd.system.process.confinement import LIBRARIES, READ, USE_DEVICE, WRITE, LandlockAccess
from symd.system.process.fork_server import Confined, ForkServer
from symd.system.process.process import ProcessLimits, Running, clean_environment, kill, signal_name, start


class Limit(enum.Enum):
    """What a child had too much of; the names are those of the fields of ``ProcessLimits``."""

    SECONDS = "seconds"
    """The child ran out of time by the clock: this side killed it."""
    ANSWER = "answer"
    """The child answered with too many bytes: this side killed it."""
    MEMORY = "memory"
    """The child was refused memory, and said so."""
    CPU_SECONDS = "cpu_seconds"
    """The child ran out of processor time: the kernel ended it with SIGXCPU."""
    FILE_SIZE = "file_size"
    """The child wrote a file too large: the kernel ended it with SIGXFSZ."""
    WRITTEN = "written"
    """The child's files together were too large: this side killed it."""
    FILES = "files"
    """The child made too many files and folders: this side killed it."""
    THREADS = "threads"
    """The child had too many threads: this side killed it."""


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a child process ended. ``status`` is the exit status, or minus the number of the signal that ended the
    child. ``limit`` is the limit that did; None when it ended by itself."""

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
class ChildException:
    """An exception that is none of symd's, in the child: the name of its class, its text, and the traceback."""

    exception: str
    message: str
    traceback: str


def limit_of(status: int) -> Limit | None:
    """The limit by which the kernel ended a child with this status: SIGXCPU and SIGXFSZ have no other use
    (setrlimit(2))."""
    return {-signal.SIGXCPU: Limit.CPU_SECONDS, -signal.SIGXFSZ: Limit.FILE_SIZE}.get(status)


LOOK_SECONDS: Final = 0.1
_BLOCK: Final = 512
"""Bytes of the unit of ``st_blocks`` (stat(2))."""
_ALWAYS_THERE: Final = 2
"""Links of a folder in /proc beside those of the folders inside."""


def watched(limits: ProcessLimits) -> bool:
    """Whether there is anything to look at."""
    return not (limits.written is None and limits.files is None and limits.threads is None)


def passed(pid: int, folder: Path, limits: ProcessLimits) -> Limit | None:
    """Which of its limits a child has passed that runs in ``folder``. What cannot be looked at counts as too many
    files."""
    if limits.threads is not None and _threads(pid) > limits.threads:
        return Limit.THREADS
    if limits.written is None and limits.files is None:
        return None
    number, taken = 0, 0
    seen: set[tuple[int, int]] = set()
    try:
        for found in (*_of_folder(folder, limits.files), *_removed_but_open(pid)):
            number += 1
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                taken += found.st_blocks * _BLOCK
    except OSError:
        return Limit.FILES
    if limits.files is not None and number > limits.files:
        return Limit.FILES
    return Limit.WRITTEN if limits.written is not None and taken > limits.written else None


def _of_folder(folder: Path, most: int | None) -> Iterator[os.stat_result]:
    """What is below ``folder``, up to one more than ``most``. Raises OSError, also where paths become longer than the
    kernel takes."""
    pending, number = [os.fspath(folder)], 0
    while pending:
        for entry in _listed(pending.pop()):
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # it is at work
                continue
            yield found
            number += 1
            if most is not None and number > most:
                return
            if stat.S_ISDIR(found.st_mode):
                pending.append(entry.path)


def _listed(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _removed_but_open(pid: int) -> Iterator[os.stat_result]:
    """Files that have no name any more and take room as long as they are open."""
    with contextlib.suppress(OSError):  # it has ended
        for entry in _listed(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                found = entry.stat()
                if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    yield found


def _threads(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - _ALWAYS_THERE  # noqa: PTH116 - ten times a second
    except FileNotFoundError:
        return 0


_READ_BYTES: Final = 1 << 16
_PRINTED_BYTES: Final = 1 << 20
"""How much of what a child prints beside its answer is kept: the end of it."""
_CHECK_SECONDS: Final = 0.5
"""Seconds between two checks whether somebody still waits."""
_LAST_WORDS: Final = 300
"""Characters."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A child that has ended: how, what it answered and the last MiB that it printed beside the answer."""

    ending: ExitStatus
    answer: bytes = field(repr=False)
    printed: str = field(repr=False)

    @property
    def last_words(self) -> str:
        """The last line that it printed, at most 300 characters; "" when it printed nothing."""
        return self.printed.strip().rpartition("\n")[2].strip()[:_LAST_WORDS]


def run(
    command: Sequence[str],
    limits: ProcessLimits,
    *,
    folder: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    own_pipe: bool = False,
    confined: Confined | None = None,
) -> Ended:
    """Run ``command`` in ``folder`` with exactly this environment and input.

    Its standard output is the answer, its standard error what it prints. With ``own_pipe`` the answer comes on a pipe
    of its own, whose descriptor's number is appended to ``command``, and both outputs are what it prints. ``confined``
    is who starts it with few files and system calls, and which files; it takes no ``own_pipe``. Raises OSError when it
    cannot be started, limited or confined. Where nobody waits for the answer any more
    (``symd.model.cancellation``) it is not started, or ended.
    """
    check_cancelled()
    with contextlib.ExitStack() as ours:
        with contextlib.ExitStack() as its:
            answers, answer_end = _pipe(ours, its)
            prints, print_end = _pipe(ours, its)
            inputs = _file_of(stdin, its) if stdin else _nothing(its)
            if confined is not None:
                process: Running = confined.fork_server.start(
                    command, limits, confined.allowed, folder, environment, (inputs, answer_end, print_end)
                )
            else:
                process = start(
                    [*command, str(answer_end)] if own_pipe else command,
                    limits,
                    environment,
                    (answer_end,) if own_pipe else (),
                    cwd=folder,
                    stdin=inputs,
                    stdout=print_end if own_pipe else answer_end,
                    stderr=print_end,
                )
        try:
            return _Reader(process, answers, prints, limits, folder).until_it_ends()
        finally:
            process.wait()


def _pipe(ours: contextlib.ExitStack, its: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe whose end for reading is ours, without waiting, and whose end for writing is the child's."""
    reading, writing = os.pipe()
    ours.callback(os.close, reading)
    its.callback(os.close, writing)
    os.set_blocking(reading, False)
    return reading, writing


def _file_of(data: bytes, its: contextlib.ExitStack) -> int:
    """A file in memory that holds ``data``: unlike a pipe it takes all of it at once."""
    descriptor = os.memfd_create("stdin")
    its.callback(os.close, descriptor)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _nothing(its: contextlib.ExitStack) -> int:
    descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    its.callback(os.close, descriptor)
    return descriptor


class _Reader:
    """Reads both pipes of one child until it ends, by itself or by us."""

    def __init__(
        self,
        process: Running,
        answers: int,
        prints: int,
        limits: ProcessLimits,
        folder: Path,
    ) -> None:
        self._next_check = time.monotonic() + _CHECK_SECONDS
        self._process = process
        self._folder = folder
        self._next_look = time.monotonic() if watched(limits) else math.inf
        self._answers, self._prints = answers, prints
        self._limits = limits
        self._end = time.monotonic() + limits.seconds
        self._answer = bytearray()
        self._printed = bytearray()

    def until_it_ends(self) -> Ended:
        try:
            limit = self._listen()
        finally:
            kill(self._process)
        status = self._process.wait()
        for descriptor in (self._answers, self._prints):
            with contextlib.suppress(
                BlockingIOError
            ):  # nothing is left, and something of the group still holds the pipe
                while not self._too_much() and self._read(descriptor):
                    pass
        if self._too_much():
            limit = Limit.ANSWER
        ending = ExitStatus(status, limit or limit_of(status))
        return Ended(ending, bytes(self._answer), self._printed.decode("utf-8", "replace"))

    def _listen(self) -> Limit | None:
        """Read until the child ends; the limit for which to end it, or None."""
        ended = os.pidfd_open(self._process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                for descriptor in (ended, self._answers, self._prints):
                    selector.register(descriptor, selectors.EVENT_READ)
                while (now := time.monotonic()) < self._end:
                    ready = [
                        key.fd for key, _ in selector.select(min(self._end, self._next_look, self._next_check) - now)
                    ]
                    if ended in ready:
                        return None
                    self._check()
                    for descriptor in ready:
                        if not self._read(descriptor):
                            selector.unregister(descriptor)
                    limit = Limit.ANSWER if self._too_much() else self._look()
                    if limit is not None:
                        return limit
                return Limit.SECONDS
        finally:
            os.close(ended)

    def _check(self) -> None:
        """Raises where nobody waits any more, when it is time to ask."""
        if time.monotonic() >= self._next_check:
            check_cancelled()
            self._next_check = time.monotonic() + _CHECK_SECONDS

    def _look(self) -> Limit | None:
        """What it takes of disk and threads, when it is time to look at that."""
        if time.monotonic() < self._next_look:
            return None
        limit = passed(self._process.pid, self._folder, self._limits)
        self._next_look = time.monotonic() + LOOK_SECONDS
        return limit

    def _too_much(self) -> bool:
        return len(self._answer) > self._limits.answer

    def _read(self, descriptor: int) -> bool:
        """Take what is there; False when the other end is closed."""
        data = os.read(descriptor, _READ_BYTES)
        if descriptor == self._answers:
            self._answer += data
        else:
            self._printed += data
            del self._printed[:-_PRINTED_BYTES]
        return bool(data)


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
    fork_server: ForkServer | None = None,
    environment: Mapping[str, str] | None = None,
    hint: str = "",
) -> Ended:
    """Run a program in a folder that is empty but for the file ``input``, which holds ``data`` where that is given.

    ``own_pipe`` as in ``run.run``. With a ``fork_server`` the program is confined, where the kernel can do that: it
    reads itself, shared libraries and its folder, in which it may write, and has no socket and no further process.
    ``environment`` in place of the clean one; ``hint`` goes into the errors.
    Raises DeadlineExceeded, LimitExceeded when it answers too much, ToolFailed when it cannot be started. Neither a
    signal nor an exit status is an error here: the caller knows what they mean (``tool_error``).
    """
    program = Path(command[0]).name
    if os.sep in command[0]:  # the tool starts in a folder from which a relative path leads elsewhere
        command = [os.path.abspath(command[0]), *command[1:]]  # noqa: PTH100 - follows no link
    confined = None
    if fork_server is not None and confinement.available() and os.sep in command[0]:
        confined = Confined(fork_server, [*_allowed(command[0])])
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
