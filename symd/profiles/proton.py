"""Profiles of Proton, Triton's profiler: hatchet's tree of frames with metrics, as JSON or msgpack, and traces in Chrome's JSON.

Source: triton-lang/triton at 07056fb0, third_party/proton/csrc/lib/Data/TreeData.cpp and TraceData.cpp, and csrc/include/Utility/String.h. A tree is a list: the tree,
then an object of devices. A node has ``frame`` {name, type}, ``metrics`` (the node's own, those of its children not among them) and
``children``. Proton looks PC samples up by itself, in CUPTI or in ROCm's decoder, and keeps no address: frames are called
``file:line@function``, kernels by their names. So there is nothing to look up; ``symd profile --to`` writes it for other viewers. A trace has an object
a line, one for each stream, with ``traceEvents``: complete events (``ph`` X) with ``ts`` and ``dur`` in microseconds and, in ``args``, the ``call_stack``, outermost first,
which begins with ROOT and may lack the event's own ``name``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from symd.errors import Malformed
from symd.formats.containers.amd import bounded_msgpack
from symd.model.answers import Frame
from symd.profiles import json_text
from symd.profiles.format import Options, Symbolized, Tally
from symd.profiles.json_text import JsonCursor
from symd.profiles.profile_budget import MEMBERS_A_RECORD, ProfileBudget
from symd.profiles.resolver import Resolver

NAME = "proton"
_HEAD = re.compile(rb'\s*\[\s*\{\s*"(?:children|frame|metrics)"\s*:')
_NAMED = re.compile(rb'"frame"\s*:\s*\{')
_PACKED = re.compile(rb"[\x91-\x9f][\x82\x83](?:\xa5frame\x82|\xa7metrics|\xa8children)")
"""A short list, in it a map of a node's members."""
_PACKED_FRAME = b"\xa5frame"
_TRACE = re.compile(
    rb'\s*\{\s*"(?:baseTimeNanoseconds"\s*:\s*[0-9]+\s*,\s*"displayTimeUnit|displayTimeUnit|traceEvents)"'
)
_CALL_STACK = re.compile(rb'"call_stack"\s*:\s*\[')
_NO_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[\s*\]')
_PLACED = re.compile(r"(.+):([0-9]{1,18})@(.*)", re.DOTALL)


def claims(data: bytes) -> bool:
    """A list of objects whose first members are a node's, of which one names a frame; or a trace whose events have call stacks."""
    if is_packed(data):
        return True
    return is_trace(data) or bool(_HEAD.match(data[:4096]) and _NAMED.search(data[: 1 << 20]))


def is_packed(data: bytes) -> bool:
    """Whether the bytes look like a tree in msgpack."""
    return bool(_PACKED.match(data[:64])) and _PACKED_FRAME in data[: 1 << 20]


def is_trace(data: bytes) -> bool:
    """Whether the bytes look like a trace."""
    if not _TRACE.match(data[:4096]):
        return False
    return bool(_CALL_STACK.search(data[: 1 << 20]) or (b"baseTime" in data[:4096] and _NO_EVENTS.search(data[:4096])))


def tree(data: bytes, spending: ProfileBudget) -> Any:
    """The list that a tree is. Raises Malformed and LimitExceeded."""
    if is_packed(data):
        spending.read(1 + len(data) // MEMBERS_A_RECORD)
        return bounded_msgpack.unpacked(data, json_text.WHERE)
    text = json_text.decode(data)
    spending.read_json(text, 0, len(text))
    return JsonCursor(text).value()


def events(data: bytes, spending: ProfileBudget) -> Iterator[dict[str, Any]]:
    """The complete events of a trace that have a call stack, and a number for the base of their times as ``base``. Raises Malformed and
    LimitExceeded."""
    text = json_text.decode(data)
    spending.read_json(text, 0, len(text))
    cursor = JsonCursor(text)
    while cursor.space() < len(text):
        document = cursor.value()
        found = document.get("traceEvents") if isinstance(document, dict) else None
        if not isinstance(found, list):
            raise Malformed("a trace has no list 'traceEvents'", where=json_text.WHERE)
        for event in found:
            if isinstance(event, dict) and event.get("ph") == "X":
                yield {**event, "base": document.get("baseTimeNanoseconds")}


def frame_of_name(name: str) -> Frame:
    """The frame that a node's name says."""
    found = _PLACED.fullmatch(name)
    if not found:
        return Frame(name, None, None, 0, 0, inlined=False)
    return Frame(found[3] or None, None, found[1], int(found[2]), 0, inlined=False)


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:  # noqa: ARG001 - there is nothing to look up
    """The profile as it is; the report counts the frames that have lines. Raises Malformed."""
    spending = ProfileBudget(options, len(data))
    if is_trace(data):
        number = sum(1 for _ in events(data, spending))
    else:
        tree(data, spending)
        number = data.count(_PACKED_FRAME) if is_packed(data) else len(_NAMED.findall(data))
    tally = Tally(already=number)
    return Symbolized(
        data, tally.report(NAME, "frames", ("Proton keeps no addresses: its frames stay as it found them",))
    )
