"""The wire format, against Google's own runtime and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import Malformed
from symd.profiles.protobuf_wire import FIXED32, FIXED64, LENGTH, VARINT, fields, length_field, number_field, packed
from tests.profiles.messages import Profile

numbers = st.integers(0, (1 << 64) - 1)


@given(numbers, st.binary(max_size=300))
def test_what_is_written_is_read_by_google(number, text):
    data = length_field(4, number_field(3, number)) + length_field(6, text)
    profile = Profile.FromString(data)
    assert [one.address for one in profile.location] == [number]
    assert list(profile.string_table) == [text]


@given(st.lists(numbers, max_size=5), st.binary(max_size=200))
def test_what_google_writes_is_read(values, text):
    profile = Profile(string_table=[text])
    profile.sample.add(location_id=values)
    profile.mapping.add(memory_start=values[0] if values else 0)
    data = profile.SerializeToString()
    found = {item.number: item for item in fields(data)}
    sample = fields(data, found[2].value, found[2].end)
    assert [number for item in sample for number in packed(data, item, "")] == values
    assert data[found[6].value : found[6].end] == text
    assert b"".join(data[item.begin : item.end] for item in fields(data)) == data


def test_all_wire_types_by_hand():
    """Field 1 varint 300, field 2 fixed64, field 3 "ab", field 4 fixed32, as protobuf.dev's examples spell them."""
    data = bytes.fromhex("08ac021101020304050607081a0261622501020304")
    found = [(item.number, item.wire) for item in fields(data)]
    assert found == [(1, VARINT), (2, FIXED64), (3, LENGTH), (4, FIXED32)]
    assert fields(data)[0].value == 300
    assert number_field(1, 300) == data[:3]
    assert number_field(1, 0) == b""


@pytest.mark.parametrize(
    "text", ["08", "0880", "08" + "ff" * 10, "12ff", "1203ab", "1101", "2501", "0b", "0c", "0e", "0001"]
)
def test_what_leaves_the_message_is_malformed(text):
    with pytest.raises(Malformed, match="at byte"):
        fields(bytes.fromhex(text))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_to_the_end_or_refused(data):
    try:
        found = fields(data)
    except Malformed:
        return
    assert sum(item.end - item.begin for item in found) == len(data)
