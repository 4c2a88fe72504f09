"""symd slim, and the verbs that join its two files again. The example is laid out as the published one: version 2, every
segment on a page of its own in the file."""

import json
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from symd.config import Limits
from symd.formats import elf
from symd.formats.budget import Budget
from tests import tools
from tests.cli.conftest import ROOT, Run

AMD = ROOT / "samples" / "amdgpu" / "bin"
PAGES = AMD / "v2-scale-pages.co"
SHADE = AMD / "v4-gfx900.co"


@pytest.fixture
def slim(run: Run, tmp_path: Path) -> Path:
    """v4-gfx900.co made slim, with its debug data beside it."""
    assert run("slim", SHADE, tmp_path / "slim.co").code == 0
    return tmp_path / "slim.co"


def image(path: Path) -> elf.Elf:
    return elf.parse(path.read_bytes(), Budget(Limits()))


def test_the_published_examples_layout_shrinks_as_far_as_the_published_example(run: Run, tmp_path: Path):
    """That went from 9368 bytes to 1232: 13.2 %."""
    [told] = run("slim", "--json", PAGES, tmp_path / "out.co").json
    assert told == {
        "file": str(PAGES),
        "before": PAGES.stat().st_size,
        "output": str(tmp_path / "out.co"),
        "after": (tmp_path / "out.co").stat().st_size,
        "percent": round(100 * (tmp_path / "out.co").stat().st_size / PAGES.stat().st_size, 1),
        "debug": str(tmp_path / "out.co.debug"),
        "debug_size": (tmp_path / "out.co.debug").stat().st_size,
        "removed": [".dynsym", ".gnu.hash", ".hash", ".dynstr", ".dynamic", ".comment"],
    }
    assert told["percent"] <= 13.2


def test_code_and_addresses_are_those_of_the_input(run: Run, tmp_path: Path):
    """In version 2 the kernel descriptor, amd_kernel_code_t, is the beginning of .text."""
    run("slim", PAGES, tmp_path / "out.co")
    before, after = image(PAGES), image(tmp_path / "out.co")
    for name in (".text", ".note"):
        assert after.by_name[name].data == before.by_name[name].data
    text = before.by_name[".text"]
    assert after.by_name[".text"].address == text.address == 0x1000
    assert after.at_address(text.address, text.size) == text.data
    symbols = {(one.name, one.value, one.size) for one in after.symbols(after.by_name[".symtab"])}
    assert symbols == {(one.name, one.value, one.size) for one in before.symbols(before.by_name[".symtab"])} - {
        ("_DYNAMIC", before.by_name[".dynamic"].address, 0)
    }


def test_readelf_finds_nothing_wrong_with_either_file(run: Run, slim: Path):
    for path in (slim, slim.with_name("slim.co.debug")):
        listed = tools.output(tools.require("eu-readelf"), "-h", "-S", "-l", "-s", path)
        assert "AMDGPU" in listed or "AMD GPU" in listed


def test_info_says_which_bytes_are_of_the_debug_file(run: Run, slim: Path, server: str):
    own, debug = slim.stat().st_size, slim.with_name("slim.co.debug")
    for where in ((), ("--server", server)):
        lines = run("info", *where, slim).out.splitlines()
        [said] = [line for line in lines if line.startswith("├── debug  ")]
        total = int(lines[0].split()[-2])
        assert total > own
        assert said == f"├── debug  from {debug}, read with it: {slim} itself has {own} of the {total} bytes"
    debug.unlink()
    alone = run("info", slim).out
    assert (f"  amdgpu, {own} bytes" in alone, "debug  from" in alone) == (True, False)


def test_text_says_the_sizes_and_the_percentage(run: Run, tmp_path: Path):
    lines = run("slim", PAGES, tmp_path / "out.co", "--debug-out", tmp_path / "d").out.splitlines()
    size = (tmp_path / "out.co").stat().st_size
    assert lines[0].split()[:3] == ["before", "10016", "bytes"]
    assert lines[1].split()[:5] == ["after", str(size), "bytes", f"({100 * size / 10016:.1f}", "%)"]
    assert lines[2].endswith(str(tmp_path / "d"))
    assert lines[3].startswith("removed")
    assert ".comment" in lines[3]


@pytest.mark.parametrize("debug", ["slim.co.debug", str(SHADE)], ids=["debug file", "whole object"])
def test_joined_again_every_instruction_is_answered_as_before(run: Run, slim: Path, debug: str):
    text = image(SHADE).by_name[".text"]
    queries = [hex(text.address + at) for at in range(0, text.size, 4)]
    whole = run("symbolize", "--json", SHADE, *queries)
    joined = run("symbolize", "--json", slim, "--debug", slim.parent / debug, *queries)
    assert (joined.code, joined.err) == (0, "")
    answers = [{**one, "section_offset": 0} for one in joined.json]
    assert answers == [{**one, "section_offset": 0} for one in whole.json]
    assert any(frame["inlined"] for one in answers for frame in one["frames"])
    slim.with_name("slim.co.debug").unlink()  # what lies beside it is found
    alone = run("symbolize", "--json", slim, *queries).json
    assert {one["reason"] for one in alone} == {"NO_DEBUG_INFO"}


def test_the_line_table_of_the_two_files_is_that_of_the_whole(run: Run, slim: Path):
    def rows(*arguments: object) -> list[object]:
        return [{**row, "section_index": None} for row in run("lines", "--json", *arguments).json]

    assert rows(slim, "--debug", slim.with_name("slim.co.debug")) == rows(SHADE)


