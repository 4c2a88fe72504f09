"""A listing as compact columns of JSON: what many instructions share is there once, and numbers are given as differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symd.model.answers import Locations
from symd.model.columns import I64
from symd.model.listings import Listing

TEXTS = ("kernel", "function", "linkage_name", "file")


def listing_json(listing: Listing) -> dict[str, Any]:
    """The instructions of one code object.

    ``location[i]`` is a row of ``locations``, whose row 0 is "nothing known"; a row's ``parent`` is the row that it was inlined into (0: nothing),
    and its texts are numbers of ``strings`` (0: none). ``sections`` are the text sections, and ``runs`` say how many instructions in a row lie in which of
    them. ``offset`` counts from the section's start: the first of a run as it is, each further one as the difference to the one before.
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
    """``locations`` and ``strings`` of these rows, in this order behind row 0; the parents of all of them are among them."""
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
    """The rows that the instructions point to, with their parents and without row 0; and each instruction's number among them."""
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
