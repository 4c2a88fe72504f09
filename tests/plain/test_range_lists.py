"""Whether a range list lies apart from some addresses, told by a regular expression as by its numbers."""

from __future__ import annotations

import random

import pytest

from symd.plain.range_lists import lists_apart
from tests.builders.leb128 import uleb


@pytest.mark.parametrize("seed", range(8))
def test_a_list_is_apart_where_none_of_its_entries_has_a_part(seed: int) -> None:
    dice = random.Random(seed)
    found = set()
    for _ in range(1500):
        base, top = dice.choice((0, 0x2AC000)), dice.choice((40, 200, 20_000, 3_000_000))
        first, last = sorted(dice.sample(range(top), 2))
        entries = [sorted(dice.sample(range(top), 2)) for _ in range(dice.randrange(4))]
        data = b"".join(b"\x04" + uleb(start) + uleb(end) for start, end in entries) + b"\0"
        apart = lists_apart(base + first, base + last, base).match(data)
        assert (apart is not None) == all(end <= first or last <= start for start, end in entries)
        found.add(apart is not None)
    assert found == {True, False}


def test_of_what_is_not_plain_nothing_is_said() -> None:
    apart = lists_apart(0x100, 0x200, 0)
    assert apart.match(b"\x04\x01\x02\0")
    assert not apart.match(b"\x04\x81\x00\x02\0"), "a number that is written longer than it must be"
    assert not apart.match(b"\x04\x01\x02"), "a list without an end"
    assert not apart.match(b"\x06" + bytes(16) + b"\0")
    assert not apart.match(b"\x04\x01\x02\x03\x00\x01\0"), "an address by its index"
