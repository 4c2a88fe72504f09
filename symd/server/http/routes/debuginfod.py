"""What debuginfod's clients ask for: modules, debug data, sources and sections by build ID (elfutils, debuginfod(8),
"WEBAPI").

Debug data of GPU code lies in the code object itself, so that ``debuginfo`` and ``executable`` are the same file, where
it has debug data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from symd.api import Host
from symd.errors import NotFound, Unsupported
from symd.formats.debug_ids import NamedObject
from symd.model.code import DebugScheme
from symd.server.http.site import CostClass, HttpRequest, Reply, Site, WebRoute

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
