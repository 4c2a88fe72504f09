"""symd record: loads and unloads from lines of JSON into a daemon's context."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import ROOT, Run

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
DUMPED = ROOT / "samples" / "kernels" / "bin" / "vadd" / "igc2-dg2-opt-zebin.vadd.elf"
CONTEXT = {"context": {"host": "node7", "process": 4711, "device": "gfx900", "attributes": {"start_time": "5"}}}


def load(**members: object) -> dict[str, object]:
    return {"load": {"file": str(SHADE), "load_base": 1 << 40, "key": "1", "time": 1000, **members}}


def lines(*objects: object) -> bytes:
    return "".join(each if isinstance(each, str) else json.dumps(each) + "\n" for each in objects).encode()


def test_device_addresses_are_answered_as_of_their_time(symd: Run, server: str) -> None:
    told = symd(
        "record", "--server", server, stdin=lines(CONTEXT, "\n", load(), {"unload": {"key": "1", "time": 2000}})
    )
    context, loaded, unloaded = told.json
    assert (told.code, told.err) == (0, "")
    assert (loaded["key"], unloaded) == ("1", {"key": "1", "unloaded": 2000})
    plain = symd("symbolize", "--json", SHADE, "0x1940").json[0]["frames"]
    asked = [f"{(1 << 40) + 0x1940:#x}@{time}" for time in (500, 1500, 2500)]
    found = symd("symbolize", "--json", "--server", server, "--context", context["context"], *asked).json
    assert [each["reason"] for each in found] == ["UNLOADED", "EXACT", "UNLOADED"]
    assert found[1]["frames"] == plain
    again = symd("record", "--server", server, stdin=lines(CONTEXT, load()))
    assert again.json == [context, loaded]


def test_sections_and_kernels_lie_where_they_are_said_to(symd: Run, server: str) -> None:
    sections = {"load": {"file": str(DUMPED), "sections": {".text.vadd": 0x7000}, "key": "s", "time": 1}}
    kernels = {"load": {"file": str(SHADE), "kernels": {"shade": 0x90000, "clear": 0xA0000}, "key": "k", "time": 1}}
    told = symd("record", "--server", server, stdin=lines(CONTEXT, sections, kernels)).json
    found = symd("symbolize", "--json", "--server", server, "--context", told[0]["context"], "0x7110", "0x90040").json
    assert [each["kernel"] for each in found] == ["vadd", "shade"]
    assert found[0]["frames"] == symd("symbolize", "--json", DUMPED, "vadd+0x110").json[0]["frames"]
    assert found[1]["frames"] == symd("symbolize", "--json", SHADE, "shade+0x40").json[0]["frames"]


def test_what_cannot_be_recorded_is_said_and_the_rest_is_recorded(symd: Run, server: str) -> None:
    stranger = load(file=str(ROOT / "README.md"), key="readme")
    told = symd(
        "record",
        "--server",
        server,
        stdin=lines(CONTEXT, load(file="/nowhere", key="none"), stranger, load(object="no/such"), load(key="good")),
    )
    assert told.code == 1
    assert [sorted(each) for each in told.json[1:]] == [["error", "key"]] * 3 + [["key", "module"]]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("{", "line 2: it is not JSON"),
        ("[1]", "line 2: the line is an object"),
        ({"load": {}, "unload": {}}, "a line has one member"),
        ({"reload": {}}, "a line has one member"),
        ({"load": 5}, "load is an object"),
        ({"load": {"key": "1", "time": 1}}, "load has no file"),
        (load(key=5), "key of load must be a string"),
        (load(time="soon"), "time must be a number"),
        (load(time=True), "time must be a number"),
        (load(load_base=1 << 64), "load_base must be a number"),
        (load(sections=[1]), "sections is an object"),
        (load(colour="red"), "unknown member 'colour'"),
        ({"context": {"address_bits": 12}}, "addresses of 12 bits are not known"),
    ],
)
def test_a_line_that_is_none_is_named_by_its_number(symd: Run, server: str, wrong: object, sentence: str) -> None:
    text = wrong + "\n" if isinstance(wrong, str) else wrong
    done = symd("record", "--server", server, stdin=lines(CONTEXT, text))
    assert done.code == 2
    assert sentence in done.err
    assert "line 2" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_context_comes_first(symd: Run, server: str) -> None:
    done = symd("record", "--server", server, stdin=lines(load()))
    assert (done.code, "no line before this one names a context" in done.err) == (2, True)
