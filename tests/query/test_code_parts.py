"""Instructions and rows around a place, of a function and of a range of a section are those of the whole, cut by hand; the functions and the rows
are those that LLVM's tools print."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from symd.engine.engine import Engine
from symd.errors import BadQuery, KernelNotFound, NotFound, ObjectNotFound
from symd.model.addresses import (
    ByAddress,
    ByKernel,
    BySection,
    KernelOffset,
    ObjectAddress,
    SectionOffset,
    SectionRange,
)
from symd.model.debug_info import RowFlag
from symd.model.line_tables import Around, CodePart, Flow, Listing, ListingPart
from symd.query.disasm import disassemble
from symd.store import Store
from tests.query.disasm.objects import SAMPLES
from tests.query.disasm.test_nvidia import GOLDEN, PLAYER
from tests.tools import require

RAYCAST = SAMPLES / "kernels" / "bin" / "raycast"
INTEL = RAYCAST / "igc2-dg2-opt.zebin"
AMD = SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co"
CUBIN = SAMPLES / "cuda" / "bin" / "raycast.sm_75.lines.cubin"
SPIRV = RAYCAST / "opt.spv"
FILES = {"intel": INTEL, "amd": AMD, "cubin": CUBIN, "spirv": SPIRV}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """With a stand-in for nvdisasm that plays back what it once printed."""
    player = tmp_path / "tools" / "nvdisasm"
    player.parent.mkdir()
    golden = (GOLDEN / f"{CUBIN.name}.json").read_text()
    player.write_text(PLAYER.format(python=os.path.realpath(sys.executable), golden=golden))
    player.chmod(0o700)
    monkeypatch.setenv("SYMD_TOOLS", str(player.parent))
    with Engine(Store(tmp_path / "store"), disassemble=disassemble) as made:
        yield made


def rows_of(listing: Listing) -> list[tuple[int | None, int | None, int, str]]:
    """(section, offset, size, text) of each instruction."""
    places = ((each.section_index, each.section_offset) for each in listing.answers)
    return [(*place, size, text) for place, size, text in zip(places, listing.size.tolist(), listing.text, strict=True)]


def part(engine: Engine, digest: str, within: CodePart) -> list[tuple[int | None, int | None, int, str]]:
    (listing,) = engine.listing(digest, ListingPart(within=within))
    assert not listing.problem
    return rows_of(listing)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 2), (1, 500), (500, 0)])
def test_what_is_around_a_place_is_cut_from_the_whole(engine: Engine, name: str, before: int, after: int) -> None:
    digest = engine.add(FILES[name].read_bytes()).sha256
    (listing,) = engine.listing(digest)
    whole = rows_of(listing)
    for at in (0, len(whole) // 2, len(whole) - 1):
        section, offset, size, _ = whole[at]
        first = last = at
        while at - first < before and first and ends_at(whole[first - 1], whole[first]):
            first -= 1
        while last - at < after and last + 1 < len(whole) and ends_at(whole[last], whole[last + 1]):
            last += 1
        for inside in (offset, offset + size - 1):  # the second is kept
            query = BySection(section, SectionOffset(inside))
            assert part(engine, digest, Around(query, before, after)) == whole[first : last + 1]


def ends_at(one: tuple[int | None, int | None, int, str], other: tuple[int | None, int | None, int, str]) -> bool:
    return one[0] == other[0] and one[1] + one[2] == other[1]


@pytest.mark.parametrize("name", FILES)
def test_a_range_has_every_instruction_with_a_byte_in_it(engine: Engine, name: str) -> None:
    digest = engine.add(FILES[name].read_bytes()).sha256
    (listing,) = engine.listing(digest)
    whole = rows_of(listing)
    section, offset, size, _ = whole[len(whole) // 2]
    start, end = offset + size - 1, offset + size + 41
    expected = [row for row in whole if row[0] == section and row[1] < end and row[1] + row[2] > start]
    assert len(expected) > 2
    sections = {each.section for each in listing.answers if each.section_index == section}
    for called in (section, *(each for each in sections if each)):
        assert part(engine, digest, SectionRange(called, SectionOffset(start), SectionOffset(end))) == expected


def test_amd_instructions_around_an_address_are_those_that_objdump_prints_there(engine: Engine) -> None:
    program = require("llvm-objdump")
    printed = subprocess.run([program, "-d", "--mcpu=gfx900", AMD], capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^\t(\S+) .*// ([0-9A-F]{12}): ((?:[0-9A-F]{8} ?)+)", printed, re.MULTILINE)
    whole = [(int(address, 16), 4 * len(words.split()), mnemonic) for mnemonic, address, words in lines]
    digest = engine.add(AMD.read_bytes()).sha256
    at = next(number for number, (_, _, mnemonic) in enumerate(whole) if mnemonic == "s_cbranch_execnz")
    within = Around(ByAddress(ObjectAddress(whole[at][0])), 3, 3)
    (listing,) = engine.listing(digest, ListingPart(within=within))
    found = zip(listing.answers, listing.size.tolist(), listing.text, strict=True)
    assert [(each.address, size, text.split()[0]) for each, size, text in found] == whole[at - 3 : at + 4]


def symbol(path: Path, name: str) -> tuple[int, int]:
    """(address, size) as readelf says."""
    printed = subprocess.run([require("readelf"), "-sW", path], capture_output=True, text=True, check=True).stdout
    value, size = re.search(rf": ([0-9a-f]+) +(\d+|0x[0-9a-f]+) .* {name}$", printed, re.MULTILINE).groups()
    return int(value, 16), int(size, 0)


def test_a_device_function_that_is_no_kernel_is_listed_by_its_name(engine: Engine) -> None:
    digest = engine.add(AMD.read_bytes()).sha256
    address, size = symbol(AMD, "march")
    (listing,) = engine.listing(digest, ListingPart(within="march"))
    assert [listing.answers[0].address, int(listing.size.sum())] == [address, size]


def test_a_function_inside_the_text_of_an_intel_kernel_is_listed_by_its_name(engine: Engine) -> None:
    path = RAYCAST / "driver-ocl-igc2-dg2-opt.debug-zebin"  # the driver has relocated it, llvm-dwarfdump cannot
    digest = engine.add(path.read_bytes()).sha256
    printed = subprocess.run(
        [require("llvm-dwarfdump"), "--name=distance_to", path], capture_output=True, text=True, check=True
    ).stdout
    low, high = (int(re.search(rf"{what}\s+\((0x[0-9a-f]+)\)", printed)[1], 16) for what in ("low_pc", "high_pc"))
    assert low
    (listing,) = engine.listing(digest, ListingPart(within="distance_to"))
    assert listing.answers[0].address == low
    assert int(listing.size.sum()) == high - low


def test_rows_of_a_function_are_those_that_dwarfdump_prints_between_its_ends(engine: Engine) -> None:
    digest = engine.add(AMD.read_bytes()).sha256
    printed = subprocess.run(
        [require("llvm-dwarfdump"), "--debug-line", AMD], capture_output=True, text=True, check=True
    ).stdout
    rows = [
        (int(address, 16), int(line), "end_sequence" in flags)
        for address, line, flags in re.findall(
            r"^(0x[0-9a-f]{16}) +(\d+) +\d+ .*?((?:[a-z_]+ ?)*)$", printed, re.MULTILINE
        )
    ]
    start, size = symbol(AMD, "march")
    inside = [number for number, (address, _, _) in enumerate(rows) if start <= address < start + size]
    expected = rows[inside[0] : inside[-1] + 2]  # with the one that ends the last
    assert told(engine, digest, "march") == expected
    at = inside[4]
    assert rows[at][0] < rows[at + 1][0]
    around = Around(ByAddress(ObjectAddress(rows[at + 1][0] - 1)), 2, 1)
    assert told(engine, digest, around) == rows[at - 2 : at + 2]
    base = next(iter(engine.lines(digest))).text_sections[0].address
    within = SectionRange(".text", SectionOffset(rows[at][0] + 1 - base), SectionOffset(rows[at + 1][0] + 1 - base))
    assert told(engine, digest, within) == rows[at : at + 3]


def told(engine: Engine, digest: str, within: CodePart) -> list[tuple[int, int, bool]]:
    (table,) = engine.lines(digest, within=within)
    start = [table.text_sections[number].address for number in table.text_section.tolist()]
    columns = zip(start, table.offset.tolist(), table.line.tolist(), table.flags.tolist(), strict=True)
    return [(base + at, line, bool(flags & RowFlag.END_SEQUENCE)) for base, at, line, flags in columns]


@pytest.mark.parametrize("name", ["intel", "cubin", "spirv"])
def test_rows_around_a_place_are_cut_from_the_whole_table(engine: Engine, name: str) -> None:
    digest = engine.add(FILES[name].read_bytes()).sha256
    (table,) = engine.lines(digest)
    at = next(n for n in range(len(table) // 2, len(table)) if table.offset[n] < table.offset[n + 1])
    section = table.text_sections[table.text_section[at]]
    query = BySection(section.section_index, SectionOffset(int(table.offset[at])))
    (few,) = engine.lines(digest, within=Around(query, 3, 2))
    expected = table.part(at - 3, at + 3)
    for column in ("offset", "line", "column", "flags"):
        assert getattr(few, column).tolist() == getattr(expected, column).tolist()
    for column in ("file", "kernel", "function"):
        mine, theirs = getattr(few, column).tolist(), getattr(expected, column).tolist()
        assert [few.strings[number] for number in mine] == [table.strings[number] for number in theirs]
    numbers = {*expected.text_section.tolist()}
    assert {*few.text_sections} == {table.text_sections[number] for number in numbers}
    assert len(few.strings) < len(table.strings)


@pytest.mark.parametrize(
    ("within", "error", "said"),
    [
        ("nowhere", KernelNotFound, "there is no function 'nowhere'"),
        (Around(ByKernel("nowhere", KernelOffset(0))), KernelNotFound, "there is no function 'nowhere'"),
        (Around(ByAddress(ObjectAddress(1 << 40))), NotFound, "there is no code at"),
        (SectionRange(".data", SectionOffset(0), SectionOffset(8)), NotFound, "code is in .text"),
        (SectionRange(".text", SectionOffset(1 << 30), SectionOffset(1 << 31)), NotFound, "ends before 0x40000000"),
        (SectionRange(".text", SectionOffset(8), SectionOffset(8)), BadQuery, "the range has no bytes"),
        (Around(ByAddress(ObjectAddress(0)), -1), BadQuery, "before is not a number from 0 to 1000000"),
    ],
)
def test_what_is_not_there_is_told_in_the_words_of_the_api(
    engine: Engine, within: CodePart, error: type[Exception], said: str
) -> None:
    digest = engine.add(AMD.read_bytes()).sha256
    for ask in (
        lambda: engine.listing(digest, ListingPart(within=within)),
        lambda: engine.lines(digest, within=within),
    ):
        with pytest.raises(error, match=re.escape(said)) as refused:
            list(ask())
        assert "symd " not in str(refused.value)


def test_a_code_object_that_is_not_there_is_told_first(engine: Engine) -> None:
    digest = engine.add(AMD.read_bytes()).sha256
    with pytest.raises(ObjectNotFound):
        list(engine.lines(digest, "elsewhere", within="march"))


def section_bytes(path: Path, section: int) -> bytes:
    """The content of a section, found by readelf."""
    command = [require("readelf"), "-SW", path]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    _, offset, size = re.search(
        rf"\[ *{section}\] .*? ([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+) [0-9a-f]+ ", printed
    ).groups()
    return path.read_bytes()[int(offset, 16) : int(offset, 16) + int(size, 16)]


@pytest.mark.parametrize("name", FILES)
def test_each_instruction_has_its_own_bytes(engine: Engine, name: str) -> None:
    path = FILES[name]
    (listing,) = engine.listing(engine.add(path.read_bytes()).sha256)
    for answer, size, code in zip(listing.answers, listing.size.tolist(), listing.code, strict=True):
        section = path.read_bytes() if path is SPIRV else section_bytes_of(path, answer.section_index or 0)
        assert code == section[answer.section_offset : (answer.section_offset or 0) + size]


section_bytes_of = lru_cache(section_bytes)


@pytest.mark.parametrize("name", FILES)
def test_targets_are_written_so_that_they_can_be_asked_again(engine: Engine, name: str) -> None:
    digest = engine.add(FILES[name].read_bytes()).sha256
    (listing,) = engine.listing(digest)
    flow = {Flow(each) for each in listing.flow}
    assert flow > {Flow(0), Flow.BRANCH, Flow.END}
    asked = 0
    for answer, text, targets in zip(listing.answers, listing.text, listing.targets, strict=True):
        for target in targets if name != "spirv" else ():
            places = [engine.symbolize_one(digest, query) for query in re.findall(r"[\w.()$]+\+0x[0-9a-f]+", text)]
            assert (answer.section_index, target) in [(each.section_index, each.section_offset) for each in places]
            asked += 1
    assert asked or name == "spirv"


def test_amd_targets_are_the_labels_that_objdump_prints(engine: Engine) -> None:
    program = require("llvm-objdump")
    printed = subprocess.run([program, "-d", "--mcpu=gfx900", AMD], capture_output=True, text=True, check=True).stdout
    pattern = r"^\t(s_\w*(?:branch|call)\w*) .*// ([0-9A-F]{12}): [0-9A-F]{8} <(\w+)(?:\+0x([0-9a-f]+))?>$"
    branches = re.findall(pattern, printed, re.MULTILINE)
    labels = {int(at, 16): symbol(AMD, name)[0] + int(delta or "0", 16) for _, at, name, delta in branches}
    (listing,) = engine.listing(engine.add(AMD.read_bytes()).sha256)
    base = listing.answers[0].address - listing.answers[0].section_offset
    targets = zip(listing.answers, listing.targets, strict=True)
    assert {each.address: base + found[0] for each, found in targets if found} == labels != {}
    flow = zip(listing.text, listing.flow, strict=True)
    assert {text.split()[0]: Flow(each) for text, each in flow if each} == {
        **{mnemonic: Flow.BRANCH for mnemonic, _, _, _ in branches},
        "s_setpc_b64": Flow.BRANCH,
        "s_swappc_b64": Flow.CALL,
        "s_endpgm": Flow.END,
    }


def test_intel_targets_are_the_distances_in_the_encoding(engine: Engine) -> None:
    """The third and fourth word of an instruction that is not compacted are UIP and JIP, in bytes from its start."""
    (listing,) = engine.listing(engine.add(INTEL.read_bytes()).sha256)
    seen = set()
    for answer, code, text, flow, targets in zip(
        listing.answers, listing.code, listing.text, listing.flow, listing.targets, strict=True
    ):
        mnemonic = re.search(r"(?:^|\) )\s*([a-z]+)", text)[1]
        if mnemonic in ("goto", "call", "join"):
            uip, jip = struct.unpack("<8xii", code)
            distances = (jip, uip) if mnemonic == "goto" else (jip,)
            assert targets == tuple(dict.fromkeys(answer.section_offset + each for each in distances))
            assert flow == (Flow.CALL if mnemonic == "call" else Flow.BRANCH)
            seen.add(mnemonic)
        elif mnemonic == "ret" or "EOT" in text:
            assert (flow, targets) == (Flow.END, ())
            seen.add(mnemonic)
    assert seen >= {"goto", "call", "join", "ret"}


def test_nvidia_targets_are_those_that_nvdisasm_prints(engine: Engine) -> None:
    runs = json.loads((GOLDEN / f"{CUBIN.name}.json").read_text())["runs"].values()
    printed = [
        each
        for run in runs
        for each in re.findall(r"/\*([0-9a-f]{4,})\*/ +(?:@!?U?P\d )?(?:BRA|CALL\.REL\.NOINC) .*?0x([0-9a-f]+) ?;", run)
    ]
    (listing,) = engine.listing(engine.add(CUBIN.read_bytes()).sha256)
    found = [(each.section_offset, to[0]) for each, to in zip(listing.answers, listing.targets, strict=True) if to]
    assert sorted(found) == sorted((int(at, 16), int(target, 16)) for at, target in printed) != []
    ends = {
        text.split()[-1] if text.startswith("@") else text.split()[0]
        for text, flow in zip(listing.text, listing.flow, strict=True)
        if flow == Flow.END
    }
    assert "EXIT" in ends


def test_spirv_targets_are_its_labels(engine: Engine) -> None:
    (listing,) = engine.listing(engine.add(SPIRV.read_bytes()).sha256)
    text_at = {each.section_offset: text for each, text in zip(listing.answers, listing.text, strict=True)}
    branches = [
        (text.split()[1], to)
        for text, to in zip(listing.text, listing.targets, strict=True)
        if text.startswith("OpBranch ")
    ]
    assert branches
    assert [text_at[target] for _, (target,) in branches] == [f"{label} = OpLabel" for label, _ in branches]
