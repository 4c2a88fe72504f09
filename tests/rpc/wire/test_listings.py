"""Listings and source texts come back over the wire as they were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from symd.errors import InvalidInput, Malformed
from symd.model.addresses import (
    ByAddress,
    ByKernel,
    BySection,
    KernelOffset,
    ObjectAddress,
    SectionOffset,
    SectionRange,
)
from symd.model.answers import Answers
from symd.model.line_tables import Around, LineLevel, Listing, ListingPart
from symd.model.sources import SourceText, TextOrigin
from symd.rpc.wire import line_tables
from symd.v1 import listing_service_pb2 as pb
from symd.v1.line_table_pb2 import SectionRange as pb_range
from symd.v1.query_pb2 import Query
from tests.server.fakes import LOCATIONS, PLACES


def listing(count: int, **fields: str) -> Listing:
    """Instructions that go round the locations, of ever other sizes."""
    at = np.arange(count)
    answers = Answers(
        (1 + at % 4).astype(np.uint32), np.full(count, 2, np.uint32), (at * 8).astype(np.uint64), LOCATIONS, PLACES
    )
    texts = [f"op r{number}, “é”" for number in range(count)]
    given = {"path": "inner/1", "target": "dg2", "disassembler": "IGA", "problem": ""} | fields
    sizes = (1 + at % 16).tolist()
    return Listing(
        **given,
        answers=answers,
        size=(1 + at % 16).astype(np.uint32),
        text=texts,
        code=[bytes([number % 256] * size) for number, size in enumerate(sizes)],
        flow=[number % 8 for number in range(count)],
        targets=[tuple(range(number, number + number % 3)) for number in range(count)],
    )


def same(one: Listing, other: Listing) -> None:
    names = ("path", "target", "disassembler", "problem")
    assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]
    assert list(one.text) == list(other.text)
    assert one.size.tolist() == other.size.tolist()
    for name in ("code", "flow", "targets"):
        assert list(getattr(one, name)) == list(getattr(other, name))
    assert list(one.answers) == list(other.answers)


def sent(chunks):
    return [type(chunk).FromString(chunk.SerializeToString()) for chunk in chunks]


@pytest.mark.parametrize("count", [0, 1, 9, line_tables.INSTRUCTIONS, 2 * line_tables.INSTRUCTIONS + 5])
def test_a_listing_comes_back(count):
    given = listing(count)
    (back,) = line_tables.from_listing_chunks(sent(line_tables.to_listing_chunks(given)))
    same(back, given)


@pytest.mark.parametrize(("letter", "size"), [("x", 1), ("\u4e00", 3)])
def test_long_texts_are_cut_by_their_bytes(letter, size):
    given = listing(8)
    text = letter * (line_tables.TEXT // 4 // size + 1)
    chunks = sent(line_tables.to_listing_chunks(replace(given, text=[text] * 8)))
    assert [len(chunk.rows.texts) for chunk in chunks] == [4, 4]


def test_a_small_answer_is_one_message():
    (chunk,) = sent(line_tables.to_listing_chunks(listing(3)))
    assert (chunk.header.instruction_count, chunk.rows.answers.count) == (3, 3)
    (chunk,) = sent(line_tables.to_source_chunks(SourceText("a.cl", "text", TextOrigin.MODULE)))
    assert (chunk.source.file, chunk.chunk) == ("a.cl", b"text")


def test_a_header_in_a_message_of_its_own_is_read():
    """As daemons have sent it."""
    given = listing(3)
    (chunk,) = sent(line_tables.to_listing_chunks(given))
    (back,) = line_tables.from_listing_chunks(
        [pb.GetListingResponse(header=chunk.header), pb.GetListingResponse(rows=chunk.rows)]
    )
    same(back, given)
    text = SourceText("a.cl", "text", TextOrigin.MODULE)
    (chunk,) = sent(line_tables.to_source_chunks(text))
    parts = [pb.ReadSourcesResponse(source=chunk.source), pb.ReadSourcesResponse(chunk=chunk.chunk)]
    assert list(line_tables.from_source_chunks(parts)) == [text]


def test_several_come_back_in_order_with_what_has_no_instructions():
    given = [listing(3), listing(0, path="x", problem="not installed", disassembler=""), listing(20, path="")]
    chunks = [chunk for each in given for chunk in line_tables.to_listing_chunks(each)]
    for one, other in zip(line_tables.from_listing_chunks(sent(chunks)), given, strict=True):
        same(one, other)


def test_long_texts_make_small_chunks():
    given = listing(100)
    more = {name: getattr(given, name) for name in ("code", "flow", "targets")}
    long = Listing("", None, "IGA", given.answers, given.size, ["x" * 300_000] * 100, **more)
    chunks = sent(line_tables.to_listing_chunks(long))
    assert max(chunk.ByteSize() for chunk in chunks) < 2_000_000
    (back,) = line_tables.from_listing_chunks(chunks)
    assert back.target is None
    same(back, long)


def test_a_part_comes_back():
    places = ByAddress(ObjectAddress(8)), ByKernel("k", KernelOffset(8)), BySection(2, SectionOffset(8))
    ranges = [SectionRange(section, SectionOffset(0), SectionOffset((1 << 64) - 1)) for section in (".text", 2)]
    for within in (None, "k", "", *ranges, *(Around(place, 3, 5) for place in places)):
        part = ListingPart("a/b", within, "dg2")
        assert line_tables.from_listing_request(line_tables.to_listing_request("a" * 64, part)) == ("a" * 64, part)
        asked = "a" * 64, "a/b", LineLevel.PTX, within
        assert line_tables.from_request(line_tables.to_request(*asked)) == asked
    assert line_tables.from_listing_request(line_tables.to_listing_request("a" * 64, ListingPart())) == (
        "a" * 64,
        ListingPart(),
    )


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"before": 1}, "before"),
        ({"function": "k", "after": 1}, "after"),
        ({"around": Query(address=8), "after": 1_000_001}, "after"),
        ({"around": Query()}, "around"),
        ({"section_range": pb_range(end=8)}, "section_range"),
        ({"section_range": pb_range(section_index=1, start=8, end=8)}, "section_range.end"),
    ],
)
def test_a_part_that_cannot_be_is_blamed_on_its_field(fields, field):
    with pytest.raises(InvalidInput) as refused:
        line_tables.from_listing_request(pb.GetListingRequest(module=f"modules/{'a' * 64}", **fields))
    assert refused.value.metadata["field"] == field


def test_fewer_instructions_than_announced_are_refused():
    chunks = sent(line_tables.to_listing_chunks(listing(2 * line_tables.INSTRUCTIONS)))
    with pytest.raises(Malformed):
        [*line_tables.from_listing_chunks(chunks[:-1])]
    with pytest.raises(Malformed):
        [*line_tables.from_listing_chunks(chunks[1:])]
    for field, value in (("code", b"x"), ("target_counts", b"\x01" * line_tables.INSTRUCTIONS), ("targets", b"x")):
        damaged = sent(chunks)
        setattr(damaged[0].rows, field, value)
        with pytest.raises(Malformed):
            [*line_tables.from_listing_chunks(damaged)]
    chunks[1].rows.texts.pop()
    with pytest.raises(Malformed):
        [*line_tables.from_listing_chunks(chunks)]


def test_source_texts_come_back():
    given = [
        SourceText("a.cl", "é" * 800_000, TextOrigin.DISK, "/src/a.cl", b"0" * 16),
        SourceText("empty.cl", "", TextOrigin.MODULE),
        SourceText("none.cl", md5=b"1" * 16, problem="nobody has it"),
    ]
    chunks = [chunk for each in given for chunk in line_tables.to_source_chunks(each)]
    assert max(chunk.ByteSize() for chunk in chunks) < 2_000_000
    assert list(line_tables.from_source_chunks(sent(chunks))) == given
    assert not [*line_tables.from_source_chunks([])]


def test_origins_have_the_numbers_of_the_wire():
    assert {f"SOURCE_ORIGIN_{each.name}".replace("NONE", "UNSPECIFIED"): int(each) for each in TextOrigin} == dict(
        pb.SourceOrigin.items()
    )
