"""The variables that are visible at an address: those of the scopes around it, innermost first, then its unit's
globals; where each is declared, and which functions are around, by attributes that a DIE has itself or takes from
those it completes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from symd.config import DEFAULT_LIMITS, Limits
from symd.core.byte_reader import KERNEL_BODY, StringReader
from symd.core.headers import LineHeaderReader
from symd.debuginfo.dwarf import At, Tag
from symd.debuginfo.dwarf.lines import FilePaths, ListedFiles
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Unit, read_units
from symd.debuginfo.relocation import linear_layout, relocated
from symd.debuginfo.variables import Die, DieReader
from symd.debuginfo.variables.lanes import Evaluations
from symd.debuginfo.variables.locations import Locator
from symd.debuginfo.variables.registers import RegisterWidths, frame_divisor
from symd.debuginfo.variables.scopes import FUNCTIONS, AddressRange, ScopeFinder, VariableScope
from symd.debuginfo.variables.type_names import TypeNames
from symd.debuginfo.variables.types import TypeTable
from symd.errors import LimitExceeded, Malformed, Unsupported
from symd.formats.budget import DebugBudget
from symd.model.code import CodeObject, DebugScheme, Vendor
from symd.model.variables import FunctionScope, Kind, Variable, Visible


class Declarations:
    """Reads where DIEs are declared. The header of each line table is read once, when a file of it is first asked
    for."""

    def __init__(self, dies: DieReader) -> None:
        self._dies = dies
        section = dies.sections.lines
        self._listed, self._paths = ListedFiles(section.name), FilePaths(section.name)
        self._strings = StringReader(dies.sections)
        self._known: dict[int, tuple[str, ...]] = {}

    def line(self, die: Die) -> int:
        """The line of the declaration; 0 where it is not known."""
        return self._number(die, At.DW_AT_decl_line)

    def file(self, die: Die) -> str | None:
        """The file of the declaration, named as frames name files; None where it is not known."""
        found = self._dies.find(die, At.DW_AT_decl_file)
        if found is None or not found[1].is_constant:
            return None
        files = self._files(found[0].unit)
        return files[found[1].number] or None if found[1].number < len(files) else None

    def function(self, die: Die) -> FunctionScope:
        """A function or inlined call by its names and, of a call, where that is."""
        name = self._dies.name(die) or None
        linkage_name = self.linkage_name(die)
        inlined = die.tag == Tag.DW_TAG_inlined_subroutine
        called = (At.DW_AT_call_line, At.DW_AT_call_column)
        line, column = (die.attributes.get(each) if inlined else None for each in called)
        return FunctionScope(
            name,
            None if linkage_name == name else linkage_name,
            inlined,
            line.number if line is not None and line.is_constant else 0,
            column.number if column is not None and column.is_constant else 0,
        )

    def linkage_name(self, die: Die) -> str | None:
        """The mangled name; None where there is none."""
        for attribute in (At.DW_AT_linkage_name, At.DW_AT_MIPS_linkage_name):
            found = self._dies.find(die, attribute)
            if found is not None:
                return self._dies.text(*found) or None
        return None

    def _number(self, die: Die, attribute: int) -> int:
        found = self._dies.find(die, attribute)
        return found[1].number if found is not None and found[1].is_constant else 0

    def _files(self, unit: Unit) -> tuple[str, ...]:
        """The paths of the unit's line table by file register; none where it has no table, or one that cannot be
        read."""
        table = unit.stmt_list
        if table is None:
            return ()
        if table not in self._known:
            self._known[table] = ()
            self._known[table] = self._read(table, unit.comp_dir)
        return self._known[table]

    def _read(self, table: int, comp_dir: bytes) -> tuple[str, ...]:
        section = self._dies.sections.lines
        reader = LineHeaderReader(section.data, section.name, self._strings, self._listed)
        try:
            length = reader.length(table)
            header = reader.read(table, min(reader.at + length, len(section.data)))
            self._dies.spend(header.program - table)
            return tuple(path.decode("utf-8", "replace") for path in self._paths.of(header, comp_dir))
        except (Malformed, Unsupported, LimitExceeded):
            return ()


MAX_VARIABLES = 10_000
"""Variables of one answer."""
_LOCALS = frozenset({Tag.DW_TAG_formal_parameter, Tag.DW_TAG_variable})
_GLOBALS = frozenset({Tag.DW_TAG_variable, Tag.DW_TAG_namespace})
_SAYING = (At.DW_AT_name, At.DW_AT_type, At.DW_AT_location, At.DW_AT_const_value)
_NAMESPACE_DEPTH = 16
_WHY_NOT = {
    DebugScheme.NONE: "there is no debug data",
    DebugScheme.LINE_ONLY: "the debug data has lines and nothing about variables",
    DebugScheme.SPIRV: "variables of SPIR-V modules are not read",
}


class VariableReader:
    """The debug data of one code object, opened to be asked about several addresses.

    What cannot be read is left out and named in the notes of the answers. Raises Malformed and Unsupported where none
    of the debug data can be trusted, LimitExceeded where it overlaps itself without end. Not for several threads at
    once.
    """

    def __init__(self, code: CodeObject, limits: Limits = DEFAULT_LIMITS) -> None:
        self.code = code
        self.layout = linear_layout(code)
        self.why_not = _WHY_NOT.get(code.debug)
        self._budget = DebugBudget.of(code, limits)
        sections = DebugSections.of({}) if self.why_not else relocated(code, self.layout, self._budget)
        units = read_units(sections)
        if units.warnings and not units.units:
            raise Malformed(f"no unit can be read: {units.warnings[0]}", where=".debug_info")
        self.dies = DieReader(sections, units)
        extents = self.dies.extents
        self.finder = ScopeFinder(self.dies)
        self.evaluations = Evaluations()
        self.declarations = Declarations(self.dies)
        self.notes = (*units.warnings, *units.missing_files(), *extents.notes)

    def at(self, section: int, offset: int) -> Visible:
        """The variables visible at byte ``offset`` of text section number ``section``.

        Parameters and variables of the innermost scope come first, in the order of the debug data, then those of the
        scopes around it, up to the function into which all others were inlined, then the globals of the unit. Nothing
        is visible where no scope and no unit holds the address.
        """
        base = self.layout.base_of(section)
        if self.why_not is not None or base is None:
            return Visible(notes=(self.why_not or f"section {section} holds no code",))
        self.dies.budget = self._budget.trial()  # a question may read as much, whatever others read before
        return _Question(self, section, base + offset).answer()


_Declared = int | tuple[str, int]
"""The place of a DIE; or a name and the line of its declaration."""


class _Owner(NamedTuple):
    """What a variable takes from the scope that declares it: its function (None: a global), the number of this among
    those around the place, the offsets of the scope, whether that is a block, and in how many of them it lies."""

    function: FunctionScope | None = None
    frame: int | None = None
    live: tuple[tuple[int, int], ...] = ()
    is_block: bool = False
    depth: int = 0


class _Question:
    """One question, and what was found so far."""

    def __init__(self, reader: VariableReader, section: int, address: int) -> None:
        self.code = reader.code
        self.dies = reader.dies
        self.names = TypeNames(reader.dies)  # which bounds the names of one answer
        self.layout = reader.layout
        self.finder = reader.finder
        self.declarations = reader.declarations
        self.section = section
        self.address = address
        self.types = TypeTable(self.dies, self.names, self.code.vendor)
        self.lanes = self._wavefront()
        divisor = frame_divisor(self.code, self.lanes)
        self.locator = Locator(self.code, self.dies, self.layout, reader.evaluations, section, address, divisor)
        self.widths = RegisterWidths(self.code, self.lanes)
        self.variables: list[Variable] = []
        self.notes = list(reader.notes)
        self._met: dict[int, set[_Declared]] = {}

    def answer(self) -> Visible:
        scopes = self._body_as_kernel(self.finder.around(self.address))
        unit = self.dies.top(scopes[0].die.unit) if scopes else self.finder.unit_at(self.address)
        simd_width = _simd_width([*(scope.die for scope in reversed(scopes)), *([unit] if unit else [])])
        self.locator.enter(scopes[-1].die if scopes else None, simd_width)
        owners = self._owners(scopes)
        for scope, owner in zip(scopes, owners, strict=True):
            self._take_all(self._of_scope(scope, owner))
        self.variables = [*_parameters_once(self.variables)]
        if unit is not None:
            self._take_all(self._globals(unit, 0))
        types = self.types.all()
        if self.types.full:
            self.notes.append("there are more types than are shown")
        functions = dict.fromkeys(owner.frame for owner in owners if owner.frame is not None)
        named = {owner.frame: owner.function for owner in owners if owner.function is not None}
        around = tuple(named[number] for number in functions)
        return Visible(tuple(self.variables), types, simd_width or self.lanes, tuple(self.notes), around)

    def _wavefront(self) -> int | None:
        """The lanes of AMD's wavefronts, as the kernel at the place says, or as all kernels do where it is in none."""
        if self.code.vendor is not Vendor.AMD:
            return None
        offset = self.address - (self.layout.base_of(self.section) or 0)
        kernels = self.code.kernels
        here = [
            each for each in kernels if each.section_index == self.section and 0 <= offset - each.offset < each.size
        ]
        widths = {each.facts.get("simd_width") for each in here or kernels}
        width = widths.pop() if len(widths) == 1 else None
        return width if isinstance(width, int) else None

    def _owners(self, scopes: list[VariableScope]) -> list[_Owner]:
        """What each scope gives its variables; functions are numbered innermost first."""
        found: list[_Owner] = []
        numbers: dict[int, tuple[int, FunctionScope]] = {}
        for scope in scopes:
            function = scope.function
            if function is None:
                found.append(_Owner(live=self._offsets(scope.ranges)))
                continue
            if function.at not in numbers:
                numbers[function.at] = len(numbers), self.declarations.function(function)
            frame, told = numbers[function.at]
            found.append(_Owner(told, frame, self._offsets(scope.ranges), scope.die.tag not in FUNCTIONS))
        depth = 0
        for at in range(len(found) - 1, -1, -1):
            outer = found[at + 1].frame if at + 1 < len(found) else None
            depth = (depth if found[at].frame == outer else 0) + found[at].is_block
            found[at] = found[at]._replace(depth=depth)
        return found

    def _body_as_kernel(self, scopes: list[VariableScope]) -> list[VariableScope]:
        """The scopes, with those of a kernel's own body (``core.byte_reader.KERNEL_BODY``) as the kernel's."""
        if len(scopes) < 2 or scopes[-2].die.tag != Tag.DW_TAG_inlined_subroutine:
            return scopes
        body, kernel = scopes[-2].die, scopes[-1].die
        found = self.dies.find(body, At.DW_AT_linkage_name)
        linkage_name = self.dies.text(*found) if found else ""
        if linkage_name != KERNEL_BODY + self.dies.name(kernel):
            return scopes
        return [replace(scope, function=kernel) if scope.function is body else scope for scope in scopes]

    def _take_all(self, variables: Iterator[Variable]) -> None:
        """Take what comes until something cannot be read, or there are too many."""
        left = MAX_VARIABLES - len(self.variables)
        try:
            self.variables.extend(islice(variables, left))
            if next(variables, None) is not None:
                self.notes.append(f"more than {MAX_VARIABLES} variables are visible; the others are left out")
        except (LimitExceeded, Malformed) as error:
            self.notes.append(f"variables are left out: {error}")

    def _of_scope(self, scope: VariableScope, owner: _Owner) -> Iterator[Variable]:
        """What it declares, and what the function's abstract description has and this copy of it does not: optimized
        away here. IGC names variables of some copies again instead of referring to the abstract ones, and leaves an
        empty DIE for others."""
        met = self._met.setdefault(-1 if scope.function is None else scope.function.at, set())
        for die in self.dies.children(scope.die, _LOCALS):
            met.update(self._declared(die))
            if self._says_anything(die):
                yield self._variable(die, _kind(die), owner)
        origin = self.dies.reference(scope.die, At.DW_AT_abstract_origin)
        if origin is None or origin.at == scope.die.at:
            return
        for die in self.dies.children(origin, _LOCALS):
            if met.isdisjoint(self._declared(die)) and self._says_anything(die):
                yield self._variable(die, _kind(die), owner)

    def _declared(self, die: Die) -> Iterator[_Declared]:
        """What tells a variable from the others of its function: the DIEs that it is, or its name with the line of its
        declaration."""
        name, line = self.dies.name(die), self.dies.find(die, At.DW_AT_decl_line)
        if name and line is not None:
            yield name, line[1].number
        at: Die | None = die
        for _ in range(_NAMESPACE_DEPTH):
            if at is None:
                return
            yield at.at
            at = self.dies.reference(at, At.DW_AT_abstract_origin)

    def _says_anything(self, die: Die) -> bool:
        """Whether a DIE has a name, a type or a place."""
        return any(self.dies.find(die, attribute) is not None for attribute in _SAYING)

    def _globals(self, outer: Die, depth: int) -> Iterator[Variable]:
        whole = _Owner(live=self._offsets([self._whole_section()]))
        for die in self.dies.children(outer, _GLOBALS):
            if die.tag == Tag.DW_TAG_variable and (
                At.DW_AT_declaration not in die.attributes or At.DW_AT_location in die.attributes
            ):
                yield self._variable(die, "global", whole)
            elif die.tag == Tag.DW_TAG_namespace and depth < _NAMESPACE_DEPTH:
                yield from self._globals(die, depth + 1)

    def _variable(self, die: Die, kind: Kind, owner: _Owner) -> Variable:
        type_die = self.dies.type_of(die)
        found = self.locator.find(die, self.types.reading(type_die))
        live = owner.live if found.everywhere else self._offsets(found.ranges)
        return Variable(
            name=self.dies.name(die),
            type=self.names.of(type_die),
            kind=kind,
            function=None if owner.function is None else owner.function.name,
            inlined=owner.function is not None and owner.function.inlined,
            optimized_out=found.text is None,
            location=found.text,
            live=live,
            type_number=self.types.number(type_die),
            locations=tuple(map(self.widths.told, found.locations)),
            frame=owner.frame,
            linkage_name=None if owner.function is None else owner.function.linkage_name,
            block_depth=owner.depth,
            block=owner.live if owner.is_block else (),
            declared_file=self.declarations.file(die),
            declared_line=self.declarations.line(die),
        )

    def _whole_section(self) -> AddressRange:
        slot = self.layout.section.tolist().index(self.section)
        base = int(self.layout.base[slot])
        return AddressRange(base, base + int(self.layout.size[slot]))

    def _offsets(self, ranges: Iterable[AddressRange]) -> tuple[tuple[int, int], ...]:
        """Ranges as offsets in the section asked about; those in other sections are left out."""
        found = []
        for one in ranges:
            section, at = self.layout.one_section_of(one.start & _MASK) or (-1, 0)
            if section == self.section:
                found.append((at, at + one.end - one.start))
        return tuple(found)


_MASK = (1 << 64) - 1


def _parameters_once(variables: Iterable[Variable]) -> Iterable[Variable]:
    """The variables in order; of parameters that a kernel and its body both have, those that have a place."""
    found: dict[object, Variable] = {}
    for number, each in enumerate(variables):
        own = each.kind == "parameter" and each.name and not each.inlined
        key = (each.function, each.name) if own else number
        if key not in found or (found[key].optimized_out and not each.optimized_out):
            found[key] = each
    return found.values()


def _kind(die: Die) -> Kind:
    return "parameter" if die.tag == Tag.DW_TAG_formal_parameter else "local"


def _simd_width(outwards: list[Die]) -> int | None:
    """The width that the function says, or else the unit; the DIEs are given function first, unit last."""
    for die in outwards:
        value = die.attributes.get(At.DW_AT_INTEL_simd_width)
        if value is not None and die.tag != Tag.DW_TAG_inlined_subroutine and value.is_constant:
            return value.number
    return None
