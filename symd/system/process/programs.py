"""Programs that symd runs for its user: in the foreground, with the streams, the terminal, the process group and the
signals that a shell gave to symd; as a dialogue, asked a line at a time (``Dialogue``); or in the background, where the
program goes on when symd has ended (``BackgroundProgram``).

A program in the foreground is in symd's process group, so that the terminal's signals (an interrupt, a stop) reach
both; symd lets them pass. Signals that somebody sent to symd alone are sent on. symd stops when the program stops, so
that the shell sees its job stopped, and ``end_like`` ends it as the program ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from symd.errors import ToolFailed, Unavailable
from symd.system.messages import os_error_text


class Dialogue:
    """A program that answers lines, one at a time. Raises ToolFailed when the program cannot be started, and when it
    ends while it is asked."""

    def __init__(self, command: Sequence[str]) -> None:
        self._program = command[0]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise ToolFailed(f"it cannot be started: {os_error_text(error)}", where=self._program) from error

    def ask(self, line: str, is_last: Callable[[bytes], bool]) -> str:
        """The program's answer to one line, up to the line that ``is_last`` accepts (which sees it with its
        newline). Raises ToolFailed when the program ends before."""
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

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def answer_of(command: Sequence[str], line: str) -> str:
    """What the program says of one line and nothing more. Raises ToolFailed."""
    try:
        done = subprocess.run(
            command, input=f"{line}\n".encode(errors="surrogateescape"), stdout=subprocess.PIPE, check=False
        )
    except OSError as error:
        raise ToolFailed(f"it cannot be started: {os_error_text(error)}", where=command[0]) from error
    return done.stdout.decode(errors="surrogateescape")


SignalMask = set[signal.Signals | int]
"""Signals that a thread does not take."""
_PASSED_ON: Final = frozenset(
    {
        signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH,
        signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
    }
)  # fmt: skip
"""Signals that are the program's business, not symd's."""
_WAITED_FOR: Final = _PASSED_ON | {signal.SIGCHLD}
_OF_THE_KERNEL: Final = 0
"""si_code above this: the kernel sent it, to the whole group where it is the terminal's (sigaction(2))."""


@dataclass(frozen=True, slots=True)
class ForegroundEnding:
    """How the program ended: its exit status, or the number of the signal that ended it, else 0."""

    status: int
    signal: int = 0


@contextlib.contextmanager
def signals_held() -> Iterator[SignalMask]:
    """Keep signals that are the program's business waiting, in this thread and in those that it starts from now on; the
    mask from before, which the program gets. For the main thread."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    try:
        yield before
    finally:
        while signal.sigtimedwait(_WAITED_FOR, 0) is not None:
            pass  # what came when the program had ended
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ForegroundProgram:
    """A program that runs, started while ``signals_held``, before this process has other threads; ``mask`` is what that
    gave."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], mask: SignalMask) -> None:
        """Raises OSError where there is no such program, or it cannot be run."""
        self.process = _start(command, environment, mask)

    def wait(self) -> ForegroundEnding:
        """Wait until the program ends; signals that come for symd meanwhile are the program's."""
        while True:
            came = signal.sigwaitinfo(_WAITED_FOR)
            if came.si_signo != signal.SIGCHLD:
                if came.si_code <= _OF_THE_KERNEL:
                    self._send(came.si_signo)
                continue
            done, status = os.waitpid(self.process, os.WNOHANG | os.WUNTRACED)
            if done and os.WIFSTOPPED(status):
                self._stop_too()
            elif done:
                ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                return ForegroundEnding(0 if ended_by else os.WEXITSTATUS(status), ended_by)

    def _stop_too(self) -> None:
        """Stop until somebody continues symd, which continues the program."""
        os.kill(os.getpid(), signal.SIGSTOP)
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, number)


def _start(command: Sequence[str], environment: Mapping[str, str], mask: SignalMask) -> int:
    """The number of the new process. This one has no other threads yet, so that what runs between fork and exec holds
    no lock of theirs; posix_spawn(3) would leave signals of the C library ignored."""

    def start(words: Sequence[str]) -> int:
        process = subprocess.Popen(
            words,
            env=environment,
            close_fds=False,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),  # noqa: PLW1509 - there is no other thread
        )
        process.returncode = 0  # it is waited for here
        return process.pid

    try:
        return start(command)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        return start(["/bin/sh", *command])  # a script that does not say what runs it, as execvp(3) does


def end_like(ending: ForegroundEnding) -> int:
    """The exit status to end with as the program did. Where a signal ended it, this process dies of the same one here,
    without another core dump; a signal that does not kill leaves the status that a shell shows for it."""
    if not ending.signal:
        return ending.status
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):  # of SIGKILL there is no other action
        signal.signal(ending.signal, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {ending.signal})
    os.kill(os.getpid(), ending.signal)
    return 128 + ending.signal


_AWAKE_SECONDS: Final = 1.0
"""How long is waited at a time: a signal that another thread got is handled when the main one runs again."""
_END_SECONDS: Final = 10.0
"""How long a program that was not ready in time has to end before it is killed."""
_PIECE: Final = 1 << 16


class BackgroundProgram:
    """A program that is started now, in a session of its own, so that no terminal ends it, and without standard input.
    What it writes to standard error goes to the descriptor ``errors``, and an error calls it ``name``."""

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
