"""Symbolication v5, sources and instructions, as samply's API.md and Tecken's page have the requests."""

from __future__ import annotations

import re
import shutil

import pytest

from symd import debug_ids
from tests.tools import output, require
from tests.web.daemon import SAMPLES, Web, web_daemon
from tests.web.real_debuginfod import linked

PROFILER = "https://profiler.firefox.com"
VADD = SAMPLES / "kernels" / "bin" / "vadd" / "igc2-dg2-opt.zebin"
UNLINKED = SAMPLES / "kernels" / "bin" / "filters" / "dg2-opt.dbg"


@pytest.fixture(scope="module")
def shade(tmp_path_factory):
    return linked(tmp_path_factory.mktemp("linked"))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, shade):
    folder = tmp_path_factory.mktemp("daemon")
    with web_daemon(folder, "--map", f"/src={folder}/src") as web:
        shutil.copy(SAMPLES / "amdgpu" / "src" / "shade.cl", folder / "src" / "shade.cl")
        web.add(shade[0], VADD, UNLINKED)
        yield web


def breakpad(hexadecimal: str) -> str:
    """The debug ID that Breakpad's documentation makes of an ELF build ID: a GUID of its first 16 bytes, of which a 32-bit field and two 16-bit ones
    are little-endian, then the age 0."""
    first = re.fullmatch(r"(..)(..)(..)(..)(..)(..)(..)(..)(.{16}).*", hexadecimal)
    a, b, c, d, e, f, g, h, rest = first.groups()
    return f"{d}{c}{b}{a}{f}{e}{h}{g}{rest}0".upper()


def test_a_debug_id_is_breakpads() -> None:
    """The pair stands in the documentation of dump_syms: MODULE and INFO CODE_ID of one file."""
    code_id, module = "B060AD20C6B47781552708AA192E7739FAC7C84A", "20AD60B0B4C68177552708AA192E77390"
    assert debug_ids.debug_id(code_id) == module == breakpad(code_id)
    assert debug_ids.beginning_of(module) == code_id[:32].lower()
    assert debug_ids.debug_id("ab") == breakpad("ab".ljust(32, "0"))


def addr2line(file, *addresses: int) -> list[list[tuple[str, str, int]]]:
    """Frames of each address by llvm-symbolizer, innermost first."""
    text = output(
        require("llvm-symbolizer"), "--obj", file, *map(hex, addresses), "--output-style=GNU", "-f", "-i", "-p"
    )
    found = []
    for line in text.splitlines():
        name, place = re.fullmatch(r"(?: \(inlined by\) )?(.+) at (.+?)(?: \(discriminator \d+\))?", line).groups()
        file_name, _, number = place.rpartition(":")
        if not line.startswith(" (inlined by)"):
            found.append([])
        found[-1].append((name, file_name, int(number)))
    return found


def test_a_request_of_the_documentation_is_answered_as_llvm_symbolizer_would(daemon: Web, shade) -> None:
    file, name = shade
    addresses = [0x1998, 0x1940, 0x1914, 0x1A08, 0x1810, 0x1820]
    request = {
        "jobs": [
            {
                "memoryMap": [["shade.co", breakpad(name)], ["libc.so.6", "627B03B886604653802321DD2256B8AD0"]],
                "stacks": [[[0, address] for address in addresses], [[1, 1716093], [0, 16]]],
            }
        ]
    }
    [result] = daemon.json("symbolicate/v5", request)["results"]
    assert result["found_modules"] == {
        f"shade.co/{breakpad(name)}": True,
        "libc.so.6/627B03B886604653802321DD2256B8AD0": False,
    }
    first, second = result["stacks"]
    functions = symbols_of(file)
    for number, (frame, expected) in enumerate(zip(first, addr2line(file, *addresses), strict=True)):
        assert (frame["frame"], frame["module"], frame["module_offset"]) == (number, "shade.co", hex(addresses[number]))
        told = [(each["function"], each["file"], each.get("line", 0)) for each in (*frame.get("inlines", []), frame)]
        assert told == expected
        begin, size = functions[frame["function"]]
        assert int(frame["function_offset"], 16) == addresses[number] - begin
        assert int(frame["function_size"], 16) == size
    assert any("inlines" in frame for frame in first)
    assert second == [
        {"frame": 0, "module": "libc.so.6", "module_offset": "0x1a2f7d"},
        {"frame": 1, "module": "shade.co", "module_offset": "0x10"},
    ]


def symbols_of(file) -> dict[str, tuple[int, int]]:
    """Address and size of each function by readelf."""
    rows = re.findall(r"\d+: ([0-9a-f]+)\s+(\d+) FUNC\s+\w+\s+\w+\s+\w+ (\S+)", output(require("readelf"), "-sW", file))
    return {name: (int(address, 16), int(size)) for address, size, name in rows}


def test_a_request_may_be_one_job_without_a_list(daemon: Web, shade) -> None:
    job = {"memoryMap": [["shade.co", breakpad(shade[1])]], "stacks": [[[0, 0x1940]]]}
    assert daemon.json("symbolicate/v5", job) == daemon.json("symbolicate/v5", {"jobs": [job]})


def test_code_without_a_build_id_is_known_by_its_digest(daemon: Web) -> None:
    [digest] = daemon.add(VADD)
    for identity in (breakpad(digest), digest):
        job = {"memoryMap": [["vadd", identity]], "stacks": [[[0, 0x110]]]}
        [[frame]] = daemon.json("symbolicate/v5", job)["results"][0]["stacks"]
        assert (frame["function"], frame["function_offset"]) == ("vadd", "0x110")


