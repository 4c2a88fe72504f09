"""debuginfod's servers, asked for what is missing here: modules and sources by build ID (elfutils, debuginfod(8),
"WEBAPI").

Only who starts symd says which servers are asked; what a module, a profile or a client says is at most the ID and the
path that they are asked for."""

from __future__ import annotations

import http.client
import os
import re
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeVar

from symd.config import Limits
from symd.errors import BadQuery, InvalidInput, LimitExceeded, ServerUnavailable
from symd.formats.debug_ids import checked_name
from symd.model.frame_text import printable
from symd.system.messages import os_error_text

Result = TypeVar("Result")

ENVIRONMENT: Final = "DEBUGINFOD_URLS"
"""elfutils' variable: URLs with blanks between them. Read only where somebody says so."""
SECONDS: Final = 60.0
"""Seconds that one server is asked for one file altogether, however its bytes come."""
_WAIT_SECONDS: Final = 15.0
"""Seconds for which a server may say nothing."""
_PIECE: Final = 1 << 16
_PORTS: Final = {"http": 80, "https": 443}
_SCHEMES: Final = tuple(_PORTS)
_MISSING: Final = frozenset({400, 404, 406, 410})
"""Statuses of a server that does not have it, or does not know what it is."""
_BLANK: Final = re.compile(r"\s+")
_SHOWN: Final = 300
"""Characters of what a server said that an error repeats."""
_CUT: Final = "it stopped in the middle of the file"
_BYTES: Final = re.compile(r"[0-9]{1,19}")
"""A number of bytes: fewer digits than Python refuses to read, and none that only other scripts have."""


def checked_urls(urls: Sequence[str]) -> tuple[str, ...]:
    """URLs of servers without a slash at the end. Raises InvalidInput."""
    found = []
    for url in urls:
        if problem := _problem(url):
            raise InvalidInput(
                f"it is not the URL of a debuginfod server{problem}",
                where=url,
                hint="write http://HOST or https://HOST/PATH",
            )
        found.append(url.rstrip("/"))
    return tuple(found)


def _problem(url: str) -> str:
    """What is wrong with a URL, as the end of a sentence; "" where nothing is."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        host.encode("idna")
    except UnicodeError:
        return ": its host is not a name that can be looked up"
    except ValueError as error:
        return f": {os_error_text(error)}"
    if parts.scheme not in _SCHEMES or not host or parts.query or parts.fragment or _BLANK.search(url):
        return ": it lacks http:// or https:// or a host, or has more than a path behind them"
    if parts.username is not None:
        return ": it names a user, and symd sends no password"
    return "" if parts.path.isascii() else ": its path has characters that a URL writes as %XX"


class DebuginfodServers:
    """The servers at ``urls``, asked in this order. Files of more than ``limits.module_size`` bytes, and texts of more
    than ``limits.source_size``, are refused."""

    def __init__(self, urls: Sequence[str], limits: Limits, seconds: float = SECONDS) -> None:
        self.urls = checked_urls(urls)
        self._limits = limits
        self._seconds = seconds

    def executable(self, build_id: str) -> bytes | None:
        """The file of that build ID; None where no server has it. Raises BadQuery, LimitExceeded, and ServerUnavailable
        where a server that may have it does not answer."""
        return self.stream_executable(build_id, b"".join)

    def stream_executable(self, build_id: str, consume: Callable[[Iterator[bytes]], Result]) -> Result | None:
        """What ``consume`` makes of the pieces of that file, one after another. It is called for each server that
        begins to send one; what it raises is raised, but for the ServerUnavailable of pieces that end too early."""
        return self._first_found(f"buildid/{checked_name(build_id)}/executable", self._limits.module_size, consume)

    def debuginfo(self, build_id: str) -> bytes | None:
        """The file with the debug data of that build ID; None where no server has it. Raises BadQuery,
        LimitExceeded, and ServerUnavailable where a server that may have it does not answer."""
        return self._first_found(f"buildid/{checked_name(build_id)}/debuginfo", self._limits.module_size, b"".join)

    def source(self, build_id: str, file: str) -> bytes | None:
        """The source file whose absolute path in the debug data is ``file``; None where no server has it. Raises
        BadQuery, LimitExceeded, and ServerUnavailable where a server that may have it does not answer."""
        if not file.startswith("/") or "\0" in file:
            raise BadQuery("debuginfod has sources by their absolute paths", where=file[:200])
        path = urllib.parse.quote(file, safe="/")
        return self._first_found(f"buildid/{checked_name(build_id)}/source{path}", self._limits.source_size, b"".join)

    def _first_found(self, path: str, largest: int, consume: Callable[[Iterator[bytes]], Result]) -> Result | None:
        failed: ServerUnavailable | None = None
        for url in self.urls:
            try:
                found = self._ask(f"{url}/{path}", largest, consume)
            except ServerUnavailable as error:
                failed = failed or error
                continue
            if found is not None:
                return found
        if failed is not None:
            raise failed
        return None

    def _ask(self, url: str, largest: int, consume: Callable[[Iterator[bytes]], Result]) -> Result | None:
        request = urllib.request.Request(url, headers={"accept-encoding": "identity"})  # noqa: S310 - checked_urls
        with _TimedConnections(self._seconds) as connections:
            opener = urllib.request.build_opener(_Redirects(), _HttpHandler(connections))
            try:
                answer = opener.open(request, timeout=min(_WAIT_SECONDS, self._seconds))
            except urllib.error.HTTPError as error:
                with closing(error):  # it may be closed already, which its own __enter__ refuses
                    if error.code in _MISSING:
                        return None
                    _fail(url, f"it answers with status {error.code}")
            except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
                _fail(url, connections.why or _asking_failed(error))
            with answer:
                return consume(_pieces(answer, url, largest, connections))


class _TimedConnections:
    """The connections that are made to ask one server, which end when the time is over: a server that sends a byte now
    and then never makes a single read wait too long. ``why`` says that it was over."""

    def __init__(self, seconds: float) -> None:
        self.why = ""
        self._copies: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for each in self._copies:
                each.close()
            self._copies.clear()

    def connect(self, *arguments: Any, **named: Any) -> socket.socket:
        """Connect like ``socket.create_connection``."""
        made = socket.create_connection(*arguments, **named)
        with self._lock:
            self._copies.append(socket.socket(fileno=os.dup(made.fileno())))  # whoever reads may close the other one
        if self.why:
            self._end()
        return made

    def _end(self) -> None:
        self.why = "it sends too slowly"
        with self._lock:
            for each in self._copies:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


class _HttpHandler(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Opens http and https over timed connections, in place of both handlers of urllib."""

    def __init__(self, connections: _TimedConnections) -> None:
        super().__init__()
        self._connections = connections

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open like its base."""
        return self.do_open(partial(self._connection, http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open like its base."""
        return self.do_open(partial(self._connection, http.client.HTTPSConnection), req)

    def _connection(
        self, kind: type[http.client.HTTPConnection], host: str, **named: Any
    ) -> http.client.HTTPConnection:
        made = kind(host, **named)
        made._create_connection = self._connections.connect  # type: ignore[attr-defined] # noqa: SLF001 - no other way before the handshake of TLS
        return made