@pytest.mark.parametrize(
    ("file", "debug", "code", "words"),
    [
        ("slim.co", AMD / "v4-gfx900-O0.co", 2, "another code object"),
        ("slim.co", AMD / "v5-gfx1100.co", 2, "gfx1100"),
        ("slim.co", "slim.co", 1, "no debug sections"),
        (SHADE, SHADE, 2, "debug sections of its own"),
        (AMD / "v4-gfx900.o", SHADE, 2, "linked"),
        (AMD / "odd.bundle", SHADE, 2, "symd extract"),
        ("slim.co", ROOT / "samples/kernels/bin/vadd/dg2-opt.dbg", 2, "AMDGPU"),
        ("slim.co", "nowhere", 2, "nowhere"),
        (ROOT / "samples/kernels/bin/vadd/opt.spv", SHADE, 2, "is not a SPIR-V module"),
    ],
)
def test_what_does_not_belong_together_is_refused(run: Run, slim: Path, file, debug, code: int, words: str):
    outcome = run("symbolize", slim.parent / file, "--debug", slim.parent / debug, "0")
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_stripped_object_gets_its_function_names_back(run: Run):
    outcome = run("symbolize", "--json", AMD / "v4-gfx900-stripped.co", "--debug", SHADE, "(.text)+0", "shade+0")
    assert [one["reason"] for one in outcome.json] == ["EXACT", "EXACT"]
    assert [one["frames"][-1]["function"] for one in outcome.json] == ["march", "shade"]


def test_an_object_without_debug_data_gets_no_second_file(run: Run, tmp_path: Path):
    [told] = run("slim", "--json", AMD / "v4-gfx900-nodebug.co", tmp_path / "out.co").json
    assert (told["debug"], told["debug_size"]) == (None, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["out.co"]


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (AMD / "odd.bundle", "symd extract"),
        (AMD / "v4-gfx900.o", "relocatable"),
        (AMD / "v4-gfx900-headers-cut.co", "section table"),
        (ROOT / "samples/cuda/bin/saxpy.sm_90.none.cubin", "cubin"),
        (ROOT / "README.md", "any other format"),
        ("/no/such/file", "no such file"),
    ],
)
def test_what_cannot_be_slimmed_is_refused_and_nothing_is_written(run: Run, tmp_path: Path, file, words: str):
    outcome = run("slim", file, tmp_path / "out.co")
    assert (outcome.code, outcome.out, list(tmp_path.iterdir())) == (2, "", [])
    assert words in outcome.err
    assert outcome.err.count("\n") == 1


def test_nothing_is_written_over_the_input_or_over_each_other(run: Run, tmp_path: Path):
    path = tmp_path / "in.co"
    path.write_bytes(SHADE.read_bytes())
    for more in ([path], [tmp_path / "out", "--debug-out", path], [tmp_path / "out", "--debug-out", tmp_path / "out"]):
        assert run("slim", path, *more).code == 2
    assert run("slim", f"file://{path}", path).code == 2
    assert [one.name for one in tmp_path.iterdir()] == ["in.co"]
    assert path.read_bytes() == SHADE.read_bytes()


def test_an_output_that_cannot_be_written_is_one_line(run: Run, tmp_path: Path):
    (tmp_path / "file").write_text("")
    outcome = run("slim", SHADE, tmp_path / "file" / "below")
    assert (outcome.code, outcome.err.count("\n")) == (3, 1)


def test_a_daemon_joins_the_two_files_as_well(symd: Run, slim: Path, server: str):
    arguments = ("--json", slim, "--debug", slim.with_name("slim.co.debug"), "shade+0", "shade+64")
    here, there = symd("symbolize", *arguments), symd("symbolize", "--server", server, *arguments)
    assert (here.code, json.loads(here.out.splitlines()[0])["reason"]) == (0, "EXACT")
    assert (there.code, there.out) == (here.code, here.out)


def test_a_module_of_a_daemon_is_slimmed_as_its_file_is(server: str, symd: Run, slim: Path, tmp_path: Path):
    assert symd("info", "--server", server, SHADE).code == 0
    (module,) = symd("modules", "--json", "--server", server).json
    assert symd("slim", "--server", server, f"modules/{module['sha256'][:8]}", tmp_path / "fetched.co").code == 0
    assert (tmp_path / "fetched.co").read_bytes() == slim.read_bytes()


def test_a_module_of_several_code_objects_is_not_slimmed_and_says_how_they_come_out(
    server: str, symd: Run, tmp_path: Path
):
    several = ROOT / "samples" / "kernels" / "bin" / "particles" / "skl-opt.bin"
    assert symd("info", "--server", server, several).code == 0
    (module,) = symd("modules", "--json", "--server", server).json
    refused = symd("slim", "--server", server, f"modules/{module['sha256']}", tmp_path / "out.co")
    assert refused.code == 1
    assert "symd extract modules/" in refused.err
    assert not (tmp_path / "out.co").exists()


def test_who_strips_debug_data_alone_is_told_what_else_goes(run: Run, tmp_path: Path) -> None:
    """What is said to be gone is gone, by readelf; llvm-objcopy as it is printed keeps it."""
    file, out = SHADE, tmp_path / "x.co"
    done = run("strip", "-g", file, "-o", out)
    assert ".dynsym" in done.err
    assert f"llvm-objcopy --strip-debug {file} {out} keeps them" in done.err
    with out.open("rb") as stripped:
        assert ELFFile(stripped).get_section_by_name(".dynsym") is None
    assert run("slim", file, out).err == ""
    subprocess.run([tools.require("llvm-objcopy-14"), "--strip-debug", file, out], check=True)
    with out.open("rb") as stripped:
        assert ELFFile(stripped).get_section_by_name(".dynsym") is not None
