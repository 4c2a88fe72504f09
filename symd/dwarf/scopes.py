"""All DIE trees of an object -> functions and inlined calls, with names, ranges and call sites, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.dwarf import die_split, tree
from symd.dwarf.abbreviations import Abbreviation
from symd.dwarf.attributes import NO_FILE, AttributeReader, ScopeAttributes
from symd.dwarf.bulk_read import Positions
from symd.dwarf.columns import FunctionColumns, LineColumns, ScopeColumns, look_up_files
from symd.dwarf.constants import Tag
from symd.dwarf.declarations import Declarations, declared_functions
from symd.dwarf.die_split import NULL, DieColumns
from symd.dwarf.forms import UNKNOWN_FORM
from symd.dwarf.range_lists import RangeRows, in_order, read_lists
from symd.dwarf.sections import DebugSections
from symd.dwarf.strings import Names, StringReader
from symd.dwarf.units import Unit, Units, read_units
from symd.dwarf.warnings import Warnings
from symd.errors import Malformed
from symd.model.columns import U8, U32, U64
from symd.model.debug_info import BODY, NO_PARENT
from symd.model.plain_answers import KERNEL_BODY
from symd.model.plurals import counted

_DIES_A_STEP = 256
"""DIEs that are looked at again for each level of calls in each other."""
_WITH_ALL_PATHS = 5
"""The version of DWARF whose line tables name their own folder."""
_NAME_STEPS = 32
"""References that are followed from a DIE to its name; more are a cycle."""


class Functions(NamedTuple):
    """The subprogram and inlined-subroutine DIEs of all trees, in order. ``unit`` is the place of each one's unit among
    those that are read; ``around`` is the number of the nearest such DIE around each (in these columns), or
    tree.NO_SCOPE."""

    at: Positions
    attributes: Positions
    abbreviation: NDArray[np.int32]
    unit: Positions
    inlined: NDArray[np.bool_]
    around: NDArray[np.int64]


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
    u8 = np.frombuffer(sections.info.data, np.uint8)
    trees = _split(sections, u8, units, warnings)
    if warnings and not trees and not (len(lines) and _rows_alone_are_sound(sections, warnings)):
        raise Malformed(f"no unit can be read: {warnings.all()[0]}", where=sections.info.name)
    functions = functions_of(*_end_to_end(trees), units.abbreviation_tables.all)
    del trees  # large
    reader = AttributeReader(sections, u8, units.units)
    return scopes_of(sections, lines, units, reader, strings, Names(lines.names), functions, warnings)


def _rows_alone_are_sound(sections: DebugSections, warnings: Warnings) -> bool:
    """Whether units are lost for a form alone that is not known, and line tables need none: those of DWARF 5 have all paths."""
    wide = sections.lines.data[:4] == b"\xff" * 4
    version = int.from_bytes(sections.lines.data[12:14] if wide else sections.lines.data[4:6], "little")
    return version >= _WITH_ALL_PATHS and all(UNKNOWN_FORM in each for each in warnings.all())


def scopes_of(
    sections: DebugSections,
    lines: LineColumns,
    units: Units,
    reader: AttributeReader,
    strings: StringReader,
    names: Names,
    functions: Functions,
    warnings: Warnings,
) -> ScopeColumns:
    """The scopes among the functions of all units; ``names`` takes their names."""
    found = reader.read(units.abbreviation_tables.all, functions.abbreviation, functions.attributes, functions.unit)
    ranges, bad_lists = code_ranges(sections, reader, found, functions.unit)
    links = [_links(functions.at, reference) for reference in (found.specification, found.origin)]
    name, nameless = _names(strings, found.name, links, names)
    linkage_name, linkless = _names(strings, found.linkage_name, links, names)
    call_file = _files(lines, units.units, functions.unit, found.call_file)
    decl_file = _files(lines, units.units, functions.unit, found.decl_file)
    defined = declared_functions(
        Declarations(functions.inlined | found.is_declaration, decl_file, found.decl_line.astype(np.uint32), *links)
    )
    lost = reader.missing | {"range sections": bad_lists, "string sections": nameless + linkless}
    for place, count in lost.items():
        if count:
            warnings.add(f"left out: {counted(int(count), 'reference')} out of {place}")
    unit = np.array([unit.number for unit in units.units], np.uint32)[functions.unit]
    which = defined.which
    scopes = _columns(sections, functions, found, ranges, name, linkage_name, call_file, unit, defined.number)
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
    functions: Functions,
    found: ScopeAttributes,
    ranges: RangeRows,
    name: U32,
    linkage_name: U32,
    call_file: U32,
    unit: U32,
    function: U32,
) -> ScopeColumns:
    """The scopes among the functions, numbered anew."""
    stated = found.has_ranges | (found.has_low & found.has_high)
    kept = _with_calls(sections, functions, _with_callers(sections, functions, stated))
    number = np.cumsum(kept) - 1
    parent = np.where(functions.inlined, functions.around, tree.NO_SCOPE)[kept]
    return ScopeColumns(
        parent=np.where(parent >= 0, number[parent], NO_PARENT).astype(np.uint32),
        name=name[kept],
        linkage_name=linkage_name[kept],
        inlined=functions.inlined[kept].astype(np.uint8),
        call_file=call_file[kept],
        call_line=found.call_line[kept].astype(np.uint32),
        call_column=found.call_column[kept].astype(np.uint32),
        unit=unit[kept],
        range_scope=number[ranges.which].astype(np.uint32),
        range_start=ranges.start,
        range_end=ranges.end,
        function=function[kept],
        functions=FunctionColumns.empty(),
    )


def _split(sections: DebugSections, u8: U8, units: Units, warnings: Warnings) -> list[tuple[int, DieColumns]]:
    """The DIEs of every unit that can be followed, with the unit's place among ``units``."""
    trees, info, budget = [], sections.info, sections.budget
    sections.spend(sum(unit.end - unit.dies for unit in units.units), info.name)
    for place, (unit, dies) in enumerate(die_split.split_all(info, u8, units.units, units.abbreviation_tables)):
        if isinstance(dies, Malformed):
            warnings.add(f"{info.name}+{unit.offset:#x}: unit left out: {dies}")
            continue
        if budget is not None:
            budget.count(len(dies.at), info.name)
        trees.append((place, dies))
    return trees


