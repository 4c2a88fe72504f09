"""symd symbolize."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from symd.cli.question_lines import arriving_lines
from symd.config import Limits
from symd.engine.engine import Engine
from symd.engine.files import opened_file
from symd.errors import ToolMissing
from symd.formats import elf
from symd.formats.budget import Budget
from symd.model.answers import Answer, Frame, Reason
from symd.query.demangler import Demangler
from symd.store import Store
from tests.cli.conftest import ROOT, SYMD, Run, pseudo_terminal
from tests.cli.fake import FakeSymbolizer
from tests.hostile.wrappers import in_archive
from tests.tools import output, require

CONTRACT = (
    '{"query": "vadd+0x1b0", "object": "", "kernel": "vadd", "section": ".text.vadd", "section_offset": 432, "address": 432, '
    '"reason": "EXACT", '
    '"frames": [{"function": "helper", "linkage_name": null, "file": "/src/vadd.cl", "line": 3, "column": 23, "inlined": true}, '
    '{"function": "vadd", "linkage_name": null, "file": "/src/vadd.cl", "line": 10, "column": 0, "inlined": false}]}'
)
"""The answer that the contract shows."""


def test_json_is_the_contracts_answer_to_the_letter(run: Run, fake: FakeSymbolizer, module: Path):
    outcome = run("symbolize", "--json", module, "vadd+0x1b0")
    assert (outcome.out, outcome.err, outcome.code) == (CONTRACT + "\n", "", 0)


def test_answers_come_in_the_order_asked_in_one_batch(run: Run, fake: FakeSymbolizer, module: Path):
    queries = ["vadd+8", "0x10", "(.text)+1", "vadd+0"]
    outcome = run("symbolize", "--json", module, *queries)
    assert [answer["query"] for answer in outcome.json] == queries
    assert [answer["reason"] for answer in outcome.json] == ["EXACT", "AMBIGUOUS", "OUTSIDE_TEXT", "EXACT"]
    assert [len(batch) for batch in fake.asked] == [4]
    assert outcome.code == 0


def test_an_ambiguous_answer_names_its_candidates(run: Run, fake: FakeSymbolizer, module: Path):
    [answer] = run("symbolize", "--json", module, "0x10").json
    assert [(place["kernel"], place["section_offset"]) for place in answer["candidates"]] == [
        ("vadd", 16),
        ("vsub", 16),
    ]
    assert (answer["frames"], answer["address"]) == ([], None)


def test_an_unknown_kernel_is_answered_and_is_exit_code_1(run: Run, fake: FakeSymbolizer, module: Path):
    outcome = run("symbolize", "--json", module, "vadd+0", "nobody+1")
    assert [answer["reason"] for answer in outcome.json] == ["EXACT", "UNKNOWN_KERNEL"]
    assert outcome.code == 1


def test_an_unknown_object_is_exit_code_1(run: Run, fake: FakeSymbolizer, module: Path):
    outcome = run("symbolize", "--object", "nowhere", module, "vadd+0")
    assert (outcome.code, outcome.out) == (1, "")


def test_text_reads_like_addr2line(run: Run, fake: FakeSymbolizer, module: Path):
    outcome = run("symbolize", module, "vadd+0x1b0", "nobody+1", "0x10")
    assert outcome.out.splitlines() == [
        "vadd+0x1b0: helper at /src/vadd.cl:3:23",
        "  (inlined by) vadd at /src/vadd.cl:10",
        "nobody+1: no answer [UNKNOWN_KERNEL]",
        "0x10: no answer [AMBIGUOUS]",
        "  could be (.text.vadd)+0x10 in vadd",
        "  could be (.text.vsub)+0x10 in vsub",
        "  ask again with '(.text.vadd)+0x10' for the first",
    ]


@pytest.mark.parametrize("session", [False, True])
def test_a_section_that_does_not_exist_is_exit_code_1_and_names_those_that_do(run: Run, server: str, session: bool):
    file = ROOT / "samples" / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin"
    outcome = run("symbolize", *(("--server", server) if session else ()), file, "(.txt)+4", "(#99)+1")
    assert outcome.out.splitlines() == [
        "(.txt)+4: no section '.txt' with code; there are .text.smooth, .text.denoise [OUTSIDE_TEXT]",
        "(#99)+1: no section '#99' with code; there are .text.smooth, .text.denoise [OUTSIDE_TEXT]",
    ]
    assert outcome.code == 1


def test_a_place_behind_the_end_of_a_section_is_no_missing_one(run: Run, sample: Path):
    outcome = run("symbolize", sample, "(.text)+0xffffff")
    assert (outcome.out, outcome.code) == ("(.text)+0xffffff: no answer [OUTSIDE_TEXT]\n", 0)


def test_a_name_alone_is_where_it_begins(run: Run, sample: Path):
    alone, begun = run("symbolize", "--json", sample, "vadd").json, run("symbolize", "--json", sample, "vadd+0").json
    assert [answer.pop("query") for answer in alone + begun] == ["vadd", "vadd+0"]
    assert alone == begun
    unknown = run("symbolize", sample, "vad")
    assert (unknown.code, "did you mean vadd" in unknown.out) == (1, True)


def test_one_bad_argument_is_refused_before_anything_is_answered(run: Run, fake: FakeSymbolizer, module: Path):
    outcome = run("symbolize", module, "vadd+0", "what?")
    assert (outcome.code, outcome.out, fake.asked) == (2, "", [])
    assert outcome.err.startswith("symd: cannot parse 'what?' as an address")


def test_lines_of_stdin_are_answered_in_place_and_a_bad_one_does_not_end_it(symd: Run, sample: Path):
    outcome = symd("symbolize", "--json", sample, "-", stdin=b"vadd+0\n\n  \nwhat?\r\n\xff+1\nvadd+16")
    assert [answer["query"] for answer in outcome.json] == ["vadd+0", "", "", "what?", "\ufffd+1", "vadd+16"]
    assert [list(answer) == ["query", "error"] for answer in outcome.json] == [False, True, True, True, False, False]
    assert outcome.code == 2
    assert outcome.err == "symd: 1 of the queries could not be read (see symd symbolize --help)\n"


def test_a_mark_of_byte_order_is_no_part_of_the_first_query(symd: Run, sample: Path):
    outcome = symd("symbolize", "--json", sample, "-", stdin="\ufeffvadd+0\r\nvadd+16\r\n".encode())
    assert [(answer["query"], "error" in answer) for answer in outcome.json] == [("vadd+0", False), ("vadd+16", False)]


def test_an_empty_line_has_a_line_in_the_answers_and_is_no_mistake(symd: Run, sample: Path):
    outcome = symd("symbolize", sample, "-", stdin=b"vadd+0\n\nvadd+16\n")
    assert [line.partition(":")[0] for line in outcome.out.splitlines()] == ["vadd+0", "", "vadd+16"]
    assert (outcome.code, outcome.err) == (0, "")


def test_without_queries_they_are_read_from_standard_input(symd: Run, sample: Path):
    outcome = symd("symbolize", sample, stdin=b"vadd+0\n")
    assert (outcome.code, outcome.out.partition(":")[0]) == (0, "vadd+0")
    assert symd("symbolize", "-", stdin=b"").err.startswith("symd: the file and the queries cannot both come")


def test_where_no_query_came_that_is_said_and_is_no_mistake(symd: Run, sample: Path):
    outcome = symd("symbolize", sample, stdin=b"")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith("symd: no addresses given: they follow FILE, or come on standard input, one a line")
    assert symd("symbolize", sample, "-", stdin=b"").err == ""
    assert symd("symbolize", sample, stdin=b"\n").err == ""


def test_an_open_pipe_gets_each_answer_as_it_asks(sample: Path):
    with subprocess.Popen(
        [*SYMD, "symbolize", "--json", sample, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin
        assert child.stdout
        for number in range(5):
            child.stdin.write(b"vadd+%d\n" % number)
            child.stdin.flush()
            assert json.loads(child.stdout.readline())["query"] == f"vadd+{number}"
        child.stdin.close()
    assert child.returncode == 0


def test_a_line_may_arrive_in_pieces():
    reader, writer = os.pipe()
    batches = arriving_lines(reader)
    os.write(writer, b"a\nb")
    assert next(batches) == ["a"]
    os.write(writer, b"c\nd")
    assert next(batches) == ["bc"]
    os.close(writer)
    assert next(batches) == ["d"]
    os.close(reader)


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="no demangler is installed")
def test_names_demangle_on_request(run: Run, fake: FakeSymbolizer, module: Path):
    fake.name = "_ZN3gpu3sumIfEET_S1_S1_"
    [plain], [readable] = (run("symbolize", "--json", *flags, module, "vadd+0").json for flags in ([], ["-C"]))
    assert plain["frames"][0]["function"] == "_ZN3gpu3sumIfEET_S1_S1_"
    assert readable["frames"][0]["function"] == "float gpu::sum<float>(float, float)"  # Itanium C++ ABI, 5.1
    assert readable["frames"][1] == plain["frames"][1]


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="no demangler is installed")
def test_names_that_are_not_mangled_or_not_names_stay():
    names = ["main", "_Zwhat", "_Z1f\n_Z1g", "", None, "_Z 1f"]
    before = [Answer(Reason.EXACT, frames=(Frame(name, None, None, 0, 0, inlined=False),)) for name in names]
    assert Demangler().answers(before) == before


def test_without_a_demangler_the_option_says_what_to_install(run: Run, fake: FakeSymbolizer, module: Path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolMissing, match="binutils"):
        Demangler()
    assert run("symbolize", "-C", module, "vadd+0").code == 3


RAYCAST = Path(__file__).parents[2] / "samples/kernels/bin/raycast/dg2-opt.dbg"


def test_what_contradicts_itself_is_said_and_as_written_is_what_is_written(symd: Run):
    told = symd("symbolize", RAYCAST, "raycast+0x368", "raycast+0x510")
    assert told.out == (
        "raycast+0x368: length_squared [CONTRADICTORY]\n"
        "  (inlined by) raycast at /tmp/symd-opencl/raycast.cl:24\n"
        "raycast+0x510: distance_to at /tmp/symd-opencl/raycast.cl:12:24 [INFERRED]\n"
    )
    told = symd("symbolize", "--as-written", RAYCAST, "raycast+0x368")
    assert told.out == (
        "raycast+0x368: length_squared at /tmp/symd-opencl/raycast.cl:16:5\n"
        "  (inlined by) raycast at /tmp/symd-opencl/raycast.cl:24\n"
    )


def test_a_section_as_info_writes_it_is_told_to_stand_in_parentheses(run: Run, sample: Path):
    outcome = run("symbolize", sample, ".text+0x1b0")
    assert outcome.out == ".text+0x1b0: no answer [UNKNOWN_KERNEL]\n"
    assert outcome.err == f"symd: put section names in parentheses: symd symbolize {sample} '(.text)+0x1b0'\n"


def test_a_name_like_no_other_says_how_to_see_the_names(run: Run, sample: Path):
    outcome = run("symbolize", sample, "zzz+1")
    assert outcome.out == "zzz+1: no answer [UNKNOWN_KERNEL]\n"
    assert (
        outcome.err
        == f"symd: there is no kernel or function of that name; symd names {sample} '*' shows all names, symd locate {sample} zzz finds one that is only inlined\n"
    )
    assert (run("symbolize", "--json", sample, "zzz+1").err, outcome.code) == ("", 1)


def options_of(way: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What makes ``symd symbolize`` read ``file`` that way: as a large file, or from a store that has its index."""
    if way == "large":
        monkeypatch.setattr(opened_file, "LARGE", 1)
    if way != "stored":
        return []
    with Engine(Store(tmp_path / "store")) as engine:
        engine.add(file.read_bytes())
    return ["--store", tmp_path / "store"]


