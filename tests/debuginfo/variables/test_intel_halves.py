"""What docs/contradictions.md says of the locations that Intel's compiler writes for the two halves of a kernel's lanes, read from the bytes
of every sample with a table of operations of its own."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

BIN = Path(__file__).parents[3] / "samples" / "kernels" / "bin"
BRANCH = re.compile(rb"\xed\x40\x2a\x28(.)\x00", re.DOTALL)
"""Push the lane and 16, ge, and a DW_OP_bra over what lanes below 16 take."""
STACK_VALUE, SKIP = 0x9F, 0x2F
FIXED = {0x08: 1, 0x09: 1, 0x0A: 2, 0x0B: 2, 0x0C: 4, 0x0D: 4, 0x0E: 8, 0x0F: 8, 0x28: 2, 0x2F: 2, 0xFE: 1}
"""Bytes of operands that have so many (DWARF 5, 7.7.1; DW_OP_INTEL_regval_bits)."""
LEB128 = {0x10: 1, 0x11: 1, 0x23: 1, 0x90: 1, 0x93: 1, 0x9D: 2}
"""Operands that are LEB128 numbers."""


def after(data: bytes, at: int) -> int:
    """Where the operation at ``at`` ends."""
    code, at = data[at], at + 1
    for _ in range(LEB128.get(code, 0)):
        while data[at] & 0x80:
            at += 1
        at += 1
    return at + FIXED.get(code, 0)


def operations(data: bytes, start: int, end: int) -> tuple[set[int], int]:
    """The codes of those that begin before ``end``, and where the last of them ends."""
    codes = set()
    while start < end:
        codes.add(data[start])
        start = after(data, start)
    return codes, start


def halves(data: bytes) -> Counter[tuple[bool, bool, int]]:
    """Of each pair of halves: whether the lower and the upper one say DW_OP_stack_value, and by how much the skip over the upper one is short."""
    found: Counter[tuple[bool, bool, int]] = Counter()
    for branch in BRANCH.finditer(data):
        upper = branch.end() + branch[1][0]
        lower, end = operations(data, branch.end(), upper)
        assert (data[upper - 3], end) == (SKIP, upper)
        target = upper + int.from_bytes(data[upper - 2 : upper], "little")
        codes, end = operations(data, upper, target)
        found[STACK_VALUE in lower, STACK_VALUE in codes, end - target] += 1
    return found


def test_a_skip_is_short_where_one_half_lacks_the_operation_that_the_other_has() -> None:
    found = sum((halves(path.read_bytes()) for path in sorted(BIN.rglob("*")) if path.is_file()), Counter())
    assert found.pop((False, True, 1)) == 30
    assert set(found) == {(True, True, 0), (False, False, 0)}
    assert found.total() > 1000
