"""The compilation units of relocated debug sections, and where each keeps its share of other sections: enough to tell
which kernel an address belongs to before addresses mean anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.construct import ConstructError
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo

from symd.errors import Malformed

_NAMES = (
    ".debug_info", ".debug_aranges", ".debug_abbrev", ".debug_frame", ".eh_frame", ".debug_str", ".debug_loc",
    ".debug_ranges", ".debug_line", ".debug_pubtypes", ".debug_pubnames", ".debug_addr", ".debug_str_offsets",
    ".debug_line_str", ".debug_loclists", ".debug_rnglists", ".debug_sup", ".gnu_debugaltlink", ".debug_types",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unit:
    """``[offset, end)`` in .debug_info; ``line_offset`` and ``address_base`` where its line program and its addresses
    start (None: it has none); ``functions`` are the names of its external functions at offset 0 of their text."""

    offset: int
    end: int
    line_offset: int | None
    address_base: int | None
    functions: tuple[str, ...]


def units(sections: Mapping[str, bytes]) -> list[Unit]:
    """The units in order. Raises Malformed."""
    try:
        return [_unit(unit) for unit in _dwarf(sections).iter_CUs()]
    except (
        DWARFError,
        ELFError,
        ConstructError,
        KeyError,
        ValueError,
        AssertionError,
        AttributeError,
        IndexError,
    ) as error:
        raise Malformed(f"the units cannot be read: {error!r}", where=".debug_info") from error


def _unit(unit: Any) -> Unit:
    top = unit.get_top_DIE()
    attributes = top.attributes
    functions = tuple(
        child.attributes["DW_AT_name"].value.decode("utf-8", "replace")
        for child in top.iter_children()
        if child.tag == "DW_TAG_subprogram"
        and {"DW_AT_name", "DW_AT_external", "DW_AT_low_pc"} <= set(child.attributes)
    )
    line, base = attributes.get("DW_AT_stmt_list"), attributes.get("DW_AT_addr_base")
    end = unit.cu_offset + unit["unit_length"] + unit.structs.initial_length_field_size()
    return Unit(unit.cu_offset, end, line.value if line else None, base.value if base else None, functions)


def _dwarf(sections: Mapping[str, bytes]) -> Any:
    """pyelftools' view of the sections; it takes their descriptors in the order of _NAMES."""
    config = DwarfConfig(little_endian=True, machine_arch="x64", default_address_size=8)
    return DWARFInfo(config, *(_descriptor(name, sections.get(name)) for name in _NAMES))


def _descriptor(name: str, data: bytes | None) -> DebugSectionDescriptor | None:
    if data is None:
        return None
    return DebugSectionDescriptor(BytesIO(data), name, 0, len(data), 0)
