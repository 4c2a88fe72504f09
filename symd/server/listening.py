"""grpc.aio's server on an event loop in a thread of its own, so that plain code in another thread can start and stop
it; and the addresses that it listens at: a Unix socket that only its owner may use, or also a group, or a TCP port,
which takes TLS or tokens.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import grpc
import grpc.aio

from symd.config import own_socket
from symd.errors import FailedPrecondition, InvalidInput, Unavailable
from symd.model.texts import is_utf8
from symd.rpc.addresses import bound, host_and_port, is_loopback
from symd.server.authentication import Authenticator, build_authenticator
from symd.server.config import ListenConfig
from symd.server.logs import leave_out_vanished_clients
from symd.system.messages import os_error_text
from symd.system.private_files import make_folder, private_lock, private_umask
from symd.system.symlinks import replaceable

Result = TypeVar("Result")
Options = Sequence[tuple[str, int]]


class GrpcServer:
    """A server of grpc.aio that is not listening yet, on an event loop in a thread of its own. The methods may be
    called from any thread but the loop's own, each once the one before returned."""

    def __init__(self, handler: grpc.GenericRpcHandler, options: Options) -> None:
        leave_out_vanished_clients()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="symd-loop", daemon=True)
        self._thread.start()
        others = threading.enumerate()
        self._server: grpc.aio.Server = self.wait_for(_new_server(handler, options))
        self._pollers = [thread for thread in threading.enumerate() if thread not in others]

    @property
    def threads(self) -> Sequence[int]:
        """Native ids of the threads that hand a call to each other: the loop's, and those that grpc.aio began for this
        server."""
        return [thread.native_id for thread in (self._thread, *self._pollers) if thread.native_id is not None]

    def add_insecure_port(self, address: str) -> int:
        """Listen at ``address`` without encryption; the port. Raises RuntimeError where that cannot be."""
        return self._server.add_insecure_port(address)

    def add_secure_port(self, address: str, credentials: grpc.ServerCredentials) -> int:
        """Listen at ``address`` with TLS; the port. Raises RuntimeError where that cannot be."""
        return self._server.add_secure_port(address, credentials)

    def start(self) -> None:
        """Take calls."""
        self.wait_for(self._server.start())

    def stop(self, grace: float, seconds: float) -> None:
        """Take no more calls, give those that run ``grace`` seconds, then end them and the loop. Raises TimeoutError
        after ``seconds``. Stopping it again changes nothing."""
        if self._thread.is_alive():
            self.wait_for(self._server.stop(grace), seconds)
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(seconds)

    def wait_for(self, coroutine: Coroutine[Any, Any, Result], seconds: float | None = None) -> Result:
        """Run a coroutine on the loop; what it returns or raises. Raises TimeoutError after ``seconds``."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(seconds)

    def begin(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Begin to run a coroutine on the loop, for another loop to wait for. Raises RuntimeError where this one has
        ended."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._ended.wait())
        # A task whose call has just ended goes on: gRPC prints the traceback of one that is cancelled at that moment.
        self._loop.run_until_complete(asyncio.sleep(0))
        # The calls that were ended learn of it: their tasks are cancelled and run to their end.
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        self._loop.close()


async def _new_server(handler: grpc.GenericRpcHandler, options: Options) -> grpc.aio.Server:
    return grpc.aio.server(handlers=(handler,), options=options)


UNIX = "unix:"
_LOCK = ".symd.lock"
TLS = "tls:"
MAX_PATH = 107
"""Bytes of a Unix socket's path (unix(7): sun_path, less its end)."""


@contextmanager
def listening(server: GrpcServer, address: str, authenticator: Authenticator | None = None) -> Iterator[str]:
    """Let the server listen at ``address`` and give the address that clients use; a socket is removed at the end.
    Without a authenticator of its listen that is a Unix socket for the daemon's user.

    Raises ``InvalidInput`` for what is no address, ``FailedPrecondition`` for what would let strangers in or when
    somebody else answers there, and ``Unavailable`` when the system refuses.
    """
    authenticator = authenticator or build_authenticator(ListenConfig())
    if not address.startswith(UNIX):
        yield _listen_tcp(server, address, authenticator)
        return
    path = socket_path(address)
    with locked_folder(path.parent, f"--address {own_folder_address(path)}"):
        _clear(path)
        mine = _bind(server, path, authenticator.listen.socket_group)
    try:
        yield f"{UNIX}{path}"
    finally:
        _remove(path, mine)


def socket_path(address: str) -> Path:
    """The path in ``unix:PATH`` or ``unix:///PATH``. Raises ``InvalidInput``."""
    rest = address.removeprefix(UNIX)
    return _checked(
        Path("/" + rest.lstrip("/") if rest.startswith("//") else rest).absolute(), address if rest else UNIX
    )


def _checked(path: Path, address: str) -> Path:
    """The path, unless it is too long for a socket."""
    if address == UNIX or max(len(os.fsencode(each)) for each in (path, _given(path))) > MAX_PATH:
        raise InvalidInput(
            "a Unix socket's path has 1 to 107 bytes", where=address, hint="choose a shorter path with --address"
        )
    if not is_utf8(str(path)):
        raise InvalidInput(
            "the socket's path is not UTF-8, and gRPC takes no other", where=str(path), hint="choose another --address"
        )
    return path


