"""Answers keep their meaning over the wire, and only what an answer needs travels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symd.errors import Malformed
from symd.model.addresses import ByAddress
from symd.model.answers import Answers, Reason, TextSection
from symd.model.arguments import ColumnQuestion
from symd.model.contexts import DeviceAnswers, Origin
from symd.rpc.wire.answers import (
    PLAIN_PYTHON_ANSWERS,
    from_answer,
    from_columns,
    from_device_columns,
    to_answer,
    to_columns,
)
from symd.rpc.wire.columns import concatenated, pack, unpack
from symd.rpc.wire.location_tables import from_table, pack_few
from symd.v1 import answer_pb2, location_pb2
from tests.server.fakes import AMBIGUOUS, CANDIDATES, DIGEST, GOOD, LOCATIONS, FakeEngine


def engine():
    engine = FakeEngine()
    engine.add(GOOD)
    return engine


def asked(*addresses):
    return engine().symbolize_column(DIGEST, np.array(addresses, np.uint64))


def question(values):
    return None if values is None else ColumnQuestion(values, ())


def travelled(answers, values=None):
    """Through bytes, as on a socket."""
    data = to_columns(answers, question(values)).SerializeToString()
    return from_columns(answer_pb2.PackedAnswers.FromString(data), question(values))


ADDRESSES = st.one_of(st.integers(0, 0x400), st.just(AMBIGUOUS), st.integers(0, 2**64 - 1))


@settings(max_examples=60, deadline=None)
@given(st.lists(ADDRESSES, max_size=3 * PLAIN_PYTHON_ANSWERS))
def test_every_answer_of_a_batch_arrives_as_it_was(addresses):
    values = np.array(addresses, np.uint64)
    before = engine().symbolize_column(DIGEST, values)
    assert list(travelled(before)) == list(before)
    assert list(travelled(before, values)) == list(before)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(ADDRESSES, max_size=PLAIN_PYTHON_ANSWERS + 9), min_size=1, max_size=4))
def test_answers_to_the_parts_of_a_batch_make_the_answers_to_the_whole(parts):
    whole = asked(*(address for part in parts for address in part))
    assert list(concatenated([travelled(asked(*part)) for part in parts])) == list(whole)


@pytest.mark.parametrize("copies", [1, PLAIN_PYTHON_ANSWERS * 2])
def test_the_inlined_frame_brings_its_caller_and_nothing_else_travels(copies):
    message = to_columns(asked(*[0x150] * copies))
    assert message.locations.count == 3  # "nothing known", helper, and vadd that it was inlined into
    assert list(message.locations.strings) == ["", "vadd", "helper", "/src/vadd.cl", "_Z6helperi"] or sorted(
        message.locations.strings
    ) == ["", "/src/vadd.cl", "_Z6helperi", "helper", "vadd"]
    assert "unused" not in message.locations.strings
    assert [each.section for each in message.text_sections] == ["", ".text.vadd"]
    assert (len(message.place), message.place_by_origin) == (4 if copies == 1 else 1, True)  # the only place of all
    frames = travelled(asked(*[0x150] * copies))[0].frames
    assert [(f.function, f.linkage_name, f.line, f.column, f.inlined) for f in frames] == [
        ("helper", "_Z6helperi", 3, 23, True),
        ("vadd", None, 10, 0, False),
    ]


def test_offsets_that_follow_from_the_question_do_not_travel():
    values = np.arange(0x100, 0x300, dtype=np.uint64)
    message = to_columns(asked(*values), question(values))
    assert (message.offset, [each.base for each in message.places]) == (b"", [0, 0x100])


def test_an_offset_that_wraps_below_zero_still_follows_from_its_base():
    """A section address above the value asked: the base is taken modulo 2^64."""
    count = 2 * PLAIN_PYTHON_ANSWERS
    values = np.arange(count, dtype=np.uint64)
    place = TextSection("", ".text", 1, 0)
    one, offset = np.ones(count, np.uint32), values + np.uint64(0x40)
    before = Answers(one, one, offset, LOCATIONS, (place,))
    message = to_columns(before, question(values))
    assert [each.base for each in message.places] == [0, 2**64 - 0x40]
    assert travelled(before, values).offset.tolist() == offset.tolist()


def test_offsets_that_do_not_follow_travel():
    values = np.zeros(2 * PLAIN_PYTHON_ANSWERS, np.uint64)
    one, offset = np.ones(2 * PLAIN_PYTHON_ANSWERS, np.uint32), np.arange(2 * PLAIN_PYTHON_ANSWERS, dtype=np.uint64)
    before = Answers(one, one, offset, LOCATIONS, (TextSection("", ".text", 1, 0),))
    assert to_columns(before, question(values)).offset
    assert travelled(before, values).offset.tolist() == offset.tolist()


def test_where_a_location_has_one_place_the_place_travels_with_it():
    """Two kernels of one section, each at a device address of its own: bases differ, and the origin does not say which is meant."""
    dice = np.random.default_rng(1)
    location = dice.integers(1, 3, 2_000).astype(np.uint32)
    offset = dice.integers(0, 0x40, 2_000).astype(np.uint64)
    base = np.array([0, 0x7000_0000, 0x9000_0000], np.uint64)[location]
    one = np.ones(2_000, np.uint32)
    before = Answers(location, one, offset, LOCATIONS, (TextSection("", ".text", 1, 0),))
    message = to_columns(before, question(base + offset))
    assert message.place_by_location
    assert (len(message.place), len(message.offset)) == (message.locations.count, 0)
    assert [each.base for each in message.places] == [0, 0x7000_0000, 0x9000_0000] or [
        each.base for each in message.places
    ] == [0, 0x9000_0000, 0x7000_0000]
    after = travelled(before, base + offset)
    assert (after.offset.tolist(), after.text_section.tolist()) == (offset.tolist(), one.tolist())
    assert [after[at].frames for at in range(20)] == [before[at].frames for at in range(20)]
    message.place += b"\1"
    with pytest.raises(Malformed):
        from_columns(message, question(base + offset))


def test_where_a_location_has_two_places_each_offset_travels():
    location = np.ones(2_000, np.uint32)
    base = np.array([0x7000_0000, 0x9000_0000], np.uint64)[np.arange(2_000) % 2]
    before = Answers(location, location, location.astype(np.uint64), LOCATIONS, (TextSection("", ".text", 1, 0),))
    message = to_columns(before, question(base + np.uint64(1)))
    assert (message.place_by_location, len(message.offset)) == (False, 2_000)
    assert travelled(before, base + np.uint64(1)).offset.tolist() == [1] * 2_000


def test_a_row_spells_out_what_the_columns_number():
    row = to_answer(asked(0x150)[0])
    assert (row.reason, row.code_object, row.kernel, row.section) == (Reason.EXACT, "", "vadd", ".text.vadd")
    assert (row.section_index, row.section_offset, row.address) == (2, 0x50, 0x150)
    assert [(f.function, f.line, f.inlined) for f in row.frames] == [("helper", 3, True), ("vadd", 10, False)]
    assert not row.frames[1].HasField("linkage_name")


def test_an_address_in_no_text_has_a_reason_and_nothing_else():
    row = to_answer(asked(0x5000)[0])
    assert row.reason == Reason.OUTSIDE_TEXT
    assert [field.name for field, _ in row.ListFields()] == ["reason"]


def test_an_ambiguous_address_brings_its_candidates():
    answers = travelled(asked(0x100, AMBIGUOUS))
    assert answers[1].reason is Reason.AMBIGUOUS
    assert answers[1].candidates == CANDIDATES
    assert answers[0].candidates == ()


def test_a_name_that_is_no_utf8_arrives_with_replacement_characters():
    strings = ["", "v\udce9dd", *LOCATIONS.strings[2:]]
    table = replace(LOCATIONS, strings=strings)
    one = np.ones(1, np.uint32)
    answers = Answers(one, one * 0, one.astype(np.uint64), table, ())
    assert travelled(answers)[0].frames[0].function == "v\ufffddd"
    assert to_answer(answers[0]).frames[0].function == "v\ufffddd"


@pytest.mark.parametrize("field", ["location", "place", "offset"])
def test_a_column_that_does_not_fit_its_count_is_malformed(field):
    message = to_columns(asked(*range(0x100, 0x300)))
    message.place_by_origin = False
    setattr(message, field, b"123")
    with pytest.raises(Malformed):
        from_columns(message)


@pytest.mark.parametrize(
    ("parents", "said"),
    [
        ([0, 1, 0, 0], "callers of location 1 have no end"),
        ([0, 2, 3, 1], "callers of location 1 have no end"),
        ([0, 0, 3, 2], "callers of location 2 have no end"),
        ([0, 4, 0, 0], "not in its table"),
        ([1, 0, 0, 0], "location 0"),
    ],
)
def test_a_table_whose_callers_have_no_end_is_malformed(parents, said):
    """A daemon that is not to be trusted may send one; a walk over its frames would take memory for ever."""
    table = location_pb2.LocationTable(count=4, parent=pack_few(parents), strings=[""])
    with pytest.raises(Malformed, match=said):
        from_table(table)


@given(st.integers(1, 70), st.data())
def test_a_table_whose_callers_end_is_taken_in_any_order(count, data):
    order = [0, *data.draw(st.permutations(range(1, count + 1)))]
    parents = [0] * (count + 1)
    for at in range(1, count + 1):
        parents[order[at]] = order[data.draw(st.sampled_from((0, at // 2, at - 1)))]
    reasons = bytes([0, *[Reason.EXACT] * count])
    table = location_pb2.LocationTable(count=count + 1, reason=reasons, parent=pack_few(parents), strings=[""])
    assert from_table(table).parent.tolist() == parents


def told_wrongly(at: str, number: int) -> answer_pb2.PackedAnswers:
    """Answers whose column ``at`` has this number in its last place."""
    message = to_columns(asked(0x100, 0x150, 0x190, 1, 0x100, 0x150, 0x190, 1, 2))
    of = message if at in ("location", "place") else message.locations
    column = unpack(getattr(of, at), of.count, np.uint32).copy()
    column[-1] = number
    setattr(of, at, pack(column))
    return message


@pytest.mark.parametrize(
    ("at", "number", "said"),
    [
        ("location", 9, "there is no location 9: there are"),
        ("location", (1 << 32) - 1, "there is no location 4294967295"),
        ("location", 0, "an answer has no location"),
        ("place", 200, "there is no place 200"),
        ("kernel", 50, "there is no string for the kernel 50"),
        ("function", 50, "there is no string for the function 50"),
        ("linkage_name", 50, "there is no string for the linkage_name 50"),
        ("file", 50, "there is no string for the file 50"),
        ("reason", 0, "an answer has no reason"),
    ],
)
def test_a_number_that_stands_for_nothing_is_malformed(at, number, said):
    """A daemon that is not to be trusted may send one: it would end in an IndexError somewhere in the client's program."""
    with pytest.raises(Malformed, match=said):
        from_columns(told_wrongly(at, number))


