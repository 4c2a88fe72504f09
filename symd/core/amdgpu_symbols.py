# cython: language_level=3, boundscheck=True, wraparound=False
"""The symbol table of an AMDGPU code object -> its kernel descriptors, and its symbols of code by place: which are
functions, which are assembly labels, and how far each one reaches.

Source: System V ABI, chapter 4, "Symbol Table"; LLVM's AMDGPU usage guide, "Symbols"."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import cython

from symd.model.light_typing import Any

if cython.compiled:
    from cython.cimports.symd.core import sorting
else:
    from symd.core import sorting


_NOTYPE = cython.declare(cython.int, 0)
_OBJECT = cython.declare(cython.int, 1)
_FUNC = cython.declare(cython.int, 2)
_HSA_KERNEL = cython.declare(cython.int, 10)
_UNDEF = cython.declare(cython.uint, 0)
_LORESERVE = cython.declare(cython.uint, 0xFF00)
_XINDEX = cython.declare(cython.uint, 0xFFFF)
_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_LOADED = cython.declare(cython.ulonglong, 2)
"""SHF_ALLOC: the section takes room in memory."""
_EXECUTABLE = cython.declare(cython.ulonglong, 4)
"""SHF_EXECINSTR: the section holds code."""
_DESCRIPTOR = ".kd"
_OVERLAP = 16
"""Times the size of a table of strings that its strings may have together, for such as share their ends."""
_ALWAYS = 1 << 16


class OverlappingStrings(Exception):
    """The strings of a table are together far longer than it."""


@cython.cclass
class SymbolTable:
    """Symbols of code and descriptors. ``descriptors`` have (value, section number or -1, offset in it) by the
    kernel's name."""

    descriptors = cython.declare(dict, visibility="readonly")

    _rows = cython.declare(list)
    """(section number, offset in it, whether it is a label and no function, whether it has a size, its number, name,
    size, type) of each symbol of code, sorted."""
    _table = cython.declare(cython.const[cython.uchar][::1])
    _text = cython.declare(bytes)
    _strings = cython.declare(cython.const[cython.uchar][::1])
    _known = cython.declare(dict)
    _left = cython.declare(cython.longlong)
    # Of each section; of few numbers a list is made in half of the time of an array.
    _address = cython.declare(list)
    _size = cython.declare(list)
    _flags = cython.declare(list)
    _loaded = cython.declare(cython.const[cython.uint][::1])
    _starts = cython.declare(cython.const[cython.ulonglong][::1])
    _is_relocatable = cython.declare(cython.bint)

    def __init__(self, strings: bytes, sections: Sequence[Any], is_relocatable: bool) -> None:
        """``strings`` is the table of names. ``sections`` are ``symd.model.code.Section`` by number. Where
        ``is_relocatable`` values are offsets in the sections that symbols name."""
        self._rows, self.descriptors = [], {}
        self._text, self._strings, self._known = strings, strings, {}
        self._left = _OVERLAP * len(strings) + _ALWAYS
        self._address = [section.address for section in sections]
        self._size = [section.size for section in sections]
        self._flags = [section.flags for section in sections]
        self._is_relocatable = is_relocatable
        self._starts, self._loaded = _NO_WIDE, _NO_NARROW
        if not is_relocatable:  # where addresses tell sections
            loaded = sorted([(s.address, number) for number, s in enumerate(sections) if s.size and s.flags & _LOADED])
            self._starts = array("Q", [address for address, _ in loaded])
            self._loaded = array("I", [number for _, number in loaded])

    def read(self, table: bytes, is_wide: bool) -> None:
        """Take the entries of a symbol table, of Elf64_Sym where ``is_wide``, else of Elf32_Sym; to be called once.
        Raises OverlappingStrings."""
        self._table = table
        wide: cython.bint = is_wide
        width: cython.Py_ssize_t = 24 if wide else 16
        rows, untyped = [], []
        at: cython.Py_ssize_t
        number: cython.Py_ssize_t
        kind: cython.int
        named: cython.uint
        section: cython.Py_ssize_t
        value: cython.ulonglong
        size: cython.ulonglong
        offset: cython.ulonglong
        may_be_empty: cython.bint
        for number in range(len(self._table) // width):
            at = number * width
            kind = self._table[at + (4 if wide else 12)] & 15
            named = cython.cast(cython.uint, self._unsigned(at + (6 if wide else 14), 2))
            if named == _UNDEF or (kind > _FUNC and kind != _HSA_KERNEL):
                continue
            name = self._name(cython.cast(cython.uint, self._unsigned(at, 4)))
            value = self._unsigned(at + (8 if wide else 4), 8 if wide else 4)
            size = self._unsigned(at + (16 if wide else 8), 8 if wide else 4)
            may_be_empty = not size and kind >= _FUNC
            section = self._section_of(named, value, may_be_empty)
            offset = 0
            if section >= 0:
                offset = value if self._is_relocatable else value - self._begin(section)
            elif self._is_relocatable:
                offset = value
            if kind <= _OBJECT and name.endswith(_DESCRIPTOR):
                self.descriptors[name[: len(name) - 3]] = (value, int(section), offset)
            if kind == _OBJECT or section < 0 or not name or not self._is_code(section):
                continue
            if (
                named >= _LORESERVE and named != _XINDEX
            ):  # absolute values, such as register counts that newer compilers leave as symbols
                continue
            if offset < max(self._extent(section), 1) or (may_be_empty and offset == self._extent(section)):
                where, place, of, which = int(section), offset, size, int(number)
                if kind == _NOTYPE:
                    untyped.append((where, place, which, name, of))
                else:
                    rows.append((where, place, False, size > 0, which, name, of, kind))
        descriptors = self.descriptors
        for where, place, which, name, of in untyped:
            rows.append((where, place, name not in descriptors, of > 0, which, name, of, 0))
        rows.sort()
        self._rows = rows

    def placed(self, is_padding: Callable[[int, int, int], bool]) -> list[tuple[str, int, int, int, bool, int, bool]]:
        """(name, section number, offset in it, size, whether it is a function and no label, type, whether it is a label
        inside a function whose size the file gives) of each symbol of code, in order.

        Those without a size reach to the next place: a function to the next function, a label to the next symbol or the
        end of the function around it; the last one to the end of the section. A function without a size has no byte
        where one with a size begins, and where ``is_padding`` says of its section, offset and size that these bytes are
        no instructions."""
        found = []
        rows = self._rows
        at: cython.Py_ssize_t
        section: cython.Py_ssize_t = -1
        first: cython.Py_ssize_t = 0
        limit: cython.ulonglong = 0
        reach: cython.ulonglong = 0
        around: cython.ulonglong
        place: cython.ulonglong
        size: cython.ulonglong
        ends: tuple[list[int], list[int], dict[int, bool]] | None = None
        for at in range(len(rows)):
            where, offset, is_label, is_sized, _, name, said, kind = rows[at]
            place, size = offset, said
            if where != section:
                section, first, reach, ends = where, at, 0, None
                limit = self._extent(section)
            if not is_label:
                reach = max(reach, place + size if size <= _U64 - place else _U64)
            if is_sized:
                found.append((name, where, offset, said, not is_label, kind, False))
                continue
            if ends is None:
                ends = self._ends(first, limit)
            around = min(reach, limit) if reach > place else 0
            next_symbols, next_functions, taken = ends
            if is_label:
                size = min(cython.cast(cython.ulonglong, next_symbols[at - first]), around or limit) - place
            else:
                size = cython.cast(cython.ulonglong, next_functions[at - first]) - place
            if kind >= _FUNC:
                if offset not in taken:
                    taken[offset] = is_padding(where, offset, size)
                if taken[offset]:
                    size = 0
            found.append((name, where, offset, int(size), not is_label, kind, bool(is_label and around > place)))
        return found

    @cython.cfunc
    def _ends(self, first: cython.Py_ssize_t, limit: cython.ulonglong) -> tuple[list[int], list[int], dict[int, bool]]:
        """Where the next symbol begins behind each one of the section whose first one is number ``first``, and where
        the next function does; and the places at which functions with a size begin."""
        rows = self._rows
        behind: cython.Py_ssize_t = first
        while behind < len(rows) and rows[behind][0] == rows[first][0]:
            behind += 1
        next_symbols, next_functions, taken = [], [], {}
        next_symbol = next_function = int(limit)
        place, has_function = next_symbol, False
        for _, offset, is_label, is_sized, _, _, _, _ in rows[first:behind][::-1]:
            if offset != place:
                next_symbol = place
                if has_function:
                    next_function = place
                place, has_function = offset, False
            next_symbols.append(next_symbol)
            next_functions.append(next_function)
            if not is_label:
                has_function = True
                if is_sized:
                    taken[offset] = True
        return next_symbols[::-1], next_functions[::-1], taken

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _begin(self, section: cython.Py_ssize_t) -> cython.ulonglong:
        """The address of a section."""
        found: cython.ulonglong = self._address[section]
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _extent(self, section: cython.Py_ssize_t) -> cython.ulonglong:
        """The size of a section."""
        found: cython.ulonglong = self._size[section]
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _is_code(self, section: cython.Py_ssize_t) -> cython.bint:
        found: cython.ulonglong = self._flags[section]
        return found & _EXECUTABLE != 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _unsigned(self, at: cython.Py_ssize_t, size: cython.int) -> cython.ulonglong:
        found: cython.ulonglong = 0
        place: cython.int
        for place in range(size):
            found |= cython.cast(cython.ulonglong, self._table[at + place]) << (8 * place)
        return found

    @cython.cfunc
    def _name(self, offset: cython.uint) -> str:
        known: str | None = self._known.get(offset)
        if known is None:
            end: cython.Py_ssize_t = offset
            while end < len(self._strings) and self._strings[end]:
                end += 1
            if end > offset:
                self._left -= end - offset
                if self._left < 0:
                    raise OverlappingStrings
            known = self._known[offset] = self._text[offset:end].decode("utf-8", "replace") if end > offset else ""
        return known

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def _section_of(self, named: cython.uint, value: cython.ulonglong, may_be_empty: cython.bint) -> cython.Py_ssize_t:
        """The number of the section that a symbol names, or, where that is not true, of the one whose addresses hold
        it; -1 where there is none. One that may be empty can stand at the end of code."""
        count: cython.Py_ssize_t = len(self._address)
        if self._is_relocatable:
            return named if named < count else -1
        if named < count and value >= self._begin(named) and value - self._begin(named) < self._extent(named):
            return named
        found: cython.Py_ssize_t = self._holder(value)
        if may_be_empty:
            first: cython.Py_ssize_t = named if named < count else 0
            ended: cython.Py_ssize_t = first
            if not self._ends_at(first, value):
                ended = self._holder(value - 1) if value else -1
                if ended >= 0 and not self._ends_at(ended, value):
                    ended = -1
            if ended >= 0 and (found < 0 or not self._is_code(found) or ended == first):
                found = ended
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _ends_at(self, section: cython.Py_ssize_t, value: cython.ulonglong) -> cython.int:
        """Whether a section of code ends there."""
        return (
            section < len(self._address)
            and self._is_code(section)
            and value >= self._begin(section)
            and value - self._begin(section) == self._extent(section)
        )

    def section_at(self, address: int) -> int:
        """The number of the loaded section that holds an address; -1 where none does."""
        found: cython.Py_ssize_t = self._holder(address) if address >> 64 == 0 else -1
        return int(found)

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def _holder(self, address: cython.ulonglong) -> cython.Py_ssize_t:
        """The number of the loaded section that holds an address, or -1."""
        slot: cython.Py_ssize_t = sorting.upper_bound(self._starts, address) - 1
        if slot < 0:
            return -1
        found: cython.Py_ssize_t = self._loaded[slot]
        return found if address - self._begin(found) < self._extent(found) else -1


_NO_WIDE = cython.declare(cython.const[cython.ulonglong][::1], array("Q"))
_NO_NARROW = cython.declare(cython.const[cython.uint][::1], array("I"))
