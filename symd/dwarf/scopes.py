"""All DIE trees of an object -> functions and inlined calls, with names, ranges and call sites, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from symd.core.dies import IS_DECLARATION, STATES_CODE
from symd.dwarf.columns import FunctionColumns, LineColumns, ScopeColumns, look_up_files
from symd.dwarf.constants import Tag
from symd.dwarf.declarations import Declarations, declared_functions
from symd.dwarf.dies import NO_ROW, DieColumns, read_dies
from symd.dwarf.forms import UNKNOWN_FORM
from symd.dwarf.sections import DebugSections
from symd.dwarf.stretches import Positions
from symd.dwarf.strings import Names, StringReader
from symd.dwarf.units import Unit, Units, read_units
from symd.dwarf.warnings import Warnings
from symd.errors import Malformed
from symd.model.columns import I64, U8, U32, U64
from symd.model.debug_info import BODY, NO_PARENT
from symd.model.plain_answers import KERNEL_BODY
from symd.model.plurals import counted

SCOPES = (Tag.DW_TAG_subprogram, Tag.DW_TAG_inlined_subroutine)
"""The tags of functions and inlined calls."""
_DIES_A_STEP = 256
"""DIEs that are looked at again for each level of calls in each other."""
_WITH_ALL_PATHS = 5
"""The version of DWARF whose line tables name their own folder."""
_NAME_STEPS = 32
"""References that are followed from a DIE to its name; more are a cycle."""


def read_scopes(sections: DebugSections, lines: LineColumns, units: Units | None = None) -> ScopeColumns:
    """Decode the functions and inlined calls of every unit of ``.debug_info``.

    ``lines`` is ``read_lines(sections)``: call files are looked up in its tables, and its names come first in the
    result's. ``units`` is ``read_units(sections)``, read here when it is not given. DWARF 2 to 5, all forms, vendor
    attributes and tags passed over by form.

    Names are the DIE's own or those of DW_AT_specification and DW_AT_abstract_origin, through any units, up to 32
    steps. Lexical blocks and other DIEs between a scope and its parent are looked through; a subprogram has no parent.
    RangeRows are DW_AT_low_pc with DW_AT_high_pc, or DW_AT_ranges; empty ones are left out.

    A unit whose tree cannot be followed is left out whole, with a warning; a name, an address or a range list that
    leads out of its section is left out alone, and one warning a section counts them. Raises Malformed when there are
    units and not one of them can be read; LimitExceeded for range lists or abbreviations that overlap without end, and
    for more entries than ``sections.budget`` has left.
    """
    units = read_units(sections) if units is None else units
    strings = StringReader(sections)
    warnings = Warnings(units.warnings)
    sections.spend(sum(unit.end - unit.dies for unit in units.units), sections.info.name)
    dies = read_dies(sections, units.units, SCOPES)
    for place, error in dies.left_out:
        warnings.add(f"{sections.info.name}+{units.units[place].offset:#x}: unit left out: {error}")
    if (
        warnings
        and len(dies.left_out) == len(units.units)
        and not (len(lines) and _rows_alone_are_sound(sections, warnings))
    ):
        raise Malformed(f"no unit can be read: {warnings.all()[0]}", where=sections.info.name)
    return scopes_of(sections, lines, units.units, dies, strings, Names(lines.names), warnings)


def _rows_alone_are_sound(sections: DebugSections, warnings: Warnings) -> bool:
    """Whether units are lost for a form alone that is not known, and line tables need none: those of DWARF 5 have all paths."""
    wide = sections.lines.data[:4] == b"\xff" * 4
    version = int.from_bytes(sections.lines.data[12:14] if wide else sections.lines.data[4:6], "little")
    return version >= _WITH_ALL_PATHS and all(UNKNOWN_FORM in each for each in warnings.all())


def scopes_of(
    sections: DebugSections,
    lines: LineColumns,
    units: Sequence[Unit],
    dies: DieColumns,
    strings: StringReader,
    names: Names,
    warnings: Warnings,
) -> ScopeColumns:
    """The scopes among the functions and inlined calls of all units; ``names`` takes their names."""
    links = [_links(dies.place, reference) for reference in (dies.specification, dies.origin)]
    name, nameless = _names(strings, dies.name, links, names)
    linkage_name, linkless = _names(strings, dies.linkage_name, links, names)
    call_file = _files(lines, units, dies.unit, dies.call_file)
    decl_file = _files(lines, units, dies.unit, dies.decl_file)
    inlined = dies.tag == Tag.DW_TAG_inlined_subroutine
    defined = declared_functions(Declarations(inlined | dies.has(IS_DECLARATION), decl_file, dies.decl_line, *links))
    lost = {**dies.missing, "range sections": dies.damaged_lists, "string sections": nameless + linkless}
    for place, count in lost.items():
        if count:
            warnings.add(f"left out: {counted(int(count), 'reference')} out of {place}")
    which = defined.which
    unit = np.array([each.number for each in units], np.uint32)[dies.unit]
    scopes = _columns(sections, dies, inlined, name, linkage_name, call_file, unit, defined.number)
    return replace(
        scopes,
        inlined=_with_bodies(scopes, names.all()),
        functions=FunctionColumns(name[which], linkage_name[which], defined.file, defined.line, unit[which]),
        names=names.all(),
        warnings=warnings.all(),
    )


def _with_bodies(scopes: ScopeColumns, names: Sequence[str]) -> U8:
    """``inlined``, where kernels' own bodies are told from other calls. Where names are counted by object there are none (``small_objects``)."""
    if len(names) <= 1:
        return scopes.inlined
    calls = np.flatnonzero(scopes.inlined)
    calls = calls[scopes.parent[calls] != NO_PARENT]
    calls = calls[scopes.inlined[scopes.parent[calls]] == 0]
    linkage, which = np.unique(scopes.linkage_name[calls], return_inverse=True)
    bodies = np.array([names[number].startswith(KERNEL_BODY) for number in linkage.tolist()], np.bool_)[which]
    inlined = scopes.inlined.copy() if bodies.any() else scopes.inlined
    for scope in calls[bodies].tolist():
        around = scopes.parent[scope]
        kernel = names[scopes.linkage_name[scope]].removeprefix(KERNEL_BODY)
        if kernel in (names[scopes.name[around]], names[scopes.linkage_name[around]]):
            inlined[scope] = BODY
    return inlined