def _pieces(answer: Any, url: str, largest: int, connections: _TimedConnections) -> Iterator[bytes]:
    """The pieces of an answer. Raises LimitExceeded and ServerUnavailable."""
    announced = _announced(answer, url)
    if announced is not None and announced > largest:
        _refuse_size(url, largest)
    size = 0
    try:
        while piece := answer.read1(_PIECE):
            size += len(piece)
            if size > largest:
                _refuse_size(url, largest)
            yield piece
    except (OSError, http.client.HTTPException) as error:
        _fail(url, connections.why or _asking_failed(error))
    if connections.why:
        _fail(url, connections.why)
    if announced is not None and announced != size:
        _fail(url, _CUT)


def _announced(answer: Any, url: str) -> int | None:
    """The bytes that the server says it sends; None where it does not. Raises ServerUnavailable where that is no number
    of bytes."""
    length = answer.headers.get("content-length")
    if length is None:
        return None
    if not _BYTES.fullmatch(length.strip()):
        _fail(url, "its Content-Length is not a number of bytes")
    return int(length)


def _refuse_size(url: str, largest: int) -> NoReturn:
    raise LimitExceeded(f"the server sends more than {largest} bytes", where=url)


def _asking_failed(error: Exception) -> str:
    """What went wrong, in words: exceptions of http.client have what the server sent, or none."""
    reason = getattr(error, "reason", None) or error  # urllib wraps what the system said
    if isinstance(reason, http.client.IncompleteRead):
        return _CUT
    if isinstance(reason, http.client.RemoteDisconnected):
        return "it ended the connection without an answer"
    if isinstance(reason, (http.client.BadStatusLine, http.client.UnknownProtocol)):
        return f"it does not answer in HTTP: {reason}"
    return f"it cannot be asked: {os_error_text(reason) if isinstance(reason, Exception) else reason}"


def _fail(url: str, why: str) -> NoReturn:
    raise ServerUnavailable(
        printable(why[:_SHOWN]), where=url, hint="ask again later, or name another server with --debuginfod"
    )


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server to itself alone, by http and https, and from https to https: where else it leads is not what was
    named."""

    max_redirections = 5

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if new.scheme not in _SCHEMES or (old.scheme == "https" and new.scheme != "https"):
            fp.close()
            raise urllib.error.URLError(f"it leads to {new.scheme}:, which is not followed")
        ports = _port(old), _port(new)
        if new.hostname != old.hostname or (ports[0] != ports[1] and ports != (_PORTS["http"], _PORTS["https"])):
            fp.close()
            raise urllib.error.URLError(f"it leads to {new.netloc[:200]}, which was not named")
        fp.close()  # urllib would read all that comes with it, into memory
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _port(url: urllib.parse.SplitResult) -> int | None:
    try:
        return url.port or _PORTS[url.scheme]
    except ValueError:
        return None
