"""Unix sockets that a service manager made and hands over at the start (sd_listen_fds(3), systemd.socket(5)): it listens before the daemon
runs, starts it at the first connection, and keeps who connects waiting while it is restarted.

gRPC takes no socket that somebody else made, so the relay (``server/relay.py``) stands between, as it does for several users.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from symd.errors import FailedPrecondition

_FIRST: Final = 3
"""SD_LISTEN_FDS_START: the descriptor of the first."""
_VARIABLES: Final = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")


class HandedSockets:
    """The sockets of a start, each to be taken by the address that names its path; those that nobody took are closed at the end."""

    def __init__(self, sockets: Iterable[socket.socket] = ()) -> None:
        self._by_path = {Path(os.fsdecode(each.getsockname())): each for each in sockets}

    def take(self, path: Path) -> socket.socket | None:
        """The one that listens at ``path``, which is the caller's to close from then on."""
        return self._by_path.pop(path, None)

    def all_taken(self) -> None:
        """Raises ``FailedPrecondition`` where one is left: clients would connect to it and wait for ever."""
        for path in self._by_path:
            raise FailedPrecondition(
                "the service manager listens there for the daemon, and no --address names it",
                where=str(path),
                hint=f"give --address unix:{path}, or take it out of the socket unit (ListenStream=)",
            )

    def close(self) -> None:
        while self._by_path:
            self._by_path.popitem()[1].close()


def handed_sockets() -> HandedSockets:
    """Those of this process, to be asked for once: afterwards the environment names none, and no child inherits them.

    Raises ``FailedPrecondition`` for a socket that is no listening Unix stream socket with a path.
    """
    count, process, _ = (os.environ.pop(name, "") for name in _VARIABLES)
    if not count.isdecimal() or process != str(os.getpid()):
        return HandedSockets()
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.socket(fileno=_FIRST + number)) for number in range(int(count))]
        for each in taken:
            each.set_inheritable(False)
            _check(each)
        stack.pop_all()
    return HandedSockets(taken)


def _check(handed: socket.socket) -> None:
    listens = handed.type == socket.SOCK_STREAM and handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if handed.family != socket.AF_UNIX or not listens or not os.fsencode(handed.getsockname()).startswith(b"/"):
        raise FailedPrecondition(
            "the service manager hands over a socket that is no Unix socket with a path",
            where=str(handed.getsockname()),
            hint="give the socket unit ListenStream=/PATH; for TCP take it out, and give the daemon --address HOST:PORT",
        )
