"""Whether abbreviation tables (DWARF 5, 7.5.3) declare an attribute, read no further than that takes. What abbreviations
mean is the business of ``symd.debuginfo.dwarf``; here they only tell formats apart."""

from __future__ import annotations

from collections.abc import Iterator

DW_FORM_IMPLICIT_CONST = 0x21
_MOST_NUMBERS = 1 << 14
"""Numbers read: the compiler's whole table has a few hundred."""


def declares(table: bytes, attribute: int) -> bool:
    """Whether one of the first abbreviations has the attribute. A table that contradicts itself has none."""
    numbers = _numbers(table)
    try:
        while next(numbers):  # 0 ends the table of one unit: the first says which compiler wrote it
            next(numbers), next(numbers)  # the tag, and whether there are children
            while pair := (next(numbers), next(numbers)):
                if pair == (0, 0):
                    break
                if pair[0] == attribute:
                    return True
                if pair[1] == DW_FORM_IMPLICIT_CONST:
                    next(numbers)
    except StopIteration:
        return False
    return False


def _numbers(table: bytes) -> Iterator[int]:
    """The ULEB128 numbers of the table: codes, tags, attributes and forms. The children byte is 0 or 1, a number too."""
    value = shift = count = 0
    for byte in table:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
            count += 1
        if count > _MOST_NUMBERS or shift > 63:
            return
