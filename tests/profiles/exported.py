"""Exported profiles read by other means than symd's: the totals of every stack, root first, as (function, file, line)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from tests.profiles.messages import Profile

Place = tuple[str, str, int]
Stacks = Counter[tuple[Place, ...]]


def of_pprof(data: bytes, column: int = 0) -> Stacks:
    """Google's protocol buffer runtime; a location without lines is left out."""
    profile = Profile.FromString(data)
    strings = [text.decode() for text in profile.string_table]
    functions = {one.id: (strings[one.name], strings[one.filename]) for one in profile.function}
    places = {
        one.id: [(*functions[line.function_id], line.line) for line in reversed(one.line)] for one in profile.location
    }
    stacks: Stacks = Counter()
    for sample in profile.sample:
        stack = [place for number in reversed(sample.location_id) for place in places[number]]
        stacks[tuple(stack)] += sample.value[column]
    return stacks


def of_speedscope(data: bytes, number: int = 0) -> Stacks:
    document = json.loads(data)
    frames = [(one["name"], one.get("file", ""), one.get("line", 0)) for one in document["shared"]["frames"]]
    profile = document["profiles"][number]
    stacks: Stacks = Counter()
    for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
        stacks[tuple(frames[at] for at in stack)] += weight
    return stacks


def of_firefox(data: bytes, number: int = 0) -> Stacks:
    """As docs-developer/processed-profile-format.md says: a node is a frame and a prefix, a function has a name and a source."""
    document = json.loads(data)
    shared = document["shared"]
    check_tables(document)
    strings, nodes = shared["stringArray"], shared["stackTable"]
    stacks: Stacks = Counter()
    samples = document["threads"][number]["samples"]
    for node, weight in zip(samples["stack"], samples["weight"], strict=True):
        stack: list[Place] = []
        at = node
        while at is not None:
            stack.append(_firefox_place(shared, strings, nodes["frame"][at]))
            at = nodes["prefix"][at]
        stacks[tuple(reversed(stack))] += weight
    return stacks


def _firefox_place(shared: dict[str, Any], strings: list[str], frame: int) -> Place:
    function = shared["frameTable"]["func"][frame]
    source = shared["funcTable"]["source"][function]
    file = "" if source is None else strings[shared["sources"]["filename"][source]]
    return strings[shared["funcTable"]["name"][function]], file, shared["frameTable"]["line"][frame] or 0


REFERS = {
    ("stackTable", "frame"): "frameTable", ("frameTable", "func"): "funcTable", ("funcTable", "source"): "sources",
    ("funcTable", "resource"): "resourceTable", ("frameTable", "nativeSymbol"): "nativeSymbols",
}  # fmt: skip


def check_tables(document: dict[str, Any]) -> None:
    """Every column is as long as its table, every number names a row, every parent stands before its child."""
    shared = document["shared"]
    lengths = {name: shared[name]["length"] for name in shared if name != "stringArray"}
    for name, length in lengths.items():
        assert all(len(column) == length for key, column in shared[name].items() if key != "length"), name
    for (table, column), other in REFERS.items():
        assert all(at is None or -1 <= at < lengths[other] for at in shared[table][column])
    assert all(prefix is None or prefix < at for at, prefix in enumerate(shared["stackTable"]["prefix"]))
    strings = len(shared["stringArray"])
    assert all(at < strings for at in (*shared["funcTable"]["name"], *shared["sources"]["filename"]))
    assert all(0 <= lib < len(document["libs"]) for lib in shared["resourceTable"]["lib"])
    for thread in document["threads"]:
        samples = thread["samples"]
        assert len(samples["stack"]) == len(samples["time"]) == len(samples["weight"]) == samples["length"]
        assert samples["time"] == sorted(samples["time"])


def packets(data: bytes) -> Trace:
    """The trace, which says nothing that the published messages do not have."""
    trace = Trace.FromString(data)
    assert trace.SerializeToString() == data or Trace.FromString(trace.SerializeToString()) == trace
    return trace


def of_perfetto(data: bytes, column: int = 0) -> Stacks:
    """What is interned is looked up as the trace's reader does: by its number, in what came before."""
    names: dict[int, bytes] = {}
    sources: dict[int, bytes] = {}
    frames: dict[int, Place] = {}
    callstacks: dict[int, tuple[int, ...]] = {}
    stacks: Stacks = Counter()
    for packet in packets(data).packet:
        interned = packet.interned_data
        names |= {one.iid: one.str for one in interned.function_names}
        sources |= {one.iid: one.str for one in interned.source_paths}
        for one in interned.frames:
            file = sources[one.source_path_iid].decode() if one.source_path_iid else ""
            frames[one.iid] = (names[one.function_name_id].decode(), file, one.line_number)
        callstacks |= {one.iid: tuple(one.frame_ids) for one in interned.callstacks}
        if packet.HasField("stack_sample"):
            sample = packet.stack_sample
            weights = [sample.primary_weight, *sample.follower_weights]
            stack = callstacks[sample.callstack_iid] if sample.callstack_iid else ()
            stacks[tuple(frames[at] for at in stack)] += weights[column]
    return stacks


def of_folded(data: bytes) -> Stacks:
    """By the signs alone: semicolons, the last blank, ``(file:line)``."""
    stacks: Stacks = Counter()
    for line in data.decode().splitlines():
        stack, _, count = line.rpartition(" ")
        places = []
        for frame in stack.split(";"):
            name, found, place = frame.removesuffix("_[i]").rpartition(" (")
            if not found or not place.endswith(")") or place.startswith("file offset 0x"):
                places.append((frame, "", 0))
            elif place == "no line)":
                places.append((name, "", 0))
            else:
                file, _, number = place.removesuffix(")").rpartition(":")
                places.append((name, file, int(number)))
        stacks[tuple(places)] += float(count) if "." in count else int(count)
    return stacks


READ = {
    "pprof": of_pprof,
    "speedscope": of_speedscope,
    "firefox": of_firefox,
    "perfetto": of_perfetto,
    "folded": of_folded,
}
