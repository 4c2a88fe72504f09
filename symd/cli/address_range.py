"""objdump's ``--start-address`` and ``--stop-address``: a listing of a range of object addresses."""

from __future__ import annotations

from dataclasses import replace

import click
import numpy as np

from symd.cli.options import Verb
from symd.engine.files.added_module import OpenModule
from symd.errors import NotFound
from symd.model.addresses import ByAddress, ObjectAddress, SectionOffset, SectionRange, is_number, number_of
from symd.model.answers import Answers, Reason
from symd.model.line_tables import Listing, ListingPart


def _address(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """A number as symd and objdump take it: hexadecimal behind 0x."""
    if text is None:
        return None
    if not is_number(text):
        raise click.BadParameter(f"{text!r} is not an address")
    return min(number_of(text), (1 << 64) - 1)


def range_options(verb: Verb) -> Verb:
    """Add --start-address and --stop-address, as ``start`` and ``stop``."""
    until = click.option(
        "--stop-address",
        "stop",
        callback=_address,
        metavar="ADDRESS",
        help="Show only instructions in front of this object address.",
    )
    begin = click.option(
        "--start-address",
        "start",
        callback=_address,
        metavar="ADDRESS",
        help="Show only the code from this object address on, in address order.",
    )
    return begin(until(verb))


def range_part(module: OpenModule, part: ListingPart, start: int | None, stop: int | None) -> ListingPart:
    """Return the part of a listing from ``start`` on, up to ``stop`` or to the end of the section; ``part`` itself
    without ``start``. Raises NotFound where no code is there, or several code objects have that address."""
    if start is None:
        return part
    path = part.path
    (answer,) = module.symbolizer.symbolize(module.digest, [ByAddress(ObjectAddress(start))], path)
    if answer.section_index is None or answer.section_offset is None:
        hint = "--object PATH says which code object is meant" if answer.reason is Reason.AMBIGUOUS else ""
        raise NotFound(f"there is no code at {start:#x}", where=module.name, hint=hint)
    end = 1 << 63 if stop is None else answer.section_offset + max(stop - start, 0)
    within = SectionRange(answer.section_index, SectionOffset(answer.section_offset), SectionOffset(end))
    return replace(part, path=answer.path, within=within)


def code_before(listing: Listing, stop: int) -> Listing:
    """Return the instructions of a listing that begin in front of an object address."""
    answers = listing.answers
    begins = np.array([each.address or 0 for each in answers.text_sections], np.uint64)
    rows = np.flatnonzero(begins[answers.text_section.astype(np.int64) - 1] + answers.offset < np.uint64(stop))
    kept = rows.tolist()
    columns = (answers.location[rows], answers.text_section[rows], answers.offset[rows])
    return replace(
        listing,
        answers=Answers(*columns, answers.locations, answers.text_sections),
        size=listing.size[rows],
        text=[listing.text[row] for row in kept],
        code=[listing.code[row] for row in kept] if listing.code else (),
        flow=[listing.flow[row] for row in kept] if listing.flow else (),
        targets=[listing.targets[row] for row in kept] if listing.targets else (),
    )
