"""One linear address space for all text of a code object. Linked objects have one already; in unlinked ones every text
section starts at 0, so each gets a base of its own here, and relocation writes addresses of this space."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.errors import Malformed
from symd.model.code import CodeObject
from symd.model.columns import U32, U64
from symd.model.debug_info import TextSpans

FIRST_BASE = 1 << 40
"""Far above every address an unlinked object can hold, so that what relocation did not touch falls on no section."""
FIRST_BASE_32 = 1 << 28
"""The same in a 32-bit image, whose debug sections have four bytes for an address."""
GAP = 1 << 16
"""Kept free after each section: compilers let ranges run a few bytes past their text."""


class LinearLayout(NamedTuple):
    """Section numbers with their linear ``[base, base + size)``, sorted by base: three equally long columns."""

    section: U32
    base: U64
    size: U64

    def base_of(self, section: int) -> int | None:
        """The linear address of a section's first byte; None when it is not text."""
        found = np.flatnonzero(self.section == section)
        return int(self.base[found[0]]) if len(found) else None

    def bases_of_sections(self) -> U64:
        """The base of each section by its number, 0 of one that is not text; the last entry is that of all other numbers."""
        bases = np.zeros(int(self.section.max(initial=0)) + 2, np.uint64)
        bases[self.section] = self.base
        return bases

    def linear(self, section: U32, offset: U64) -> U64:
        """Section numbers and offsets as linear addresses. Raises ValueError for a section that is not text."""
        bases = dict(zip(self.section.tolist(), self.base.tolist(), strict=True))
        if unknown := set(section.tolist()) - bases.keys():
            raise ValueError(f"sections {sorted(unknown)} hold no text")
        return np.array([bases[number] for number in section.tolist()], np.uint64) + offset

    def one_section_of(self, address: int) -> tuple[int, int] | None:
        """As ``section_of`` for one address: (section number, offset in it); None where no section holds it."""
        slot = bisect_right(self.base.data, address) - 1
        if slot < 0:
            return None
        offset = address - self.base.item(slot)
        return (self.section.item(slot), offset) if offset <= self.size.item(slot) + GAP else None

    def section_of(self, addresses: U64) -> tuple[U32, U64, NDArray[np.bool_]]:
        """Linear addresses as (section number, offset in it, whether a section holds it).

        A section holds the addresses after it too, up to GAP bytes or the next section.
        """
        if not len(self.base):
            return (
                np.zeros(len(addresses), np.uint32),
                np.zeros(len(addresses), np.uint64),
                np.zeros(len(addresses), np.bool_),
            )
        slot = np.searchsorted(self.base, addresses, side="right").astype(np.int64) - 1
        found = slot >= 0
        slot[~found] = 0
        offset = np.where(found, addresses - self.base[slot], np.uint64(0))
        found &= offset <= self.size[slot] + np.uint64(GAP)
        return self.section[slot], offset, found

    def spans(self, start: U64, end: U64) -> TextSpans:
        """Those of the linear addresses [start, end) that begin in text."""
        section, offset, found = self.section_of(start)
        return TextSpans(section[found], offset[found], (offset + (end - start))[found])


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
    table = np.array(placed, np.uint64).reshape(-1, 3)
    return LinearLayout(table[:, 2].astype(np.uint32), table[:, 0].copy(), table[:, 1].copy())
