"""An index file asked for one address, without NumPy, whose import takes longer than the answer: what ``Index.answer`` says where its answer is
plain. Whatever else the file says raises NotPlain. Of the columns only those pieces are read, and compared with their checksums, that the answer needs.

Source of the layout: docs/index-format.md; ``format``, ``schema``, ``packing`` and ``starts`` say what the numbers mean."""

from __future__ import annotations

from bisect import bisect_right

from symd.index.checksums import ColumnBytes
from symd.index.file_header import COLUMN, COLUMN_NAME, HEADER, LARGEST_PAGE, MAGIC, VERSION
from symd.model.plain_answers import REASONS, NotPlain

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Literal

    from symd.model.plain_answers import PlainAnswer

PAGE_SHIFT = 12
"""As ``packing.PAGE_SHIFT``."""
_GROUP = 6
"""As ``starts.GROUP``."""
_ITEMS: Mapping[bytes, Literal["B", "H", "I", "Q"]] = {b"|u1\0": "B", b"<u2\0": "H", b"<u4\0": "I", b"<u8\0": "Q"}
_WIDTHS: Mapping[bytes, int] = {b"|u1\0": 1, b"<u2\0": 2, b"<u4\0": 4, b"<u8\0": 8}
_SIGNED: Mapping[int, Literal["b", "h", "i", "q"]] = {1: "b", 2: "h", 4: "i", 8: "q"}
_UNSIGNED: Mapping[int, Literal["B", "H", "I"]] = {1: "B", 2: "H", 4: "I"}
_BODY = 2
"""As ``debug_info.BODY``."""
_MOST_SECTIONS = 1 << 16
"""Text sections that are gone through one by one."""


def answer_at(file: memoryview, digest: bytes, address: int) -> PlainAnswer:
    """The answer at an object address of the module with the SHA-256 ``digest``, of which ``file`` is the index. Raises NotPlain unless exactly
    one text section holds it and it has frames."""
    _, _, _, reason, frames = whole_answer_at(file, digest, address)
    return reason, tuple([frame[:5] for frame in frames])


def whole_answer_at(file: memoryview, digest: bytes, address: int) -> WholeAnswer:
    """The same with everything that an ``Answer`` says."""
    try:
        return _PlainIndex(file, digest).answer(address)
    except (IndexError, KeyError, ValueError, TypeError) as error:  # numbers of what is not there, and damage
        raise NotPlain from error


PlainSection = tuple[str, str | None, int]
"""A text section: the path of its code object, its name, its number."""
WholeFrame = tuple[str | None, str | None, str | None, int, int, bool, int]
"""As ``PlainFrame``, whether it is inlined, and the line where the function is declared."""
WholeAnswer = tuple[PlainSection, int, str | None, int, tuple[WholeFrame, ...]]
"""Text section, offset in it, kernel, number of a ``Reason``, frames."""


