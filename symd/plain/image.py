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

MAGIC, ELFCLASS64, ELFDATA2LSB = b"\x7fELF", 2, 1
ET_EXEC, ET_DYN, EM_AMDGPU = 2, 3, 224
SHT_NULL, SHT_SYMTAB, SHT_NOBITS, SHT_DYNSYM = 0, 2, 8, 11
SHF_EXECINSTR, SHF_COMPRESSED = 0x4, 0x800
_HEADER = Struct("<4s5B7xHHIQQQIHHHHHH")
_SECTION = Struct("<IIQQQQIIQQ")
_SYMBOL = Struct("<8xQQ")
_MOST_SECTIONS = 4096


class Image:
    """A linked code object of AMD's with one section of text and debug data that is neither compressed nor elsewhere. ``read`` gives bytes of
    the file, by offset and size; it has ``size`` bytes."""

    def __init__(self, read: Read, size: int) -> None:
        self._read, self._size = read, size
        magic, bits, order, _, _, _, kind, machine, _, _, _, table, _, _, _, _, width, count, names = _HEADER.unpack(
            self._bytes(0, _HEADER.size)
        )
        if (magic, bits, order, machine) != (MAGIC, ELFCLASS64, ELFDATA2LSB, EM_AMDGPU) or kind not in (
            ET_DYN,
            ET_EXEC,
        ):
            raise NotPlain
        if not table or width != _SECTION.size or not 0 < names < count <= _MOST_SECTIONS:
            raise NotPlain
        headers = list(_SECTION.iter_unpack(self._bytes(table, count * width)))
        self._extents: dict[str, tuple[int, int]] = {}
        strings = self._bytes(*headers[names][4:6])
        texts = []
        self._symbols: list[tuple[int, int]] = []
        for name, kind, flags, address, offset, length, *_ in headers:
            if kind not in (SHT_NULL, SHT_NOBITS) and offset + length > size:
                raise NotPlain
            if kind in (SHT_SYMTAB, SHT_DYNSYM):
                self._symbols.append((offset, length))
            if flags & SHF_EXECINSTR:
                texts.append((address, address + length))
            self._add(text(strings, name).decode("ascii", "replace"), kind, flags, offset, length)
        if len(texts) != 1 or texts[0][1] >= 1 << 63:
            raise NotPlain
        self.text = texts[0]
        """The addresses [start, end) of the text."""

    def _add(self, name: str, kind: int, flags: int, offset: int, length: int) -> None:
        if name.startswith(".zdebug") or name.endswith(".dwo"):
            raise NotPlain
        if not name.startswith(".debug_"):
            return
        if name in self._extents or flags & SHF_COMPRESSED or kind in (SHT_NULL, SHT_NOBITS):
            raise NotPlain
        self._extents[name] = offset, length

    def _bytes(self, offset: int, size: int) -> bytes:
        found = self._read(offset, size) if 0 <= offset <= offset + size <= self._size else b""
        if len(found) != size:
            raise NotPlain
        return found

    def section(self, name: str) -> bytes:
        """The bytes of a debug section; none where there is no such section."""
        return self._bytes(*self._extents.get(name, (0, 0)))

    def is_one_symbols(self, first: int, last: int) -> bool:
        """Whether no symbol begins or ends inside the addresses ``first`` to ``last``."""
        return not any(
            first < value < last or (value < first < value + size < last)
            for offset, length in self._symbols
            for value, size in _SYMBOL.iter_unpack(self._bytes(offset, length))
        )

    def section_size(self, name: str) -> int:
        return self._extents.get(name, (0, 0))[1]

    def part(self, name: str, start: int, end: int) -> bytes:
        """Some of a debug section."""
        offset, size = self._extents.get(name, (0, 0))
        if not 0 <= start <= end <= size:
            raise NotPlain
        return self._bytes(offset + start, end - start)