def _columns(
    sections: DebugSections,
    dies: DieColumns,
    inlined: NDArray[np.bool_],
    name: U32,
    linkage_name: U32,
    call_file: U32,
    unit: U32,
    function: U32,
) -> ScopeColumns:
    """The scopes among the functions and inlined calls, numbered anew."""
    callers = _with_callers(sections, dies.parent, inlined, dies.has(STATES_CODE))
    kept = _with_calls(sections, dies.parent, inlined, callers)
    number = np.cumsum(kept) - 1
    parent = np.where(inlined, dies.parent, NO_ROW)[kept]
    return ScopeColumns(
        parent=np.where(parent >= 0, number[parent], NO_PARENT).astype(np.uint32),
        name=name[kept],
        linkage_name=linkage_name[kept],
        inlined=inlined[kept].astype(np.uint8),
        call_file=call_file[kept],
        call_line=dies.call_line[kept],
        call_column=dies.call_column[kept],
        unit=unit[kept],
        range_scope=number[dies.ranges.which].astype(np.uint32),
        range_start=dies.ranges.start,
        range_end=dies.ranges.end,
        function=function[kept],
        functions=FunctionColumns.empty(),
    )


def _with_callers(
    sections: DebugSections, parent: I64, inlined: NDArray[np.bool_], stated: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """``stated`` and everything around its inlined calls up to the function."""
    kept = stated.copy()
    inner = np.flatnonzero(kept & inlined)
    while inner.size:
        sections.spend(len(kept) // _DIES_A_STEP, sections.info.name)
        outer = parent[inner]
        new = np.zeros(len(kept), np.bool_)
        new[outer[outer >= 0]] = True
        new &= ~kept
        kept |= new
        inner = np.flatnonzero(new & inlined)
    return kept


def _with_calls(
    sections: DebugSections, parent: I64, inlined: NDArray[np.bool_], kept: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """``kept`` and all calls that were inlined into them: some compilers do not say where their code is."""
    left = np.flatnonzero(inlined & ~kept & (parent >= 0))
    kept = kept.copy()
    while (inside := kept[parent[left]]).any():
        sections.spend(len(left) // _DIES_A_STEP, sections.info.name)
        kept[left[inside]] = True
        left = left[~inside]
    return kept


def _names(
    strings: StringReader, own: U64, links: Sequence[tuple[Positions, Positions]], names: Names
) -> tuple[U32, int]:
    """Each DIE's own string, or that of the DIE it refers to, and so on; and how many places have no string. ``links``
    are pairs of DIEs: those that refer, and those referred to."""
    (stated,) = own.nonzero()  # NO_STRING is 0
    number = np.zeros(len(own), np.uint32)
    if not stated.size:
        return number, 0
    number[stated], missing = names.intern(strings, own[stated])
    known = np.zeros(len(own), np.bool_)
    known[stated] = True
    for _ in range(_NAME_STEPS):
        before = np.count_nonzero(known)
        for which, target in links:
            useful = np.flatnonzero(known[target] & ~known[which])
            number[which[useful]] = number[target[useful]]
            known[which[useful]] = True
        if before == np.count_nonzero(known):
            break
    return number, missing


def _links(at: I64, reference: I64) -> tuple[Positions, Positions]:
    """The numbers of the DIEs that refer to one of these DIEs, and of those they refer to."""
    which = np.flatnonzero(reference >= 0)
    if not which.size:
        return which, which
    target = np.searchsorted(at, reference[which])
    target[target == len(at)] = 0
    real = np.flatnonzero(at[target] == reference[which])
    return which[real], target[real]


def _files(lines: LineColumns, units: Sequence[Unit], unit: U32, register: U32) -> U32:
    """File registers of call sites and declarations -> file numbers, each through its own unit's line table."""
    nothing = np.zeros(0, np.uint32)
    maps = [lines.file_maps.get(-1 if u.stmt_list is None else u.stmt_list, nothing) for u in units]
    return look_up_files(maps, unit, register)
