"""The instructions of a kernel or of a code object, with their locations, as compact columns of JSON: what many
instructions share is there once, and numbers are given as differences. Also the level between source and machine code,
if the module carries it: PTX, linked by address, or SPIR-V, linked by source line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from symd.errors import NotFound, SymdError, ToolFailed, ToolMissing, Unsupported
from symd.model.answers import Locations
from symd.model.cancellation import cancelled_by
from symd.model.code import CodeKind
from symd.model.columns import I64
from symd.model.debug_info import RowFlag
from symd.model.identities import ObjectPath
from symd.model.line_tables import LineLevel, LineTable, Listing, ListingPart
from symd.model.summaries import KernelSummary
from symd.server.http.page import checked
from symd.server.http.site import CostClass, HttpRequest, Reply, Site, WebRoute, json_reply

TEXTS = ("kernel", "function", "linkage_name", "file")


def listing_json(listing: Listing) -> dict[str, Any]:
    """The instructions of one code object.

    ``location[i]`` is a row of ``locations``, whose row 0 is "nothing known"; a row's ``parent`` is the row that it was
    inlined into (0: nothing), and its texts are numbers of ``strings`` (0: none). ``sections`` are the text sections,
    and ``runs`` say how many instructions in a row lie in which of them. ``offset`` counts from the section's start:
    the first of a run as it is, each further one as the difference to the one before.
    """
    answers = listing.answers
    text_section = answers.text_section.astype(np.int64) - 1
    starts = np.flatnonzero(np.diff(text_section, prepend=-2)) if len(listing) else np.zeros(0, np.int64)
    counts = np.diff(starts, append=len(listing))
    offset = answers.offset.astype(np.int64)
    steps = np.diff(offset, prepend=0)
    steps[starts] = offset[starts]
    rows, location = _used(answers.locations, answers.location.astype(np.int64))
    sections = [answers.text_sections[int(text_section[at])] for at in starts.tolist()]
    return {
        "object": listing.path,
        "target": listing.target,
        "disassembler": listing.disassembler,
        "problem": listing.problem or None,
        "sections": [
            {"section": each.section, "section_index": each.section_index, "address": each.address} for each in sections
        ],
        "runs": counts.tolist(),
        "offset": steps.tolist(),
        "size": listing.size.tolist(),
        "text": list(listing.text),
        "location": location.tolist(),
        **locations_json(answers.locations, rows),
    }


def locations_json(locations: Locations, rows: Sequence[int]) -> dict[str, Any]:
    """``locations`` and ``strings`` of these rows, in this order behind row 0; the parents of all of them are among
    them."""
    numbers = {row: number for number, row in enumerate([0, *rows])}
    strings: dict[str, int] = {"": 0}
    columns: dict[str, list[int]] = {}
    wanted = np.array([0, *rows], np.int64)
    for name in TEXTS:
        texts = getattr(locations, name)[wanted].tolist()
        known = {number: locations.strings[number] for number in set(texts)}
        columns[name] = [strings.setdefault(known[number], len(strings)) for number in texts]
    for name in ("line", "column", "inlined", "reason"):
        columns[name] = getattr(locations, name)[wanted].tolist()
    columns["parent"] = [numbers[parent] for parent in locations.parent[wanted].tolist()]
    return {"locations": columns, "strings": list(strings)}


def _used(locations: Locations, location: I64) -> tuple[list[int], I64]:
    """The rows that the instructions point to, with their parents and without row 0; and each instruction's number
    among them."""
    used = np.unique(location)
    found = set(used.tolist())
    level = used
    while len(level):
        level = np.unique(locations.parent[level])
        level = level[~np.isin(level, list(found))]
        found |= set(level.tolist())
    rows = sorted(found - {0})
    numbers = np.zeros(max(found, default=0) + 1, np.int64)
    numbers[rows] = np.arange(1, len(rows) + 1)
    return rows, numbers[location]


def _listing(site: Site, asked: HttpRequest) -> Reply:
    digest, path, kernel = checked(site, asked), asked.query.get("object"), asked.query.get("kernel")
    part = ListingPart(None if path is None else ObjectPath(path), kernel, asked.query.get("target"))
    try:
        with cancelled_by(asked.check_is_there):
            found = next(site.symbolizer.listing(digest, part), None)
    except (ToolMissing, ToolFailed, Unsupported) as error:
        found = _without_text(site, digest, part, kernel, error)
    if found is None:
        raise NotFound("there is no code to list", where=path or "")
    return json_reply(listing_json(found))


def _without_text(site: Site, digest: str, part: ListingPart, named: str | None, error: SymdError) -> Listing:
    """Where nothing disassembles the code: the places at which its line table begins a row, without text; none where
    there is no such table."""
    error.where = error.where.removeprefix(f"modules/{digest}: ")  # the page is the module's
    table = next(iter(site.symbolizer.lines(digest, part.path)), None)
    if table is None or not len(table):
        return _without_instructions(site, digest, part, error)
    kernel = _kernel(site, digest, table.path, named)
    best = np.zeros(0, np.uint64), 0
    for number, section in enumerate(table.text_sections):
        offset = np.unique(table.offset[table.text_section == number])
        if kernel is not None:
            inside = (offset >= kernel.offset) & (offset < kernel.offset + kernel.size)
            offset = offset[inside] if section.section_index == kernel.section_index else offset[:0]
        if len(offset) > len(best[0]):
            best = offset, section.section_index
    offset, index = best
    if not len(offset):
        return _without_instructions(site, digest, part, error)
    answers = site.symbolizer.symbolize_column(digest, offset, section=index, path=table.path)
    size = np.diff(offset, append=offset[-1] + 1).astype(np.uint32)
    return Listing(table.path, table.target, "", answers, size, [""] * len(offset), str(error))


def _without_instructions(site: Site, digest: str, part: ListingPart, error: SymdError) -> Listing:
    """Raises the error where it is not said which code object is meant."""
    objects = site.symbolizer.module(digest).objects
    code = next((each for each in objects if each.path == part.path or len(objects) == 1), None)
    if code is None:
        raise error
    nowhere = site.symbolizer.symbolize_column(digest, np.zeros(0, np.uint64), path=code.path)
    return Listing(code.path, code.target, "", nowhere, np.zeros(0, np.uint32), [], str(error))


def _kernel(site: Site, digest: str, path: str, name: str | None) -> KernelSummary | None:
    summary = site.symbolizer.module(digest)
    kernels = (kernel for each in summary.objects if each.path == path for kernel in each.kernels)
    return next((kernel for kernel in kernels if kernel.name == name), None)


PTX: Final = "PTX"
SPIRV: Final = "SPIR-V"


def _level(site: Site, asked: HttpRequest) -> Reply:
    """``{"level": null}`` where there is none, or where what shows it is not installed: ``problem`` says so."""
    digest, path, kernel = checked(site, asked), asked.required("object"), asked.query.get("kernel")
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
    """The SPIR-V beside a code object that has the same kernel; None for SPIR-V itself. All of its functions are shown:
    what was inlined is in others than the kernel."""
    objects = site.symbolizer.module(digest).objects
    if kernel is None or any(each.path == path and each.kind is CodeKind.SPIRV for each in objects):
        return None
    spirv = (each for each in objects if each.kind is CodeKind.SPIRV)
    return next((each.path for each in spirv if any(other.name == kernel for other in each.kernels)), None)


def _spirv(listing: Listing) -> dict[str, Any]:
    """Each line with the innermost source line that it comes from: ``source_file`` is a number of ``files``,
    ``source_line`` 0 where there is none."""
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
    """The PTX of a code object, and from which of its lines (from 1) the code at each row's address on comes; 0: from
    none."""
    names = sorted({table.strings[number] for number in set(table.file.tolist())} - {""})
    texts = {each.file: each.lines() for each in site.sources(digest, names, table.path)}
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


ROUTES = (
    WebRoute("/api/modules/{digest}/listing", _listing, effort=CostClass.LARGE),
    WebRoute("/api/modules/{digest}/level", _level, effort=CostClass.LARGE),
)
