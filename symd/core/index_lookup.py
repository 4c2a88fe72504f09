# cython: language_level=3, boundscheck=True, wraparound=False
"""One address in the file of an index, which is used where it is mapped: text section, range, frames. Where the whole
file was not compared with its checksums, the blocks that an answer is read from are compared first.

Source of the layout: docs/index-format.md. Numbers are of 64 bits, and arithmetic is modulo 2**64, compiled or not."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import Struct
from zlib import crc32

import cython
from zstandard import ZstdDecompressor, ZstdError, frame_content_size

from symd.model.light_typing import Any

MAGIC = b"SYMDIDX\0"
HEADER = Struct("<8sIIII")
COLUMN = Struct("<36s4sQQQ")
COLUMN_NAME = 36
"""Bytes of a column's name."""
CHECKSUM_BLOCK = 1 << 12
"""Bytes of columns that share a checksum, counted from where the first column may begin; the last block has what is
left. As many as a page of memory: smaller blocks are more checksums to compare first, larger ones more bytes for each
number."""
CHECKSUM = 4
"""Bytes of one."""
MAX_PAGE_BYTES = 1 << 20
"""Bytes that a page of ranges may take when it is opened: more than one of the widest numbers does."""
KEPT_PAGES = 8 << 20
"""Bytes of pages that stay open."""
KEPT_ANSWERS = 256
"""The most ranges whose answers are kept."""
_ANSWER_TEXT = cython.declare(cython.Py_ssize_t, 1000)
"""Characters of the texts of an answer that is kept; a frame counts as ``_FRAME_TEXT`` of them besides."""
_FRAME_TEXT = cython.declare(cython.Py_ssize_t, 16)
_MAX_FRAMES = 1 << 16
"""Frames of an answer: inlined calls are nested far less deeply."""
_MAX_SECTIONS = cython.declare(cython.ulonglong, 1 << 16)
"""Text sections that are gone through for one address."""
LAST_REASON = 14
"""The highest number of a reason in an index file, the same as ``max(symd.model.reasons.KNOWN)``; the numbers begin
with 1."""

_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_U32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_BIT_PAIRS = cython.declare(cython.ulonglong, 0x5555555555555555)
_BIT_FOURS = cython.declare(cython.ulonglong, 0x3333333333333333)
_LOW_FOURS = cython.declare(cython.ulonglong, 0x0F0F0F0F0F0F0F0F)
_EACH_BYTE = cython.declare(cython.ulonglong, 0x0101010101010101)
_KEPT_PAGES = cython.declare(cython.Py_ssize_t, KEPT_PAGES)
_KEPT_ANSWERS = cython.declare(cython.Py_ssize_t, KEPT_ANSWERS)
_CHECKSUM_BLOCK = cython.declare(cython.Py_ssize_t, CHECKSUM_BLOCK)
_CHECKSUM = cython.declare(cython.Py_ssize_t, CHECKSUM)
_PAGE_SHIFT = cython.declare(cython.int, 12)  # a page has 1 << 12 ranges
_RANGES = cython.declare(cython.Py_ssize_t, 4096)
_GROUP = cython.declare(cython.int, 6)  # 1 << 6 words of starts have one base
_BODY = cython.declare(cython.int, 2)  # ``symd.model.debug_info.BODY``
_NO_DEBUG_INFO = cython.declare(cython.int, 6)  # reasons why code of nobody has its kernel's name
_MALFORMED = cython.declare(cython.int, 11)
_LAST_REASON = cython.declare(cython.int, LAST_REASON)

