"""``symd listing``: the text, the JSON, and both on a real module beside what IGA's command line says."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from symd.cli.listing import command
from symd.cli.listing_text import Printer, missing_source_option
from symd.engine.files.listing_sources import allowed_folders
from symd.errors import ToolMissing
from symd.model.answers import Answers, Locations, Reason, TextSection
from symd.model.line_tables import Listing, ListingPart
from symd.model.sources import SourceText, TextOrigin
from symd.query.source_files import NOWHERE_ALLOWED, completed
from symd.system.symlinks import read_below
from tests.cli.conftest import ROOT, Run
from tests.cli.fake import FakeSymbolizer
from tests.tools import output, require

STRINGS = ("", "vadd", "_Z6helperf", "/src/vadd.cl", "/src/inc.h")
#        reason              kernel function linkage file line column inlined parent
TABLE = (
    (0, 0, 0, 0, 0, 0, 0, 0, 0),
    (Reason.EXACT, 1, 1, 0, 3, 8, 15, 0, 0),  # 1: vadd at 8
    (Reason.EXACT, 1, 1, 0, 3, 10, 3, 0, 0),  # 2: vadd calls at 10
    (Reason.EXACT, 1, 2, 0, 4, 2, 0, 1, 2),  # 3: helper inlined there
    (Reason.EXACT, 1, 1, 0, 3, 11, 0, 0, 0),  # 4: vadd calls at 11
    (Reason.EXACT, 1, 2, 0, 4, 2, 0, 1, 4),  # 5: helper inlined there
    (Reason.APPROXIMATE, 1, 1, 0, 3, 8, 0, 0, 0),  # 6: line 0 behind 8
    (Reason.EXACT, 0, 2, 0, 4, 1, 0, 0, 0),  # 7: helper by itself, in no kernel
    (Reason.GAP, 1, 0, 0, 0, 0, 0, 0, 0),  # 8
)
KINDS = (np.uint8, *([np.uint32] * 6), np.uint8, np.uint32)
SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
LOCATIONS = Locations(*(np.array(c, k) for c, k in zip(zip(*TABLE, strict=True), KINDS, strict=True)), STRINGS)
PLACES = (TextSection("", ".text.vadd", 1, 0x100),)
WHERE = [1, 3, 2, 5, 1, 6, 7, 8]


def listing(**fields: str) -> Listing:
    count = len(WHERE)
    at = np.arange(count, dtype=np.uint64) * 16
    answers = Answers(np.array(WHERE, np.uint32), np.ones(count, np.uint32), at, LOCATIONS, PLACES)
    texts = [f"op{number}" for number in range(count)]
    return Listing("", "dg2", "IGA", answers, np.full(count, 16, np.uint32), texts, **fields)


SOURCES = {
    "/src/vadd.cl": SourceText("/src/vadd.cl", "\n" * 6 + "seven\n\teight\nnine\nten\n", TextOrigin.MODULE),
    "/src/inc.h": SourceText("/src/inc.h", problem="nobody has it"),
}


@pytest.fixture
def listed(fake: FakeSymbolizer) -> FakeSymbolizer:
    """The made-up engine with a listing."""
    fake.parts = []
    fake.listings = [listing()]
    fake.listing = lambda _, part, *_rest: fake.parts.append(part) or iter(fake.listings)
    fake.sources = lambda _, files: [SOURCES[file] for file in files]
    return fake


TEXT = """\
dg2  IGA, by source line (--by-address shows them in address order)

kernel vadd  .text.vadd
  /src/vadd.cl  (text in the module)
     8      eight
        0x000100  op0
        0x000140  op4
        0x000150  op5
     9  nine
    10  ten
        0x000120  op2
  /src/inc.h  (nobody has it, and no allowed folder holds it; add --map /src=FOLDER)
     2
          inlined into vadd at vadd.cl:10
        0x000110  op1
          inlined into vadd at vadd.cl:11
        0x000130  op3

no function
  without a line
        0x000170  op7

functions outside kernels  .text.vadd

function _Z6helperf
  /src/inc.h  (nobody has it, and no allowed folder holds it; add --map /src=FOLDER)
     1
        0x000160  op6
