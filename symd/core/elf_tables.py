# cython: language_level=3, boundscheck=True, wraparound=False
"""Tables of an ELF image: section headers, strings at many offsets at once, and relocations with the symbols that they
name.

Source: System V ABI, chapter 4, "Section Header", "String Table", "Relocation" (Elf32_Rel, Elf32_Rela, Elf64_Rel,
Elf64_Rela) and "Symbol Table" (Elf32_Sym, Elf64_Sym)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence

import cython

from symd.errors import Malformed, Unsupported
from symd.model.light_typing import Any

if cython.compiled:
    from cython.cimports.symd.core import sorting
else:
    from symd.core import sorting
if cython.compiled:
    from cython.cimports.symd.core.byte_reader import ByteReader
else:
    from symd.core.byte_reader import ByteReader


_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_COMPRESSED = cython.declare(cython.ulonglong, 0x800)
"""SHF_COMPRESSED."""
_ZDEBUG = ".zdebug_"
OVERLAP = 8
"""Times the size of the file that all sections together may have."""
_STRINGS_OVERLAP = 16
"""Times the size of a table of strings that its strings may have together: real tables share tails, and stay far
below."""
_ALWAYS = 1 << 16


def sections(
    headers: Sequence[tuple[int, ...]],
    names: Sequence[str],
    empty: Collection[int],
    stored: int,
    content: object,
    make: Callable[..., Any],
) -> tuple[list[Any], bool, list[int]]:
    """What ``make`` makes of each section of a file of ``stored`` bytes: it is given the fields of
    ``symd.model.code.Section`` in their order. Sections of the types ``empty`` have no content in the file. Also
    whether all of them can be, each alone and all together, and the numbers of those that may be compressed."""
    found: list[Any] = []
    packed: list[int] = []
    most: cython.ulonglong = OVERLAP * stored
    end: cython.ulonglong = stored
    held: cython.ulonglong = 0
    is_sound: cython.bint = True
    number: cython.Py_ssize_t
    begin: cython.ulonglong
    stop: cython.ulonglong
    size: cython.ulonglong
    address: cython.ulonglong
    flags: cython.ulonglong
    for number in range(len(headers)):
        fields: tuple[int, ...] = headers[number]
        name: str = names[number]
        kind, flags, address, size = fields[1], fields[2], fields[3], fields[5]
        begin = stop = 0
        if kind not in empty:
            begin = fields[4]
            stop = (begin + size) & _U64
            held += size
            if stop < begin or stop > end or held > most:
                is_sound, held = False, 0  # what is held stays below 2**64
        if (address + size) & _U64 < address:
            is_sound = False
        if flags & _COMPRESSED or name.startswith(_ZDEBUG):
            packed.append(number)
        found.append(
            make(
                number,
                name,
                kind,
                fields[2],
                fields[3],
                fields[5],
                content,
                fields[6],
                fields[7],
                fields[9],
                begin,
                stop,
            )
        )
    return found, is_sound, packed


def strings_at(table: bytes, offsets: Sequence[int]) -> list[str] | None:
    """The strings at some offsets of a table, "" where one leaves it; None where together they take far more memory
    than the table. Strings may share their ends: n offsets into one string of n bytes hold n * n / 2."""
    left: cython.longlong = _STRINGS_OVERLAP * len(table) + _ALWAYS
    size: cython.Py_ssize_t = len(table)
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    known: dict[int, str] = {}
    found: list[str] = []
    view = cython.declare(cython.const[cython.uchar][::1])
    view = table
    for offset in offsets:
        text = known.get(offset)
        if text is None:
            text = ""
            if offset < size:
                at = stop = offset
                while stop < size and view[stop]:
                    stop += 1
                left -= stop - at
                if left < 0:
                    return None
                text = table[at:stop].decode("utf-8", "replace")
            known[offset] = text
        found.append(text)
    return found


_SHN_XINDEX = cython.declare(cython.uint, 0xFFFF)


@cython.cclass
class SymbolValues(ByteReader):
    """The value of each symbol of a table, moved to the base of its section: ``values`` u64, and ``defined`` u8, which
    is 0 where the symbol is another file's."""

    values = cython.declare(object, visibility="readonly")
    defined = cython.declare(object, visibility="readonly")
    value_view = cython.declare(cython.ulonglong[::1])
    defined_view = cython.declare(cython.uchar[::1])

    def __init__(self, table: bytes, section: str, bits: int, bases: dict[int, int]) -> None:
        """``bases`` are those of sections by their numbers; others begin at 0. Raises Malformed."""
        is_wide: cython.bint = bits == 64
        size: cython.Py_ssize_t = 24 if is_wide else 16
        if len(table) % size:
            raise Malformed(f"symbol table size is not a multiple of {size}", where=section)
        self.data, self.section, self.end = table, section, len(table)
        count: cython.Py_ssize_t = len(table) // size
        self.values, self.defined = array("Q", bytes(8 * count)), bytearray(count)
        self.value_view, self.defined_view = self.values, self.defined
        at: cython.Py_ssize_t
        value: cython.ulonglong
        base: cython.ulonglong
        number: cython.uint
        for at in range(count):
            self.at = size * at + (6 if is_wide else 14)
            number = self.uint(2)
            if number == _SHN_XINDEX:
                raise Unsupported("symbols of an object with more than 65,279 sections", where=section)
            self.at = size * at + (8 if is_wide else 4)
            value = self.uint(8 if is_wide else 4)
            base = bases.get(number, 0)
            self.value_view[at], self.defined_view[at] = (value + base) & _U64, number != 0


