"""Split DWARF for pyelftools, which reads a ``.dwo`` file's units and knows nothing of the object that they belong to: sections as symd
lays them behind each other, offsets into them as they are there, and what stands in the skeletons.

Units of DWARF 5 alone: pyelftools does not read the forms in which those of DWARF 4 write addresses and names."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE, AttributeValue

from symd.debuginfo.dwarf import Units
from symd.debuginfo.dwarf.units import Unit

NOT_READ = "pyelftools does not read DW_FORM_GNU_addr_index and DW_FORM_GNU_str_index, by which split units of DWARF 4 write addresses and names"
_FIRST_WITH_HEADERS = 5
_LIST_HEADER = 12
"""Bytes of a table of lists before its offsets (DWARF 5, 7.28 and 7.29), in 32-bit DWARF."""


class SplitUnits(NamedTuple):
    """``attributes`` that the unit at an offset of ``.debug_info`` lacks; ``ids`` of the units, whose skeletons say nothing more."""

    attributes: Mapping[int, Mapping[str, int]] = {}
    ids: frozenset[int] = frozenset()


def of_units(units: Units) -> SplitUnits:
    """What pyelftools has to be told of them."""
    split = [unit for unit in units.units if unit.contributions is not None]
    ids = frozenset(unit.dwo_id for unit in split if unit.dwo_id is not None)
    return SplitUnits({unit.offset: _attributes(unit) for unit in split}, ids)


def are_read(units: Units) -> bool:
    """Whether pyelftools reads the units, as far as they are split."""
    return all(unit.version >= _FIRST_WITH_HEADERS for unit in units.units if unit.contributions is not None)


def _attributes(unit: Unit) -> dict[str, int]:
    lists = unit.contributions.location_lists if unit.contributions is not None else 0
    found = {
        "DW_AT_addr_base": unit.addr_base,
        "DW_AT_str_offsets_base": unit.str_offsets_base,
        "DW_AT_rnglists_base": unit.rnglists_base,
        "DW_AT_loclists_base": lists + _LIST_HEADER,
        "DW_AT_low_pc": unit.low_pc,
    }
    return found if unit.stmt_list is None else found | {"DW_AT_stmt_list": unit.stmt_list}


def contents_of(contents: Mapping[str, bytes], units: Units) -> dict[str, bytes]:
    """The sections with the headers of split units changed to what their offsets into ``.debug_abbrev`` are in it."""
    info = bytearray(contents.get(".debug_info", b""))
    for unit in units.units:
        if unit.contributions is not None:
            wide = unit.widths.offset == 8
            at = unit.offset + (16 if wide else 8)
            struct.pack_into("<Q" if wide else "<I", info, at, unit.abbreviations)
    return {**contents, ".debug_info": bytes(info)} if info else dict(contents)


def complete(unit: CompileUnit, known: Mapping[str, int]) -> None:
    """Give a unit's first DIE the attributes that it lacks, before pyelftools reads others by them."""
    info = unit.dwarfinfo.debug_info_sec
    if info is None:
        return
    top = DIE(unit, info.stream, unit.cu_die_offset)
    for name, value in known.items():
        top.attributes.setdefault(name, AttributeValue(name, "DW_FORM_sec_offset", value, value, 0, 0))
    unit._dielist.insert(0, top)  # noqa: SLF001 - there is no other way to say what a skeleton has
    unit._diemap.insert(0, top.offset)  # noqa: SLF001
    top._translate_indirect_attributes()  # noqa: SLF001
