"""The section table of an ELF image: where its debug sections and its text are.

Source: System V ABI, gABI 4.1/draft, chapter 4. ``symd.elf.constants`` has the same numbers, and takes longer to import."""

from __future__ import annotations

from struct import Struct

from symd.model.plain_answers import NotPlain
from symd.plain.numbers import text

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[int, int], bytes]
    SymbolTable = tuple[int, tuple[int, int], tuple[int, ...]]
    """Its type, and offset and size of the table and of its strings."""

MAGIC, ELFCLASS64, ELFDATA2LSB = b"\x7fELF", 2, 1
ET_EXEC, ET_DYN, EM_AMDGPU = 2, 3, 224
SHT_NULL, SHT_SYMTAB, SHT_NOBITS, SHT_DYNSYM = 0, 2, 8, 11
SHF_EXECINSTR, SHF_COMPRESSED = 0x4, 0x800
PN_XNUM = 0xFFFF
_SYMBOL_SIZE = 24
_HEADER = Struct("<4s5B7xHHIQQQIHHHHHH")
_SECTION = Struct("<IIQQQQIIQQ")
_SEGMENT = Struct("<IIQQQQQQ")
_MOST_SECTIONS, _HIGHEST = 4096, (1 << 63) - 1


class Image:
    """A linked code object of AMD's with one section of text and debug data that is neither compressed nor elsewhere. ``read`` gives bytes of
    the file, by offset and size; it has ``size`` bytes."""

    def __init__(self, read: Read, size: int) -> None:
        self._read, self._size = read, size
        (magic, bits, order, _, _, _, kind, machine, _, _, segments, table, _, _, segment_width, segment_count, width,
         count, names) = _HEADER.unpack(self.bytes_at(0, _HEADER.size))  # fmt: skip
        if (magic, bits, order, machine) != (MAGIC, ELFCLASS64, ELFDATA2LSB, EM_AMDGPU) or kind not in (
            ET_DYN,
            ET_EXEC,
        ):
            raise NotPlain
        if not table or width != _SECTION.size or not 0 < names < count <= _MOST_SECTIONS:
            raise NotPlain
        self._check_segments(segments, segment_width, segment_count)
        headers = list(_SECTION.iter_unpack(self.bytes_at(table, count * width)))
        self._extents: dict[str, tuple[int, int]] = {}
        strings = self.bytes_at(*headers[names][4:6])
        texts, held = [], 0
        self.symbol_tables: list[SymbolTable] = []
        for number, (name, kind, flags, address, offset, length, link, *_) in enumerate(headers):
            held += length if kind not in (SHT_NULL, SHT_NOBITS) else 0
            if kind not in (SHT_NULL, SHT_NOBITS) and offset + length > size:
                raise NotPlain
            if flags & SHF_COMPRESSED or held > size or address + length > _HIGHEST:
                raise NotPlain  # what is wrong with any section is wrong with all of them
            if kind in (SHT_SYMTAB, SHT_DYNSYM):
                if length % _SYMBOL_SIZE:
                    raise NotPlain
                self.symbol_tables.append((kind, (offset, length), headers[link][4:6]))
            if flags & SHF_EXECINSTR:
                texts.append((address, address + length, number))
            self._add(text(strings, name).decode("ascii", "replace"), kind, offset, length)
        if len(texts) != 1:
            raise NotPlain
        *_, self.text_number = texts[0]
        self.text = texts[0][:2]
        """The addresses [start, end) of the text; ``text_number`` is the number of its section."""

    def _check_segments(self, offset: int, width: int, count: int) -> None:
        """Whoever reads everything refuses a file whose program headers cannot be."""
        if not offset or not count:
            return
        if width != _SEGMENT.size or count == PN_XNUM:
            raise NotPlain
        for _, _, _, address, _, _, size, _ in _SEGMENT.iter_unpack(self.bytes_at(offset, count * width)):
            if address + size > _HIGHEST:
                raise NotPlain

    def _add(self, name: str, kind: int, offset: int, length: int) -> None:
        if name.startswith(".zdebug") or name.endswith(".dwo"):
            raise NotPlain
        if not name.startswith(".debug_"):
            return
        if name in self._extents or kind in (SHT_NULL, SHT_NOBITS):
            raise NotPlain
        self._extents[name] = offset, length

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Bytes of the file."""
        found = self._read(offset, size) if 0 <= offset <= offset + size <= self._size else b""
        if len(found) != size:
            raise NotPlain
        return found

    def section(self, name: str) -> bytes:
        """The bytes of a debug section; none where there is no such section."""
        return self.bytes_at(*self._extents.get(name, (0, 0)))

    def section_size(self, name: str) -> int:
        return self._extents.get(name, (0, 0))[1]

    def part(self, name: str, start: int, end: int) -> bytes:
        """Some of a debug section."""
        offset, size = self._extents.get(name, (0, 0))
        if not 0 <= start <= end <= size:
            raise NotPlain
        return self.bytes_at(offset + start, end - start)
