"""Becomes a program that is held to its limits from its first instruction. It is run by its path.

Arguments: the descriptor of a Unix socket, the length of the program's environment, the limits, and the program with
its arguments. The environment comes on the socket, where nobody else sees it. The answer is one byte once this process
runs, then the number and the text of an error if the program cannot be started; the socket closes when the program
starts.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # ``signal`` without enum: see below
import errno
import os
import resource
import sys
import warnings  # noqa: F401 - os.execvpe imports it, and then there may be no memory left for that

TYPE_CHECKING = False  # typing, and enum, take as long to import as the interpreter to start
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final, NoReturn

BEGUN: Final = b"."
_IGNORED_BY_PYTHON: Final = (_signal.SIGPIPE, _signal.SIGXFSZ)
"""Ignored signals stay ignored in a program that is begun (execve(2))."""


def main(descriptor: int, length: int, limits: str, command: list[str]) -> NoReturn:
    """Be the program of ``command``."""
    os.set_inheritable(descriptor, False)
    try:
        environment = _environment(descriptor, length)
        os.write(descriptor, BEGUN)
        hold([(kind, soft, hard) for kind, soft, hard in (map(int, each.split(":")) for each in limits.split(","))])
        become(command, environment)
    except Exception as error:  # noqa: BLE001 - setrlimit's ValueError, or any: who asked waits for nothing else
        os.write(descriptor, refusal(error))
    finally:
        os._exit(127)


def hold(limits: Iterable[tuple[int, int, int]]) -> None:
    """Hold this process to what ``process.resource_limits`` says."""
    for kind, soft, hard in limits:
        resource.setrlimit(kind, (soft, hard))


def become(command: list[str], environment: Mapping[bytes, bytes] | Mapping[str, str]) -> NoReturn:
    """Be the program. Raises OSError where there is none, or it cannot be run."""
    for ignored in _IGNORED_BY_PYTHON:
        _signal.signal(ignored, _signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - no shell is wanted
    finally:
        _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)  # whoever would read why it failed may have been killed


def refusal(error: Exception) -> bytes:
    """Why the program cannot be started: a number of errno(3) and its text."""
    if isinstance(error, OSError):
        return f"{error.errno or 0} {error.strerror or error}".encode()
    return f"{errno.ENOMEM if isinstance(error, MemoryError) else errno.EINVAL} {error}".encode()


def _environment(descriptor: int, length: int) -> dict[bytes, bytes]:
    """Raises EOFError where the other end has closed before all of it came."""
    given = bytearray()
    while len(given) < length:
        piece = os.read(descriptor, length - len(given))
        if not piece:
            raise EOFError
        given += piece
    pairs = (each.partition(b"=") for each in bytes(given).split(b"\0") if each)
    return {name: value for name, _, value in pairs}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