def test_a_place_in_a_section_or_module_that_never_came_and_strings_that_did_not_are_malformed():
    message = to_columns(asked(*range(0x100, 0x110)))
    assert [each.text_section for each in message.places] == [0, 1]
    message.places[1].text_section = 2
    with pytest.raises(Malformed, match="no text section 2"):
        from_columns(message)
    message = to_columns(asked(1))
    del message.locations.strings[:]
    with pytest.raises(Malformed, match="no string"):
        from_columns(message)
    values = np.array([0x100, 0x150], np.uint64)
    found = DeviceAnswers(asked(*values), np.array([1, 1], np.uint32), values, [DIGEST])
    message = to_columns(found, question(values))
    assert from_device_columns(message, question(values)).module.tolist() == [1, 1]
    message.places[1].module = 2
    with pytest.raises(Malformed, match="no module 2"):
        from_device_columns(message, question(values))


KINDS = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3), st.integers(0, 2**64 - 1), st.booleans())


@settings(max_examples=200, deadline=None)
@given(st.lists(KINDS, max_size=40))
def test_wherever_answers_lie_each_arrives_in_its_module_section_and_offset(rows):
    """Origins and sections whose bases agree, or not; modules without a section; offsets that follow from nothing."""
    origin = np.array([row[0] for row in rows], np.uint32)
    section = np.array([row[1] for row in rows], np.uint32)
    module = np.where(section, section, [row[2] for row in rows]).astype(np.uint32)
    values = np.array([row[3] for row in rows], np.uint64)
    bases = np.array([[origin * 7 + section * 0x100 for section in range(3)] for origin in range(4)], np.uint64)
    offset = np.where([row[4] for row in rows], values - bases[origin, section], np.uint64(3)).astype(np.uint64)
    offset = np.where(section, offset, np.uint64(0))
    sections = [TextSection("", f".text.{number}", number, 0) for number in range(2)]
    answers = Answers(np.ones(len(rows), np.uint32), section, offset, LOCATIONS, sections)
    before = DeviceAnswers(answers, module, values, ["a" * 64, "b" * 64, "c" * 64])
    asked_for = ColumnQuestion(values, [Origin(DIGEST, None, str(number)) for number in range(4)], origin)
    message = answer_pb2.PackedAnswers.FromString(to_columns(before, asked_for).SerializeToString())
    assert list(from_device_columns(message, asked_for)) == list(before)