"""


def test_text_has_lines_with_their_instructions_and_marks(listed, run: Run, module: Path) -> None:
    outcome = run("listing", module)
    assert outcome.code == 0
    assert outcome.out == TEXT
    assert sorted(re.findall(r"op\d", outcome.out)) == [f"op{number}" for number in range(len(WHERE))]


def test_names_are_readable_when_asked(listed, run: Run, module: Path) -> None:
    require("c++filt")
    assert "function helper(float)" in run("listing", "-C", module).out


def test_json_has_one_instruction_a_line(listed, run: Run, module: Path) -> None:
    outcome = run("listing", "--json", module)
    assert [line["text"] for line in outcome.json] == [f"op{number}" for number in range(len(WHERE))]
    assert outcome.json[1] == {
        "object": "",
        "kernel": "vadd",
        "function": "vadd",
        "section": ".text.vadd",
        "section_index": 1,
        "section_offset": 16,
        "address": 0x110,
        "size": 16,
        "text": "op1",
        "bytes": None,
        "flow": [],
        "targets": [],
        "reason": "EXACT",
        "frames": [
            {"function": "_Z6helperf", "linkage_name": None, "file": "/src/inc.h", "line": 2, "column": 0, "inlined": True},
            {"function": "vadd", "linkage_name": None, "file": "/src/vadd.cl", "line": 10, "column": 3, "inlined": False},
        ],
        "source": None,
    }  # fmt: skip
    assert outcome.json[0]["source"] == "\teight"
    assert (outcome.json[5]["reason"], outcome.json[5]["source"]) == ("APPROXIMATE", None)
    assert (outcome.json[7]["function"], outcome.json[7]["frames"]) == (None, [])


def test_what_is_asked_for_reaches_the_engine(listed, run: Run, module: Path) -> None:
    run("listing", "--object", "a/b", "--function", "vadd", "--target", "dg2", module)
    run("listing", module)
    assert listed.parts == [ListingPart("a/b", "vadd", "dg2"), ListingPart()]


def test_a_code_object_without_disassembler_is_told_beside_the_others_and_is_exit_code_1(
    listed, run: Run, module: Path
) -> None:
    empty = Answers(*(np.zeros(0, kind) for kind in (np.uint32, np.uint32, np.uint64)), LOCATIONS, PLACES)
    listed.listings += [Listing("second", "sm_90", "", empty, np.zeros(0, np.uint32), (), "nvdisasm is missing")]
    outcome = run("listing", module)
    assert "second  sm_90\nno instructions: nvdisasm is missing\n" in outcome.out
    assert outcome.err == f"symd: {module}: 1 of 2 code objects is not listed: nvdisasm is missing\n"
    assert outcome.code == 1
    last = run("listing", "--json", module).json[-1]
    assert last == {"object": "second", "target": "sm_90", "problem": "nvdisasm is missing"}


def test_a_missing_disassembler_is_one_line_and_exit_code_3(listed, run: Run, module: Path) -> None:
    def refuse(*_):
        raise ToolMissing("no disassembler", hint="install one")

    listed.listing = refuse
    outcome = run("listing", module)
    assert (outcome.code, outcome.out, outcome.err) == (3, "", "symd: no disassembler (install one)\n")


def test_names_from_the_module_do_not_reach_the_terminal_raw(listed, run: Run, module: Path) -> None:
    evil = listing()
    listed.listings = [Listing("\x1b[31m", "dg2", "IGA", evil.answers, evil.size, ["\x1b]0;x\x07"] * len(WHERE))]
    assert "\x1b" not in run("listing", module).out


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours_unless_it_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, plain = Terminal(), StringIO()
    for out in (terminal, plain):
        printer = Printer(out)
        printer.write("source", "     8  [bold]eight")
        printer.flush()
    assert "\x1b[" in terminal.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()) == plain.getvalue() == "     8  [bold]eight\n"
    monkeypatch.setenv("NO_COLOR", "1")
    without = Terminal()
    printer = Printer(without)
    printer.write("source", "x")
    printer.flush()
    assert without.getvalue() == "x\n"


RAYCAST = ROOT / "samples" / "kernels" / "bin" / "raycast" / "igc2-dg2-opt.zebin"
FILTERS = ROOT / "samples" / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin"
SOURCE = ROOT / "samples" / "kernels" / "raycast.cl"


def test_a_real_kernel_is_listed_with_its_source(symd: Run, tmp_path: Path) -> None:
    """Offsets are those of IGA's command line; each source line that is printed is the file's own."""
    require("iga64")
    rule = f"/tmp/symd-opencl={SOURCE.parent}"
    outcome = symd("listing", "--json", "--map", rule, RAYCAST)
    assert outcome.code == 0, outcome.err
    text = tmp_path / "text"
    output(require("llvm-objcopy"), "-O", "binary", "--only-section=.text.raycast", RAYCAST, text)
    printed = output("iga64", "-d", "-p=xehpg", "-Xprint-pc", text)
    offsets = [int(each, 16) for each in re.findall(r"/\* \[([0-9A-F]+)\]  \*/ (?!.*\billegal\b)", printed)]
    assert [line["section_offset"] for line in outcome.json] == offsets
    lines = SOURCE.read_text().splitlines()
    exact = [line for line in outcome.json if line["reason"] == "EXACT"]
    assert len(exact) > len(outcome.json) // 2
    for line in exact:
        assert line["source"] == lines[line["frames"][0]["line"] - 1]
    shown = symd("listing", "--map", rule, RAYCAST).out
    assert sorted(re.findall(r"^        raycast\+(0x[0-9a-f]{4,})  ", shown, re.MULTILINE)) == [
        f"{at:#06x}" for at in offsets
    ]
    printed_lines = re.findall(r"^ {0,5}(\d+)  (.*)$", shown, re.MULTILINE)
    assert {line["frames"][0]["line"] for line in exact} <= {int(number) for number, _ in printed_lines}
    for number, rest in printed_lines:
        assert rest == lines[int(number) - 1].rstrip()


def test_source_is_read_below_allowed_folders_only(symd: Run, tmp_path: Path) -> None:
    require("iga64")
    elsewhere = symd("listing", "--source-root", tmp_path, RAYCAST)
    assert "no allowed folder holds it" in elsewhere.out
    (tmp_path / "raycast.cl").symlink_to(SOURCE)
    linked = symd("listing", "--map", f"/tmp/symd-opencl={tmp_path}", RAYCAST)
    assert "no allowed folder holds it" in linked.out


@pytest.mark.parametrize(
    "typed", [("--map", "/tmp/symd-opencl=../src"), ("--map", "/tmp/symd-opencl=link"), ("--source-root", "link/..")]
)
def test_a_folder_is_the_one_that_the_user_means(run: Run, tmp_path: Path, monkeypatch, typed: tuple[str, str]) -> None:
    """``link`` leads to ``far/src``, so that ``link/..`` is ``far``; a rule maps to ``src`` below that root."""
    require("iga64")
    here = tmp_path / "here"
    sources = tmp_path / "far" / "src" if "link" in typed[1] else tmp_path / "src"
    for folder in (here, sources, tmp_path / "far"):
        folder.mkdir(parents=True, exist_ok=True)
    (here / "link").symlink_to(tmp_path / "far" / "src")
    (sources / "raycast.cl").write_bytes(SOURCE.read_bytes())
    monkeypatch.chdir(here)
    more = ("--map", "/tmp/symd-opencl=src") if typed[0] == "--source-root" else ()
    outcome = run("listing", "--json", *typed, *more, RAYCAST)
    lines = SOURCE.read_text().splitlines()
    shown = {(line["frames"][0]["line"], line["source"]) for line in outcome.json if line["reason"] == "EXACT"}
    assert len(shown) > 5
    assert all(text == lines[number - 1] for number, text in shown)


@pytest.mark.parametrize("verb", [("listing", RAYCAST), ("view", "--no-browser", RAYCAST), ("serve",)])
def test_a_rule_that_leads_to_no_folder_is_refused(run: Run, tmp_path: Path, verb: tuple[object, ...]) -> None:
    (tmp_path / "file").touch()
    for leads in ("typo", "file"):
        outcome = run(*verb, "--map", f"/tmp/symd-opencl={tmp_path}/{leads}")
        assert outcome.code != 0
        assert f"{tmp_path}/{leads} is not a folder" in outcome.err
        assert "on this machine with the files of /tmp/symd-opencl" in outcome.err


def test_a_root_is_allowed_under_both_of_its_names(tmp_path: Path) -> None:
    """Debug data may name the sources by the link or by the folder that it leads to."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "a.cl").write_text("text")
    allowed = allowed_folders([tmp_path / "link"], ())
    for name in ("link", "real"):
        source = SourceText(f"{tmp_path}/{name}/a.cl", problem="the module does not contain its text")
        assert completed(source, allowed, lambda root, path: read_below(root, path, 100)).text == "text"


