"""Messages about breakpoints and names that a daemon should not send, or a client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pytest

from symd.errors import BadQuery, LimitExceeded, Malformed
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress, SectionOffset
from symd.model.breakpoints import (
    Breakpoint,
    BreakpointLocation,
    FunctionName,
    KernelName,
    Located,
    LocationSpec,
    Refusal,
    SourceLine,
)
from symd.model.identities import Digest, ObjectPath
from symd.model.names import Match, NameQuery
from symd.model.sources import PathRule
from symd.model.watches import BreakpointChange, Resolved, WatchEvent, Watching
from symd.rpc.wire.breakpoints import (
    LOCATIONS_TEXT,
    MAX_BREAKPOINT_TEXT,
    MAX_PATH_RULES,
    EventReader,
    WatchRequest,
    check_is_change,
    from_answer,
    from_breakpoint,
    from_change,
    from_start,
    to_breakpoint,
    to_change,
    to_responses,
    to_start,
)
from symd.rpc.wire.modules import from_names_request
from symd.v1 import breakpoint_service_pb2 as pb
from symd.v1 import name_service_pb2

NAME = "modules/" + "0" * 64
LINE = SourceLine("a.cl", 3)


def from_responses(messages: Iterable[pb.WatchResponse], places: Mapping[str, LocationSpec]) -> Iterator[WatchEvent]:
    reader = EventReader(places)
    return (event for message in messages if (event := reader.read(message)) is not None)


def test_a_breakpoint_comes_back_as_it_went() -> None:
    for breakpoint_ in (
        Breakpoint("id", LINE),
        Breakpoint("id", LINE, every_address=True, path="", rules=(PathRule("/a", "/b"), PathRule("", "/c"))),
        Breakpoint("id", SourceLine("a.cl", 3, 7), targets=("gfx90a", "sm_80")),
        Breakpoint("id", FunctionName("ns::f(int)")),
        Breakpoint("id", KernelName("k")),
        Breakpoint("id", ByKernel("k", KernelOffset(16))),
        Breakpoint("id", ByAddress(ObjectAddress(0))),
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

    read(MAX_BREAKPOINT_TEXT)
    with pytest.raises(LimitExceeded) as caught:
        read(MAX_BREAKPOINT_TEXT + 1)
    assert caught.value.metadata == {"limit": "breakpoint_text", "value": str(MAX_BREAKPOINT_TEXT)}


def test_events_come_back_as_they_went() -> None:
    refused = Located(LINE, (), Refusal.AMBIGUOUS_FILE, ("/a/a.cl", "/b/a.cl"))
    past = Located(LINE, (), Refusal.PAST_END, ("/a/a.cl",), 2)
    events = [Resolved("x", "1" * 64, refused), Watching(), Resolved("x", "2" * 64, past)]
    messages = [message for event in events for message in to_responses(event, 0)]
    assert list(from_responses(messages, {"x": LINE})) == events


def test_what_a_client_says_comes_back_as_it_went() -> None:
    request = WatchRequest([Breakpoint("a", LINE, contexts=("cd" * 16,))], ["ab" * 16], ["hip"], True, "0" * 16 + "-3")
    assert from_start(to_start(request)) == request
    change = BreakpointChange((Breakpoint("b", KernelName("k")),), ("a",))
    assert from_change(to_change(change)) == change
    with pytest.raises(BadQuery):
        from_start(to_change(change))
    with pytest.raises(BadQuery):
        check_is_change(to_start(request))
    check_is_change(to_change(change))


@pytest.mark.parametrize("where", [{}, {"function": ""}, {"kernel": ""}, {"address": {}}])
def test_a_breakpoint_needs_a_place(where: dict[str, object]) -> None:
    with pytest.raises(BadQuery):
        from_breakpoint(pb.Breakpoint(**where))  # type: ignore[arg-type] # what it refuses


@pytest.mark.parametrize("line", [0, -1, 1 << 32])
def test_a_line_that_is_none_is_not_sent(line: int) -> None:
    with pytest.raises(BadQuery):
        to_breakpoint(Breakpoint("", SourceLine("a.cl", line)))


@pytest.mark.parametrize("where", [pb.SourceLine(), pb.SourceLine(file="a.cl"), pb.SourceLine(line=3)])
def test_a_breakpoint_needs_file_and_line(where: pb.SourceLine) -> None:
    with pytest.raises(BadQuery):
        from_breakpoint(pb.Breakpoint(line=where))


def test_an_answer_to_what_was_not_asked_is_refused() -> None:
    event = pb.WatchResponse(answer=pb.BreakpointEvent(id="y", module="modules/" + "0" * 64))
    with pytest.raises(Malformed):
        list(from_responses([event], {"x": LINE}))


def test_a_refusal_of_a_later_version_is_refused() -> None:
    with pytest.raises(Malformed):
        from_answer(LINE, [], pb.BreakpointRefusal(refusal=99))  # type: ignore[arg-type] # that is the point


@pytest.mark.parametrize("fields", [{"match": 9}, {"kinds": [0]}, {"kinds": [9]}])
def test_ways_to_match_that_there_are_not_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(BadQuery):
        from_names_request(name_service_pb2.FindNamesRequest(module=NAME, pattern="a", **fields))  # type: ignore[arg-type] # likewise


def test_no_match_is_an_exact_one() -> None:
    request = name_service_pb2.FindNamesRequest(module=NAME, pattern="a", code_object="")
    assert from_names_request(request) == ("0" * 64, NameQuery("a", Match.EXACT), "")


@pytest.mark.parametrize(("letter", "size"), [("p", 1), ("\u4e00", 3)])
def test_an_event_of_long_texts_takes_several_messages(letter: str, size: int) -> None:
    """Every location has its code object's path, which is as long as whoever made the module liked."""
    each = BreakpointLocation(
        ObjectPath(letter * (LOCATIONS_TEXT // 2 // size)),
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
        written = list(to_responses(event, 0))
        assert [len(message.answer.locations) for message in written] == messages
        assert list(from_responses(written, {"id": LINE})) == [event]
