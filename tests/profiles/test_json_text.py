"""JSON edited where it stands, against the json module."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import Malformed
from symd.profiles.json_text import JsonCursor, Span, appended, decode, encode, with_edits

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def walked(cursor):
    """A value, read member by member."""
    if cursor.peek() == "{":
        return {key: walked(cursor) for key in cursor.members()}
    if cursor.peek() == "[":
        return [walked(cursor) for _ in cursor.elements()]
    return cursor.value()


@given(values, st.sampled_from([None, 1, "\t"]))
def test_a_walk_sees_what_json_reads(value, indent):
    text = f" {json.dumps(value, indent=indent)} "
    assert walked(JsonCursor(text)) == value


@given(st.dictionaries(st.text(max_size=4), values, max_size=5))
def test_what_is_not_read_is_passed_over(value):
    cursor = JsonCursor(json.dumps(value, indent=1))
    assert list(cursor.members()) == list(value)
    assert cursor.at == len(cursor.text)


@given(st.dictionaries(st.text(max_size=4), values, max_size=3))
def test_an_appended_member_is_there_and_nothing_else_changed(value):
    text = json.dumps(value)
    changed = with_edits(text, [appended(Span(0, len(text)), "new key", "[1]", empty=not value)])
    assert json.loads(changed) == {**value, "new key": [1]}
    assert changed.startswith(text[:-1])


@pytest.mark.parametrize(
    "text",
    ["", "{", "[", "[1", "[1,", "[1,]", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', "{1:2}", "[1 2]", '{"a" 1}', "[,]",
     "[nul]", "[" * 100_000],
)  # fmt: skip
def test_damage_is_named_with_its_place(text):
    with pytest.raises(Malformed, match="character"):
        walked(JsonCursor(text)) if len(text) < 100 else JsonCursor(text).value()


@given(st.binary(max_size=40))
def test_bytes_that_are_no_text_survive(data):
    assert encode(decode(data)) == data


def test_edits_may_come_in_any_order():
    edits = [(Span(4, 5), "E"), (Span(0, 1), ""), (Span(2, 2), "++")]
    assert with_edits("abcdef", edits) == "b++cdEf"