def test_a_daemon_lists_the_same(symd: Run, server: str) -> None:
    require("iga64")
    rule = ("--map", f"/tmp/symd-opencl={SOURCE.parent}")
    here, there = (symd("listing", *rule, *more, RAYCAST) for more in ((), ("--server", server)))
    assert there.code == 0, there.err
    assert there.out == here.out


@pytest.mark.parametrize("server_side", [False, True])
def test_a_kernel_may_be_named_as_symbolize_takes_it(run: Run, server: str, server_side: bool):
    require("llvm-objdump")
    host = ROOT / "samples" / "amdgpu" / "bin" / "host"
    more = ("--server", server) if server_side else ()
    outcome = run("listing", *more, "--json", "--function", "shade", host)
    assert outcome.code == 0
    assert {line["kernel"] for line in outcome.json if "kernel" in line} == {"_Z5shadePfPKfi"}


def test_a_source_root_that_is_not_there_is_refused(run: Run, sample: Path):
    outcome = run("listing", "--source-root", "/no/such/folder", sample)
    assert outcome.code == 2
    assert "'/no/such/folder' does not exist" in outcome.err


PLACE = re.compile(r"^(?: +[0-9.]+%| {8})? {8}(\S+\+0x[0-9a-f]+|0x[0-9a-f]+)  ", re.MULTILINE)
LISTED = {
    "several kernels": FILTERS,
    "linked": ROOT / "samples" / "amdgpu" / "bin" / "v5-gfx90a.co",
    "relocatable": ROOT / "samples" / "amdgpu" / "bin" / "nested-22.o",
}


