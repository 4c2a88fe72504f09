"""JSON values one after the other, against the json module."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import Malformed
from symd.profiles.json_text import decode, each_value, encode, only_value, written

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(values, max_size=4), st.sampled_from([None, 1, "\t"]))
def test_what_json_writes_is_read(several, indent):
    text = "\n".join(json.dumps(value, indent=indent) for value in several)
    assert list(each_value(f" {text} ")) == several


@given(values)
def test_what_is_written_is_one_line_of_json(value):
    assert json.loads(written(value)) == value
    assert written(value).splitlines() == [written(value)[:-1]]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[", "[1", "[1,", "[1,]", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', "{1:2}", "[1 2]", '{"a" 1}', "[,]",
     "[nul]", "[" * 100_000, "1 2"],
)  # fmt: skip
def test_damage_is_named(text):
    with pytest.raises(Malformed, match="JSON is damaged"):
        only_value(text)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_text_survive(data):
    assert encode(decode(data)) == data
