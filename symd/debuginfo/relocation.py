"""One linear address space for all text of a code object, and its debug sections with their relocations applied, so
that every address in them is one of that space. Linked objects have one already; in unlinked ones every text section
starts at 0, so each gets a base of its own here. It does without NumPy, as one address is answered.

Each vendor has a scheme of its own; adding one is one function and one line in SCHEMES."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

from symd.core import elf_tables
from symd.core.elf_tables import RelocationTable, SymbolValues
from symd.debuginfo.dwarf.sections import DWO_NAMES, DebugSections, split_contents, with_split
from symd.debuginfo.dwarf.units import Unit, external_functions, read_units
from symd.errors import Malformed
from symd.formats.budget import DebugBudget
from symd.formats.elf.constants import SHN_LORESERVE, SHT_REL, SHT_RELA, SHT_SYMTAB
from symd.formats.elf.contents import overlapping
from symd.model.code import CodeObject, RelocationScheme, Section
from symd.model.light_typing import NamedTuple

FIRST_BASE = 1 << 40
"""Far above every address an unlinked object can hold, so that what relocation did not touch falls on no section."""
FIRST_BASE_32 = 1 << 28
"""The base of the first text section of an unlinked 32-bit object, whose debug sections have four bytes for an
address: above every address that the object can hold, so that what relocation did not touch falls on no section."""
GAP = 1 << 16
"""Kept free after each section: compilers let ranges run a few bytes past their text."""


class LinearLayout(NamedTuple):
    """Section numbers with their linear ``[base, base + size)``, sorted by base: three equally long columns."""

    section: array[int]
    base: array[int]
    size: array[int]

    def base_of(self, section: int) -> int | None:
        """The linear address of a section's first byte; None when it is not text."""
        return self.base[self.section.index(section)] if section in self.section else None

    def bases(self) -> dict[int, int]:
        """The base of each section by its number."""
        return dict(zip(self.section.tolist(), self.base.tolist(), strict=True))

    def linear(self, places: Sequence[tuple[int, int]]) -> list[int]:
        """Section numbers and offsets as linear addresses. Raises ValueError for a section that is not text."""
        bases = self.bases()
        if unknown := {section for section, _ in places} - bases.keys():
            raise ValueError(f"sections {sorted(unknown)} hold no text")
        return [bases[section] + offset for section, offset in places]

    def one_section_of(self, address: int) -> tuple[int, int] | None:
        """The section that holds one linear address: (section number, offset in it); None where no section does."""
        slot = bisect_right(self.base, address) - 1
        if slot < 0:
            return None
        offset = address - int(self.base[slot])
        return (int(self.section[slot]), offset) if offset <= int(self.size[slot]) + GAP else None


def first_base(code: CodeObject) -> int:
    """Where the text of an unlinked object begins."""
    return FIRST_BASE if code.address_bits == 64 else FIRST_BASE_32


def linear_layout(code: CodeObject) -> LinearLayout:
    """The layout of a code object's executable sections. Raises Malformed where they have no room in its addresses."""
    text = [section for section in code.sections if section.executable]
    if code.linked:
        placed = sorted((section.address, section.size, section.index) for section in text)
        return _columns(placed)
    placed, at = [], first_base(code)
    for section in text:
        placed.append((at, section.size, section.index))
        at += (section.size + 2 * GAP) & ~(GAP - 1)
        if at >= 1 << code.address_bits:
            message = f"its size {section.size:#x} and those before it pass {code.address_bits} bits"
            raise Malformed(message, where=section.name)
    return _columns(placed)


def _columns(placed: list[tuple[int, int, int]]) -> LinearLayout:
    base, size, section = zip(*placed, strict=True) if placed else ((), (), ())
    return LinearLayout(array("I", section), array("Q", base), array("Q", size))


Contents = Mapping[str, bytes]
"""Section name (".debug_line") to content, relocated."""
Scheme = Callable[[CodeObject, LinearLayout], Contents]