def _listen_tcp(server: GrpcServer, address: str, authenticator: Authenticator) -> str:
    named = host_and_port(address.removeprefix(TLS)) if is_utf8(address) else None
    if named is None:
        example = address if address.isdecimal() else "50051"
        hint = f"give unix:PATH or HOST:PORT, such as 127.0.0.1:{example}"
        raise InvalidInput("not an address to listen at", where=address, hint=hint)
    host, port = named
    try:
        if authenticator.certificates is not None:
            return f"{TLS}{host}:{server.add_secure_port(f'{host}:{port}', authenticator.certificates.credentials())}"
        _check_plain(address, authenticator)
        return f"{host}:{server.add_insecure_port(address)}"
    except RuntimeError as error:
        raise _refusal(host, port, address) from error


def _refusal(host: str, port: int, where: str) -> FailedPrecondition:
    """Why the system does not let a program listen there, which gRPC does not tell."""
    try:
        bound(f"{host}:{port}", "--address")[0].close()
    except FailedPrecondition as error:
        return FailedPrecondition(error.message, where=where, hint=error.hint)
    return FailedPrecondition(
        "cannot listen there: the system does not say why", where=where, hint="choose another with --address"
    )


def _check_plain(address: str, authenticator: Authenticator) -> None:
    """Raises ``FailedPrecondition`` where plain TCP would let anybody in, or let anybody read tokens."""
    if address.startswith(TLS):
        raise FailedPrecondition(
            "TLS takes a certificate and its key", where=address, hint="give --tls-cert and --tls-key"
        )
    if authenticator.listen.insecure or (authenticator.listen.access is not None and is_loopback(address)):
        return
    if authenticator.listen.access is not None:
        ways, what = "give --tls-cert and --tls-key too", "tokens would be read on their way"
    else:
        ways = "give --tls-cert and --tls-key, or listen at unix:PATH, or at 127.0.0.1 with --access FILE"
        what = "it lets in anyone who can reach the port, at least every user of this machine"
    raise FailedPrecondition(ways, where=address, hint=f"no plain TCP: {what}; --insecure accepts that")


@contextmanager
def locked_folder(folder: Path, elsewhere: str) -> Iterator[None]:
    """A socket's folder, made where it is not there, under a lock: of two daemons that start at once only one wins.
    Raises ``FailedPrecondition``, which tells to choose ``elsewhere``, where others may change it, and
    ``Unavailable``."""
    own = own_socket()
    try:  # a mistyped path is not made from its beginning: only of the socket that nobody needs to name
        make_folder(folder, parents=own is not None and folder == own.parent, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise _unusable(folder, error, elsewhere) from error
    _check_folder(folder, status, elsewhere)
    with ExitStack() as stack:
        try:
            stack.enter_context(private_lock(folder / _LOCK))
        except OSError as error:
            raise _unusable(folder, error, elsewhere) from error
        yield


def own_folder_address(path: Path) -> str:
    """The address of a socket of the same name in the folder of the daemon that nobody needs to name."""
    own = own_socket()
    return f"{UNIX}{own.parent if own is not None else 'FOLDER'}/{path.name}"


def _unusable(folder: Path, error: OSError, elsewhere: str) -> Unavailable:
    hint = f"choose a folder that can be made, or that you may write in: {elsewhere}"
    if isinstance(error, FileNotFoundError):
        hint = f"the folder above it, which symd does not make, is not there: mkdir -p {quote(str(folder.parent))}, or choose another: {elsewhere}"
    return Unavailable(f"cannot use the folder: {os_error_text(error)}", where=str(folder), hint=hint)


def _check_folder(folder: Path, status: os.stat_result, elsewhere: str) -> None:
    """Raises ``FailedPrecondition`` where another user could put a socket of his in the place of ours."""
    hint = f"let it listen in a folder of its own: {elsewhere}"
    if status.st_uid not in (0, os.geteuid()):
        raise FailedPrecondition("the socket's folder belongs to another user", where=str(folder), hint=hint)
    if status.st_mode & 0o022:
        if not status.st_mode & stat.S_ISVTX:  # a folder of all users, such as /tmp, stays as it is
            hint = f"chmod go-w {quote(str(folder))}, or {hint}"
        raise FailedPrecondition("other users may change the socket's folder", where=str(folder), hint=hint)
    above = replaceable(folder)
    if above is not None:
        raise FailedPrecondition(
            "other users may put another folder in the place of the socket's", where=str(above), hint=hint
        )


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
            "another daemon answers there",
            where=str(path),
            hint="ask that one, stop it, or choose another path with --address",
        )
    path.unlink(missing_ok=True)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        code = probe.connect_ex(str(path))
    return code not in (errno.ECONNREFUSED, errno.ENOENT)


def _bind(server: GrpcServer, path: Path, group: int | None) -> os.stat_result:
    """Bind with a mode that never is wider than 0600, or 0660 for the group.

    gRPC removes the path that it was given when it ends, whoever's socket is there by then; so it is given another
    one, and the socket is renamed.
    """
    given = _given(path)
    try:
        with private_umask():
            server.add_insecure_port(f"{UNIX}{given}")
        if group is not None:
            os.chown(given, -1, group)
            given.chmod(0o660)
        given.rename(path)
    except (RuntimeError, OSError) as error:
        hint = "is the folder writable?" if group is None else "is the folder writable, and are you in --socket-group?"
        raise Unavailable("cannot make the socket", where=str(path), hint=hint) from error
    return path.lstat()


def _given(path: Path) -> Path:
    """The path that gRPC is given for a socket that ends up at ``path``."""
    return path.with_name(f".{os.getpid()}")


def _remove(path: Path, mine: os.stat_result) -> None:
    """Remove our socket, unless somebody else has put his there."""
    with suppress(FileNotFoundError):
        if os.path.samestat(path.lstat(), mine):
            path.unlink()