@cython.cclass
class RelocationTable(ByteReader):
    """The entries of one SHT_REL or SHT_RELA section."""

    _is_wide = cython.declare(cython.bint)
    _has_addends = cython.declare(cython.bint)
    _size = cython.declare(cython.Py_ssize_t)
    _offset = cython.declare(cython.ulonglong)
    _kind = cython.declare(cython.ulonglong)
    _symbol = cython.declare(cython.ulonglong)
    _addend = cython.declare(cython.ulonglong)

    def __init__(self, table: bytes, section: str, bits: int, has_addends: bool) -> None:
        """Raises Malformed."""
        self._is_wide, self._has_addends = bits == 64, has_addends
        self._size = (8 if self._is_wide else 4) * (3 if has_addends else 2)
        self.data, self.section, self.end = table, section, len(table)
        if len(table) % self._size:
            raise Malformed(f"relocation table size is not a multiple of {self._size}", where=section)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _next(self) -> cython.int:
        """Read an entry."""
        width: cython.Py_ssize_t = 8 if self._is_wide else 4
        info: cython.ulonglong
        self._offset = self.uint(width)
        info = self.uint(width)
        self._symbol, self._kind = (info >> 32, info & 0xFFFFFFFF) if self._is_wide else (info >> 8, info & 0xFF)
        self._addend = self.uint(width) if self._has_addends else 0
        if not self._is_wide and self._addend >> 31:
            self._addend |= 0xFFFFFFFF00000000
        return 0

    def apply(
        self,
        data: bytearray,
        section: str,
        widths: dict[int, int],
        symbols: SymbolValues | None,
        far: tuple[int, int] = (0, 0),
        leaves_undefined: bool = False,
    ) -> None:
        """Store symbol plus addend at each place of the section ``data``; without ``symbols`` the addend alone.
        ``widths`` has the bytes that each type writes, 0 of those that ask for nothing. A symbol that is another
        file's, or none, is 0, or leaves its place alone where ``leaves_undefined``. Raises Unsupported for another
        type, and for a value between the two of ``far`` that is to be stored in four bytes; Malformed for a place
        outside of the section and a symbol that is not there."""
        stored = cython.declare(cython.uchar[::1])
        values = cython.declare(cython.ulonglong[::1])
        defined = cython.declare(cython.uchar[::1])
        stored = data
        if symbols is not None:
            values, defined = symbols.value_view, symbols.defined_view
        low: cython.ulonglong = far[0]
        high: cython.ulonglong = far[1]
        width: cython.int = 0
        before: cython.ulonglong = 0
        is_first: cython.bint = True
        value: cython.ulonglong
        place: cython.Py_ssize_t
        byte: cython.int
        self.at = 0
        while self.at < self.end:
            self._next()
            if is_first or self._kind != before:
                width = self._width(widths, section)
                before, is_first = self._kind, False
            if not width:
                continue
            place = self._place(len(data), width, section)
            value = self._addend
            if not self._has_addends:
                for byte in range(width):
                    value |= cython.cast(cython.ulonglong, stored[place + byte]) << (8 * byte)
            if symbols is not None:
                if self._symbol >= cython.cast(cython.ulonglong, len(values)):
                    raise self._malformed(f"a relocation names symbol {self._symbol} of {len(values)}", self.section)
                if leaves_undefined and not defined[self._symbol]:
                    continue
                value = (value + values[self._symbol]) & _U64
            if width == 4 and low <= value < high:
                raise Unsupported("a 32-bit relocation against code is not read", where=self.section)
            self._store(stored, place, width, value)

    def apply_by_place(self, data: bytearray, section: str, kind: int, places: array[int], bases: array[int]) -> None:
        """Store base plus addend, in 8 bytes, at each place that an entry of type ``kind`` names; the base is that of
        the last of ``places`` (u64, in order) before it, 0 where there is none. Raises Malformed for a place outside of
        the section."""
        stored = cython.declare(cython.uchar[::1])
        starts = cython.declare(cython.const[cython.ulonglong][::1])
        base = cython.declare(cython.const[cython.ulonglong][::1])
        stored, starts, base = data, places, bases
        wanted: cython.ulonglong = kind
        value: cython.ulonglong
        slot: cython.Py_ssize_t
        place: cython.Py_ssize_t
        self.at = 0
        while self.at < self.end:
            self._next()
            if self._kind != wanted:
                continue
            place = self._place(len(data), 8, section)
            slot = sorting.upper_bound(starts, self._offset) - 1
            value = (self._addend + (base[slot] if slot >= 0 else 0)) & _U64
            self._store(stored, place, 8, value)

    def symbols_by_place(self, kind: int, places: array[int]) -> list[set[int]]:
        """The symbols that entries of type ``kind`` name behind each of ``places`` (u64, in order) and before the
        next."""
        starts = cython.declare(cython.const[cython.ulonglong][::1])
        starts = places
        wanted: cython.ulonglong = kind
        slot: cython.Py_ssize_t
        found: list[set[int]] = [set() for _ in places]
        self.at = 0
        while self.at < self.end:
            self._next()
            slot = sorting.upper_bound(starts, self._offset) - 1 if self._kind == wanted else -1
            if slot >= 0:
                found[slot].add(self._symbol)
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _place(self, size: cython.ulonglong, width: cython.ulonglong, section: str) -> cython.Py_ssize_t:
        """Where an entry stores so many bytes in a section of ``size`` bytes. Raises Malformed where they are not all
        in it."""
        if self._offset > size or size - self._offset < width:
            raise self._malformed(f"a relocation at byte {self._offset} leaves the section of {size}", section)
        return cython.cast(cython.Py_ssize_t, self._offset)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _store(
        self, data: cython.uchar[::1], place: cython.Py_ssize_t, width: cython.int, value: cython.ulonglong
    ) -> cython.int:
        """Write the lowest bytes of a value."""
        byte: cython.int
        for byte in range(width):
            data[place + byte] = value >> (8 * byte) & 0xFF
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _width(self, widths: dict[int, int], section: str) -> cython.int:
        """The bytes that an entry of this type writes."""
        found = widths.get(self._kind)
        if found is None:
            known = ", ".join(map(str, sorted(widths)))
            raise Unsupported(f"relocation type {self._kind} is not read in debug data; {known} are", where=section)
        return found

    @cython.cfunc
    def _malformed(self, what: str, section: str) -> object:
        return Malformed(what, where=section)
