"""The instructions of a kernel or of a code object, with the locations that they come from."""

from __future__ import annotations

import numpy as np

from symd.errors import NotFound, SymdError, ToolFailed, ToolMissing, Unsupported
from symd.model.identities import ObjectPath
from symd.model.listings import Listing, ListingPart
from symd.model.summaries import KernelSummary
from symd.server.http.listing_columns import listing_json
from symd.server.http.routes.modules import checked
from symd.server.http.site import CostClass, HttpRequest, Reply, Site, WebRoute, json_reply


def _listing(site: Site, asked: HttpRequest) -> Reply:
    digest, path, kernel = checked(site, asked), asked.only("object"), asked.only("kernel")
    part = ListingPart(None if path is None else ObjectPath(path), kernel, asked.only("target"))
    try:
        found = next(site.symbolizer.listing(digest, part, asked.check_is_there), None)
    except (ToolMissing, ToolFailed, Unsupported) as error:
        found = _without_text(site, digest, part, error)
    if found is None:
        raise NotFound("there is no code to list", where=path or "")
    return json_reply(listing_json(found))


def _without_text(site: Site, digest: str, part: ListingPart, error: SymdError) -> Listing:
    """Where nothing disassembles the code: the places at which its line table begins a row, without text; none where there is no such table."""
    error.where = error.where.removeprefix(f"modules/{digest}: ")  # the page is the module's
    table = next(iter(site.symbolizer.lines(digest, part.path)), None)
    if table is None or not len(table):
        return _without_instructions(site, digest, part, error)
    kernel = _kernel(site, digest, table.path, part.kernel)
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


ROUTES = (WebRoute("/api/modules/{digest}/listing", _listing, effort=CostClass.LARGE),)
