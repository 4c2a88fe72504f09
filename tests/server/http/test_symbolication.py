"""Symbolication v5, sources and instructions, as samply's API.md and Tecken's page have the requests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from symd import profiles
from symd.config import Limits
from symd.engine.engine import Engine
from symd.formats import debug_ids
from symd.model.contexts import Alias
from symd.profiles import NamedModule, Resolver
from symd.store import Store
from tests.profiles import messages
from tests.server.http.daemon import SAMPLES, Web, web_daemon
from tests.server.http.real_debuginfod import linked
from tests.tools import output, require

PROFILER = "https://profiler.firefox.com"
VADD = SAMPLES / "kernels" / "bin" / "vadd" / "igc2-dg2-opt.zebin"
FILTERS = SAMPLES / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin"
BODIES = SAMPLES / "kernels" / "bin" / "bodies" / "igc2-dg2-opt.zebin"
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


@pytest.mark.parametrize("told", ["8765432100000000" + "0" * 16, "8765432200", "8765432300000000"])
def test_a_build_id_that_somebody_told_has_a_debug_id_too(daemon: Web, told: str) -> None:
    """As Parca's agent tells the CRC of a cubin."""
    from symd import Client  # noqa: PLC0415

    [digest] = daemon.add(VADD)
    with Client(daemon.address) as client:
        client.aliases.add([Alias("build-id", told, digest)])
    job = {"memoryMap": [["vadd", breakpad(told.ljust(32, "0"))]], "stacks": [[[0, 0x110]]]}
    [[frame]] = daemon.json("symbolicate/v5", job)["results"][0]["stacks"]
    assert frame["function"] == "vadd"


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


def firefox_profile(profile: bytes, *modules: Path) -> dict[str, Any]:
    """The profile as ``symd profile --to firefox`` writes it."""
    limits = Limits()
    with Engine(Store.temporary(limits), limits) as engine:
        named = [NamedModule(engine.add(path.read_bytes(), str(path)).sha256, str(path)) for path in modules]
        document = json.loads(profiles.convert(profile, Resolver(engine, named), "firefox").data)
    return dict(document)


