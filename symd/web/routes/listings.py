"""The instructions of a kernel or of a code object, with the locations that they come from; and the level between, where the module has one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from symd.errors import NotFound
from symd.model.debug_info import RowFlag
from symd.model.identities import ObjectPath
from symd.model.line_tables import LineLevel, LineTable
from symd.model.listings import ListingPart
from symd.web.listing_columns import listing_json
from symd.web.routes.modules import checked
from symd.web.site import Asked, Effort, Reply, Site, WebRoute, json_reply

PTX: Final = "PTX"


def _listing(site: Site, asked: Asked) -> Reply:
    path = asked.only("object")
    part = ListingPart(None if path is None else ObjectPath(path), asked.only("kernel"), asked.only("target"))
    found = next(site.symbolizer.listing(checked(site, asked), part), None)
    if found is None:
        raise NotFound("there is no code to list", where=path or "")
    return json_reply(listing_json(found))


def _level(site: Site, asked: Asked) -> Reply:
    """The PTX of a code object: its text, and which of its lines each instruction comes from."""
    digest, path = checked(site, asked), asked.required("object")
    table = next(iter(site.symbolizer.lines(digest, path, LineLevel.PTX)), None)
    if table is None:
        return json_reply({"level": None})
    return json_reply(_ptx(site, digest, table))


def _ptx(site: Site, digest: str, table: LineTable) -> dict[str, Any]:
    names = sorted({table.strings[number] for number in set(table.file.tolist())} - {""})
    texts = {each.file: (each.text or "").split("\n") for each in site.sources(digest, names, table.path)}
    starts: dict[str, int] = {}
    lines: list[str] = []
    for name in names:
        starts[name] = len(lines)
        lines += texts.get(name, [])
    first = np.array([starts.get(table.strings[number], 0) for number in range(len(table.strings))], np.int64)
    section = np.array([each.section_index for each in table.text_sections], np.int64)
    return {
        "level": PTX,
        "object": table.path,
        "lines": lines,
        "section_index": section[table.text_section].tolist(),
        "offset": table.offset.tolist(),
        "line": np.where(table.line, table.line.astype(np.int64) + first[table.file], 0).tolist(),
        "end_sequence": (table.flags & RowFlag.END_SEQUENCE != 0).tolist(),
    }


ROUTES = (
    WebRoute("/api/modules/{digest}/listing", _listing, effort=Effort.LARGE),
    WebRoute("/api/modules/{digest}/level", _level, effort=Effort.LARGE),
)
