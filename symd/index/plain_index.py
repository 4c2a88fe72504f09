"""An index file asked for one address, without NumPy, whose import takes longer than the answer: what ``Index.answer`` says where its answer is
plain. Whatever else the file says raises NotPlain.

Source of the layout: docs/index-format.md; ``format``, ``schema``, ``packing`` and ``starts`` say what the numbers mean."""

from __future__ import annotations

import zlib
from bisect import bisect_right

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
_BYTES = {"B": 1, "H": 2, "I": 4, "Q": 8}
_SIGNED: Mapping[int, Literal["b", "h", "i", "q"]] = {1: "b", 2: "h", 4: "i", 8: "q"}
_UNSIGNED: Mapping[int, Literal["B", "H", "I"]] = {1: "B", 2: "H", 4: "I"}
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
    except (IndexError, KeyError, ValueError, TypeError) as error:  # numbers of what is not there
        raise NotPlain from error


PlainSection = tuple[str, str | None, int]
"""A text section: the path of its code object, its name, its number."""
WholeFrame = tuple[str | None, str | None, str | None, int, int, bool]
"""As ``PlainFrame``, and whether it is inlined."""
WholeAnswer = tuple[PlainSection, int, str | None, int, tuple[WholeFrame, ...]]
"""Text section, offset in it, kernel, number of a ``Reason``, frames."""


class _PlainIndex:
    def __init__(self, file: memoryview, digest: bytes) -> None:
        magic, version, count, checksum, rest = (
            HEADER.unpack_from(file) if len(file) >= HEADER.size else (b"", 0, 0, 0, 0)
        )
        self._file = file
        self._ends: memoryview[int] | _Equal | None = None
        self._strings = file[:0]
        table = bytes(file[HEADER.size : HEADER.size + count * COLUMN.size])
        if (magic, version, rest) != (MAGIC, VERSION, 0) or len(table) != count * COLUMN.size:
            raise NotPlain
        if zlib.crc32(file[HEADER.size :]) != checksum:
            raise NotPlain
        self._table, last = table, len(table) - COLUMN.size
        self._entries = {
            table[at : at + COLUMN_NAME]: at for at in range(last, -1, -COLUMN.size)
        }  # the first of a name
        if self._bytes("module_sha256") != digest:
            raise NotPlain

    def _column(self, name: str) -> memoryview[int] | _Equal:
        kind, offset, entries, stored = self._described(name)
        item = _ITEMS[kind]
        numbers = self._file[offset : offset + stored * _BYTES[item]].cast(item)
        if len(numbers) != stored or (stored != entries and (stored != 1 or entries > len(self._file))):
            raise NotPlain
        return numbers if stored == entries else _Equal(numbers[0], entries)

    def _bytes(self, name: str) -> memoryview:
        """A column of bytes."""
        kind, offset, entries, stored = self._described(name)
        if entries != stored or offset + stored > len(self._file) or _ITEMS[kind] != "B":
            raise NotPlain
        return self._file[offset : offset + stored]

    def _described(self, name: str) -> tuple[bytes, int, int, int]:
        at = self._entries[name.encode().ljust(COLUMN_NAME, b"\0")]
        _, kind, offset, entries, stored = COLUMN.unpack_from(self._table, at)
        return kind, offset, entries, stored

    def answer(self, address: int) -> WholeAnswer:
        section, offset = self._held(address)
        frame, line, column, reason = self._range(self._number(self._column("section_base")[section] + offset))
        owner, file = self._column("frame_owner")[frame], self._column("frame_file")[frame]
        name, linkage_name, inlined, parent, call_file, call_line, call_column = (
            self._column(f"owner_{each}")
            for each in ("name", "linkage_name", "inlined", "parent", "file", "line", "column")
        )
        if not owner or not (name[owner] or file):
            raise NotPlain  # a kernel's name may stand for the function's, or there are no frames
        frames = []
        while True:
            texts = self._text(name[owner]), self._text(linkage_name[owner]), self._text(file)
            frames.append((*texts, line, column, bool(inlined[owner])))
            around = parent[owner] if inlined[owner] else 0
            if not around:
                kernel = self._text(self._column("frame_kernel")[frame])
                return self._named(section), offset, kernel, reason, tuple(frames)
            if around >= owner:
                raise NotPlain  # an owner around itself
            file, line, column, owner = call_file[owner], call_line[owner], call_column[owner], around

    def _named(self, section: int) -> PlainSection:
        path = self._text(self._column("object_path")[self._column("section_object")[section]])
        return path or "", self._text(self._column("section_name")[section]), self._column("section_number")[section]

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

    def _number(self, position: int) -> int:
        """The number of the range around a text position."""
        bits, starts = self._column("start_bits"), self._column("start_sorted")
        if not len(bits):
            return max(bisect_right(starts, position) - 1, 0)
        slot = min(position >> self._column("start_shift")[0], len(bits) * 64 - 1)
        word = slot >> 6
        below = bits[word] & ((2 << (slot & 63)) - 1)
        before = self._column("start_base")[word >> _GROUP] + self._column("start_rank")[word]
        return max(before + below.bit_count() - 1, 0)

    def _range(self, number: int) -> tuple[int, int, int, int]:
        """(frame, line, column, reason) of a range."""
        count = self._column("range_count")[0]
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
        frame = self._column("page_frame")[page] + sum(steps[1 : run + 1])
        reason = data[stops[3] + here]
        if frame < 0 or reason not in REASONS:
            raise NotPlain
        line = (self._column("frame_line")[frame] + above) & 0xFFFFFFFF if above else 0
        return frame, line, column, reason

    def _page(self, page: int) -> bytes:
        from zstandard import ZstdDecompressor, ZstdError, frame_content_size  # noqa: PLC0415 - what was no index needs none

        ends = self._column("page_end")
        first, stop = ends[page - 1] if page else 0, ends[page]
        packed = self._bytes("page_data")[first:stop]
        if len(packed) != stop - first:
            raise NotPlain
        try:
            if not 0 <= frame_content_size(packed) <= LARGEST_PAGE:
                raise NotPlain
            return ZstdDecompressor().decompress(packed)
        except ZstdError as error:
            raise NotPlain from error

    def _text(self, number: int) -> str | None:
        if not number:
            return None
        if self._ends is None:
            self._ends, self._strings = self._column("string_ends"), self._bytes("string_data")
        first, stop = self._ends[number - 1], self._ends[number]
        if not first <= stop <= len(self._strings):
            raise NotPlain
        return str(self._strings[first:stop], "utf-8", "replace") or None


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
