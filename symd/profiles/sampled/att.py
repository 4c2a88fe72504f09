"""Samples of a thread trace's ``code.json``: a row is an instruction, with how often it ran and the cycles it took and waited."""

from __future__ import annotations

from symd.model.answers import Frame
from symd.profiles import json_text
from symd.profiles.att import ADDRESS, COLUMNS, OBJECT, PLACE, SEPARATOR, SOURCE, AttRow
from symd.profiles.att import read as read_rows
from symd.profiles.profile_budget import ProfileBudget
from symd.profiles.sampled.places import frames_of_json
from symd.profiles.samples import (
    TIMES,
    AddressTable,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    ValueType,
    within,
)

VALUES = (
    ValueType("latency", "cycles"),
    ValueType("hit", "count"),
    ValueType("stall", "cycles"),
    ValueType("idle", "cycles"),
)
_CELLS = tuple(COLUMNS.index(name) for name in ("Latency", "Hit", "Stall", "Idle"))


def read(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The rows that are instructions; frames of symd where there are some, else the positions in the source column."""
    document = read_rows(json_text.decode(data), spending)
    found = SampledProfile(VALUES)
    addresses = AddressTable(found.addresses)
    modules: dict[int, int] = {}
    for row, number in zip(document.rows, document.earlier, strict=True):
        if row is None or type(row.cells[OBJECT]) is not int or type(row.cells[ADDRESS]) is not int:
            continue
        owner, address = row.cells[OBJECT], row.cells[ADDRESS]
        if owner and owner not in modules:
            modules[owner] = len(found.modules)
            found.modules.append(SampledModule(f"code object {owner}", identity=str(owner)))
        frames = frames_of_json(document.table[number]) if number is not None else _positions(row)
        label = f"code object {owner}+{address:#x}" if owner else f"{address:#x}"
        place = addresses.number(SampledAddress(label, frames, address, modules.get(owner)))
        cells = [row.cells[at] if at < len(row.cells) else 0 for at in _CELLS]
        found.samples.append(Sample((place,), tuple(within(cell, TIMES) or 0 for cell in cells)))
    found.notes.append("code.json sums over the trace and has no times")
    return found


def _positions(row: AttRow) -> tuple[Frame, ...]:
    """Frames, innermost first, of a source as ROCm writes it; of the functions it says only the kernel, which is the outermost."""
    source = row.cells[SOURCE]
    parts = source.split(SEPARATOR) if isinstance(source, str) and source else []
    places = [PLACE.fullmatch(part) for part in [*parts[:1], *reversed(parts[1:])]]
    known = [place for place in places if place]
    found = [
        Frame(None, None, place[1], int(place[2]), 0, inlined=at < len(known) - 1) for at, place in enumerate(known)
    ]
    if found and row.kernel is not None:
        name, symbol = row.kernel
        found[-1] = found[-1]._replace(function=name, linkage_name=symbol if symbol != name else None)
    return tuple(found)