@pytest.mark.parametrize("file", LISTED.values(), ids=LISTED)
def test_what_stands_in_front_of_an_instruction_can_be_asked_again(run: Run, file: Path) -> None:
    require("iga64" if file == FILTERS else "llvm-objdump")
    places = PLACE.findall(run("listing", file).out)
    listed = {(line["section"], line["section_offset"]) for line in run("listing", "--json", file).json}
    asked = [json.loads(line) for line in run("symbolize", "--json", file, *places).out.splitlines()]
    assert len(places) == len(listed)
    assert {(answer["section"], answer["section_offset"]) for answer in asked} == listed


def test_each_line_has_its_share_of_a_profile(run: Run, tmp_path: Path) -> None:
    """Of 200 samples 150 lie at smooth+0x290, ten of these within the instruction, and 20 in another module."""
    require("iga64")
    counts = {"smooth+0x290": 140, "smooth+0x294": 10, "smooth+0x2a0": 20, "denoise+0x10": 10, "elsewhere+0x10": 20}
    profile = tmp_path / "stacks.folded"
    profile.write_text("".join(f"[{place}] {count}\n" for place, count in counts.items()))
    outcome = run("listing", "--profile", profile, FILTERS)
    assert "20 of 200 samples (10.0 %)" in outcome.err
    found = {
        text.split("  ")[0]: float(share)
        for share, text in re.findall(r"^ *([0-9.]+)% +(\S.*)$", outcome.out, re.MULTILINE)
    }
    assert {place: share for place, share in found.items() if "+0x" in place} == {
        "smooth+0x0290": 75.0,
        "smooth+0x02a0": 10.0,
        "denoise+0x0010": 5.0,
    }
    assert (found["kernel smooth"], found["kernel denoise"]) == (85.0, 5.0)
    assert found["13"] == 85.0
    rows = run("listing", "--profile", profile, "--json", FILTERS).json
    weights = {
        f"{row['kernel']}+{row['section_offset']:#x}": (row["value"], row["share"]) for row in rows if row["value"]
    }
    assert weights == {"smooth+0x290": (150, 0.75), "smooth+0x2a0": (20, 0.1), "denoise+0x10": (10, 0.05)}


def test_a_profile_of_something_else_is_said(run: Run, tmp_path: Path) -> None:
    require("iga64")
    profile = tmp_path / "stacks.folded"
    profile.write_text("[elsewhere+0x10] 20\n")
    outcome = run("listing", "--profile", profile, FILTERS)
    assert outcome.code == 0
    assert "none of the samples" in outcome.err
    assert not re.search(r"[0-9]%", outcome.out)


def test_a_rule_that_no_file_needs_is_said(listed, run: Run, module: Path, tmp_path: Path) -> None:
    outcome = run("listing", "--map", f"/nowhere={tmp_path}", "--map", f"/src={tmp_path}", module)
    assert outcome.err == f"symd: --map /nowhere={tmp_path}: no source file of {module} lies in /nowhere\n"


def test_around_a_place_instructions_are_in_the_order_of_the_code_and_the_place_is_marked(run: Run) -> None:
    """The text of each instruction is llvm-objdump's."""
    sample = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    objdump = output(require("llvm-objdump-22", "llvm-objdump-14"), "-d", sample)
    code = {
        int(found[2], 16): found[1] for found in re.finditer(r"^\t(.*?) +// ([0-9A-F]{12}):", objdump, re.MULTILINE)
    }
    addresses = sorted(code)
    at = addresses.index(0x1978)
    said = run("listing", "--around", "0x1978", "--before", "6", "--after", "6", sample).out
    shown = re.findall(r"^ +(=>)? *0x([0-9a-f]{6})  (.*)$", said, re.MULTILINE)
    assert [int(address, 16) for _, address, _ in shown] == addresses[at - 6 : at + 7]
    assert [text.split() for *_, text in shown] == [code[each].split() for each in addresses[at - 6 : at + 7]]
    assert [int(address, 16) for mark, address, _ in shown if mark] == [0x1978]
    lines = [int(line) for line in re.findall(r"^ {1,5}(\d+)\b", said, re.MULTILINE)]
    assert lines != sorted(lines)


