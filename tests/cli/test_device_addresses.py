"""symd variables and symd listing with --context: what is at a device address, beside what the module itself has there."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.conftest import ROOT, Outcome, Run
from tests.tools import output, require

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
VADD = ROOT / "samples" / "kernels" / "bin" / "vadd" / "skl-O0.dbg"
BASE, VADD_BASE = 1 << 40, 0x7000_0000
CONTEXT = {"context": {"host": "node7", "process": 4711, "device": "gfx900", "clock": "CLOCK_BOOTTIME"}}
SHADE_LOADED = {"load": {"file": str(SHADE), "load_base": BASE, "key": "1", "time": 1000}}
VADD_LOADED = {"load": {"file": str(VADD), "kernels": {"vadd": VADD_BASE}, "key": "2", "time": 1000}}


@pytest.fixture
def asked(symd: Run, run: Run, server: str) -> Run:
    """Asks a verb in the context of a program that loaded two modules, of which one is gone since."""
    gone = {"unload": {"key": "1", "time": 2000}}
    lines = "".join(f"{json.dumps(each)}\n" for each in (CONTEXT, SHADE_LOADED, VADD_LOADED, gone))
    told = symd("record", "--server", server, stdin=lines.encode())
    assert (told.code, told.err) == (0, "")
    name = told.json[0]["context"]

    def ask(verb: object, *arguments: object) -> Outcome:
        return run(verb, "--server", server, "--context", name, *arguments)

    return ask


def test_variables_at_a_device_address_are_those_of_the_modules_place(run: Run, asked: Run) -> None:
    address = VADD_BASE + 0x1B0
    plain, found = run("variables", "--json", VADD, "vadd+0x1b0"), asked("variables", "--json", hex(address))
    assert (found.code, found.err) == (0, "")
    module = asked("symbolize", "--json", hex(address)).json[0]["module"]
    assert {each["name"] for each in found.json} == {"a", "b", "sum", "count", "i"}
    more = {"device_address": address, "time": None, "module": module}
    assert found.json == [each | more for each in plain.json]
    text = asked("variables", hex(address)).out.splitlines()
    assert text[0] == f"{address:#x}: in {module}"
    assert text[1:] == run("variables", VADD, "vadd+0x1b0").out.splitlines()


def test_instructions_around_a_device_address_are_at_device_addresses(asked: Run) -> None:
    text = output(require("llvm-objdump"), "-d", "--start-address=0x1940", "--stop-address=0x1960", SHADE)
    wanted = [BASE + int(each, 16) for each in re.findall(r"// ([0-9A-F]{12}):", text)][:3]
    place = (f"{BASE + 0x1940:#x}@1500", "--before", 0, "--after", 2)
    found = asked("listing", "--json", "--around", *place)
    assert (found.code, found.err) == (0, "")
    assert [each["device_address"] for each in found.json] == wanted
    assert [each["address"] for each in found.json] == [each - BASE for each in wanted]
    (module,) = {each["module"] for each in found.json}
    shown = asked("listing", *place).out  # as PLACE, without its option
    assert shown.startswith(f"{module}  ")
    assert [int(each, 16) for each in re.findall(r"^ {5}(?:=>|  ) (0x\w+)  ", shown, re.MULTILINE)] == wanted
    assert re.findall(r"=> (\w+)", shown) == [hex(wanted[0])]


@pytest.mark.parametrize(("address", "reason"), [(hex(BASE + 0x1940), "UNLOADED"), ("0x10", "OUTSIDE_TEXT")])
def test_where_nothing_is_loaded_the_next_step_is_what_was_where(asked: Run, address: str, reason: str) -> None:
    for verb, option in (("variables", ()), ("listing", ("--around",))):
        found = asked(verb, *option, address)
        assert (found.code, f"[{reason}]" in found.out + found.err) == (1, True)
        (call,) = re.findall(
            r"symd daemon contexts --server \S+ [0-9a-f]{8}(?= shows what was loaded where)", found.err
        )
        assert call
    (refused,) = asked("variables", "--json", address).json
    assert [refused[key] for key in ("query", "reason", "module")] == [address, reason, None]


def test_the_time_says_which_load_is_meant_and_ranges_of_code_are_where_it_was(run: Run, asked: Run) -> None:
    address = hex(BASE + 0x1940)
    plain = run("variables", SHADE, "0x1940").out
    there = re.sub(r"(?<= )0x(\w+)\.\.0x(\w+)", lambda pair: "..".join(hex(BASE + int(each, 16)) for each in pair.groups()), plain)  # fmt: skip
    assert there != plain
    for options in ((address, "--time", 1500), (f"{address}@1500",)):
        found = asked("variables", *options)
        assert (found.code, found.out.partition("\n")[2]) == (0, there)


def test_what_is_no_call_about_a_device_address_is_refused(asked: Run) -> None:
    for call in (
        ("variables",),
        ("variables", "k.co", "0x10"),
        ("variables", "--object", "", "0x10"),
        ("variables", "vadd+0x10"),
        ("listing",),
        ("listing", "k.co", "--around", "0x10"),
        ("listing", "--around", "0x10", "--start-address", "0"),
        ("listing", "--around", "vadd"),
    ):
        found = asked(*call)
        is_said = "device address" in found.err or "--context" in found.err
        assert (found.code, found.out, is_said) == (2, "", True), call


def test_without_an_address_it_is_said_that_one_is_needed(run: Run, asked: Run) -> None:
    assert asked("symbolize").err.startswith("symd: give device addresses")
    for call in (("symbolize",), ("variables",), ("listing",)):
        assert "Missing argument 'FILE'" in run(*call).err
    assert "Missing argument 'QUERY'" in run("variables", VADD).err
    for call in (("variables", VADD, "0x10"), ("listing", VADD)):
        found = run(*call, "--time", 3)
        assert (found.code, "it needs --context" in found.err) == (2, True)


def test_an_unknown_context_and_no_daemon_are_said(run: Run, asked: Run, server: str) -> None:
    for call in (("variables", "0x10"), ("listing", "--around", "0x10")):
        unknown = run(*call, "--server", server, "--context", "f" * 8)
        assert (unknown.code, "symd daemon contexts lists them" in unknown.err) == (1, True)
        absent = run(*call, "--server", "unix:/nowhere/symd.sock", "--context", "3f2a")
        assert (absent.code, "no daemon is running" in absent.err) == (3, True)
