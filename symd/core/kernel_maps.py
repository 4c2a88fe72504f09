# cython: language_level=3, boundscheck=True, wraparound=False
"""The metadata note of an AMDGPU code object (msgpack) -> its kernels as columns, in which equal bytes stand once.

Sources: the msgpack specification, "Formats"; LLVM's AMDGPU usage guide, "Code Object V3 Metadata"."""

from __future__ import annotations

import cython

_DEEPEST = cython.declare(cython.int, 32)
"""Lists and maps in each other, at most; those of compilers' notes are five deep."""
_PATTERNS = cython.declare(cython.Py_ssize_t, 16)
"""Kernels that were taken apart last and with which the next one is compared."""
_MISSED = cython.declare(cython.Py_ssize_t, 64)
"""Kernels in a row that are like none of those before the next ones are compared with ``_FEWER_PATTERNS`` alone."""
_FEWER_PATTERNS = cython.declare(cython.Py_ssize_t, 4)
_KERNELS = b"\xaeamdhsa.kernels"
_ARGUMENTS = cython.declare(cython.int, 0)
_NAME = cython.declare(cython.int, 1)
_SYMBOL = cython.declare(cython.int, 2)
_OTHER = cython.declare(cython.int, 3)
_ARGUMENTS_KEY = cython.declare(cython.ulonglong, 0x2E61726773)  # ".args"
_NAME_KEY = cython.declare(cython.ulonglong, 0x2E6E616D65)  # ".name"
_SYMBOL_KEY = cython.declare(cython.ulonglong, 0x2E73796D626F6C)  # ".symbol"
_NOTHING = b"\xc0"
_HEADS = cython.declare(cython.const[cython.uchar][::1], bytes((
    1, 0, 1, 1, 2, 3, 5, 3, 4, 6, 5, 9, 2, 3, 5, 9, 2, 3, 5, 9, 3, 4, 6, 10, 18, 2, 3, 5, 3, 5, 3, 5
)))  # fmt: skip
"""Bytes of a value by its first byte, from 0xc0 on, without the content that a count in the value covers; 0 for 0xc1,
with which no value begins."""
_LENGTHS = cython.declare(cython.const[cython.uchar][::1], bytes((
    0, 0, 0, 0, 1, 2, 4, 1, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 2, 4, 2, 4
)))  # fmt: skip
"""Bytes of that count, by the first byte in the same way; 0 where the content has a fixed size or is counted in the
first byte."""


class UnknownNote(Exception):
    """The note is damaged, or not as compilers write it."""


@cython.cclass
class _Pattern:
    """A kernel's map that was taken apart: its bytes before, between and behind the values of name and symbol, and the
    number of its kind."""

    before = cython.declare(bytes)
    between = cython.declare(bytes)
    behind = cython.declare(bytes)
    kind = cython.declare(object)

    def __init__(self, before: bytes, between: bytes, behind: bytes, kind: int) -> None:
        self.before, self.between, self.behind, self.kind = before, between, behind, kind