@pytest.mark.parametrize("way", ["one by one", "large", "stdin", "stored"])
def test_an_offset_behind_a_kernel_says_how_long_that_is(way: str, run: Run, symd: Run, tmp_path: Path, monkeypatch):
    sample = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    file = Path(
        shutil.copy(sample, tmp_path)
    )  # a large file is read as a small one where split debug data stands beside it
    options = options_of(way, file, tmp_path, monkeypatch)
    told = (
        symd("symbolize", file, "-", stdin=b"shade+0x10000\n")
        if way == "stdin"
        else run("symbolize", *options, file, "shade+0x10000")
    )
    assert told.out == "shade+0x10000: no answer [OUTSIDE_TEXT]\n"
    assert told.err == "symd: shade is 180 (0xb4) bytes long; 0x10000 is past the end\n"
    assert "is past the end" not in run("symbolize", file, "0x1").err


@pytest.mark.parametrize("way", ["one by one", "large", "stored"])
def test_the_size_of_spirv_that_is_not_meant_is_not_told(way: str, run: Run, tmp_path: Path, monkeypatch) -> None:
    samples = ROOT / "samples"
    spirv = (samples / "spirv" / "bin" / "atomics.O2.legacy.spv").read_bytes().replace(b"count", b"shade")
    file = tmp_path / "both.a"
    file.write_bytes(in_archive(spirv, (samples / "amdgpu" / "bin" / "v4-gfx900.co").read_bytes()))
    options = options_of(way, file, tmp_path, monkeypatch)
    told = run("symbolize", *options, file, "shade+0x300")
    assert told.err == "symd: shade is 180 (0xb4) bytes long; 0x300 is past the end\n"
    told = run("symbolize", *options, "--object", "m0", file, "shade+0x10000")
    assert told.err == "symd: shade is 968 (0x3c8) bytes long; 0x10000 is past the end\n"


