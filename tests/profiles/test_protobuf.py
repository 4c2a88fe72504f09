"""Fields at the top of a message, against Google's own runtime and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import Malformed
from symd.profiles.protobuf import FIXED32, FIXED64, LENGTH, VARINT, each_field
from tests.profiles.messages import Profile

numbers = st.integers(0, (1 << 64) - 1)


@given(st.lists(numbers, max_size=5), st.binary(max_size=200))
def test_what_google_writes_is_read(values, text):
    profile = Profile(string_table=[text])
    profile.sample.add(location_id=values)
    found = {item.number: item.content for item in each_field(profile.SerializeToString())}
    assert found == {2: profile.sample[0].SerializeToString(), 6: text}


def test_all_wire_types_by_hand():
    """Field 1 varint 300, field 2 fixed64, field 3 "ab", field 4 fixed32, as protobuf.dev's examples spell them."""
    data = bytes.fromhex("08ac021101020304050607081a0261622501020304")
    assert list(each_field(data)) == [(1, VARINT, b""), (2, FIXED64, b""), (3, LENGTH, b"ab"), (4, FIXED32, b"")]


@pytest.mark.parametrize(
    "text", ["08", "0880", "08" + "ff" * 10, "12ff", "1203ab", "1101", "2501", "0b", "0c", "0e", "0001"]
)
def test_what_leaves_the_message_is_malformed(text):
    with pytest.raises(Malformed, match="at byte"):
        list(each_field(bytes.fromhex(text)))
