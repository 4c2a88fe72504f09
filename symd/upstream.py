"""debuginfod's servers, asked for what is missing here: modules and sources by build ID (elfutils, debuginfod(8), "WEBAPI").

Only who starts symd says which servers are asked; what a module, a profile or a client says is at most the ID and the path that they are asked for."""

from __future__ import annotations

import http.client
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from symd.config import Limits
from symd.debug_ids import checked_name
from symd.errors import BadQuery, InvalidInput, LimitExceeded, ServerUnavailable

ENVIRONMENT: Final = "DEBUGINFOD_URLS"
"""elfutils' variable: URLs with blanks between them. Read only where somebody says so."""
SECONDS: Final = 60.0
"""So long one server is asked for one file, altogether."""
_WAIT_SECONDS: Final = 15.0
"""So long it may say nothing."""
_PIECE: Final = 1 << 16
_SCHEMES: Final = ("http", "https")
_MISSING: Final = frozenset({400, 404, 406, 410})
"""Statuses of a server that does not have it, or does not know what it is."""
_BLANK: Final = re.compile(r"\s+")


def checked_urls(urls: Sequence[str]) -> tuple[str, ...]:
    """URLs of servers without a slash at the end. Raises InvalidInput."""
    found = []
    for url in urls:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in _SCHEMES or not parts.hostname or parts.query or parts.fragment or _BLANK.search(url):
            raise InvalidInput(
                "it is no URL of a debuginfod server", where=url, hint="write http://HOST or https://HOST/PATH"
            )
        found.append(url.rstrip("/"))
    return tuple(found)


class Upstream:
    """The servers at ``urls``, asked in this order. Files of more than ``limits.module_size`` bytes, and texts of more than ``limits.source_size``,
    are refused."""

    def __init__(self, urls: Sequence[str], limits: Limits, seconds: float = SECONDS) -> None:
        self.urls = checked_urls(urls)
        self._limits = limits
        self._seconds = seconds
        self._opener = urllib.request.build_opener(_Redirects())

    def executable(self, build_id: str) -> bytes | None:
        """The file of that build ID; None where no server has it. Raises BadQuery, LimitExceeded, and ServerUnavailable where a server that may have it
        does not answer."""
        return self._first(f"buildid/{checked_name(build_id)}/executable", self._limits.module_size)

    def debuginfo(self, build_id: str) -> bytes | None:
        """Its debug data, likewise."""
        return self._first(f"buildid/{checked_name(build_id)}/debuginfo", self._limits.module_size)

    def source(self, build_id: str, file: str) -> bytes | None:
        """A source file by its absolute path in the debug data, likewise."""
        if not file.startswith("/") or "\0" in file:
            raise BadQuery("debuginfod has sources by their absolute paths", where=file[:200])
        path = urllib.parse.quote(file, safe="/")
        return self._first(f"buildid/{checked_name(build_id)}/source{path}", self._limits.source_size)

    def _first(self, path: str, largest: int) -> bytes | None:
        failed: ServerUnavailable | None = None
        for url in self.urls:
            try:
                found = self._asked(f"{url}/{path}", largest)
            except ServerUnavailable as error:
                failed = failed or error
                continue
            if found is not None:
                return found
        if failed is not None:
            raise failed
        return None

    def _asked(self, url: str, largest: int) -> bytes | None:
        until = time.monotonic() + self._seconds
        request = urllib.request.Request(url, headers={"accept-encoding": "identity"})  # noqa: S310 - checked_urls
        try:
            with self._opener.open(request, timeout=min(_WAIT_SECONDS, self._seconds)) as answer:
                return _taken(answer, url, largest, until)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in _MISSING:
                    return None
                _fail(url, f"it answers with status {error.code}")
        except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
            _fail(url, f"it cannot be asked: {getattr(error, 'reason', None) or error}")


def _taken(answer: Any, url: str, largest: int, until: float) -> bytes:
    taken = bytearray()
    while piece := answer.read(_PIECE):
        taken += piece
        if len(taken) > largest:
            raise LimitExceeded(f"the server sends more than {largest} bytes", where=url)
        if time.monotonic() > until:
            _fail(url, "it sends too slowly")
    announced = answer.headers.get("content-length")
    if announced is not None and announced.isdigit() and int(announced) != len(taken):
        _fail(url, "it stopped in the middle of the file")
    return bytes(taken)


def _fail(url: str, why: str) -> NoReturn:
    raise ServerUnavailable(why, where=url, hint="ask again later, or name another server with --debuginfod")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server to http and https alone, and from https to https."""

    max_redirections = 5

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme not in _SCHEMES or (req.type == "https" and scheme != "https"):
            fp.close()
            raise urllib.error.URLError(f"it leads to {scheme}:, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
