"""String tables that are read at many offsets at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import Malformed
from symd.formats.elf.contents import strings_at


def names(strings: bytes, offsets: list[int]) -> list[str]:
    return strings_at(strings, offsets, ".symtab")


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