_WIDTHS = {b"|u1\0": 1, b"<u2\0": 2, b"<u4\0": 4, b"<u8\0": 8}
_NAMES = (
    "module_sha256", "section_address", "section_size", "section_base", "section_object", "section_name", "section_number",
    "object_path", "object_compiler_input", "start_shift", "start_bits", "start_rank", "start_base", "start_sorted",
    "range_count", "page_width", "page_frame", "page_end", "page_data",
    "written_range", "written_frame", "written_line", "written_column", "written_reason",
    "frame_owner", "frame_kernel", "frame_file", "frame_line",
    "owner_name", "owner_linkage_name", "owner_inlined", "owner_parent", "owner_file", "owner_line", "owner_column", "owner_start_line",
    "string_ends", "string_data",
)  # fmt: skip
"""The columns that are read. A column's number is its place here."""
_MODULE_SHA256 = cython.declare(cython.int, _NAMES.index("module_sha256"))
_SECTION_ADDRESS = cython.declare(cython.int, _NAMES.index("section_address"))
_SECTION_SIZE = cython.declare(cython.int, _NAMES.index("section_size"))
_SECTION_BASE = cython.declare(cython.int, _NAMES.index("section_base"))
_SECTION_OBJECT = cython.declare(cython.int, _NAMES.index("section_object"))
_SECTION_NAME = cython.declare(cython.int, _NAMES.index("section_name"))
_SECTION_NUMBER = cython.declare(cython.int, _NAMES.index("section_number"))
_OBJECT_PATH = cython.declare(cython.int, _NAMES.index("object_path"))
_OBJECT_COMPILER_INPUT = cython.declare(cython.int, _NAMES.index("object_compiler_input"))
_START_SHIFT = cython.declare(cython.int, _NAMES.index("start_shift"))
_START_BITS = cython.declare(cython.int, _NAMES.index("start_bits"))
_START_RANK = cython.declare(cython.int, _NAMES.index("start_rank"))
_START_BASE = cython.declare(cython.int, _NAMES.index("start_base"))
_START_SORTED = cython.declare(cython.int, _NAMES.index("start_sorted"))
_RANGE_COUNT = cython.declare(cython.int, _NAMES.index("range_count"))
_PAGE_WIDTH = cython.declare(cython.int, _NAMES.index("page_width"))
_PAGE_FRAME = cython.declare(cython.int, _NAMES.index("page_frame"))
_PAGE_END = cython.declare(cython.int, _NAMES.index("page_end"))
_PAGE_DATA = cython.declare(cython.int, _NAMES.index("page_data"))
_WRITTEN_RANGE = cython.declare(cython.int, _NAMES.index("written_range"))
_WRITTEN_FRAME = cython.declare(cython.int, _NAMES.index("written_frame"))
_WRITTEN_LINE = cython.declare(cython.int, _NAMES.index("written_line"))
_WRITTEN_COLUMN = cython.declare(cython.int, _NAMES.index("written_column"))
_WRITTEN_REASON = cython.declare(cython.int, _NAMES.index("written_reason"))
_FRAME_OWNER = cython.declare(cython.int, _NAMES.index("frame_owner"))
_FRAME_KERNEL = cython.declare(cython.int, _NAMES.index("frame_kernel"))
_FRAME_FILE = cython.declare(cython.int, _NAMES.index("frame_file"))
_FRAME_LINE = cython.declare(cython.int, _NAMES.index("frame_line"))
_OWNER_NAME = cython.declare(cython.int, _NAMES.index("owner_name"))
_OWNER_LINKAGE_NAME = cython.declare(cython.int, _NAMES.index("owner_linkage_name"))
_OWNER_INLINED = cython.declare(cython.int, _NAMES.index("owner_inlined"))
_OWNER_PARENT = cython.declare(cython.int, _NAMES.index("owner_parent"))
_OWNER_FILE = cython.declare(cython.int, _NAMES.index("owner_file"))
_OWNER_LINE = cython.declare(cython.int, _NAMES.index("owner_line"))
_OWNER_COLUMN = cython.declare(cython.int, _NAMES.index("owner_column"))
_OWNER_START_LINE = cython.declare(cython.int, _NAMES.index("owner_start_line"))
_STRING_ENDS = cython.declare(cython.int, _NAMES.index("string_ends"))
_STRING_DATA = cython.declare(cython.int, _NAMES.index("string_data"))


class Damaged(ValueError):
    """The file is no index of the version, its bytes are not what they were, or its numbers contradict each other."""


def columns_end(size: int, first: int) -> int:
    """Where the columns of a file of ``size`` bytes end and the checksums of their blocks begin: the columns begin at
    ``first``."""
    return size + (first - size) // (CHECKSUM_BLOCK + CHECKSUM) * CHECKSUM


@cython.cfunc
@cython.exceptval(-1, check=True)
def _ones(bits: cython.ulonglong) -> cython.int:
    """The bits that are set."""
    bits = bits - (bits >> 1 & _BIT_PAIRS)
    bits = (bits & _BIT_FOURS) + (bits >> 2 & _BIT_FOURS)
    bits = (bits + (bits >> 4)) & _LOW_FOURS
    return cython.cast(cython.int, ((bits * _EACH_BYTE) & _U64) >> 56)


