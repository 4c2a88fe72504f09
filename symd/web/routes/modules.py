"""Which modules there are, and what is inside one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from symd.answers_json.summaries import module_json
from symd.errors import ModuleNotFound
from symd.model.summaries import ModuleRecord
from symd.web.site import Asked, Reply, Site, WebRoute, json_reply

MOST_MODULES: Final = 10_000
"""Modules of one answer."""


def _list(site: Site, _asked: Asked) -> Reply:
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


def _one(site: Site, asked: Asked) -> Reply:
    digest = checked(site, asked)
    record = site.symbolizer.record(digest)
    return json_reply(_record_json(record) | {"summary": module_json(record.label, site.symbolizer.module(digest))})


def checked(site: Site, asked: Asked) -> str:
    """The module that the path names, if it is shown here. Raises InvalidInput and ModuleNotFound."""
    digest = asked.digest()
    if site.only is not None and digest not in site.only:
        raise ModuleNotFound("this module is not shown here", where=digest)
    return digest


ROUTES = (WebRoute("/api/modules", _list), WebRoute("/api/modules/{digest}", _one))
