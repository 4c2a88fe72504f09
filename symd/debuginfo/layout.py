"""One linear address space for all text of a code object. Linked objects have one already; in unlinked ones every text
section starts at 0, so each gets a base of its own here, and relocation writes addresses of this space. It does without
NumPy, as one address is answered."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from symd.errors import Malformed
from symd.model.code import CodeObject
from symd.model.light_typing import NamedTuple

FIRST_BASE = 1 << 40
"""Far above every address an unlinked object can hold, so that what relocation did not touch falls on no section."""
FIRST_BASE_32 = 1 << 28
"""The base of the first text section of an unlinked 32-bit object, whose debug sections have four bytes for an
address: above every address that the object can hold, so that what relocation did not touch falls on no section."""
GAP = 1 << 16
"""Kept free after each section: compilers let ranges run a few bytes past their text."""


class LinearLayout(NamedTuple):
    """Section numbers with their linear ``[base, base + size)``, sorted by base: three equally long columns."""

    section: array[int]
    base: array[int]
    size: array[int]

    def base_of(self, section: int) -> int | None:
        """The linear address of a section's first byte; None when it is not text."""
        return self.base[self.section.index(section)] if section in self.section else None

    def bases(self) -> dict[int, int]:
        """The base of each section by its number."""
        return dict(zip(self.section.tolist(), self.base.tolist(), strict=True))

    def linear(self, places: Sequence[tuple[int, int]]) -> list[int]:
        """Section numbers and offsets as linear addresses. Raises ValueError for a section that is not text."""
        bases = self.bases()
        if unknown := {section for section, _ in places} - bases.keys():
            raise ValueError(f"sections {sorted(unknown)} hold no text")
        return [bases[section] + offset for section, offset in places]

    def one_section_of(self, address: int) -> tuple[int, int] | None:
        """The section that holds one linear address: (section number, offset in it); None where no section does."""
        slot = bisect_right(self.base, address) - 1
        if slot < 0:
            return None
        offset = address - int(self.base[slot])
        return (int(self.section[slot]), offset) if offset <= int(self.size[slot]) + GAP else None


def first_base(code: CodeObject) -> int:
    """Where the text of an unlinked object begins."""
    return FIRST_BASE if code.address_bits == 64 else FIRST_BASE_32


def assign(code: CodeObject) -> LinearLayout:
    """The layout of a code object's executable sections. Raises Malformed where they have no room in its addresses."""
    text = [section for section in code.sections if section.executable]
    if code.linked:
        placed = sorted((section.address, section.size, section.index) for section in text)
        return _columns(placed)
    placed, at = [], first_base(code)
    for section in text:
        placed.append((at, section.size, section.index))
        at += (section.size + 2 * GAP) & ~(GAP - 1)
        if at >= 1 << code.address_bits:
            message = f"its size {section.size:#x} and those before it pass {code.address_bits} bits"
            raise Malformed(message, where=section.name)
    return _columns(placed)


def _columns(placed: list[tuple[int, int, int]]) -> LinearLayout:
    base, size, section = zip(*placed, strict=True) if placed else ((), (), ())
    return LinearLayout(array("I", section), array("Q", base), array("Q", size))