@pytest.mark.parametrize("way", ["one by one", "large", "stdin", "stored"])
def test_a_name_that_spirv_alone_has_says_what_to_write(way: str, run: Run, symd: Run, tmp_path: Path, monkeypatch):
    samples = ROOT / "samples" / "spirv" / "bin"
    other, asked = (samples / name for name in ("blend.dpcpp.spv", "inline.O2.ocl-100.spv"))
    file = tmp_path / "two images.a"
    file.write_bytes(in_archive(other.read_bytes(), asked.read_bytes()))
    options = options_of(way, file, tmp_path, monkeypatch)
    told = (
        symd("symbolize", file, "-", stdin=b"fade+0x10\n")
        if way == "stdin"
        else run("symbolize", *options, file, "fade+0x10")
    )
    assert told.out == "fade+0x10: no answer [UNKNOWN_KERNEL]\n"
    assert told.err == f"symd: SPIR-V alone has that: symd symbolize '{file}' --object m1 fade+0x10\n"
    assert run("symbolize", file, "--object", "m1", "fade+0x10").code == 0


def test_a_terminal_is_told_that_queries_are_read_from_it(sample: Path) -> None:
    leader, follower = pseudo_terminal()
    with subprocess.Popen(
        [*SYMD, "symbolize", str(sample)], stdin=follower, stderr=subprocess.PIPE, text=True
    ) as asked:
        os.close(follower)
        assert asked.stderr is not None
        assert "reading queries from the terminal" in asked.stderr.readline()
        os.write(leader, b"\x04")
        assert asked.wait(60) == 0
    os.close(leader)


