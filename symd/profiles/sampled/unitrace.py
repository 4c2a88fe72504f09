"""Samples of unitrace's EU stall sampling CSV: a row is an instruction, its counters are columns of values.

unitrace sums over the whole run: there are no times, and no stacks but inlined frames."""

from __future__ import annotations

import csv
import re

from symd.model.answers import Frame
from symd.profiles import json_text
from symd.profiles.profile_budget import ProfileBudget
from symd.profiles.sampled.places import frame_of_text
from symd.profiles.samples import AddressTable, Sample, SampledAddress, SampledProfile, ValueType
from symd.profiles.unitrace import ADDED, each_row

_COUNTER = re.compile(r"(.*)\[(.*)\]")
_COUNT = re.compile(r"[0-9]{1,18}")
STACK = "Stack"


def read(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The rows of every device's block; a counter that a block lacks is 0 there."""
    text = json_text.decode(data)
    found = SampledProfile(())
    addresses = AddressTable(found.addresses)
    types: dict[ValueType, int] = {}
    header: list[str] = []
    rows: list[tuple[int, dict[int, int]]] = []
    for span, row, _ in each_row(text):
        spending.read()
        cells = next(csv.reader([text[span.begin : span.end]], skipinitialspace=True), [])
        if row is None:
            header = [cell.strip() for cell in cells]
            continue
        named = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        values = {}
        for name, cell in list(named.items())[2:]:
            kind = _value_type(name)
            if kind is not None and _COUNT.fullmatch(cell):
                values[types.setdefault(kind, len(types))] = int(cell)
        rows.append((addresses.number(_address(cells, named)), values))
    found.value_types = tuple(types) or (ValueType("samples", "count"),)
    width = len(found.value_types)
    spending.read_table(len(rows), width)
    found.samples = [Sample((at,), tuple(values.get(number, 0) for number in range(width))) for at, values in rows]
    found.notes.append("unitrace sums over the run and has no times of samples")
    return found


def _value_type(name: str) -> ValueType | None:
    """``Active[Events]`` counts Active in Events; None for a column that symd added."""
    if name in (part.strip() for part in ADDED.split(",")):
        return None
    found = _COUNTER.fullmatch(name)
    return ValueType(*found.groups()) if found else ValueType(name, "")


def _address(cells: list[str], named: dict[str, str]) -> SampledAddress:
    offset = int(cells[1].strip().removeprefix("0x").removeprefix("0X"), 16)
    parts = filter(None, named.get(STACK, "").split(" <- "))
    frames = [frame_of_text(part) or Frame(part, None, None, 0, 0, inlined=False) for part in parts]
    stack = tuple(frame._replace(inlined=at < len(frames) - 1) for at, frame in enumerate(frames))
    return SampledAddress(f"{cells[0].strip()}+{offset:#x}", stack, offset)