def asked_as_the_page_asks(document: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """The request for the frames of a Firefox profile that have an address, and their numbers."""
    shared = document["shared"]
    frames, resources = shared["frameTable"], shared["resourceTable"]
    numbers = [
        at
        for at, (address, depth) in enumerate(zip(frames["address"], frames["inlineDepth"], strict=True))
        if address >= 0 and not depth
    ]
    libraries = [resources["lib"][shared["funcTable"]["resource"][frames["func"][at]]] for at in numbers]
    memory_map = [[one["debugName"], one["breakpadId"]] for one in document["libs"]]
    stack = [[library, frames["address"][at]] for library, at in zip(libraries, numbers, strict=True)]
    return {"memoryMap": memory_map, "stacks": [stack]}, numbers


def pprof_profile(
    addresses: Sequence[int], name: str = "", build_id: str = "", start: int = 0, offset: int = 0
) -> bytes:
    """A sample at each address, in one mapping."""
    strings = ["", "samples", "count", name, build_id]
    profile = messages.Profile()
    profile.string_table.extend(text.encode() for text in strings)
    profile.sample_type.add(type=1, unit=2)
    profile.mapping.add(
        id=1, memory_start=start, memory_limit=start + 0x10000, file_offset=offset, filename=3, build_id=4
    )
    for number, address in enumerate(addresses, 1):
        profile.location.add(id=number, mapping_id=1, address=address)
        profile.sample.add(location_id=[number], value=[number])
    return bytes(profile.SerializeToString())


def test_the_libraries_of_an_exported_firefox_profile_are_known_here(daemon: Web, shade) -> None:
    """What it shows of a code object is what a symbol server says of the library and the address that it names; the mapping begins at the segment of
    the code, which readelf says lies elsewhere in the file than in memory."""
    file, name = shade
    [(offset, address)] = re.findall(r"LOAD\s+0x(\w+) 0x(\w+) .*R E", output(require("readelf"), "-lW", file))
    start = 0x7F0000000000
    addresses = [0x1998, 0x1940, 0x1914, 0x1A08]
    mapped = [start + each - int(address, 16) for each in addresses]
    document = firefox_profile(pprof_profile(mapped, "/tmp/shade.co", name, start, int(offset, 16)), file)
    assert document["meta"]["symbolicated"] is True
    request, numbers = asked_as_the_page_asks(document)
    assert sorted(place for _, place in request["stacks"][0]) == sorted(addresses)
    assert {document["libs"][library]["breakpadId"] for library, _ in request["stacks"][0]} == {breakpad(name)}
    [stack] = daemon.json("symbolicate/v5", request)["results"][0]["stacks"]
    shared = document["shared"]
    strings, functions = shared["stringArray"], shared["funcTable"]
    symbols, sizes = shared["nativeSymbols"], symbols_of(file)
    for at, frame in zip(numbers, stack, strict=True):
        symbol = shared["frameTable"]["nativeSymbol"][at]
        assert (symbols["address"][symbol], symbols["functionSize"][symbol]) == sizes[frame["function"]]
        assert strings[symbols["name"][symbol]] == frame["function"]
        function = shared["frameTable"]["func"][at]
        file_name = strings[shared["sources"]["filename"][functions["source"][function]]]
        assert (frame["function"], frame["file"]) == (strings[functions["name"][function]], file_name)


def test_a_profile_of_kernels_and_offsets_names_libraries_too(daemon: Web) -> None:
    document = firefox_profile(b"Kernel, IP[Address], Active[Events]\nvadd, 110, 3\n", VADD)
    request, _ = asked_as_the_page_asks(document)
    [[frame]] = daemon.json("symbolicate/v5", request)["results"][0]["stacks"]
    assert (frame["function"], frame["function_offset"]) == ("vadd", "0x110")


def test_where_several_kernels_begin_at_0_no_address_is_named(daemon: Web) -> None:
    """Offsets of such code mean nothing to a symbol server; the frames are in the profile."""
    document = firefox_profile(b"Kernel, IP[Address], Active[Events]\nsmooth, 290, 3\n", FILTERS)
    assert asked_as_the_page_asks(document)[1] == []
    assert "smooth" in document["shared"]["stringArray"]


def test_a_function_stands_once_wherever_its_samples_are() -> None:
    """``tiled`` is the longest of the kernels that begin at 0: only offsets behind the ends of the others name it by address."""
    stalls = b"Kernel, IP[Address], Active[Events]\ntiled, 10, 3\ntiled, 2100, 5\n"
    shared = firefox_profile(stalls, BODIES)["shared"]
    functions, strings = shared["funcTable"], shared["stringArray"]
    [tiled] = [at for at, name in enumerate(functions["name"]) if strings[name] == "tiled"]
    assert functions["resource"][tiled] == 0
    outermost = [at for at, depth in enumerate(shared["frameTable"]["inlineDepth"]) if not depth]
    assert [shared["frameTable"]["address"][at] for at in outermost] == [-1, 0x2100]


def test_a_profile_without_symbols_asks_for_them(daemon: Web, shade) -> None:
    """Nobody gave the module, so the page is to ask; where the mapping holds a later part of the file, the file alone tells which address it is."""
    name, start, addresses = shade[1], 0x7F0000000000, [0x1998, 0x1940]
    profile = pprof_profile([start + each for each in addresses], "shade.co", name, start)
    document = firefox_profile(profile)
    assert document["meta"]["symbolicated"] is False
    request, _ = asked_as_the_page_asks(document)
    [stack] = daemon.json("symbolicate/v5", request)["results"][0]["stacks"]
    assert [(frame["module_offset"], frame["function"]) for frame in stack] == [
        (hex(address), frames[-1][0])
        for address, frames in zip(addresses, addr2line(shade[0], *addresses), strict=True)
    ]
    later = firefox_profile(pprof_profile([start + 0x940], "shade.co", name, start, 0x1000))
    assert later["meta"]["symbolicated"] is True
    assert asked_as_the_page_asks(later)[1] == []


def test_the_firefox_profiler_finds_names_and_instructions_here(daemon: Web, shade, tmp_path) -> None:
    """SYMD_PROFILER_CLI: the Firefox Profiler without a browser, whose own code asks for the names of a profile that has none."""
    command = os.environ.get("SYMD_PROFILER_CLI")
    if not command:
        pytest.skip("SYMD_PROFILER_CLI is not set")
    require("llvm-objdump")
    file, name = shade
    start, addresses = 0x7F0000000000, [0x1998, 0x1940]
    path = tmp_path / "profile.json"
    profile = pprof_profile([start + each for each in addresses], "shade.co", name, start)
    path.write_text(json.dumps(firefox_profile(profile)))

    def run(*words: str) -> str:
        environment = {**os.environ, "HOME": str(tmp_path)}
        return subprocess.run(
            [*command.split(), *words], check=True, capture_output=True, text=True, env=environment
        ).stdout

    run("load", str(path), "--symbol-server", daemon.url.rstrip("/"))
    try:
        functions = run("thread", "functions")
        code = run("function", "annotate", "f-0", "--mode", "asm")
    finally:
        run("stop")
    expected = {function for frames in addr2line(file, *addresses) for function, _, _ in frames}
    assert set(re.findall(r"shade\.co!(\w+)", functions)) == expected
    assert re.search(rf"{addresses[1]:#x} .*s_", code)