class _PlainIndex:
    def __init__(self, file: memoryview, digest: bytes) -> None:
        magic, version, count, checksum, rest = (
            HEADER.unpack_from(file) if len(file) >= HEADER.size else (b"", 0, 0, 0, 0)
        )
        first = HEADER.size + count * COLUMN.size
        if (magic, version, rest) != (MAGIC, VERSION, 0) or first > len(file):
            raise NotPlain
        self._table = bytes(file[HEADER.size : first])
        self._columns = ColumnBytes(file, self._table, first, checksum)
        last = len(self._table) - COLUMN.size
        self._entries = {
            self._table[at : at + COLUMN_NAME]: at for at in range(last, -1, -COLUMN.size)
        }  # the first of a name
        if self._bytes("module_sha256") != digest:
            raise NotPlain

    def _column(self, name: str) -> memoryview[int] | _Equal:
        """All numbers of a column."""
        kind, offset, entries, stored = self._described(name)
        numbers = self._columns.part(offset, offset + stored * _WIDTHS[kind]).cast(_ITEMS[kind])
        return numbers if stored == entries else _Equal(numbers[0], entries)

    def _number(self, name: str, at: int = 0) -> int:
        """One number of a column."""
        kind, offset, entries, stored = self._described(name)
        if not 0 <= at < entries:
            raise NotPlain
        width = _WIDTHS[kind]
        start = offset + at * width if stored == entries else offset
        return int.from_bytes(self._columns.part(start, start + width), "little")

    def _bytes(self, name: str, start: int = 0, stop: int | None = None) -> memoryview:
        """A column of bytes, or a part of it."""
        kind, offset, entries, stored = self._described(name)
        stop = entries if stop is None else stop
        if entries != stored or not start <= stop <= entries or _WIDTHS[kind] != 1:
            raise NotPlain
        return self._columns.part(offset + start, offset + stop)

    def _described(self, name: str) -> tuple[bytes, int, int, int]:
        """(type, place in the file, entries, those of them that are stored)."""
        at = self._entries[name.encode().ljust(COLUMN_NAME, b"\0")]
        _, kind, offset, entries, stored = COLUMN.unpack_from(self._table, at)
        if stored != entries and (stored != 1 or entries > self._columns.stop):
            raise NotPlain
        return kind, offset, entries, stored

    def answer(self, address: int) -> WholeAnswer:
        section, offset = self._held(address)
        number = self._number
        frame, line, column, reason = self._range(self._range_at(number("section_base", section) + offset))
        owner, file = self._told(number("frame_owner", frame)), number("frame_file", frame)
        if not owner or not (number("owner_name", owner) or file):
            raise NotPlain  # a kernel's name may stand for the function's, or there are no frames
        frames = []
        while True:
            name, linkage_name, inlined, start_line = (
                number(f"owner_{each}", owner) for each in ("name", "linkage_name", "inlined", "start_line")
            )
            texts = self._text(name), self._text(linkage_name), self._text(file)
            frames.append((*texts, line, column, bool(inlined), start_line))
            around = number("owner_parent", owner) if inlined else 0
            if not around:
                kernel = self._text(number("frame_kernel", frame))
                return self._named(section), offset, kernel, reason, tuple(frames)
            if around >= owner:
                raise NotPlain  # an owner around itself
            file, line, column = (number(f"owner_{each}", owner) for each in ("file", "line", "column"))
            owner = self._told(around)

    def _told(self, owner: int) -> int:
        """An owner, or its parent where that is told in its place."""
        return self._number("owner_parent", owner) if self._number("owner_inlined", owner) == _BODY else owner

    def _named(self, section: int) -> PlainSection:
        path = self._text(self._number("object_path", self._number("section_object", section)))
        return path or "", self._text(self._number("section_name", section)), self._number("section_number", section)

    def _held(self, address: int) -> tuple[int, int]:
        """(the number of the text section that holds an address, the offset in it)."""
        first, size, code_object = (self._column(f"section_{each}") for each in ("address", "size", "object"))
        if len(first) > _MOST_SECTIONS:
            raise NotPlain
        held = [number for number, start in enumerate(first) if 0 <= address - start < size[number]]
        compiler_input = self._column("object_compiler_input")
        meant = [number for number in held if not compiler_input[code_object[number]]]
        if len(meant) != 1:
            raise NotPlain
        return meant[0], address - first[meant[0]]

    def _range_at(self, position: int) -> int:
        """The number of the range around a text position."""
        number, words = self._number, self._described("start_bits")[2]
        if not words:
            starts = range(self._described("start_sorted")[2])
            return max(bisect_right(starts, position, key=lambda at: number("start_sorted", at)) - 1, 0)
        slot = min(position >> number("start_shift"), words * 64 - 1)
        word = slot >> 6
        below = number("start_bits", word) & ((2 << (slot & 63)) - 1)
        before = number("start_base", word >> _GROUP) + number("start_rank", word)
        return max(before + below.bit_count() - 1, 0)

    def _range(self, number: int) -> tuple[int, int, int, int]:
        """(frame, line, column, reason) of a range."""
        count = self._number("range_count")
        if number >= count:
            raise NotPlain
        page, here = number >> PAGE_SHIFT, number & (1 << PAGE_SHIFT) - 1
        held = min(count - (page << PAGE_SHIFT), 1 << PAGE_SHIFT)
        widths = self._column("page_width")
        step_width, line_width, column_width = widths[0], widths[1], widths[2]
        data = memoryview(self._page(page))
        flags = int.from_bytes(data[: held + 7 >> 3], "little")
        runs, run = flags.bit_count(), (flags & (2 << here) - 1).bit_count() - 1
        stops = [held + 7 >> 3]
        for size in (runs * step_width, held * line_width, held * column_width, held):
            stops.append(stops[-1] + size)
        if stops[-1] != len(data) or not flags & 1 or flags >> held:
            raise NotPlain
        steps = data[stops[0] : stops[1]].cast(_SIGNED[step_width])
        above = data[stops[1] : stops[2]].cast(_UNSIGNED[line_width])[here]
        column = data[stops[2] : stops[3]].cast(_UNSIGNED[column_width])[here]
        frame = self._number("page_frame", page) + sum(steps[1 : run + 1])
        reason = data[stops[3] + here]
        if frame < 0 or reason not in REASONS:
            raise NotPlain
        line = (self._number("frame_line", frame) + above) & 0xFFFFFFFF if above else 0
        return frame, line, column, reason

    def _page(self, page: int) -> bytes:
        from zstandard import ZstdDecompressor, ZstdError, frame_content_size  # noqa: PLC0415 - what was no index needs none

        first = self._number("page_end", page - 1) if page else 0
        packed = self._bytes("page_data", first, self._number("page_end", page))
        try:
            if not 0 <= frame_content_size(packed) <= LARGEST_PAGE:
                raise NotPlain
            return ZstdDecompressor().decompress(packed)
        except ZstdError as error:
            raise NotPlain from error

    def _text(self, number: int) -> str | None:
        if not number:
            return None
        first, stop = self._number("string_ends", number - 1), self._number("string_ends", number)
        return str(self._bytes("string_data", first, stop), "utf-8", "replace") or None


class _Equal:
    """Entries that are all the same, of which the file has one."""

    def __init__(self, value: int, count: int) -> None:
        self._value, self._count = value, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return (self._value for _ in range(self._count))

    def __getitem__(self, at: int) -> int:
        if not 0 <= at < self._count:
            raise IndexError(at)
        return self._value
