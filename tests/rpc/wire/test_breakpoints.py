"""Messages about breakpoints and names that a daemon should not send, or a client."""

from __future__ import annotations

import pytest

from symd.errors import BadQuery, LimitExceeded, Malformed
from symd.model.addresses import ObjectAddress, SectionOffset
from symd.model.breakpoints import Breakpoint, BreakpointLocation, Located, Refusal, SourceLine
from symd.model.identities import Digest, ObjectPath
from symd.model.names import Match, NameQuery
from symd.model.sources import PathRule
from symd.model.watches import Resolved, Watching
from symd.rpc.wire.breakpoints import (
    LOCATIONS_TEXT,
    MAX_PATH_RULES,
    MAX_TEXT,
    from_answer,
    from_breakpoint,
    from_events,
    to_breakpoint,
    to_events,
)
from symd.rpc.wire.names import from_request
from symd.v1 import breakpoint_service_pb2 as pb
from symd.v1 import name_service_pb2

NAME = "modules/" + "0" * 64
LINE = SourceLine("a.cl", 3)


def test_a_breakpoint_comes_back_as_it_went() -> None:
    for breakpoint_ in (
        Breakpoint("id", LINE),
        Breakpoint("id", LINE, every_address=True, path="", rules=(PathRule("/a", "/b"), PathRule("", "/c"))),
    ):
        assert from_breakpoint(to_breakpoint(breakpoint_), "id") == breakpoint_


def test_path_rules_are_bounded_by_name() -> None:
    rules = (PathRule("/a", "/b"),) * MAX_PATH_RULES
    assert from_breakpoint(to_breakpoint(Breakpoint("id", LINE, rules=rules)), "id").rules == rules
    with pytest.raises(LimitExceeded) as caught:
        from_breakpoint(to_breakpoint(Breakpoint("id", LINE, rules=(*rules, PathRule("/a", "/b")))))
    assert caught.value.metadata["limit"] == "path_rules"


@pytest.mark.parametrize("long", ["name", "file", "path", "prefix", "here"])
def test_texts_are_bounded_by_name(long: str) -> None:
    """Each holds as much memory as it has characters, for as long as a watch."""

    def read(characters: int) -> None:
        given = {"name": "id", "file": "a.cl", "path": "", "prefix": "", "here": ""} | {long: "é" * characters}
        rules = (PathRule(given["prefix"], given["here"]),)
        asked = Breakpoint(given["name"], SourceLine(given["file"], 3), path=given["path"], rules=rules)
        assert from_breakpoint(to_breakpoint(asked), given["name"]) == asked

    read(MAX_TEXT)
    with pytest.raises(LimitExceeded) as caught:
        read(MAX_TEXT + 1)
    assert caught.value.metadata == {"limit": "breakpoint_text", "value": str(MAX_TEXT)}


def test_events_come_back_as_they_went() -> None:
    refused = Located(LINE, (), Refusal.AMBIGUOUS_FILE, ("/a/a.cl", "/b/a.cl"))
    past = Located(LINE, (), Refusal.PAST_END, ("/a/a.cl",), 2)
    events = [Resolved("x", "1" * 64, refused), Watching(), Resolved("x", "2" * 64, past)]
    messages = [message for event in events for message in to_events(event)]
    assert list(from_events(messages, {"x": LINE})) == events


@pytest.mark.parametrize("line", [0, -1, 1 << 32])
def test_a_line_that_is_none_is_not_sent(line: int) -> None:
    with pytest.raises(BadQuery):
        to_breakpoint(Breakpoint("", SourceLine("a.cl", line)))


@pytest.mark.parametrize("where", [pb.SourceLine(), pb.SourceLine(file="a.cl"), pb.SourceLine(line=3)])
def test_a_breakpoint_needs_file_and_line(where: pb.SourceLine) -> None:
    with pytest.raises(BadQuery):
        from_breakpoint(pb.Breakpoint(line=where))


def test_an_answer_to_what_was_not_asked_is_refused() -> None:
    event = pb.WatchBreakpointsResponse(answer=pb.BreakpointEvent(id="y", module="modules/" + "0" * 64))
    with pytest.raises(Malformed):
        list(from_events([event], {"x": LINE}))


def test_a_refusal_of_a_later_version_is_refused() -> None:
    with pytest.raises(Malformed):
        from_answer(LINE, [], pb.BreakpointRefusal(refusal=99))  # type: ignore[arg-type] # that is the point


@pytest.mark.parametrize("fields", [{"match": 9}, {"kinds": [0]}, {"kinds": [9]}])
def test_ways_to_match_that_there_are_not_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(BadQuery):
        from_request(name_service_pb2.FindNamesRequest(name=NAME, pattern="a", **fields))  # type: ignore[arg-type] # likewise


def test_no_match_is_an_exact_one() -> None:
    request = name_service_pb2.FindNamesRequest(name=NAME, pattern="a", path="")
    assert from_request(request) == ("0" * 64, NameQuery("a", Match.EXACT), "")


def test_an_event_of_long_texts_takes_several_messages() -> None:
    """Every location has its code object's path, which is as long as whoever made the module liked."""
    each = BreakpointLocation(
        ObjectPath("p" * (LOCATIONS_TEXT // 2)),
        "k",
        "f",
        ".text",
        1,
        SectionOffset(0),
        ObjectAddress(0),
        "a.cl",
        3,
        0,
        False,
        False,
    )
    for count, messages in ((1, [1]), (2, [2]), (5, [2, 2, 1])):
        event = Resolved("id", Digest("ab" * 32), Located(LINE, (each,) * count), None, "9")
        written = list(to_events(event))
        assert [len(message.answer.locations) for message in written] == messages
        assert list(from_events(written, {"id": LINE})) == [event]
