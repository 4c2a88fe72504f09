"""Profiles of Proton, Triton's profiler: hatchet's tree of frames with metrics, as JSON or msgpack, and traces in
Chrome's JSON. They hold no addresses, so nothing is looked up; ``symd profile --to`` writes them for other viewers.

Every node of a tree with metrics of its own is a sample, with the path to it as its stack. Every event of a trace is a
sample, with its own time: the part of its duration that no event inside it covers.

Source: triton-lang/triton at 07056fb0, third_party/proton/csrc/lib/Data/TreeData.cpp and TraceData.cpp, and
csrc/include/Utility/String.h. A tree is a list: the tree, then an object of devices. A node has ``frame`` {name, type},
``metrics`` (the node's own, without those of its children) and ``children``. Proton looks PC samples up itself, in
CUPTI or in ROCm's decoder: frames are called ``file:line@function``, kernels by their names. A trace has an object a
line, one for each stream, with ``traceEvents``: complete events (``ph`` X) with ``ts`` and ``dur`` in microseconds and,
in ``args``, the ``call_stack``, outermost first, which begins with ROOT and may lack the event's own ``name``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from symd.errors import Malformed
from symd.formats.containers.amd import msgpack
from symd.model.answers import Frame
from symd.profiles import json_text
from symd.profiles.profile_format import MEMBERS_A_RECORD, Options, ProfileBudget, Symbolized, Tally
from symd.profiles.resolver import Resolver
from symd.profiles.samples import (
    PROCESSES,
    TIMES,
    AddressTable,
    Sample,
    SampledAddress,
    SampledProfile,
    Task,
    Value,
    ValueType,
    within,
)

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
    """A list of objects whose first members are a node's, of which one names a frame; or a trace whose events have call
    stacks."""
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
        return msgpack.unpacked(data, json_text.WHERE)
    text = json_text.decode(data)
    spending.read_json(text, 0, len(text))
    return json_text.only_value(text)


def events(data: bytes, spending: ProfileBudget) -> Iterator[dict[str, Any]]:
    """The complete events of a trace that have a call stack, and a number for the base of their times as ``base``.
    Raises Malformed and LimitExceeded."""
    text = json_text.decode(data)
    spending.read_json(text, 0, len(text))
    for document in json_text.each_value(text):
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


ROOT = "ROOT"
MICROSECOND = 1000
"""What Proton calls the node above all."""
DEVICES = frozenset({"device_id", "device_type"})
_UNIT = re.compile(r"(.*?) *\(([a-z]+)\)")


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """Every metric that is a number, in nodes below the root; the first in the tree is the first column. Raises
    Malformed."""
    if is_trace(data):
        return _trace(data, spending)
    document = tree(data, spending)
    found = SampledProfile(())
    addresses = AddressTable(found.addresses)
    columns: dict[str, int] = {}
    rows: list[tuple[tuple[int, ...], dict[int, Value]]] = []
    roots = document if isinstance(document, list) else []
    waiting: list[tuple[Any, tuple[int, ...]]] = [(node, ()) for node in reversed(roots) if _is_node(node)]
    while waiting:
        node, above = waiting.pop()
        if not _is_node(node):
            raise Malformed("a child is not a node with a frame", where=json_text.WHERE)
        name = node["frame"].get("name")
        if not isinstance(name, str):
            raise Malformed("a frame has no name", where=json_text.WHERE)
        root = not above and name == ROOT
        stack = above if root else (addresses.number(SampledAddress(name, (frame_of_name(name),))), *above)
        spending.read(len(stack))
        metrics = node.get("metrics")
        values = _values(metrics if isinstance(metrics, dict) else {}, columns)
        if stack and values:
            rows.append((stack, values))
        children = node.get("children")
        waiting += [(child, stack) for child in reversed(children if isinstance(children, list) else [])]
    found.value_types = tuple(map(_value_type, columns)) or (ValueType("samples", "count"),)
    width = range(len(found.value_types))
    spending.read_table(len(rows), len(width))
    found.samples = [Sample(stack, tuple(values.get(at, 0) for at in width)) for stack, values in rows]
    found.notes.append("Proton's tree has no times")
    return found


def _trace(data: bytes, spending: ProfileBudget) -> SampledProfile:
    found = SampledProfile((ValueType("time", "nanoseconds"),), tasks=[])
    addresses = AddressTable(found.addresses)
    tasks: dict[Task, int] = {}
    by_task: dict[int, list[_Event]] = {}
    for event in events(data, spending):
        arguments = event.get("args")
        stack = arguments.get("call_stack") if isinstance(arguments, dict) else None
        name, start, size = event.get("name"), _number(event.get("ts")), _number(event.get("dur"))
        if not isinstance(name, str) or start is None or size is None or size < 0:
            raise Malformed("an event of the trace has no name, time and duration", where=json_text.WHERE)
        names = [each for each in stack if isinstance(each, str)] if isinstance(stack, list) else []
        names = [*names[names[:1] == [ROOT] :], *([] if names[-1:] == [name] else [name])]
        spending.read(len(names))
        base = within(event["base"], TIMES) or 0
        process, thread = (within(event.get(key), PROCESSES) or 0 for key in ("pid", "tid"))
        task = Task(process, thread)
        number = tasks.setdefault(task, len(tasks))
        places = tuple(addresses.number(SampledAddress(each, (frame_of_name(each),))) for each in reversed(names))
        begin = base + round(start * MICROSECOND)
        by_task.setdefault(number, []).append(_Event(begin, -round(size * MICROSECOND), places))
    for number, own in by_task.items():
        found.samples += (Sample(each.stack, (time,), each.begin, number) for each, time in _own_times(own))
    found.tasks = list(tasks) or [Task()]
    found.notes.append("the time of an event is without that of the events inside it")
    return found


class _Event(NamedTuple):
    """An event of a trace: where it begins and its duration, below 0 so that of those that begin together the longest
    comes first; in nanoseconds."""

    begin: int
    less: int
    stack: tuple[int, ...]


def _own_times(events_of_task: list[_Event]) -> list[tuple[_Event, int]]:
    """Each event with its duration less those of the events that lie in it."""
    ordered = sorted(events_of_task)
    own = [-each.less for each in ordered]
    around: list[int] = []
    for number, each in enumerate(ordered):
        while around and ordered[around[-1]].begin - ordered[around[-1]].less < each.begin - each.less:
            around.pop()
        if around:
            own[around[-1]] += each.less
        around.append(number)
    return list(zip(ordered, own, strict=True))


def _is_node(node: Any) -> bool:
    return isinstance(node, dict) and isinstance(node.get("frame"), dict)


def _values(metrics: dict[str, Any], columns: dict[str, int]) -> dict[int, Value]:
    """The values of metrics by column; lists and texts are left out."""
    return {
        columns.setdefault(name, len(columns)): value
        for name, value in metrics.items()
        if _is_number(value) and name not in DEVICES
    }


def _number(value: Any) -> Value | None:
    return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    """One that other formats have: finite, and within 64 bits."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and -TIMES < value < TIMES  # which is false of NaN too


def _value_type(name: str) -> ValueType:
    """``time (ns)`` counts time in ns, ``count`` and ``num_samples`` count."""
    found = _UNIT.fullmatch(name.removesuffix(" (inc)"))
    return ValueType(*found.groups()) if found else ValueType(name.removesuffix(" (inc)"), "count")
