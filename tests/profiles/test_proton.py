"""Proton's tree, and rocpd databases, in which there is nothing to look up."""

from __future__ import annotations

import json

import msgpack
import pytest

from symd import profiles
from symd.errors import Malformed, Unsupported
from symd.profiles.proton import frame_of_name
from tests.profiles.exported import of_folded


def test_the_tree_stays_as_it_is(resolver, sample):
    done = profiles.symbolize(sample("proton.hatchet"), resolver)
    assert done.data is not None
    assert done.data == sample("proton.hatchet")
    assert (done.report.total, done.report.already, done.report.resolved) == (6, 6, 0)


def walk(node, above=()):
    """(stack, metrics) of every node below the root, as the tree says."""
    stack = (*above, node["frame"]["name"])
    yield stack[1:], node["metrics"]
    for child in node["children"]:
        yield from walk(child, stack)


def test_every_node_with_metrics_is_a_sample(sample):
    found = profiles.samples(sample("proton.hatchet"))
    names = [f"{one.name} ({one.unit})" if one.unit == "ns" else one.name for one in found.value_types]
    expected = [
        (stack, {name: value for name, value in metrics.items() if not name.startswith("device")})
        for stack, metrics in walk(json.loads(sample("proton.hatchet"))[0])
        if stack
    ]
    samples = [
        (
            tuple(found.addresses[at].label for at in reversed(one.stack)),
            {name: value for name, value in zip(names, one.values, strict=True) if value},
        )
        for one in found.samples
    ]
    assert samples == expected
    assert dict(zip(names, found.totals(), strict=True)) == {
        "count": 3, "num_samples": 150, "num_stalled_samples": 100, "stalled_long_scoreboard": 80, "stalled_wait": 4,
        "time (ns)": 205824, "flops8": 1.5,
    }  # fmt: skip


def test_lines_of_kernels_are_places_in_other_formats(resolver, sample):
    done = profiles.convert(sample("proton.hatchet"), resolver, "folded", value="num_samples")
    assert of_folded(done.data) == {
        (
            ("main", "/srv/model/run.py", 12),
            ("matmul_kernel", "", 0),
            ("matmul_kernel", "/srv/model/matmul.py", 41),
        ): 120,
        (
            ("main", "/srv/model/run.py", 12),
            ("matmul_kernel", "", 0),
            ("matmul_kernel", "/srv/model/matmul.py", 43),
        ): 30,
    }


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("/a/b.py:12@f", ("f", "/a/b.py", 12)),
        ("C:/a b.py:3@<lambda>", ("<lambda>", "C:/a b.py", 3)),
        ("kernel<4, a::b>", ("kernel<4, a::b>", None, 0)),
        ("a@b.py:3", ("a@b.py:3", None, 0)),
        ("/a/x@y.py:5@g", ("g", "/a/x@y.py", 5)),
    ],
)
def test_names_of_frames(name, frame):
    found = frame_of_name(name)
    assert (found.function, found.file, found.line) == frame


@pytest.mark.parametrize(
    "text", ['[{"frame": {"name": 3}}]', '[{"frame": {"name": "a"}, "children": [3]}]', '[{"frame": {"name": "a"}']
)
def test_damage_is_named(text):
    with pytest.raises(Malformed):
        profiles.samples(text.encode(), name="proton")


def test_a_tree_as_deep_as_json_may_be_is_walked():
    deep = 200
    text = '[{"frame": {"name": "a"}, "metrics": {"count": 1}, "children": ' * deep + "[]" + "}]" * deep
    assert profiles.samples(text.encode()).totals() == (deep,)


def test_a_rocpd_database_is_refused_with_what_to_do(resolver, sample):
    with pytest.raises(Unsupported, match="no PC samples") as caught:
        profiles.symbolize(sample("dispatches.db"), resolver)
    assert "--output-format json" in caught.value.hint


def test_msgpack_has_the_samples_of_the_json(resolver, sample):
    tree = sample("proton.hatchet")
    packed = msgpack.packb(json.loads(tree))
    assert profiles.samples(packed) == profiles.samples(tree)
    done = profiles.symbolize(packed, resolver)
    assert done.data == packed
    assert done.report == profiles.symbolize(tree, resolver).report


def event(name, begin, duration, stack, **more):
    return {"name": name, "ph": "X", "ts": begin, "dur": duration, "args": {"call_stack": stack}, **more}


def trace(*events, **more):
    return json.dumps({"displayTimeUnit": "us", "traceEvents": events, **more}).encode()


def test_events_of_a_trace_are_samples_without_the_time_of_those_inside(resolver):
    """One object for each stream; cycles of a scope in a kernel have the scope's name beside the stack."""
    outer = ["ROOT", "/srv/run.py:12@main"]
    streams = trace(
        event("/srv/run.py:12@main", 0.0, 20.5, outer, tid=1),
        event("matmul", 2.0, 4.25, [*outer, "matmul"], tid=1),
        event("load", 30.0, 1.0, [*outer, "matmul"], tid=1),
    ) + b"\n" + trace(event("matmul", 3.0, 10.0, [*outer, "matmul"], tid=2))  # fmt: skip
    assert of_folded(profiles.convert(streams, resolver, "folded").data) == {
        (("main", "/srv/run.py", 12),): 16250,
        (("main", "/srv/run.py", 12), ("matmul", "", 0)): 14250,
        (("main", "/srv/run.py", 12), ("matmul", "", 0), ("load", "", 0)): 1000,
    }
    found = profiles.samples(streams)
    assert [task.thread for task in found.tasks] == [1, 2]
    assert found.samples[0].time == 0
    assert profiles.symbolize(streams, resolver).report.already == 4


def test_times_of_a_trace_count_from_its_base():
    data = b'{"baseTimeNanoseconds": 1000000, ' + trace(event("k", 1.5, 1.0, ["ROOT"]))[1:]
    assert profiles.samples(data).samples[0].time == 1001500


@pytest.mark.parametrize(
    "data",
    [
        trace(event("k", "soon", 1.0, ["ROOT"])),
        trace(event("k", 1.0, -1.0, ["ROOT"])),
        trace(event("k", 1.0, 1.0, ["ROOT"]))[:-5],
        trace(event("k", 1.0, 1.0, ["ROOT"])) + b"[]",
        msgpack.packb([{"frame": {"name": "a"}, "metrics": {}, "children": []}])[:-1],
    ],
)
def test_damage_to_traces_and_msgpack_is_named(data):
    with pytest.raises(Malformed):
        profiles.samples(data, name="proton")
