"""Scopes around one address, as far as they are plain."""

from __future__ import annotations

from array import array

import pytest

from symd.debuginfo.plain_scopes import PlainScopes
from symd.model.frame_text import NotPlain

_NO_PARENT = 0xFFFFFFFF


def scopes(*call: int) -> PlainScopes:
    """A function at [0x100, 0x200), a call in it at [0x140, 0x180), and one in that whose range is given."""
    none = memoryview(array("I", [0, 0, 0]))
    columns = [memoryview(array("I", [_NO_PARENT, 0, 1])), memoryview(array("I", [0, 1, 2])), none, none, none, none]
    columns.append(memoryview(array("I", [0, 1, 2])))
    ranges = array("I", [0, 1, 2]), array("Q", [0x100, 0x140, call[0]]), array("Q", [0x200, 0x180, call[1]])
    return PlainScopes(columns, memoryview(bytes([0, 1, 1])), ranges, ["shade", "twice", "mix"], [""])


def test_calls_inside_each_other_are_a_chain() -> None:
    assert scopes(0x140, 0x180).at(0x150) == ([2, 1, 0], (0x100, 0x200))


@pytest.mark.parametrize("call", [(0x138, 0x170), (0x148, 0x184)])
def test_a_call_that_reaches_out_of_what_it_was_inlined_into_is_not_plain(call: tuple[int, int]) -> None:
    with pytest.raises(NotPlain):
        scopes(*call).at(0x150)