@cython.cfunc
@cython.exceptval(-1, check=True)
def _number_at(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, width: cython.int) -> cython.ulonglong:  # type: ignore[valid-type] # a view, to Cython
    """The little-endian number of ``width`` bytes."""
    found: cython.ulonglong = data[at]
    byte: cython.ulonglong
    shift: cython.int = 8
    while shift < 8 * width:
        at += 1
        byte = data[at]
        found |= byte << shift
        shift += 8
    return found


@cython.cclass
class _Page:
    """A page of ranges that is open: the frame of each, and where in ``data`` lines, columns and reasons begin."""

    frames = cython.declare(cython.uint[::1])
    data = cython.declare(cython.const[cython.uchar][::1])
    lines = cython.declare(cython.Py_ssize_t)
    columns = cython.declare(cython.Py_ssize_t)
    reasons = cython.declare(cython.Py_ssize_t)
    line_width = cython.declare(cython.int)
    column_width = cython.declare(cython.int)
    size = cython.declare(cython.Py_ssize_t)


@cython.cclass
class _Section:
    """A text section: its number, the path of its code object, its name, its number there, its first text position, its
    address."""

    number = cython.declare(cython.ulonglong)
    path = cython.declare(object)
    name = cython.declare(object)
    index = cython.declare(cython.ulonglong)
    position = cython.declare(cython.ulonglong)
    address = cython.declare(cython.ulonglong)


