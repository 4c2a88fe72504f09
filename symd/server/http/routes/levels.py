"""The level between source and machine code, where the module carries it: PTX, linked by address, or SPIR-V, linked by source line."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from symd.errors import SymdError
from symd.model.code import CodeKind
from symd.model.debug_info import RowFlag
from symd.model.identities import ObjectPath
from symd.model.line_tables import LineLevel, LineTable
from symd.model.listings import Listing, ListingPart
from symd.server.http.routes.modules import checked
from symd.server.http.site import CostClass, HttpRequest, Reply, Site, WebRoute, json_reply

PTX: Final = "PTX"
SPIRV: Final = "SPIR-V"


def _level(site: Site, asked: HttpRequest) -> Reply:
    """``{"level": null}`` where there is none, or where what shows it is not installed: ``problem`` says so."""
    digest, path, kernel = checked(site, asked), asked.required("object"), asked.only("kernel")
    table = next(iter(site.symbolizer.lines(digest, path, LineLevel.PTX)), None)
    if table is not None:
        return json_reply(_ptx(site, digest, table))
    between = _spirv_object(site, digest, path, kernel)
    if between is None:
        return json_reply({"level": None})
    try:
        (listing,) = site.symbolizer.listing(digest, ListingPart(between))
    except SymdError as error:
        return json_reply({"level": None, "problem": str(error)})
    return json_reply(_spirv(listing))


def _spirv_object(site: Site, digest: str, path: str, kernel: str | None) -> ObjectPath | None:
    """The SPIR-V beside a code object that has the same kernel; None for SPIR-V itself. All of its functions are shown: what was inlined stands in
    others than the kernel."""
    objects = site.symbolizer.module(digest).objects
    if kernel is None or any(each.path == path and each.kind is CodeKind.SPIRV for each in objects):
        return None
    spirv = (each for each in objects if each.kind is CodeKind.SPIRV)
    return next((each.path for each in spirv if any(other.name == kernel for other in each.kernels)), None)


def _spirv(listing: Listing) -> dict[str, Any]:
    """Each line with the innermost source line that it comes from: ``source_file`` is a number of ``files``, ``source_line`` 0 where there
    is none."""
    answers = listing.answers
    locations = answers.locations
    numbers = answers.location.astype(np.int64)
    names, file = np.unique(locations.file[numbers], return_inverse=True)
    return {
        "level": SPIRV,
        "object": listing.path,
        "lines": list(listing.text),
        "files": [locations.strings[number] for number in names.tolist()],
        "source_file": file.tolist(),
        "source_line": locations.line[numbers].tolist(),
    }


def _ptx(site: Site, digest: str, table: LineTable) -> dict[str, Any]:
    """The PTX of a code object, and from which of its lines (from 1) the code at each row's address on comes; 0: from none."""
    names = sorted({table.strings[number] for number in set(table.file.tolist())} - {""})
    texts = {each.file: (each.text or "").splitlines() for each in site.sources(digest, names, table.path)}
    starts: dict[str, int] = {}
    lines: list[str] = []
    for name in names:
        starts[name] = len(lines)
        lines += texts.get(name, [])
    first = np.array([starts.get(each, 0) for each in table.strings], np.int64)
    section = np.array([each.section_index for each in table.text_sections], np.int64)
    line = table.line.astype(np.int64)
    return {
        "level": PTX,
        "object": table.path,
        "lines": lines,
        "section_index": section[table.text_section].tolist(),
        "offset": table.offset.tolist(),
        "line": np.where(line > 0, line + first[table.file], 0).tolist(),
        "end_sequence": (table.flags & RowFlag.END_SEQUENCE != 0).tolist(),
    }


ROUTES = (WebRoute("/api/modules/{digest}/level", _level, effort=CostClass.LARGE),)
