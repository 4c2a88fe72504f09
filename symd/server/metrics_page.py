"""The metrics over HTTP, on a port or a Unix socket of their own: one page, to whoever asks, with no names of modules or clients."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, Final

from symd.errors import FailedPrecondition, InvalidInput
from symd.server.addresses import UNIX, locked_folder, socket_path
from symd.system.addresses import host_and_port, is_loopback
from symd.system.os_errors import os_error_text
from symd.system.private_files import bind_socket

SECONDS: Final = 5.0
"""The longest that a request may take, however slowly its bytes come."""
CONNECTIONS: Final = 16
"""The most connections at a time; where one more is opened the oldest is closed."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def metrics_served(address: str, page: Callable[[], bytes], *, open_to_all: bool = False) -> Iterator[str]:
    """Serve ``page`` at ``HOST:PORT`` or ``unix:PATH`` (mode 0600) while it lasts; the address. HOST is this machine's loopback,
    unless it is ``open_to_all``. PATH's folder is made where it is not there, and refused where others may change it, as that of the daemon's own
    socket is. Raises ``InvalidInput``, ``FailedPrecondition`` and ``Unavailable``."""
    server, where = _listen(address, page, open_to_all=open_to_all)
    thread = threading.Thread(target=server.serve_forever, name="symd-metrics", daemon=True)
    thread.start()
    try:
        yield where
    finally:
        server.shutdown()
        server.server_close()
        if where.startswith(UNIX):
            Path(where.removeprefix(UNIX)).unlink(missing_ok=True)


def _listen(address: str, page: Callable[[], bytes], *, open_to_all: bool) -> tuple[HTTPServer, str]:
    try:
        if address.startswith(UNIX):
            path = socket_path(address)
            with locked_folder(path.parent, "--metrics unix:FOLDER/metrics.sock"):
                return _listen_unix(path, page), f"{UNIX}{path}"
        named = host_and_port(address)
        if named is None:
            raise InvalidInput(
                "not an address for metrics", where=address, hint="give HOST:PORT, such as 127.0.0.1:9464, or unix:PATH"
            )
        if not (open_to_all or is_loopback(address)):
            raise FailedPrecondition(
                "other machines could read the metrics, and no password is asked for",
                where=address,
                hint="give 127.0.0.1:PORT or unix:PATH; --open-metrics for who wants it all the same",
            )
        host, port = named
        server = _Server((host, port), _handler(page))
        return server, f"{host}:{server.server_address[1]}"
    except OSError as error:
        raise FailedPrecondition(
            f"cannot tell metrics there: {os_error_text(error)}", where=address, hint="choose another with --metrics"
        ) from error


def _listen_unix(path: Path, page: Callable[[], bytes]) -> HTTPServer:
    with suppress(FileNotFoundError):
        if path.is_socket():
            path.unlink()
    return _UnixServer(path, page)


class _Server(ThreadingMixIn, HTTPServer):
    """A thread for each connection, few of them: who is slow holds up neither others nor the end of the daemon."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, for a while."""
        with self._lock:
            self._open.append(request)
            if len(self._open) > CONNECTIONS:
                _end(self._open.pop(0))
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer it, within ``SECONDS``."""
        deadline = threading.Timer(SECONDS, _end, (request,))
        deadline.daemon = True
        deadline.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()

    def shutdown_request(self, request: Any) -> None:
        """Forget it, before its descriptor may be another's."""
        with self._lock, suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes, or is left, is not told of."""


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _UnixServer(_Server):
    address_family = socket.AF_UNIX

    def __init__(self, path: Path, page: Callable[[], bytes]) -> None:
        super().__init__(str(path), _handler(page))

    def server_bind(self) -> None:
        """Bind; a path has no host name to look up."""
        bind_socket(self.socket, str(self.server_address))
        self.server_name, self.server_port = "localhost", 0


def _handler(page: Callable[[], bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = SECONDS

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            data = page()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_arguments: Any) -> None:
            """Who asks is not told: it happens every few seconds."""

        def address_string(self) -> str:
            return "metrics"

    return Handler