def _end_to_end(trees: Sequence[tuple[int, DieColumns]]) -> tuple[DieColumns, Positions]:
    """The DIEs of all trees, and the place of each one's unit."""
    unit = np.repeat(np.array([place for place, _ in trees], np.int64), [len(dies.at) for _, dies in trees])
    joined = (np.concatenate(column) for column in zip(_NO_DIES, *(dies for _, dies in trees), strict=True))
    return DieColumns._make(joined), unit


def functions_of(dies: DieColumns, unit: Positions, abbreviations: Sequence[Abbreviation]) -> Functions:
    """The functions and inlined calls among the DIEs of all units, each with the place of its ``unit``, and who stands around
    whom."""
    kind = np.array([_KINDS.get(abbreviation.tag, _OTHER) for abbreviation in abbreviations] + [_OTHER], np.uint8)
    children = np.array([abbreviation.has_children for abbreviation in abbreviations] + [False], np.bool_)
    real = np.flatnonzero(dies.abbreviation != NULL)
    abbreviation = dies.abbreviation[real]
    is_scope = kind[abbreviation] != _OTHER
    which = np.flatnonzero(is_scope)
    around = tree.enclosing(dies.depth[real], children[abbreviation], is_scope)[which]
    number = np.full(len(real) + 1, tree.NO_SCOPE, np.int64)
    number[which] = np.arange(len(which))
    chosen, abbreviation = real[which], abbreviation[which]
    return Functions(
        dies.at[chosen],
        dies.attributes[chosen],
        abbreviation,
        unit[chosen],
        kind[abbreviation] == _INLINED,
        number[around],
    )


_OTHER, _FUNCTION, _INLINED = 0, 1, 2
_KINDS: dict[int, int] = {Tag.DW_TAG_subprogram: _FUNCTION, Tag.DW_TAG_inlined_subroutine: _INLINED}
_NO_DIES = DieColumns(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int32))


def code_ranges(
    sections: DebugSections, reader: AttributeReader, found: ScopeAttributes, unit: Positions
) -> tuple[RangeRows, int]:
    """The code ranges of every DIE, and how many lists are damaged; low_pc and high_pc go before a list."""
    simple = found.has_low & found.has_high
    which = np.flatnonzero(simple)
    start = found.low[which]
    end = found.high[which] + np.where(found.high_is_size[which], start, np.uint64(0))
    filled = start < end
    listed = np.flatnonzero(found.has_ranges & ~simple)
    lists, bad = read_lists(sections, reader, found.ranges[listed], unit[listed])
    lists = lists._replace(which=listed[lists.which])
    return in_order([RangeRows(which[filled], start[filled], end[filled]), lists]), bad


def _with_callers(sections: DebugSections, functions: Functions, stated: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """``stated`` and everything around its inlined calls up to the function."""
    kept = stated.copy()
    inner = np.flatnonzero(kept & functions.inlined)
    while inner.size:
        sections.spend(len(kept) // _DIES_A_STEP, sections.info.name)
        outer = functions.around[inner]
        new = np.zeros(len(kept), np.bool_)
        new[outer[outer >= 0]] = True
        new &= ~kept
        kept |= new
        inner = np.flatnonzero(new & functions.inlined)
    return kept


def _with_calls(sections: DebugSections, functions: Functions, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """``kept`` and all calls that were inlined into them: some compilers do not say where their code is."""
    left = np.flatnonzero(functions.inlined & ~kept & (functions.around >= 0))
    kept = kept.copy()
    while (inside := kept[functions.around[left]]).any():
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


def _links(at: Positions, reference: Positions) -> tuple[Positions, Positions]:
    """The numbers of the DIEs that refer to one of these DIEs, and of those they refer to."""
    which = np.flatnonzero(reference >= 0)
    if not which.size:
        return which, which
    target = np.searchsorted(at, reference[which])
    target[target == len(at)] = 0
    real = np.flatnonzero(at[target] == reference[which])
    return which[real], target[real]


def _files(lines: LineColumns, units: Sequence[Unit], unit: Positions, register: U64) -> U32:
    """File registers of call sites and declarations -> file numbers, each through its own unit's line table."""
    nothing = np.zeros(0, np.uint32)
    maps = [lines.file_maps.get(-1 if u.stmt_list is None else u.stmt_list, nothing) for u in units]
    return look_up_files(maps, unit, np.minimum(register, np.uint64(NO_FILE)).astype(np.uint32))
