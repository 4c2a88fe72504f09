"""What debuginfod's clients ask for: modules, debug data, sources and sections by build ID (elfutils, debuginfod(8),
"WEBAPI"); and modules that a daemon lacks, from the debuginfod servers that its operator named.

Debug data of GPU code lies in the code object itself, so that ``debuginfo`` and ``executable`` are the same file, where
it has debug data. A build ID becomes an alias of a module that was fetched by it."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from symd.api import Host
from symd.errors import LimitExceeded, NotFound, ServerUnavailable, SymdError, Unsupported
from symd.formats.debug_ids import ALIAS_KIND, NamedObject, checked_name, other_build_ids
from symd.model.code import DebugScheme
from symd.model.contexts import Alias
from symd.model.summaries import ModuleSummary
from symd.server.http.site import CostClass, HttpRequest, Reply, Site, WebRoute

if TYPE_CHECKING:
    from symd.engine.debuginfod_client import DebuginfodServers

BINARY: Final = "application/octet-stream"
PIECE: Final = 1 << 18
"""Bytes that are sent at a time."""


def _executable(site: Site, asked: HttpRequest) -> Reply:
    return _file(site, _named(site, asked)[0])


def _debuginfo(site: Site, asked: HttpRequest) -> Reply:
    found = _named(site, asked)
    described = next((each for each in found if _has_debug_data(site, each)), None)
    if described is None:
        raise NotFound("the module has no debug data", where=asked.parts["build_id"])
    return _file(site, described)


def _source(site: Site, asked: HttpRequest) -> Reply:
    path = asked.parts["path"]
    names = [f"/{path}", path]
    for each in _named(site, asked):
        for found in site.sources(each.digest, names, each.path):
            if found.text is not None:
                return Reply(found.text.encode("utf-8", "surrogateescape"), BINARY)
    raise NotFound("nobody here has that source file, or no code of the module names it", where=f"/{path[:500]}")


def _section(site: Site, asked: HttpRequest) -> Reply:
    each = _named(site, asked)[0]
    return Reply(_contents(site).section_data(each.digest, each.path, asked.parts["section"]), BINARY)


def _named(site: Site, asked: HttpRequest) -> Sequence[NamedObject]:
    """What the build ID stands for, of what is shown here. Raises BadQuery and NotFound."""
    found = site.of_build_id(asked.parts["build_id"])
    if not found:
        raise NotFound("no module has that build ID", where=asked.parts["build_id"][:200])
    return found


def _has_debug_data(site: Site, named: NamedObject) -> bool:
    objects = site.symbolizer.module(named.digest).objects
    return any(each.debug != DebugScheme.NONE.value for each in objects if named.path in (None, each.path))


def _file(site: Site, named: NamedObject) -> Reply:
    contents = _contents(site)
    size, pieces = _pieces(site, contents, named)
    return Reply(pieces, BINARY, headers={"x-debuginfod-size": str(size)})


def _pieces(site: Site, contents: Host, named: NamedObject) -> tuple[int, Iterator[bytes]]:
    if named.path is None:
        return site.symbolizer.record(named.digest).size, contents.module_pieces(named.digest, PIECE)
    objects = site.symbolizer.module(named.digest).objects
    size = next((each.size for each in objects if each.path == named.path), 0)
    return size, contents.object_pieces(named.digest, named.path, PIECE)


def _contents(site: Site) -> Host:
    if site.contents is None:
        raise Unsupported("this server does not give modules away")
    return site.contents


ROUTES = (
    WebRoute("/buildid/{build_id}/executable", _executable, effort=CostClass.LARGE),
    WebRoute("/buildid/{build_id}/debuginfo", _debuginfo, effort=CostClass.LARGE),
    WebRoute("/buildid/{build_id}/source/{path:path}", _source, effort=CostClass.LARGE),
    WebRoute("/buildid/{build_id}/section/{section}", _section, effort=CostClass.LARGE),
)


log = logging.getLogger("symd.server")

MISSING_SECONDS: Final = 600.0
"""How long a build ID that no server had is not asked for again."""
MAX_MISSING: Final = 4096
"""Build IDs of which that is remembered."""
MIN_SERVER_DIGITS: Final = 16
"""Hexadecimal digits that a build ID has at least, here: servers know nothing by the beginning of one."""


class ModuleFetcher:
    """Fetches modules by build ID into the store. Safe to use from several threads."""

    def __init__(self, engine: Host, servers: DebuginfodServers) -> None:
        self._engine, self._servers = engine, servers
        self._missing: dict[str, float] = {}
        self._lock = threading.Lock()

    def __call__(self, build_id: str) -> bool:
        """Fetch a module; whether the store has it now. Raises BadQuery for what is no build ID, ServerUnavailable
        where no server answers, and LimitExceeded for a file that is too large."""
        name = checked_name(build_id)
        if len(name) < MIN_SERVER_DIGITS or self._is_missing(name):
            return False
        try:
            module = self._servers.stream_executable(name, partial(self._keep, name))
        except ServerUnavailable:
            raise
        except LimitExceeded:
            self._note_missing(name)
            raise
        except SymdError as error:  # what has no device code is nothing that symd keeps
            log.info("debuginfod's file of build ID %s is not kept: %s", name, error)
            module = None
        if module is None or self._is_another(name, module):
            self._note_missing(name)
            return False
        self._engine.aliases.add([Alias(ALIAS_KIND, name, module.sha256)])
        return True

    def _keep(self, name: str, pieces: Iterator[bytes]) -> ModuleSummary:
        """Keep a module in the store, piece by piece: in memory there is never more than one."""
        digest = hashlib.sha256()
        with self._engine.receive(f"build-id {name}") as arriving:
            for piece in pieces:
                digest.update(piece)
                arriving.write(piece)
            return arriving.commit(digest.hexdigest())

    def _is_another(self, name: str, module: ModuleSummary) -> bool:
        """Whether the file carries other build IDs: it is kept under its digest, as any module is, and this build ID
        names nothing."""
        others = other_build_ids(module, name)
        if others:
            log.warning("debuginfod's file of build ID %s is of another, %s: it is not believed", name, others[0][:80])
        return bool(others)

    def _is_missing(self, name: str) -> bool:
        with self._lock:
            noted = self._missing.get(name)
        return noted is not None and time.monotonic() - noted < MISSING_SECONDS

    def _note_missing(self, name: str) -> None:
        with self._lock:
            if len(self._missing) >= MAX_MISSING:
                self._missing.clear()
            self._missing[name] = time.monotonic()
