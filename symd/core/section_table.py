# cython: language_level=3, boundscheck=True, wraparound=False
"""Section headers of an ELF image, and the strings of its tables at many offsets at once (System V ABI, chapter 4,
"Section Header" and "String Table")."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import cython

from symd.model.light_typing import Any

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
