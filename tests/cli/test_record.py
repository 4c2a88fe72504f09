"""symd record: loads and unloads from lines of JSON into a daemon's context."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import ROOT, Run

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
DEBUG = ROOT / "samples" / "kernels" / "bin" / "filters" / "dg2-opt.dbg"
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


WRONG_LOADS = [
    ({"load": 5}, None, "load is an object"),
    ({"load": {"key": "1", "time": 1}}, "1", "load has no file"),
    ({"load": {"file": "k.co", "time": 1}}, None, "load has no key"),
    ({"load": {"file": str(SHADE), "key": "1"}}, "1", "load has no time"),
    ({"unload": {"key": "1"}}, "1", "unload has no time"),
    (load(key=5), None, "key of load must be a string"),
    (load(time="soon"), "1", "time must be a number"),
    (load(time=True), "1", "time must be a number"),
    (load(load_base=1 << 64), "1", "load_base must be a number"),
    (load(sections=[1]), "1", "sections is an object"),
    (load(colour="red"), "1", "unknown member 'colour'"),
    (
        load(file=str(DEBUG)),
        "1",
        'name the code object that was loaded, such as "smooth", the object of symd daemon record',
    ),
]


def test_a_load_or_unload_that_is_wrong_gets_its_error_and_the_others_count(symd: Run, server: str) -> None:
    """The driver's debug data of two kernels has a code object for each, which both begin at address 0."""
    told = symd(
        "record", "--server", server, stdin=lines(CONTEXT, *(each for each, _, _ in WRONG_LOADS), load(key="good"))
    )
    assert (told.code, told.err) == (1, "")
    _, *failed, good = told.json
    assert (good["key"], sorted(good)) == ("good", ["key", "module"])
    assert [each["key"] for each in failed] == [key for _, key, _ in WRONG_LOADS]
    for number, (each, (_, _, sentence)) in enumerate(zip(failed, WRONG_LOADS, strict=True), 2):
        assert each["error"].startswith(f"line {number}: ")
        assert sentence in each["error"]


def test_a_context_comes_first(symd: Run, server: str) -> None:
    done = symd("record", "--server", server, stdin=lines(load()))
    assert (done.code, "no line before this one names a context" in done.err) == (2, True)