def test_an_address_that_several_code_objects_may_mean_has_no_symbol_and_each_of_them_has_an_id(daemon: Web) -> None:
    from symd import Client  # noqa: PLC0415

    [digest] = daemon.add(UNLINKED)
    with Client(daemon.address) as client:
        inside = [item for item in client.module(digest).objects if item.kernels]
    assert len(inside) > 1
    identities = [digest, *(item.sha256 for item in inside)]
    job = {
        "memoryMap": [["m", breakpad(each)] for each in identities],
        "stacks": [[[n, 0x40] for n in range(len(identities))]],
    }
    [frames] = daemon.json("symbolicate/v5", job)["results"][0]["stacks"]
    assert "function" not in frames[0]
    assert [frame["function"] for frame in frames[1:]] == [item.kernels[0].name for item in inside]


def test_source_is_given_of_files_that_the_address_comes_from(daemon: Web, shade) -> None:
    wanted = {"debugName": "shade.co", "debugId": breakpad(shade[1]), "moduleOffset": "0x1940", "file": "/src/shade.cl"}
    text = (SAMPLES / "amdgpu" / "src" / "shade.cl").read_text()
    assert daemon.json("source/v1", wanted) == {
        "symbolsLastModified": None,
        "sourceLastModified": None,
        "file": "/src/shade.cl",
        "source": text,
    }
    for other in ({"file": "/etc/passwd"}, {"file": "shade.cl"}, {"moduleOffset": "0x10"}, {"debugId": "0" * 33}):
        assert list(daemon.json("source/v1", wanted | other)) == ["error"]


def test_instructions_are_those_of_the_range(daemon: Web, shade) -> None:
    require("llvm-objdump")
    file, name = shade
    wanted = {"name": "shade.co", "codeId": name, "startAddress": "0x1940", "size": "0x20"}
    found = daemon.json("asm/v1", wanted)
    assert (found["startAddress"], found["arch"], len(found["syntax"])) == ("0x1940", "gfx900", 1)
    text = output(require("llvm-objdump"), "-d", "--start-address=0x1940", "--stop-address=0x1960", file)
    listed = [int(each, 16) - 0x1940 for each in re.findall(r"// ([0-9A-F]{12}):", text)]
    assert [offset for offset, _ in found["instructions"]] == listed
    assert found["instructions"][0][1].split()[0] in text
    assert daemon.json("asm/v1", {**wanted, "codeId": "", "debugId": breakpad(name)}) == found
    begin, size = symbols_of(file)["shade"]
    whole = daemon.json("asm/v1", {**wanted, "continueUntilFunctionEnd": True})
    assert int(whole["size"], 16) == begin + size - 0x1940
    assert list(daemon.json("asm/v1", wanted | {"startAddress": "0x10"})) == ["error"]
    assert list(daemon.json("asm/v1", wanted | {"codeId": "00" * 20})) == ["error"]


def test_the_firefox_profiler_may_read_the_answer_and_other_pages_may_not(daemon: Web, shade) -> None:
    job = {"memoryMap": [["shade.co", breakpad(shade[1])]], "stacks": [[[0, 0x1940]]]}
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    private = {"access-control-request-private-network": "true"}
    status, headers, _ = daemon.ask("symbolicate/v5", headers={"origin": PROFILER, **asks, **private}, method="OPTIONS")
    assert status in (200, 204)
    assert headers["access-control-allow-origin"] == PROFILER
    assert "POST" in headers["access-control-allow-methods"]
    assert headers["access-control-allow-private-network"] == "true"
    status, headers, _ = daemon.ask("symbolicate/v5", job, {"origin": PROFILER})
    assert (status, headers["access-control-allow-origin"]) == (200, PROFILER)
    status, headers, _ = daemon.ask(
        "symbolicate/v5", headers={"origin": "https://evil.example", **asks, **private}, method="OPTIONS"
    )
    assert headers["access-control-allow-origin"] is None
    assert headers["access-control-allow-private-network"] is None
    status, headers, _ = daemon.ask("symbolicate/v5", job, {"origin": "https://evil.example"})
    assert (status, headers["access-control-allow-origin"]) == (403, None)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"[" * 100_000,
        {},
        {"jobs": {}},
        {"jobs": [5]},
        {"memoryMap": [["a"]], "stacks": []},
        {"memoryMap": [["a", 5]], "stacks": []},
        {"memoryMap": [], "stacks": [[[0, 1]]]},
        {"memoryMap": [["a", "b"]], "stacks": [[[0]]]},
        {"memoryMap": [["a", "b"]], "stacks": [[[0, -1]]]},
        {"memoryMap": [["a", "b"]], "stacks": [[[0, 1 << 64]]]},
        {"memoryMap": [["a", "b"]], "stacks": [[[0, 1.5]]]},
        {"memoryMap": [["a", "b"]], "stacks": [[[True, 1]]]},
    ],
)
def test_what_is_no_request_is_refused(daemon: Web, body: object) -> None:
    assert daemon.ask("symbolicate/v5", body)[0] == 400


def test_so_much_is_not_answered(daemon: Web) -> None:
    job = {"memoryMap": [["a", "0" * 33]], "stacks": []}
    assert daemon.ask("symbolicate/v5", {"jobs": [job] * 11})[0] == 429
    assert daemon.ask("symbolicate/v5", b"x" * ((16 << 20) + 1))[0] in (413, 429)


def test_an_id_that_is_none_is_an_error_of_its_module_alone(daemon: Web, shade) -> None:
    job = {"memoryMap": [["a", "no id"], ["shade.co", breakpad(shade[1])]], "stacks": [[[0, 1], [1, 0x1940]]]}
    [result] = daemon.json("symbolicate/v5", job)["results"]
    assert result["stacks"][0][1]["function"] == "shade"
    assert result["module_errors"]["a/no id"][0]["name"] == "BAD_QUERY"