PTX_LINES = ".nv_debug_line_sass"
_AMDGPU_WIDTHS = {
    0: 0,  # R_AMDGPU_NONE
    1: 4,  # R_AMDGPU_ABS32_LO, the low word of S + A
    3: 8,  # R_AMDGPU_ABS64
    6: 4,  # R_AMDGPU_ABS32
}
"""Bytes that each type of relocation writes in debug data, as the tables below: 0 asks for nothing. Source: LLVM's
AMDGPU usage guide, "Relocation Records"."""
_TABLES = (SHT_RELA, SHT_REL)
_FAR = FIRST_BASE, 2 * FIRST_BASE
"""Addresses of text, which do not fit four bytes."""
_CUDA_WIDTHS = {
    0: 0,  # R_CUDA_NONE
    1: 4,  # R_CUDA_32
    2: 8,  # R_CUDA_64
    3: 4,  # R_CUDA_G32, the address of a variable in its memory space, as is R_CUDA_G64
    4: 8,  # R_CUDA_G64
    72: 0,  # R_CUDA_UNUSED_CLEAR32, an order to the linker: clear the place if the function is stripped
    73: 0,  # R_CUDA_UNUSED_CLEAR64
}
"""Numbers and names as cuobjdump prints them."""
_IGC_WIDTHS = {
    RelocationScheme.IGC: {1: 8},  # R_X86_64_64
    RelocationScheme.IGC_DUMP: {1: 8, 10: 4, 11: 4},  # and R_X86_64_32, R_X86_64_32S
}
"""IGC borrows the types of x86-64. Source: System V ABI, AMD64 supplement, 4.4.1."""
_ZE_TEXT_ADDRESS = 1
"""R_ZE_SYM_ADDR, a 64-bit address: of text, in debug data."""
_ZE_WIDTHS = {
    0: 0,  # R_ZE_NONE
    _ZE_TEXT_ADDRESS: 0,
    2: 4,  # R_ZE_SYM_ADDR_32, the low word of an address: an offset into another section, in debug data
}
"""But for addresses of text. R_ZE_SYM_ADDR_32_HI (3) and R_PER_THREAD_PAYLOAD_OFFSET_32 (4) are of code; nothing says
what they mean in debug data. Source: compute-runtime's zebin documentation, "Gen Relocation Type"."""


def unrelocated(code: CodeObject, layout: LinearLayout) -> Contents:
    """Linked objects: the debug sections as they stand, each read when somebody looks."""
    del layout
    return _AsTheyStand({section.name: section for section in _debug_sections(code)})


def amdgpu(code: CodeObject, layout: LinearLayout) -> Contents:
    """Relocatable AMDGPU objects, in which every address and every offset is a relocation: SHT_RELA for amdhsa,
    SHT_REL, whose addends are in place, for other systems. With one section a function all line sequences begin at 0,
    and only the relocation's symbol says whose they are.

    Debug sections that share a name (one a COMDAT group) are put end to end, and offsets into them moved along. Raises
    Malformed and Unsupported rather than leave a relocation out."""
    debug, symtab = [], None
    tables: dict[int, list[Section]] = {}  # by the section that they are for: names repeat where there are groups
    for section in code.sections:
        if section.type in _TABLES:
            tables.setdefault(section.info, []).append(section)
        elif section.type == SHT_SYMTAB:
            symtab = symtab or section
        if section.name.startswith(".debug_"):
            debug.append(section)
    bases: dict[int, int] = {}
    sizes: dict[str, int] = {}
    for section in debug:
        bases[section.index] = sizes.get(section.name, 0)
        sizes[section.name] = bases[section.index] + len(section.data)
    bases |= layout.bases()
    if len(code.sections) > SHN_LORESERVE:
        bases = {number: base for number, base in bases.items() if number < SHN_LORESERVE}
    symbols = _symbols(symtab, bases)
    content: dict[str, list[bytes | bytearray]] = {}
    for section in debug:
        found: bytes | bytearray = section.data
        if section.index in tables:
            found = bytearray(found)
            for table in tables[section.index]:
                _opened(table).apply(found, table.name, _AMDGPU_WIDTHS, symbols, _FAR)
        content.setdefault(section.name, []).append(found)
    return {name: b"".join(pieces) for name, pieces in content.items()}


