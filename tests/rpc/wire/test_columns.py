"""Packed columns are as narrow as their largest number and come back whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import Malformed
from symd.rpc.wire.columns import pack, pack_taken, unpack


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_numbers_come_back(numbers):
    values = np.array(numbers, np.uint64)
    assert unpack(pack(values), len(numbers), np.uint64).tolist() == numbers


@pytest.mark.parametrize(
    ("numbers", "data"),
    [
        ([0, 0, 0], b""),
        ([1, 255], b"\x01\xff"),
        ([1, 256], b"\x01\x00\x00\x01"),
        ([65536], b"\x00\x00\x01\x00"),
        ([1 << 32], b"\x00\x00\x00\x00\x01\x00\x00\x00"),
        ([], b""),
    ],
)
def test_the_layout_is_little_endian_and_as_narrow_as_it_goes(numbers, data):
    assert pack(np.array(numbers, np.uint64)) == data


@pytest.mark.parametrize(
    ("numbers", "data"), [([2, 2], b"\x07\x07"), ([1, 0], b"\x2c\x01\x00\x00"), ([0], b""), ([], b"")]
)
def test_what_is_taken_of_a_table_is_as_narrow_as_that_alone(numbers, data):
    assert pack_taken(np.array([0, 300, 7], np.uint32), np.array(numbers, np.uint32)) == data


@pytest.mark.parametrize(
    ("data", "count", "kind"),
    [
        (b"12345", 2, np.uint32),  # no multiple
        (b"123", 1, np.uint32),  # no width
        (b"1", 0, np.uint32),  # bytes of nothing
        (b"12345678", 1, np.uint32),  # wider than the column may be
        (b"12", 1, np.uint8),
    ],
)
def test_a_column_that_cannot_be_is_malformed(data, count, kind):
    with pytest.raises(Malformed):
        unpack(data, count, kind)
