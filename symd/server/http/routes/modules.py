"""Which modules there are, and what is inside one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from symd.errors import ModuleNotFound
from symd.model.json.summaries import module_json
from symd.model.names import Match, NameKind, NameQuery
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.server.http.site import HttpRequest, Reply, Site, WebRoute, json_reply

MANGLED: Final = "_Z"
"""How mangled names begin (Itanium C++ ABI)."""
MOST_READABLE: Final = 2_000
"""Kernels of a module whose readable names are looked for."""
MOST_MODULES: Final = 10_000
"""Modules of one answer."""


def _list(site: Site, _asked: HttpRequest) -> Reply:
    records = [*islice(_shown(site), MOST_MODULES + 1)]
    return json_reply(
        {"modules": [_record_json(each) for each in records[:MOST_MODULES]], "more": len(records) > MOST_MODULES}
    )


def _shown(site: Site) -> Iterator[ModuleRecord]:
    return site.symbolizer.modules() if site.only is None else map(site.symbolizer.record, site.only)


def _record_json(record: ModuleRecord) -> dict[str, Any]:
    return {
        "sha256": record.sha256,
        "label": record.label,
        "format": record.format,
        "size": record.size,
        "create_time": record.create_time,
        "failure": record.failure or None,
    }


def _one(site: Site, asked: HttpRequest) -> Reply:
    digest = checked(site, asked)
    record = site.symbolizer.record(digest)
    summary = site.symbolizer.module(digest)
    return json_reply(
        _record_json(record)
        | {"summary": module_json(record.label, summary), "readable": _readable(site, digest, summary)}
    )


def _readable(site: Site, digest: str, summary: ModuleSummary) -> dict[str, str]:
    """The names of kernels as they were written, by the names that their symbols have, where the debug data has both."""
    kernels = {kernel.name for each in summary.objects for kernel in each.kernels}
    if not any(name.startswith(MANGLED) for name in kernels) or len(kernels) > MOST_READABLE:
        return {}
    functions = site.symbolizer.names(digest, NameQuery("*", Match.GLOB, frozenset((NameKind.FUNCTION,))))
    return {each.linkage_name: each.name for each in functions if each.linkage_name and each.linkage_name in kernels}


def checked(site: Site, asked: HttpRequest) -> str:
    """The module that the path names, if it is shown here. Raises InvalidInput and ModuleNotFound."""
    digest = asked.digest()
    if site.only is not None and digest not in site.only:
        raise ModuleNotFound("this module is not shown here", where=digest)
    return digest


ROUTES = (WebRoute("/api/modules", _list), WebRoute("/api/modules/{digest}", _one))