@pytest.mark.parametrize("session", [False, True])
def test_a_decimal_number_outside_the_text_is_told_where_it_lies_inside_as_hexadecimal(
    symd: Run, session: bool
) -> None:
    """1978 is outside, 0x1978 is blend; 16 lies outside either way."""
    file = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    queries = ["16", "1978", "0x1978"]
    outcome = symd("symbolize", file, *([] if session else queries), stdin="\n".join(queries).encode())
    assert outcome.out.splitlines()[:3] == [
        "16: no answer [OUTSIDE_TEXT]",
        "1978: no answer [OUTSIDE_TEXT]",
        "0x1978: blend at /src/shade.cl:13:25",
    ]
    assert outcome.err == "symd: 1978 is decimal and lies outside the text; did you mean 0x1978?\n"
    assert outcome.code == 0


@pytest.mark.parametrize("query", ["16", "0x10", "shade+99999", "shade+0x99999"])
def test_of_a_number_that_lies_outside_either_way_no_other_is_suggested(symd: Run, query: str) -> None:
    outcome = symd("symbolize", ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co", query)
    assert outcome.out == f"{query}: no answer [OUTSIDE_TEXT]\n"
    assert "did you mean 0x" not in outcome.err
    assert "did you mean shade+0x9" not in outcome.err


def test_where_the_kernels_are_is_said_of_an_address_outside_the_text(symd: Run) -> None:
    """From the first to the last byte of the kernels, which readelf lists with their sizes."""
    file = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    kernels = re.findall(
        r"(\w{16}) +(\d+) FUNC .* (?:shade|clear)$", output(require("readelf"), "-sW", file), re.MULTILINE
    )
    begins = [int(begin, 16) for begin, _ in kernels]
    end = max(int(begin, 16) + int(size) for begin, size in kernels) - 1
    said = symd("symbolize", file, "0x1280").err
    assert said == f"symd: 0x1280 lies outside the text; its kernels lie at {min(begins):#x} to {end:#x}\n"


def test_a_store_that_does_not_exist_is_told(symd: Run, tmp_path: Path) -> None:
    """The answer is that of the file."""
    file = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    outcome = symd("symbolize", "--store", tmp_path / "nowhere", file, "0x1978")
    assert outcome.out == symd("symbolize", file, "0x1978").out
    assert outcome.err == f"symd: {tmp_path}/nowhere: there is no store, so the file itself is read\n"
    with Store(tmp_path / "store", durable=False):
        assert symd("symbolize", "--store", tmp_path / "store", file, "0x1978").err == "", "it only has no index"


LTO = ROOT / "samples" / "cuda" / "bin" / "saxpy.lto.fatbin"
SKIPPED = "LTO entry lto_90 at byte 16: skipped, it holds NVVM IR and no machine code, which linking makes of it (nvcc -dlto, nvlink)"


def with_line_tables_of_version(version: int, path: Path) -> bytes:
    """The code object at ``path`` as if its line tables were of another version."""
    data = bytearray(path.read_bytes())
    image = elf.parse(bytes(data), Budget(Limits()))
    lines = image.by_name[".debug_line"]
    at = lines.begin
    while at < lines.end:
        data[at + 4 : at + 6] = version.to_bytes(2, "little")
        at += 4 + int.from_bytes(data[at : at + 4], "little")
    return bytes(data)


@pytest.mark.parametrize("count", [1, 2, 100])
def test_debug_data_that_cannot_be_read_is_said_to_be_so(symd: Run, tmp_path: Path, count: int):
    module = tmp_path / "future.co"
    module.write_bytes(with_line_tables_of_version(6, ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"))
    done = symd("symbolize", module, "-", stdin=b"0x1800\n" * count)
    assert (done.code, done.out.count("[MALFORMED]")) == (0, count)
    [said] = done.err.splitlines()
    assert said.startswith("symd: debug data cannot be read: .debug_line: no line table can be read: ")
    assert said.endswith("line table version 6 is not read; 2 to 5 are")
    assert "there is no code object" not in symd("verify", module).out


@pytest.mark.parametrize(("queries", "code"), [(["0x10"], 0), (["0x10", "0x20"], 0), (["saxpy+0"], 1)])
def test_a_module_without_a_code_object_says_why(run: Run, queries: list[str], code: int):
    done = run("symbolize", LTO, *queries)
    first = done.err.splitlines()[0]
    assert (done.code, first) == (code, f"symd: {SKIPPED}")


def test_a_daemon_says_the_same(symd: Run, server: str):
    done = symd("symbolize", "--server", server, LTO, "0x10")
    assert done.err == f"symd: {SKIPPED}\n"


TRITON = ROOT / "samples" / "triton"
HELPER = TRITON / "bin" / "add-gfx942.hsaco"
AT_HELPER = "add+0x190"
"""In ``inner`` at line 9, called in ``scale`` at line 14, called in the kernel at line 28 of helpers.py."""


def test_one_question_beside_the_source_finds_it(symd: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Helpers have their names also where one address is asked for without options, as where many are."""
    place = Path(f"/tmp/symd-{os.getpid():09d}")  # as long as the folder that the debug data names
    image = tmp_path / "image.hsaco"
    image.write_bytes(HELPER.read_bytes().replace(b"/src/triton-samples", os.fsencode(place)))
    place.mkdir()
    try:
        shutil.copy(TRITON / "helpers.py", place)
        monkeypatch.chdir(place)
        one = symd("symbolize", image, AT_HELPER).out
        many = symd("symbolize", image, "-", stdin=f"{AT_HELPER}\n".encode()).out
    finally:
        shutil.rmtree(place)
    assert one == many
    assert one.startswith(f"{AT_HELPER}: inner at {place}/helpers.py:9:12 [INFERRED]\n")


@pytest.mark.parametrize("where", ["arguments", "input", "daemon"])
def test_python_sources_name_what_triton_inlined(run: Run, symd: Run, server: str, where: str):
    rule = f"--map=/src/triton-samples={TRITON}"
    said = {
        "arguments": lambda *options: run("symbolize", *options, HELPER, AT_HELPER),
        "input": lambda *options: symd("symbolize", *options, HELPER, "-", stdin=f"{AT_HELPER}\n".encode()),
        "daemon": lambda *options: run("symbolize", "--server", server, *options, HELPER, AT_HELPER),
    }[where]
    assert said(rule).out == (
        f"{AT_HELPER}: inner at /src/triton-samples/helpers.py:9:12 [INFERRED]\n"
        "  (inlined by) scale at /src/triton-samples/helpers.py:14:19\n"
        "  (inlined by) add at /src/triton-samples/helpers.py:28:23\n"
    )
    assert said().out == (
        f"{AT_HELPER}: (unnamed) at /src/triton-samples/helpers.py:9:12 [CONTRADICTORY]\n"
        "  (inlined by) (unnamed) at /src/triton-samples/helpers.py:14:19\n"
        "  (inlined by) add at /src/triton-samples/helpers.py:28:23\n"
    )
    assert said(rule, "--as-written").out == (
        f"{AT_HELPER}: add at /src/triton-samples/helpers.py:9:12\n"
        "  (inlined by) add at /src/triton-samples/helpers.py:14:19\n"
        "  (inlined by) add at /src/triton-samples/helpers.py:28:23\n"
    )
