"""Of code ranges that overlap, which function or inlined call has an address: the rule of indexes and of variables.

Compilers nest the ranges of scopes; then the innermost scope has the address. Where they do not nest, they contradict
each other, and symd decides as llvm-symbolizer does (llvm/lib/DebugInfo/DWARF/DWARFUnit.cpp, updateAddressDieMap):
ranges are entered one by one into a map of disjoint pieces, a scope before what stands in it and siblings in their
order.

* A range that begins inside a piece takes its part of it. What is left of the piece on both sides stays with its owner.
* A range that begins where a piece begins takes its place, whether it is as long or not; a longer piece keeps its end.
* A range that reaches over the beginning of another piece ends there. What of it lies after that piece is nobody's.

So of A [5, 6) and B [0, 10), in this order, B has 0 to 5, A has 5, and 6 to 10 is nobody's; in the other order B has
all but 5. Blocks take no part, and empty ranges are none. What is nobody's has no function in frames; breakpoints and
variables, which ask whose code it would be, take the innermost function that says it holds the address."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator


def disjoint_pieces(ranges: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """(start, end, owner) of the pieces, sorted, of ranges (start, end, owner) in the order of the tree."""
    starts: list[int] = []
    held: dict[int, tuple[int, int]] = {}

    def enter(start: int, end: int, owner: int) -> None:
        if start not in held:
            insort(starts, start)
        held[start] = end, owner

    for start, end, owner in ranges:
        before = bisect_right(starts, start) - 1
        if before >= 0 and start < held[starts[before]][0]:
            around = starts[before]
            around_end, around_owner = held[around]
            if end < around_end:
                enter(end, around_end, around_owner)
            if start > around:
                held[around] = start, around_owner
        enter(start, end, owner)
    for number, start in enumerate(starts, 1):
        end, owner = held[start]
        yield start, min(end, starts[number]) if number < len(starts) else end, owner
