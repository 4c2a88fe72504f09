"""Where the daemon listens: a Unix socket that only its owner may use, or a TCP port when asked."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from symd.errors import FailedPrecondition, InvalidInput, Unavailable
from symd.service.event_loop import Server

UNIX = "unix:"
LONGEST_PATH = 107
"""Bytes of a Unix socket's path (unix(7): sun_path, less its end)."""


@contextmanager
def listening(server: Server, address: str) -> Iterator[str]:
    """Let the server listen at ``address`` and give the address that clients use; a socket is removed at the end.

    Raises ``InvalidInput`` for what is no address, ``FailedPrecondition`` when somebody else answers there, and
    ``Unavailable`` when the system refuses.
    """
    if not address.startswith(UNIX):
        yield _listen_tcp(server, address)
        return
    path = socket_path(address)
    mine = _listen_unix(server, path)
    try:
        yield f"{UNIX}{path}"
    finally:
        _remove(path, mine)


def socket_path(address: str) -> Path:
    """The path in ``unix:PATH`` or ``unix:///PATH``. Raises ``InvalidInput``."""
    rest = address.removeprefix(UNIX)
    path = Path("/" + rest.lstrip("/") if rest.startswith("//") else rest).absolute()
    if not rest or max(len(os.fsencode(each)) for each in (path, _given(path))) > LONGEST_PATH:
        raise InvalidInput(
            "a Unix socket's path has 1 to 107 bytes", where=address, hint="choose a shorter path with --address"
        )
    return path


def is_local(address: str) -> bool:
    """Whether only this machine can reach the TCP address."""
    return address.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]")


def _listen_tcp(server: Server, address: str) -> str:
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) < 1 << 16):
        raise InvalidInput(
            "not an address to listen at", where=address, hint="give unix:PATH or HOST:PORT, such as 127.0.0.1:50051"
        )
    try:
        return f"{host}:{server.add_insecure_port(address)}"
    except RuntimeError as error:
        raise FailedPrecondition(
            "cannot listen there",
            where=address,
            hint="another program has the port, or it is no address of this machine",
        ) from error


def _listen_unix(server: Server, path: Path) -> os.stat_result:
    """Bind under a lock on the folder, so that of two daemons starting at once only one wins."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise Unavailable(f"cannot use the folder: {error.strerror}", where=str(path.parent)) from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        _clear(path)
        return _bind(server, path)
    finally:
        os.close(folder)


def _clear(path: Path) -> None:
    """Remove a socket that nobody answers. Raises ``FailedPrecondition`` when somebody does, or it is no socket."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FailedPrecondition(
            "there is something that is not a socket", where=str(path), hint="choose another path with --address"
        )
    if _answers(path):
        raise FailedPrecondition(
            "another daemon answers there", where=str(path), hint="stop it, or choose another path with --address"
        )
    path.unlink(missing_ok=True)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        code = probe.connect_ex(str(path))
    return code not in (errno.ECONNREFUSED, errno.ENOENT)


def _bind(server: Server, path: Path) -> os.stat_result:
    """Bind with a mode that never is wider than 0600.

    gRPC removes the path that it was given when it ends, whoever's socket is there by then; so it is given another
    one, and the socket is renamed.
    """
    given = _given(path)
    before = os.umask(0o177)
    try:
        server.add_insecure_port(f"{UNIX}{given}")
        given.rename(path)
    except (RuntimeError, OSError) as error:
        raise Unavailable("cannot make the socket", where=str(path), hint="is the folder writable?") from error
    finally:
        os.umask(before)
    path.chmod(0o600)
    return path.lstat()


def _given(path: Path) -> Path:
    """The path that gRPC is given for a socket that ends up at ``path``."""
    return path.with_name(f".{os.getpid()}")


def _remove(path: Path, mine: os.stat_result) -> None:
    """Remove our socket, unless somebody else has put his there."""
    with suppress(FileNotFoundError):
        if os.path.samestat(path.lstat(), mine):
            path.unlink()