@pytest.mark.parametrize("number", [99, 1000, -1])
def test_a_reason_of_a_newer_daemon_is_unrecognized_and_the_rest_of_the_answer_is_there(number):
    asked_for = asked(0x100)[0]
    answer = to_answer(asked_for)
    answer.reason = number
    assert from_answer(answer) == asked_for._replace(reason=Reason.UNRECOGNIZED)
    answer.reason = 0
    with pytest.raises(Malformed, match="an answer has no reason"):
        from_answer(answer)


def test_rows_of_a_reason_of_a_newer_daemon_say_so_and_the_others_their_own():
    message = to_columns(asked(*range(0x100, 0x110), 1))
    reasons = bytearray(message.locations.reason)
    assert Reason.EXACT in reasons
    message.locations.reason = bytes(99 if reason == Reason.EXACT else reason for reason in reasons)
    answers = from_columns(message)
    before = asked(*range(0x100, 0x110), 1)
    expected = [each._replace(reason=Reason.UNRECOGNIZED) if each.reason is Reason.EXACT else each for each in before]
    assert list(answers) == [answers[number] for number in range(len(answers))] == expected
    assert "UNRECOGNIZED" in str(answers.to_arrow()["reason"].to_pylist())


def test_an_empty_batch_is_an_empty_answer():
    assert len(travelled(engine().symbolize(DIGEST, []))) == 0


def test_rows_and_columns_say_the_same():
    answers = engine().symbolize(DIGEST, [ByAddress(0x100), ByAddress(0x150), ByAddress(0x190), ByAddress(1)])
    assert [to_answer(answer) for answer in answers] == [to_answer(answer) for answer in travelled(answers)]