def test_a_function_that_is_only_inlined_is_answered_with_where_to_find_its_code(run: Run) -> None:
    sample = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    outcome = run("listing", "--function", "blend", sample)
    assert (outcome.code, outcome.out) == (1, "")
    assert f"symd locate {sample} blend finds one that is only inlined" in outcome.err
    assert run("locate", sample, "blend").code == 0


@pytest.mark.parametrize(
    ("place", "option"),
    [("shade", "--function"), ("shade+0x80", "--around"), ("0x1978", "--around"), ("(.text)+0x178", "--around")],
)
def test_a_place_behind_the_file_is_the_function_or_what_is_around(run: Run, place: str, option: str) -> None:
    shown = run("listing", SHADE, place)
    assert shown.code == 0
    assert (shown.code, shown.out) == (0, run("listing", SHADE, option, place).out)
    assert "v_cmp" in shown.out


@pytest.mark.parametrize(
    "options",
    [("--start-address=0x1940", "--stop-address=0x1960"), ("--stop-address=0x1840",), ("--start-address=0x1a00",)],
)
def test_a_range_is_listed_as_objdump_takes_it(run: Run, options: tuple[str, ...]) -> None:
    file = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    text = output(require("llvm-objdump"), "-d", *options, file)
    listed = [int(each, 16) for each in re.findall(r"// ([0-9A-F]{12}):", text)]
    assert listed
    found = run("listing", *options, "--json", file)
    assert [row["address"] for row in found.json] == listed
    shown = re.findall(r"^        0x([0-9a-f]{6})  ", run("listing", *options, file).out, re.MULTILINE)
    assert [int(each, 16) for each in shown] == listed


def test_an_address_of_thousands_of_digits_is_none_of_the_code(run: Run) -> None:
    """Python does not read so many digits as a number."""
    done = run("listing", SHADE, f"--start-address={'9' * 5000}")
    assert (done.code, "there is no code at 0xffffffffffffffff" in done.err) == (1, True), done.err


def test_a_listing_is_in_address_order_where_that_is_asked_for(run: Run) -> None:
    """Each instruction once, as by source line, and under one heading without what says how else they are shown."""
    file = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    require("llvm-objdump")
    by_line, by_address = run("listing", file, "shade").out, run("listing", "--by-address", file, "shade").out
    instructions = re.compile(r"^ +(0x[0-9a-f]{6})  .*$", re.MULTILINE)
    shown = [int(each, 16) for each in instructions.findall(by_address)]
    assert shown == sorted(shown)
    assert shown != [int(each, 16) for each in instructions.findall(by_line)]
    assert sorted(each[0] for each in instructions.finditer(by_address)) == sorted(
        each[0] for each in instructions.finditer(by_line)
    )
    assert "by source line (--by-address shows them in address order)" in by_line.splitlines()[0]
    assert "by source line" not in by_address
    assert run("objdump", "--by-address", "--json", file, "shade").out == run("listing", "--json", file, "shade").out


def test_a_name_that_no_file_can_have_is_no_traceback(run: Run, tmp_path: Path) -> None:
    """Names of templates are longer than those of files; what debug data says of a source may be, too."""
    done = run("listing", SHADE, "k" * 300)
    assert (done.code, "Traceback" in done.err) == (1, False)
    for file in (f"/{'s' * 300}.cl", f"folder/{'s' * 300}.cl", "/root/\0/shade.cl"):
        assert missing_source_option(SourceText(file, problem=f"no text: {NOWHERE_ALLOWED}"))


def test_a_shell_that_completes_a_listing_is_told_of_no_wrong_word() -> None:
    words = [str(SHADE), str(SHADE)]
    assert command.make_context("listing", [*words], resilient_parsing=True).params["place"] == words[1]


def test_lines_of_a_source_are_those_of_compilers() -> None:
    assert SourceText("a.cl", "one\ftwo\r\nthree\rfour\u2028five\n").lines() == ["one\ftwo", "three", "four\u2028five"]
    assert SourceText("a.cl", "one\n\n").lines() == ["one", ""]
    assert SourceText("a.cl", "").lines() == SourceText("a.cl").lines() == []
