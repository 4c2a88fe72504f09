"""An error in one of many messages of a request blames the field by its path, with the message's number."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from symd.errors import BadQuery, InvalidInput
from symd.model.breakpoints import Breakpoint, SourceLine, checked_breakpoints
from symd.rpc.wire import breakpoints, contexts, variables
from symd.v1 import alias_service_pb2, breakpoint_service_pb2, context_pb2, context_service_pb2, query_pb2
from symd.v1.variable_service_pb2 import GetVariablesRequest

NAME = "modules/" + "0" * 64
GOOD = breakpoint_service_pb2.PendingBreakpoint(id="1", breakpoint=breakpoint_service_pb2.Breakpoint(function="f"))
NOWHERE = breakpoint_service_pb2.PendingBreakpoint(id="2")
LINELESS = breakpoint_service_pb2.PendingBreakpoint(
    id="3", breakpoint=breakpoint_service_pb2.Breakpoint(line=breakpoint_service_pb2.SourceLine(file="a.cl"))
)
LOAD = context_pb2.MapEvent(load=context_pb2.Load(module=NAME))
PLACELESS = context_pb2.MapEvent(load=context_pb2.Load(module=NAME, segments=[context_pb2.Segment()]))


def started(*pending: breakpoint_service_pb2.PendingBreakpoint) -> object:
    start = breakpoint_service_pb2.WatchStart(breakpoints=pending)
    return breakpoints.from_start(breakpoint_service_pb2.WatchRequest(start=start))


def changed(*pending: breakpoint_service_pb2.PendingBreakpoint) -> object:
    change = breakpoint_service_pb2.BreakpointChange(add=pending)
    return breakpoints.from_change(breakpoint_service_pb2.WatchRequest(change=change))


def recorded(*events: context_pb2.MapEvent) -> object:
    name = "contexts/" + "0" * 32
    return contexts.from_record_request(context_service_pb2.RecordEventsRequest(context=name, events=events))


def aliased() -> object:
    aliases = [alias_service_pb2.Alias(module=NAME), alias_service_pb2.Alias(module="x")]
    return contexts.from_create_request(alias_service_pb2.CreateAliasesRequest(aliases=aliases))


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        (lambda: started(GOOD, NOWHERE), "start.breakpoints[1].breakpoint.where"),
        (lambda: changed(LINELESS), "change.add[0].breakpoint.line.line"),
        (lambda: recorded(LOAD, LOAD, context_pb2.MapEvent()), "events[2].kind"),
        (lambda: recorded(LOAD, context_pb2.MapEvent(load=context_pb2.Load())), "events[1].load.module"),
        (lambda: recorded(PLACELESS), "events[0].load.segments.start"),
        (aliased, "aliases[1].module"),
        (
            lambda: variables.from_request(
                GetVariablesRequest(module=NAME, queries=[query_pb2.Query(address=1), query_pb2.Query()])
            ),
            "queries[1]",
        ),
    ],
)
def test_the_message_is_named_by_its_number(ask: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ask()
    assert caught.value.metadata["field"] == field


def test_an_id_that_two_breakpoints_have_is_said() -> None:
    where = SourceLine("a.cl", 1)
    with pytest.raises(BadQuery, match="two breakpoints have the id 'twice'"):
        checked_breakpoints([Breakpoint(each, where) for each in ("once", "twice", "twice")])
    with pytest.raises(BadQuery, match="two breakpoints have the id 'there'"):
        checked_breakpoints([Breakpoint("there", where)], ["there"])
