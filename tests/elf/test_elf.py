"""String tables that are read at many offsets at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd import elf
from symd.elf.constants import EM_AMDGPU, ET_REL
from symd.errors import Malformed
from symd.model.code import Section


def names(strings: bytes, offsets: list[int]) -> list[str]:
    sections = (Section(0, "", 0, 0, 0, 0, b""), Section(1, ".strtab", 3, 0, 0, 0, strings))
    image = elf.Elf(elf.Header(64, 0, 0, ET_REL, EM_AMDGPU), b"", sections)
    return image.symbol_names(Section(2, ".symtab", 2, 0, 0, 0, b"", link=1), np.array(offsets, np.uint32))


BYTES = st.lists(st.sampled_from([b"\0", b"a", b"bc", "é".encode(), "漢".encode(), b"\xff", b"\xe6\xbc"])).map(b"".join)


@given(BYTES, st.lists(st.integers(0, 40)))
def test_a_string_reaches_from_its_offset_to_the_next_nul(strings, offsets):
    expected = [strings[offset:].partition(b"\0")[0].decode("utf-8", "replace") for offset in offsets]
    assert names(strings, offsets) == expected


def test_an_offset_behind_the_table_is_the_empty_string():
    assert names(b"\0name\0", [6, 7, 0xFFFFFFFF, 1]) == ["", "", "", "name"]
    assert names(b"", [0, 1]) == ["", ""]


def test_strings_that_share_their_ends_are_bounded_together():
    """Tails of one string: n of them hold n * n / 2 bytes."""
    assert names(b"x" * 300 + b"\0", list(range(300)))[299] == "x"
    with pytest.raises(Malformed, match="overlap"):
        names(b"x" * 5000 + b"\0", list(range(5000)))


def test_one_long_name_of_many_symbols_is_one_string():
    found = names(b"x" * 100_000 + b"\0", [0] * 5000)
    assert len(found) == 5000
    assert len({id(name) for name in found}) == 1