@cython.cclass
class IndexLookup:
    """Answers single addresses from the file of one index. Safe to use from several threads. Every method raises
    ``Damaged``, where the file says what cannot be.

    What an answer consists of is made of tuples of the types ``answer_type`` and ``frame_type``, which have the
    fields of ``symd.model.answers``, and of ``reasons``, by their numbers."""

    _file = cython.declare(object)
    _data = cython.declare(cython.const[cython.uchar][::1])
    _columns = cython.declare(cython.ulonglong[::1])  # four numbers a column: place, entries, stored ones, width
    _sums = cython.declare(object)
    _sound = cython.declare(cython.uchar[::1])
    _is_sound = cython.declare(cython.bint)
    _as_written = cython.declare(cython.bint)
    _first = cython.declare(cython.Py_ssize_t)
    _stop = cython.declare(cython.Py_ssize_t)
    _shift = cython.declare(cython.int)
    _answer_type = cython.declare(object)
    _frame_type = cython.declare(object)
    _reasons = cython.declare(object)
    _pages = cython.declare(dict)
    _page_bytes = cython.declare(cython.Py_ssize_t)
    _kept_answers = cython.declare(dict)
    _last_section = cython.declare(_Section)
    _new_tuple = cython.declare(object)

    def __init__(
        self,
        file: memoryview,
        version: int,
        *,
        digest: bytes | None = None,
        is_sound: bool = False,
        as_written: bool = False,
        answer_type: type = tuple,
        frame_type: type = tuple,
        reasons: Sequence[object] = tuple(range(LAST_REASON + 1)),
    ) -> None:
        """``digest`` is the SHA-256 of the module that it must be the index of. ``is_sound``: all checksums were
        compared. ``as_written``: ranges that are answered otherwise than rows and scopes say are read as these say."""
        size: cython.Py_ssize_t = len(file)
        if size < HEADER.size:
            raise Damaged("is too short")
        magic, its_version, count, checksum, rest = HEADER.unpack_from(file)
        if magic != MAGIC or its_version != version or rest:
            raise Damaged(f"is not an index of version {version}")
        if HEADER.size + count * COLUMN.size > size:
            raise Damaged("ends inside its column table")
        self._first = HEADER.size + count * COLUMN.size
        self._stop = columns_end(size, self._first)
        self._file, self._data = file, file
        self._is_sound, self._as_written = is_sound, as_written
        self._answer_type, self._frame_type, self._reasons = answer_type, frame_type, reasons
        self._pages, self._page_bytes, self._kept_answers = {}, 0, {}
        self._last_section, self._new_tuple = None, tuple.__new__
        table = bytes(file[HEADER.size : self._first])
        if not is_sound:
            self._sums = bytes(file[self._stop :])
            if self._stop < self._first or crc32(self._sums, crc32(table)) != checksum:
                raise _checksum_mismatch(HEADER.size, self._first)
            self._sound = bytearray(len(self._sums) // _CHECKSUM)
        self._columns = self._parse_column_table(table)
        if digest is not None and (
            self._count(_MODULE_SHA256) != len(digest) or self._bytes(_MODULE_SHA256, 0, len(digest)) != digest
        ):
            raise Damaged("is the index of another module")
        shift: cython.ulonglong = self._number(_START_SHIFT, 0)
        if shift > 63:
            raise Damaged("has starts that contradict each other")
        self._shift = shift

    @cython.cfunc
    def _parse_column_table(self, table: bytes) -> object:
        """Four numbers (u64) for each of ``_NAMES``: its place in the file, its entries, those of them that are stored,
        and the bytes of one. Raises Damaged."""
        found: dict[bytes, tuple[bytes, int, int, int]] = {}
        for name, kind, offset, entries, stored in COLUMN.iter_unpack(table):
            found.setdefault(name, (kind, offset, entries, stored))
        numbers = array("Q")
        for name in _NAMES:
            described = found.get(name.encode().ljust(COLUMN_NAME, b"\0"))
            if described is None:
                raise Damaged(f"lacks column {name!r}")
            kind, offset, entries, stored = described
            width = _WIDTHS.get(kind, 0)
            if not width or (stored != entries and (stored != 1 or entries > self._stop)):
                raise Damaged(f"gives column {name!r} an unknown type or an impossible size")
            if offset + stored * width > self._stop or offset % width:
                raise Damaged(f"ends inside column {name!r}")
            numbers.extend((offset, entries, stored, width))
        return numbers

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _count(self, column: cython.int) -> cython.ulonglong:
        return self._columns[4 * column + 1]

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _number(self, column: cython.int, at: cython.ulonglong) -> cython.ulonglong:
        """An entry of a column."""
        if at >= self._columns[4 * column + 1]:
            raise _missing(column, at, self._count(column))
        width: cython.int = self._columns[4 * column + 3]
        start: cython.Py_ssize_t = self._columns[4 * column]
        if self._columns[4 * column + 2] > 1:
            start += cython.cast(cython.Py_ssize_t, at) * width
        if not self._is_sound:
            self._compare(start, start + width)
        return _number_at(self._data, start, width)

    @cython.cfunc
    def _bytes(self, column: cython.int, start: cython.ulonglong, stop: cython.ulonglong) -> object:
        """Entries of a column of bytes."""
        if not start <= stop <= self._columns[4 * column + 1] or self._columns[4 * column + 3] != 1:
            raise _missing(column, stop, self._count(column))
        if self._columns[4 * column + 1] != self._columns[4 * column + 2]:
            return bytes((self._number(column, 0),)) * (stop - start)
        begin: cython.Py_ssize_t = self._columns[4 * column] + start
        end: cython.Py_ssize_t = self._columns[4 * column] + stop
        if not self._is_sound:
            self._compare(begin, end)
        return self._file[begin:end]

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _compare(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.int:
        """Compare the blocks of these bytes with their checksums, where that was not done."""
        if start < self._first:
            raise Damaged("has a column inside its column table")
        block: cython.Py_ssize_t
        for block in range(
            (start - self._first) // _CHECKSUM_BLOCK, (stop - self._first + _CHECKSUM_BLOCK - 1) // _CHECKSUM_BLOCK
        ):
            if not self._sound[block]:
                at: cython.Py_ssize_t = self._first + block * _CHECKSUM_BLOCK
                found = crc32(self._file[at : min(at + _CHECKSUM_BLOCK, self._stop)])
                if found != int.from_bytes(self._sums[block * _CHECKSUM : (block + 1) * _CHECKSUM], "little"):
                    raise _checksum_mismatch(at, min(at + _CHECKSUM_BLOCK, self._stop))
                self._sound[block] = 1
        return 0

    def answer(self, address: int) -> Any:
        """The answer at an object address; None unless exactly one text section that may be meant holds it."""
        count: cython.ulonglong = self._count(_SECTION_ADDRESS)
        if address < 0 or address >> 64 or count > _MAX_SECTIONS:
            return None
        wanted: cython.ulonglong = address
        first: cython.ulonglong
        number: cython.ulonglong
        offset: cython.ulonglong = 0
        section: cython.ulonglong = 0
        held: cython.int = 0
        for number in range(count):
            first = self._number(_SECTION_ADDRESS, number)
            if (
                first <= wanted
                and wanted - first < self._number(_SECTION_SIZE, number)
                and not self._number(_OBJECT_COMPILER_INPUT, self._number(_SECTION_OBJECT, number))
            ):
                section, offset = number, wanted - first
                held += 1
        return self._answer(section, offset) if held == 1 else None

    def answer_in(self, section: int, offset: int) -> Any:
        """The answer at a byte of a text section, by their numbers."""
        _check_number(section)
        _check_number(offset)
        return self._answer(section, offset)

    def at(self, position: int) -> tuple[Any, str | None, tuple[Any, ...]]:
        """(reason, kernel, frames) at a text position; positions before the first start belong to range 0."""
        _check_number(position)
        found: tuple[Any, str | None, tuple[Any, ...]] = self._at(position)
        return found

    @cython.cfunc
    def _answer(self, section: cython.ulonglong, offset: cython.ulonglong) -> object:
        text: _Section | None = self._last_section
        if text is None or text.number != section:
            text = self._last_section = self._section(section)
        reason, kernel, frames = self._at((text.position + offset) & _U64)
        address: cython.ulonglong = (text.address + offset) & _U64
        fields = (reason, text.path, kernel, text.name, text.index, offset, address, frames, (), None)
        return self._new_tuple(self._answer_type, fields)

    @cython.cfunc
    def _section(self, number: cython.ulonglong) -> _Section:
        found = _Section()
        found.number = number
        found.path = self._text(self._number(_OBJECT_PATH, self._number(_SECTION_OBJECT, number)), {}) or ""
        found.name, found.index = (
            self._text(self._number(_SECTION_NAME, number), {}),
            self._number(_SECTION_NUMBER, number),
        )
        found.position, found.address = self._number(_SECTION_BASE, number), self._number(_SECTION_ADDRESS, number)
        return found

    @cython.cfunc
    def _at(self, position: cython.ulonglong) -> tuple[Any, str | None, tuple[Any, ...]]:
        number: object = self._range_at(position)
        answer: tuple[Any, str | None, tuple[Any, ...]] | None = self._kept_answers.get(number)
        if answer is None:
            answer = self._frames(number)
            _, kernel, frames = answer
            length = (
                len(kernel or "")
                + _FRAME_TEXT * len(frames)
                + sum([len(text or "") for frame in frames for text in frame[:3]])
            )
            if length <= _ANSWER_TEXT:
                if len(self._kept_answers) >= _KEPT_ANSWERS:
                    self._kept_answers.clear()
                self._kept_answers[number] = answer
        return answer

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _range_at(self, position: cython.ulonglong) -> cython.ulonglong:
        """The number of the range around a text position."""
        words: cython.ulonglong = self._count(_START_BITS)
        before: cython.ulonglong
        if not words:
            before = self._not_above(_START_SORTED, position)
        else:
            slot: cython.ulonglong = min(position >> self._shift, words * 64 - 1)
            word: cython.ulonglong = slot >> 6
            bit: cython.int = slot & 63
            mask: cython.ulonglong = _U64 >> (63 - bit)
            count: cython.ulonglong = self._number(_RANGE_COUNT, 0)
            base: cython.ulonglong = self._number(_START_BASE, word >> _GROUP)
            rank: cython.ulonglong = self._number(_START_RANK, word)
            if base > count or rank > count - base:
                raise Damaged("has more starts before a position than ranges")
            before = base + rank + _ones(self._number(_START_BITS, word) & mask)
        return before - 1 if before else 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _not_above(self, column: cython.int, number: cython.ulonglong) -> cython.ulonglong:
        """How many entries of a sorted column are at most this number."""
        low: cython.ulonglong = 0
        high: cython.ulonglong = self._count(column)
        middle: cython.ulonglong
        while low < high:
            middle = (low + high) >> 1
            if self._number(column, middle) <= number:
                low = middle + 1
            else:
                high = middle
        return low

    @cython.cfunc
    def _frames(self, number: cython.ulonglong) -> tuple[Any, str | None, tuple[Any, ...]]:
        """What holds in a range: its kernel, and the frame of its owner with those that it is inlined into."""
        frame: cython.ulonglong
        line: cython.ulonglong
        column: cython.ulonglong
        reason: cython.int
        frame, line, column, reason = self._range(number)
        kernel: cython.ulonglong = self._number(_FRAME_KERNEL, frame)
        owner: cython.ulonglong = self._reported_owner(self._number(_FRAME_OWNER, frame))
        file: cython.ulonglong = self._number(_FRAME_FILE, frame)
        function: cython.ulonglong = self._number(_OWNER_NAME, owner)
        linkage_name: cython.ulonglong
        around: cython.ulonglong
        inlined: cython.bint
        if not owner and reason in (_NO_DEBUG_INFO, _MALFORMED):
            function = kernel
        frames: list[Any] = []
        shared: dict[int, Any] = {}
        while function or file or frames:
            inlined = self._number(_OWNER_INLINED, owner) != 0
            linkage_name = self._number(_OWNER_LINKAGE_NAME, owner)
            texts = self._text(function, shared), self._text(linkage_name, shared), self._text(file, shared)
            start_line = self._number(_OWNER_START_LINE, owner)
            frames.append(self._new_tuple(self._frame_type, (*texts, line, column, inlined, start_line)))
            around = self._reported_owner(self._number(_OWNER_PARENT, owner)) if inlined else 0
            if not around:
                break
            if around >= owner or len(frames) >= _MAX_FRAMES:
                raise Damaged("has an owner around itself, or too many around one")
            file, line = self._number(_OWNER_FILE, owner), self._number(_OWNER_LINE, owner)
            column = self._number(_OWNER_COLUMN, owner)
            owner, function = around, self._number(_OWNER_NAME, around)
        return self._reasons[reason], self._text(kernel, shared), tuple(frames)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _reported_owner(self, owner: cython.ulonglong) -> cython.ulonglong:
        """The owner that frames name: the kernel in place of its own body, unless as written."""
        if not self._as_written and self._number(_OWNER_INLINED, owner) == _BODY:
            return self._number(_OWNER_PARENT, owner)
        return owner

    @cython.cfunc
    def _text(self, number: cython.ulonglong, shared: dict[int, Any]) -> object:
        """A string, or None for an empty one. A long one is ``shared`` by the frames that have it: it is as long as
        whoever made the module liked."""
        if not number:
            return None
        start: cython.ulonglong = self._number(_STRING_ENDS, number - 1)
        stop: cython.ulonglong = self._number(_STRING_ENDS, number)
        is_long: cython.bint = stop > start and stop - start > cython.cast(cython.ulonglong, _ANSWER_TEXT)
        if is_long and number in shared:
            return shared[number]
        text = str(self._bytes(_STRING_DATA, start, stop), "utf-8", "replace") or None
        if is_long:
            shared[number] = text
        return text

    @cython.cfunc
    def _range(self, number: cython.ulonglong) -> tuple[int, int, int, int]:
        """(frame, line, column, reason) of a range."""
        if number >= self._number(_RANGE_COUNT, 0):
            raise Damaged("has a start whose range is beyond the last")
        written: cython.ulonglong = self._not_above(_WRITTEN_RANGE, number) if self._as_written else 0
        if written and self._number(_WRITTEN_RANGE, written - 1) == number:
            found: tuple[int, int, int, int] = self._written(written - 1)
            return found
        page: _Page = self._page(number >> _PAGE_SHIFT)
        at: cython.Py_ssize_t = number & (_RANGES - 1)
        frame: cython.ulonglong = page.frames[at]
        line: cython.ulonglong = _number_at(page.data, page.lines + at * page.line_width, page.line_width)
        if line:
            line = (line + self._number(_FRAME_LINE, frame)) & _U32
        column: cython.ulonglong = _number_at(page.data, page.columns + at * page.column_width, page.column_width)
        return frame, line, column, page.data[page.reasons + at]

    @cython.cfunc
    def _written(self, number: cython.ulonglong) -> tuple[int, int, int, int]:
        """The frame, line, column and reason that the debug data writes for a range which is answered otherwise."""
        reason: cython.ulonglong = self._number(_WRITTEN_REASON, number)
        if not 0 < reason <= _LAST_REASON:
            raise Damaged("has ranges read otherwise in no order, or for no reason")
        frame, line = self._number(_WRITTEN_FRAME, number), self._number(_WRITTEN_LINE, number)
        return frame, line, self._number(_WRITTEN_COLUMN, number), reason

    @cython.cfunc
    def _page(self, number: cython.ulonglong) -> _Page:
        """A page of ranges. Of those that are open the one that was asked for longest ago is closed first."""
        page: _Page | None = self._pages.pop(number, None)
        if page is None:
            page = self._open(number)
            other: _Page | None = self._pages.pop(number, None)  # of another thread
            self._page_bytes += page.size - (other.size if other is not None else 0)
            while self._page_bytes > _KEPT_PAGES and self._pages:
                closed: _Page = self._pages.pop(next(iter(self._pages)))
                self._page_bytes -= closed.size
        self._pages[number] = page
        return page

    @cython.cfunc
    def _open(self, number: cython.ulonglong) -> _Page:
        count: cython.ulonglong = self._number(_RANGE_COUNT, 0)
        pages: cython.ulonglong = (count >> _PAGE_SHIFT) + (1 if count & (_RANGES - 1) else 0)
        if self._count(_PAGE_END) != pages or self._count(_PAGE_FRAME) != pages or self._count(_PAGE_WIDTH) != 3:
            raise Damaged("has ranges that contradict each other")
        steps: cython.ulonglong = self._number(_PAGE_WIDTH, 0)
        lines: cython.ulonglong = self._number(_PAGE_WIDTH, 1)
        columns: cython.ulonglong = self._number(_PAGE_WIDTH, 2)
        if steps not in (1, 2, 4, 8) or lines not in (1, 2, 4) or columns not in (1, 2, 4):
            raise Damaged("has ranges of no known width")
        page = _Page()
        page.line_width, page.column_width = lines, columns
        first: cython.ulonglong = self._number(_PAGE_END, number - 1) if number else 0
        page.data = data = _decompressed(self._bytes(_PAGE_DATA, first, self._number(_PAGE_END, number)))
        size: cython.Py_ssize_t = len(data)
        held: cython.Py_ssize_t = min(count - (number << _PAGE_SHIFT), _RANGES)
        flags: cython.Py_ssize_t = (held + 7) >> 3
        at: cython.Py_ssize_t
        runs: cython.Py_ssize_t = 0
        for at in range(min(flags, size)):
            runs += _ones(page.data[at])
        page.lines = flags + runs * cython.cast(cython.Py_ssize_t, steps)
        page.columns = page.lines + held * page.line_width
        page.reasons = page.columns + held * page.column_width
        if page.reasons + held != size or not page.data[0] & 1 or page.data[flags - 1] >> ((held - 1) % 8 + 1):
            raise Damaged("has a page of ranges that is not whole")
        self._number_frames(page, number, held, steps)
        page.size = size + 4 * held
        return page

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _number_frames(
        self, page: _Page, number: cython.ulonglong, held: cython.Py_ssize_t, width: cython.int
    ) -> cython.int:
        """Number the frames of the ranges of a page: each is that of the range before, or so far from the last one's as
        the next step says."""
        frames = array("I", bytes(4 * held))
        page.frames = frames
        frame: cython.ulonglong = self._number(_PAGE_FRAME, number)
        count: cython.ulonglong = self._count(_FRAME_LINE)
        step: cython.ulonglong
        step_at: cython.Py_ssize_t = (held + 7) >> 3
        reason: cython.int
        at: cython.Py_ssize_t
        for at in range(held):
            if page.data[at >> 3] >> (at & 7) & 1:
                if at:
                    step = _number_at(page.data, step_at, width)
                    if step >> (8 * width - 1):  # it is below 0
                        step |= (_U64 << (8 * width - 1)) & _U64
                    frame = (frame + step) & _U64
                step_at += width
            reason = page.data[page.reasons + at]
            if frame >= count or not 0 < reason <= _LAST_REASON:
                raise Damaged("has ranges of frames or reasons that are not there")
            page.frames[at] = frame
        return 0


def _decompressed(packed: bytes | memoryview) -> bytes:
    try:
        if not 0 <= frame_content_size(packed) <= MAX_PAGE_BYTES:
            raise Damaged("has a compressed column of no believable size")
        return ZstdDecompressor().decompress(packed)
    except (ZstdError, MemoryError) as error:
        raise Damaged(f"has a compressed column that does not open: {error}") from error


def _check_number(number: int) -> None:
    if number < 0 or number >> 64:
        raise Damaged("has no text at a position that was asked for")


def _missing(column: int, at: int, count: int) -> Damaged:
    return Damaged(f"refers to entry {at} of column {_NAMES[column]!r}, which has {count}")


def _checksum_mismatch(start: int, stop: int) -> Damaged:
    return Damaged(f"has a checksum mismatch in bytes {start}..{stop}")