@cython.cclass
class KernelMaps:
    """The kernels of a note: ``names`` and ``symbols`` of all, and for each the ``kind`` that it is of. Each of the
    ``kinds`` is a pair of numbers: what its map has besides, among the ``rests``, and its arguments, among the
    ``signatures``. Values are encoded, and so are ``tree``, the map of all else in the note, and ``strays``, what is no
    map among the kernels. The keys of ``rests``, ``signatures`` and ``kinds`` are in the order of their numbers."""

    kind = cython.declare(list, visibility="readonly")
    names = cython.declare(list, visibility="readonly")
    symbols = cython.declare(list, visibility="readonly")
    kinds = cython.declare(dict, visibility="readonly")
    rests = cython.declare(dict, visibility="readonly")
    signatures = cython.declare(dict, visibility="readonly")
    strays = cython.declare(list, visibility="readonly")
    tree = cython.declare(bytes, visibility="readonly")

    _data = cython.declare(bytes)
    _view = cython.declare(cython.const[cython.uchar][::1])
    _size = cython.declare(cython.Py_ssize_t)
    _value = cython.declare(list)
    _end = cython.declare(list)
    _patterns = cython.declare(list)
    _missed = cython.declare(cython.Py_ssize_t)
    _last_signature = cython.declare(bytes)

    def __init__(self, data: bytes) -> None:
        """Raises UnknownNote."""
        self._data, self._view, self._size = data, data, len(data)
        self._value, self._end = [0, 0, 0], [0, 0, 0]
        self._patterns, self._missed, self._last_signature = [], 0, b""
        self.kind, self.names, self.symbols, self.strays = [], [], [], []
        self.kinds, self.rests, self.signatures = {}, {}, {}
        others = []
        found: cython.bint = False
        key: cython.Py_ssize_t
        value: cython.Py_ssize_t
        count: cython.Py_ssize_t = self._count(0, 0x80, 0xDE)
        at: cython.Py_ssize_t = self._behind_head(0)
        for _ in range(count):
            key, value = at, self._after(at, 1)
            if data[key:value] != _KERNELS:
                at = self._after(value, 1)
                others.append(data[key:at])
            elif found:
                raise UnknownNote
            else:
                at, found = self._read_kernels(value), True
        if at != self._size:
            raise UnknownNote
        self.tree = b"".join([b"\xdf", len(others).to_bytes(4, "big"), *others])

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _read_kernels(self, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Take the list at ``at``; where it ends."""
        count: cython.Py_ssize_t = self._count(at, 0x90, 0xDC)
        at = self._behind_head(at)
        end: cython.Py_ssize_t
        for _ in range(count):
            end = self._take_alike(at)
            if end:
                at = end
            elif self._is(at, 0x80, 0xDE):
                at = self._take_apart(at)
            else:
                end = self._after(at, 2)
                self.strays.append(self._data[at:end])
                at = end
        return at

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _take_alike(self, begin: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Take the map at ``begin`` if it differs from one that was taken apart in name and symbol alone, both texts;
        where it ends, or 0 if it was not taken. No value in msgpack is the beginning of another, so that after the same
        bytes and one value the next byte means the same."""
        data: bytes = self._data
        tried: cython.Py_ssize_t = len(self._patterns)
        if self._missed >= _MISSED and tried > _FEWER_PATTERNS:
            tried = _FEWER_PATTERNS
        number: cython.Py_ssize_t
        name: cython.Py_ssize_t
        name_end: cython.Py_ssize_t
        symbol: cython.Py_ssize_t
        symbol_end: cython.Py_ssize_t
        for number in range(tried):
            pattern: _Pattern = self._patterns[number]
            if not data.startswith(pattern.before, begin):
                continue
            name = begin + len(pattern.before)
            name_end = self._after_text(name)
            if not name_end or not data.startswith(pattern.between, name_end):
                continue
            symbol = name_end + len(pattern.between)
            symbol_end = self._after_text(symbol)
            if not symbol_end or not data.startswith(pattern.behind, symbol_end):
                continue
            self._missed = 0
            self.kind.append(pattern.kind)
            self.names.append(data[name:name_end])
            self.symbols.append(data[symbol:symbol_end])
            return symbol_end + len(pattern.behind)
        self._missed += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _take_apart(self, begin: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Take the map at ``begin`` value by value; where it ends."""
        data: bytes = self._data
        count: cython.Py_ssize_t = self._count(begin, 0x80, 0xDE)
        at: cython.Py_ssize_t = self._behind_head(begin)
        edge: cython.Py_ssize_t = at
        kept: cython.Py_ssize_t = count
        key: cython.Py_ssize_t
        which: cython.int
        pieces = [b"\xdf", b""]
        for which in range(3):
            self._value[which] = self._end[which] = 0
        for _ in range(count):
            key, which = at, self._key(at)
            at = self._after(at, 2)
            if which == _OTHER:
                at = self._after(at, 2)
                continue
            if self._value[which]:  # a key that is there twice has its last value, and this one was kept already
                raise UnknownNote
            kept -= 1
            pieces.append(data[edge:key])
            self._value[which] = at
            edge = at = self._after_arguments(at) if which == _ARGUMENTS else self._after(at, 2)
            self._end[which] = at
        pieces[1] = kept.to_bytes(4, "big")
        pieces.append(data[edge:at])
        kind = (self._number(self.rests, b"".join(pieces)), self._number(self.signatures, self._taken(_ARGUMENTS)))
        number = self.kinds.setdefault(kind, len(self.kinds))
        self.kind.append(number)
        self.names.append(self._taken(_NAME))
        self.symbols.append(self._taken(_SYMBOL))
        if 0 < self._value[_NAME] < self._value[_SYMBOL]:
            before, between = data[begin : self._value[_NAME]], data[self._end[_NAME] : self._value[_SYMBOL]]
            self._patterns.insert(0, _Pattern(before, between, data[self._end[_SYMBOL] : at], number))
            del self._patterns[_PATTERNS:]
        return at

    @cython.cfunc
    def _taken(self, which: cython.int) -> bytes:
        """One of the values that are kept apart."""
        if not self._value[which]:
            return _NOTHING
        found: bytes = self._data[self._value[which] : self._end[which]]
        return found

    @cython.cfunc
    def _number(self, known: dict[bytes, int], encoded: bytes) -> object:
        return known.setdefault(encoded, len(known))

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _after_arguments(self, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Where arguments end: many kernels in a row have the same ones."""
        if self._last_signature and self._data.startswith(self._last_signature, at):
            return at + len(self._last_signature)
        end: cython.Py_ssize_t = self._after(at, 2)
        self._last_signature = self._data[at:end]
        return end

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _key(self, at: cython.Py_ssize_t) -> cython.int:
        """Which of the keys whose values are kept apart is at ``at``."""
        head: cython.int = self._byte(at)
        if head == 0xA5:
            text: cython.ulonglong = self._unsigned(at + 1, 5)
            if text == _ARGUMENTS_KEY:
                return _ARGUMENTS
            return _NAME if text == _NAME_KEY else _OTHER
        return _SYMBOL if head == 0xA7 and self._unsigned(at + 1, 7) == _SYMBOL_KEY else _OTHER

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _after_text(self, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Where the text at ``at`` ends; 0 if there is none."""
        head: cython.int = self._view[at] if at < self._size else 0
        return self._after(at, 2) if head & 0xE0 == 0xA0 or 0xD9 <= head <= 0xDB else 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _after(self, at: cython.Py_ssize_t, depth: cython.int) -> cython.Py_ssize_t:
        """Where the value at ``at`` ends, which is inside so many lists and maps."""
        head: cython.int = self._byte(at)
        count: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = self._behind_head(at)
        if head >= 0xE0 or head < 0x80:
            return end
        if 0xA0 <= head < 0xC0:
            end += head & 0x1F
        elif 0xC0 <= head < 0xDC:
            end += cython.cast(cython.Py_ssize_t, self._unsigned(at + 1, _LENGTHS[head - 0xC0]))
        else:
            if depth >= _DEEPEST:
                raise UnknownNote
            is_map: cython.bint = head < 0x90 or head >= 0xDE
            count = self._count(at, 0x80, 0xDE) * 2 if is_map else self._count(at, 0x90, 0xDC)
            for _ in range(count):
                end = self._after(end, depth + 1)
        if end > self._size:
            raise UnknownNote
        return end

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _behind_head(self, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Where the content of the value at ``at`` begins: its length and whatever is no content are before it."""
        head: cython.int = self._byte(at)
        size: cython.int = _HEADS[head - 0xC0] if 0xC0 <= head < 0xE0 else 1
        if not size:
            raise UnknownNote
        return at + size

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _is(self, at: cython.Py_ssize_t, short: cython.int, long: cython.int) -> cython.int:
        """Whether a list or map is at ``at``: the high nibble of its first byte is ``short``, or the byte is ``long``
        or the next one."""
        head: cython.int = self._byte(at)
        return head & 0xF0 == short or head == long or head == long + 1

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _count(self, at: cython.Py_ssize_t, short: cython.int, long: cython.int) -> cython.Py_ssize_t:
        """The entries of the list or map at ``at``."""
        if not self._is(at, short, long):
            raise UnknownNote
        head: cython.int = self._byte(at)
        if head < 0xC0:
            return head & 15
        return cython.cast(cython.Py_ssize_t, self._unsigned(at + 1, _LENGTHS[head - 0xC0]))

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _byte(self, at: cython.Py_ssize_t) -> cython.int:
        if at >= self._size:
            raise UnknownNote
        return self._view[at]

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _unsigned(self, at: cython.Py_ssize_t, size: cython.int) -> cython.ulonglong:
        """A big-endian number."""
        if at + size > self._size:
            raise UnknownNote
        found: cython.ulonglong = 0
        place: cython.int
        for place in range(size):
            found = found << 8 | self._view[at + place]
        return found