def cuda(code: CodeObject, layout: LinearLayout) -> Contents:
    """Cubins, with .nv_debug_line_sass. Every function starts at 0, in final images too; REL tables (addend in place)
    and RELA tables stand side by side, in any order, and say which function an address belongs to.

    A sequence without a relocation is a function that the linker stripped: it keeps its low address and falls on no
    section. Shadow sections (.nv.merc.*) are not looked at. Raises Malformed, Unsupported."""
    bits = code.address_bits
    symbols = _symbols(code.section(".symtab"), layout.bases(), bits)
    tables = _tables(code)
    content: dict[str, bytes] = {}
    for section in reversed(code.sections):
        if section.name.startswith(".debug_") or section.name == PTX_LINES:
            data = bytearray(section.data)
            for table in _tables_for(code, tables, section):
                _opened(table, bits).apply(data, section.name, _CUDA_WIDTHS, symbols, leaves_undefined=True)
            content[section.name] = bytes(data)
    return content


def igc(code: CodeObject, layout: LinearLayout) -> Contents:
    """IGC's ELF images of one kernel. In the debug container only the line program's start address is relocated: its
    place holds 0 and the addend the true start, which is not 0 in a library's kernels. The dumped variant (machine 62)
    has relocations for all of its addresses and section offsets. Raises Malformed, Unsupported."""
    content: dict[str, bytes] = {}
    tables = _tables(code)
    for section in _debug_sections(code):
        if section.name not in tables:
            content[section.name] = section.data
            continue
        data = bytearray(section.data)
        for table in _tables_for(code, tables, section):
            symtab = code.sections[table.link] if table.link < len(code.sections) else None
            symbols = _symbols(symtab, {} if code.linked else layout.bases(), name=table.name)
            _opened(table).apply(data, table.name, _IGC_WIDTHS[code.relocation], symbols)
        content[section.name] = bytes(data)
    return content


def zebin(code: CodeObject, layout: LinearLayout) -> Contents:
    """Zebins, relocatable and as drivers return them. Their symbols cannot be trusted: the section they name is the one
    that holds the relocation, names may be missing or differ from run to run, and a driver that met a missing name
    leaves that kernel's addresses at 0. The addends are right, with every kernel at 0; so each unit's kernel is found,
    and everything is redone from the addends. Raises Malformed, Unsupported."""
    sections = {section.name: section for section in _debug_sections(code)}
    content = {name: bytearray(section.data) for name, section in sections.items()}
    known = _tables(code)
    tables = {name: _one_table(code, known, section) for name, section in sections.items()}
    for name, table in tables.items():
        table.apply(content[name], name, _ZE_WIDTHS, None)
    if content.get(".debug_info"):
        _place_texts(code, layout, content, tables)
    return {name: bytes(data) for name, data in content.items()}


SCHEMES: Mapping[RelocationScheme, Scheme] = {
    RelocationScheme.NONE: unrelocated,
    RelocationScheme.IGC: igc,
    RelocationScheme.IGC_DUMP: igc,
    RelocationScheme.ZEBIN: zebin,
    RelocationScheme.AMDGPU: amdgpu,
    RelocationScheme.CUDA: cuda,
}
"""How debug sections are relocated, by ``CodeObject.relocation``."""


def relocated(code: CodeObject, layout: LinearLayout, budget: DebugBudget | None = None) -> DebugSections:
    """The debug sections of ``code``, ready to be decoded within ``budget``, which is that of its module; without, the
    code object has one for itself. Raises Malformed or Unsupported rather than pass on a section whose relocations it
    could not apply."""
    contents = SCHEMES[code.relocation](code, layout)
    sections = DebugSections.of(contents, budget or DebugBudget.of(code))
    if DWO_NAMES["info"] in contents:
        sections = with_split(sections, split_contents(code.sections))
    return sections


class _AsTheyStand(Mapping[str, bytes]):
    def __init__(self, sections: Mapping[str, Section]) -> None:
        self._sections = sections

    def __getitem__(self, name: str) -> bytes:
        return self._sections[name].data

    def __iter__(self) -> Iterator[str]:
        return iter(self._sections)

    def __len__(self) -> int:
        return len(self._sections)


def _debug_sections(code: CodeObject) -> list[Section]:
    return [section for section in code.sections if section.name.startswith(".debug_")]


def _symbols(table: Section | None, bases: dict[int, int], bits: int = 64, name: str = "") -> SymbolValues:
    """For each symbol of a table its value, moved by the base of its section; ``name`` is that of the table in errors
    where there is none."""
    return SymbolValues(table.data if table else b"", table.name if table else name, bits, bases)


def _opened(table: Section, bits: int = 64) -> RelocationTable:
    """The entries of a SHT_RELA or SHT_REL section of an image of that class (System V ABI, chapter 4, "Relocation").
    Raises Malformed."""
    return RelocationTable(table.data, table.name, bits, table.type == SHT_RELA)


_TablesByName = Mapping[str, Sequence[Section]]


def _tables(code: CodeObject) -> _TablesByName:
    """The relocation tables of an object, by the name of the section that each is for, as its own name says."""
    found: dict[str, list[Section]] = {}
    for section in code.sections:
        if section.type in _TABLES and section.name.startswith(".rel"):
            found.setdefault(section.name[5 if section.name.startswith(".rela") else 4 :], []).append(section)
    return found


def _tables_for(code: CodeObject, tables: _TablesByName, target: Section) -> list[Section]:
    """The relocation ``tables`` whose name and sh_info say that they are for ``target``."""
    named = tables.get(target.name, ())
    return [table for table in named if table.info in (0, target.index) or table.info >= len(code.sections)]


def _one_table(code: CodeObject, tables: _TablesByName, section: Section) -> RelocationTable:
    found = _tables_for(code, tables, section)
    if len(found) > 1:
        raise Malformed("has more than one relocation table", where=section.name)
    return _opened(found[0] if found else Section(0, "", SHT_RELA, 0, 0, 0, b""))


def _place_texts(
    code: CodeObject, layout: LinearLayout, content: dict[str, bytearray], tables: dict[str, RelocationTable]
) -> None:
    """Move every text address of a zebin to the base of its unit's kernel in the layout."""
    sections = DebugSections.of({name: bytes(data) for name, data in content.items()}, DebugBudget.of(code))
    units = read_units(sections)
    if units.warnings:
        raise Malformed(f"the units cannot be read: {units.warnings[0]}", where=".debug_info")
    found = units.units
    bases = _unit_bases(code, layout, found, external_functions(sections, units), tables[".debug_info"])
    starts: dict[str, list[int | None]] = {
        ".debug_info": [unit.offset for unit in found],
        ".debug_line": [unit.stmt_list for unit in found],
        ".debug_addr": [unit.addr_base if unit.states_addr_base else None for unit in found],
    }
    for name, first in starts.items():
        if name in tables:
            pairs = sorted((start, base) for start, base in zip(first, bases, strict=True) if start is not None)
            places, of_places = (array("Q", [pair[part] for pair in pairs]) for part in (0, 1))
            tables[name].apply_by_place(content[name], name, _ZE_TEXT_ADDRESS, places, of_places)


def _unit_bases(
    code: CodeObject,
    layout: LinearLayout,
    found: Sequence[Unit],
    functions: Sequence[tuple[str, ...]],
    table: RelocationTable,
) -> list[int]:
    """The linear base of each unit's kernel: by the name of a text relocation, by the unit's function, by order."""
    texts = [section for section in code.sections if section.executable]
    by_name = {section.name: section.index for section in texts}
    symtab = code.section(".symtab")
    named = table.symbols_by_place(_ZE_TEXT_ADDRESS, array("Q", [unit.offset for unit in found]))
    bases = layout.bases()
    result = []
    for number, symbols in enumerate(named):
        names = _symbol_names(code, symtab, sorted(symbols)) if symtab else []
        candidates = [*names, *(f".text.{name}" for name in functions[number])]
        section = next((by_name[name] for name in candidates if name in by_name), None)
        if section is None and len(found) == len(texts):
            section = texts[number].index
        if section is None:
            raise Malformed(f"unit {number} of {len(found)} belongs to no text section", where=".debug_info")
        result.append(bases.get(section, 0))
    return result


_SYMBOL_BYTES = 24
"""An entry of a 64-bit symbol table."""


def _symbol_names(code: CodeObject, table: Section, numbers: Sequence[int]) -> list[str]:
    """The names of some of the symbols of a 64-bit table; those that it does not have are left out. Raises
    Malformed."""
    rows, strings = table.data, code.sections[table.link].data if table.link < len(code.sections) else b""
    starts = [_SYMBOL_BYTES * number for number in numbers if number < len(rows) // _SYMBOL_BYTES]
    names = elf_tables.strings_at(strings, [int.from_bytes(rows[at : at + 4], "little") for at in starts])
    if names is None:
        raise overlapping(table.name)
    return names
