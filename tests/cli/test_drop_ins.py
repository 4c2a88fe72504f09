"""symd llvm-symbolizer, symd addr2line and symbolize --style beside the tools themselves: byte for byte in every function of AMD's
samples, and for a program of the host."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from symd.cli.drop_ins import FunctionNames, source_lines
from symd.cli.llvm_symbolizer import Question, parse, read_question
from symd.cli.question_lines import _LONGEST_KEPT, RepeatedLines
from tests.cli.conftest import SYMD, Run, drawn_on, pseudo_terminal
from tests.tools import require

BIN = Path(__file__).parents[2] / "samples" / "amdgpu" / "bin"
UNREADABLE = ("zstd", "headers-cut", "stripped")
"""Samples that LLVM 14 or binutils cannot read, or that have no functions to ask about."""
MODULES = [
    *sorted(each.name for each in BIN.glob("v*-gfx*.co") if not each.stem.endswith(UNREADABLE)),
    "split-14-dwarf4-whole.co",
    "split-19-dwarf5-whole.co",
]
SYMBOLS_ALONE = ("v4-gfx900-lines.co", "v4-gfx900-nodebug.co")
"""No DIEs: LLVM knows no short names there, symd has the symbols' own."""
TWO_SYMBOLS = ("v6-gfx942-xnack.co",)
"""A kernel and its implementation are one function: LLVM names the symbol that comes first, symd the function of the debug data."""
LLVM_OPTIONS: list[list[str]] = [
    [],
    ["-a"],
    ["-p"],
    ["-a", "-p", "-s"],
    ["-f=none"],
    ["--functions=short"],
    ["--no-demangle"],
    ["-i"],
    ["--no-inlines"],
    ["--inlining=false", "--functions=short", "-p"],
    ["--no-inlines", "--output-style=GNU"],
    ["--output-style=GNU"],
    ["--output-style=GNU", "-apis"],
]
BINUTILS_OPTIONS = ["", "-f", "-fi", "-fip", "-fipa", "-fa", "-fs", "-fiC"]
NATIVE = """static inline __attribute__((always_inline)) int sq(int x) {
  return x * x;
}

int cube(int x) {
  return sq(x) * x;
}

int main(int argc, char **argv) {
  return cube(argc) + sq(argc + 1);
}
"""


def addresses(path: Path) -> list[str]:
    """Every fourth byte of every function: what lies between is padding, of which symd does not say what the row before says."""
    with path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        functions = {
            (symbol["st_value"], symbol["st_size"])
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC"
        }
    found = sorted(at for start, size in functions for at in range(start, start + size, 4))
    assert found
    return [hex(at) for at in found]


def said(command: Sequence[str], stdin: str | None = None, **environment: str) -> str:
    done = subprocess.run(
        command,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """A program of the host with debug data, and addresses in it."""
    folder = tmp_path_factory.mktemp("native")
    (folder / "t.c").write_text(NATIVE)
    program = folder / "t"
    subprocess.run([require("clang-14"), "-g", "-O1", str(folder / "t.c"), "-o", str(program)], check=True)
    with program.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        starts = [table.get_symbol_by_name(name)[0]["st_value"] for name in ("cube", "main")]
    return str(program), [hex(start + offset) for start in starts for offset in range(0, 8, 2)]


@pytest.mark.parametrize("name", [name for name in MODULES if name not in TWO_SYMBOLS])
def test_llvm_symbolizers_own_bytes(name: str, run: Run) -> None:
    path = str(BIN / name)
    asked = addresses(BIN / name)
    for options in LLVM_OPTIONS:
        if name in SYMBOLS_ALONE and "--functions=short" in options:
            continue
        theirs = said([require("llvm-symbolizer-14"), *options, "-e", path, *asked])
        assert run("llvm-symbolizer", *options, "-e", path, *asked).out == theirs, options


@pytest.mark.parametrize("name", [name for name in MODULES if name not in TWO_SYMBOLS])
def test_addr2lines_own_bytes(name: str, run: Run) -> None:
    path = str(BIN / name)
    asked = [each.removeprefix("0x") for each in addresses(BIN / name)]
    for options in BINUTILS_OPTIONS:
        given = [options] if options else []
        theirs = said([require("addr2line"), *given, "-e", path, *asked])
        mine = run("addr2line", *given, "-e", path, *asked).out
        assert mine == theirs or "f" in options, options
        assert len(mine.splitlines()) == len(theirs.splitlines())
        named = [pair for pair in zip(mine.splitlines(), theirs.splitlines(), strict=True) if pair[0] != pair[1]]
        assert len(named) <= len(asked) // 20, options


@pytest.mark.parametrize("name", [name for name in MODULES if name not in TWO_SYMBOLS])
def test_where_binutils_names_another_function_llvm_names_ours(name: str, run: Run) -> None:
    """binutils 2.40 gives some inlined calls the name of the function around them."""
    path, asked = str(BIN / name), addresses(BIN / name)
    llvm = said([require("llvm-symbolizer-14"), "--output-style=GNU", "--no-demangle", "-e", path, *asked])
    mine = run("addr2line", "-fi", "-e", path, *asked).out
    assert mine.replace(":?\n", ":0\n") == llvm


def test_addr2line_takes_functions_and_offsets_as_binutils_does(run: Run) -> None:
    """A name alone that begins with a hexadecimal digit is a number there; an offset is decimal, octal or hexadecimal."""
    path = str(BIN / "v4-gfx900.co")
    places = ["shade", "shade+0x80", "shade+80", "shade+0100", "shade + 4", " shade+4x", "shade+", "march+12"]
    numbers = ["clear", "fade", "1978zz", "+4", "nope", "nope+4", ""]
    theirs = said([require("addr2line"), "-ai", "-e", path, *places, "clear+4", *numbers])
    assert theirs.count("/src/shade.cl") > len(places)
    assert run("addr2line", "-ai", "-e", path, *places, "clear+4", *numbers).out == theirs
    lines = "\n".join(places) + "\n"
    theirs = said([require("addr2line"), "-ai", "-e", path], lines)
    assert said([*SYMD, "addr2line", "-ai", "-e", path], lines) == theirs


def test_addr2line_finds_a_function_of_a_cubin_where_an_address_alone_means_several_sections(run: Run) -> None:
    """nvdisasm prints the same line there (tests/golden/cuda/lines.txt)."""
    cubin = str(BIN.parents[1] / "cuda" / "bin" / "raycast.sm_90.lines.cubin")
    assert run("addr2line", "-s", "-e", cubin, "raycast+0x100").out == "raycast.cu:29\n"
    assert run("addr2line", "-s", "-e", cubin, "nosuch+0x100").out == "??:0\n"


def test_a_linkage_name_that_is_not_mangled_is_the_name(run: Run, tmp_path: Path) -> None:
    """As Zig's compiler writes them; to symd's own words the function is called as in the source."""
    source, built = tmp_path / "abort.c", str(tmp_path / "abort.o")
    source.write_text('void abort_(int *) __asm__("process.abort");\nvoid abort_(int *p) { *p = 1; }\n')
    target = ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx900", "-nogpulib"]
    said([require("clang-19"), *target, "-g", "-O1", "-c", str(source), "-o", built])
    for options in ([], ["--output-style=GNU"], ["--no-demangle"], ["-f=short"]):
        theirs = said([require("llvm-symbolizer-19"), *options, "-e", built, "0x0"])
        assert run("llvm-symbolizer", *options, "-e", built, "0x0").out == theirs, options


def test_a_value_behind_its_letter_is_no_request_for_help(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shade.co").write_bytes((BIN / "v4-gfx900.co").read_bytes())
    monkeypatch.chdir(tmp_path)
    for tool, options in (("addr2line", ["-f", "-eshade.co"]), ("llvm-symbolizer-14", ["-f=short", "-e", "shade.co"])):
        theirs = said([require(tool), *options, "0x1940"])
        assert run(tool.removesuffix("-14"), *options, "0x1940").out == theirs


def without_beginnings(text: str) -> list[object]:
    """JSON without what symd does not keep: where a function begins, and discriminators."""
    values = json.loads(text)
    for value in values:
        for symbol in value["Symbol"]:
            for key in ("StartAddress", "StartFileName", "Discriminator"):
                symbol.pop(key, None)
    return list(values)


@pytest.mark.parametrize("name", MODULES[:3])
def test_json_says_the_same(name: str, run: Run) -> None:
    arguments = ["--output-style=JSON", "-e", str(BIN / name), *addresses(BIN / name), "0x5"]
    theirs = without_beginnings(said([require("llvm-symbolizer-14"), *arguments]))
    assert without_beginnings(run("llvm-symbolizer", *arguments).out) == theirs


def test_a_program_of_the_host_is_the_tools_own(native: tuple[str, list[str]]) -> None:
    program, asked = native
    for options in LLVM_OPTIONS:
        theirs = said([require("llvm-symbolizer-14"), *options, "-e", program, *asked])
        folder = str(Path(require("llvm-symbolizer-14")).resolve().parent)
        mine = said([*SYMD, "llvm-symbolizer", *options, "-e", program, *asked], SYMD_TOOLS=folder)
        assert mine == theirs
    theirs = said([require("addr2line"), "-fipa", "-e", program, *asked])
    assert said([*SYMD, "addr2line", "-fipa", "-e", program, *asked]) == theirs


def test_lines_name_their_modules(native: tuple[str, list[str]], tmp_path: Path) -> None:
    """As Perfetto asks: one process, and modules of GPUs and of the host in turns."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "llvm-symbolizer").symlink_to(require("llvm-symbolizer-14"))
    program, asked = native
    gpu = str(BIN / "v4-gfx900.co")
    lines = f'CODE "{gpu}" 0x1900\n{program} {asked[0]}\nCODE {gpu} 0x1904\n"{program}" {asked[-1]}\n'
    for style in ("LLVM", "GNU", "JSON"):
        options = [f"--output-style={style}"]
        theirs = said([require("llvm-symbolizer-14"), *options], lines)
        mine = said([*SYMD, "llvm-symbolizer", *options], lines, SYMD_TOOLS=str(tools))
        if style != "JSON":
            assert mine == theirs
        else:
            both = [[without_beginnings(f"[{line}]") for line in text.splitlines()] for text in (mine, theirs)]
            assert both[0] == both[1]


@pytest.mark.parametrize("version", [14, 22])
@pytest.mark.parametrize("style", ["LLVM", "GNU", "JSON"])
def test_lines_that_the_tool_cannot_read_are_its_own(
    version: int, style: str, native: tuple[str, list[str]], tmp_path: Path
) -> None:
    """LLVM 14 says such a line once more, without the empty line that ends an answer: symd waited for that without end."""
    tool = require(f"llvm-symbolizer-{version}")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "llvm-symbolizer").symlink_to(tool)
    program, asked = native
    odd = (
        f"{program} zork",
        f"{program} +5",
        f"{program} \N{ARABIC-INDIC DIGIT FIVE}",
        f"SYMBOL {program} 0x10",
        f"DATA {program} 0x10",
        f"{program} \t0x10",
        f"{program} 0x{'1' * 2000}",
    )
    lines = "".join(f"{line}\n{program} {asked[0]}\n" for line in odd)
    options = [f"--output-style={style}"]
    theirs = said([tool, *options], lines)
    assert said([*SYMD, "llvm-symbolizer", *options], lines, SYMD_TOOLS=str(tools)) == theirs


def test_each_line_is_answered_before_the_next_is_asked() -> None:
    command = [*SYMD, "llvm-symbolizer", "-e", str(BIN / "v4-gfx900.co")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for place, function in (("0x1900", "shade\n"), ("clear", "clear\n"), ("nothing", "??\n")):
            process.stdin.write(f"{place}\n")
            process.stdin.flush()
            assert process.stdout.readline() == function
            assert process.stdout.readline()
            assert process.stdout.readline() == "\n"
        process.stdin.close()


def test_lines_that_come_again_are_answered_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked: list[str] = []

    def answers(texts: Sequence[str]) -> list[str | None]:
        asked.extend(texts)
        return [None if text == "theirs" else f"<{text}>" for text in texts]

    anew: list[str] = []

    def ask_anew(text: str) -> str:
        anew.append(text)
        return "anew"

    lines = RepeatedLines(answers, ask_anew)
    for text in (" a\nb\na\n\ntheirs\n", "theirs\nb\n a\nc"):
        (tmp_path / "asked").write_text(text)
        with (tmp_path / "asked").open() as stream:
            lines.follow(stream.fileno())
    assert capsys.readouterr().out == "<a><b><a><>anewanew<b><a><c>"
    assert asked == ["a", "b", "a", "", "theirs", "c"]
    assert anew == ["theirs", "theirs"]


def asked_in_turn(pieces: Sequence[Sequence[bytes]], answer: str = "") -> list[str]:
    """What is asked where lines come in these pieces; each is answered right."""
    asked: list[str] = []

    def answers(texts: Sequence[str]) -> list[str]:
        asked.extend(texts)
        return [f"{text[:20]}{answer}" for text in texts]

    lines = RepeatedLines(answers)
    for piece in pieces:
        assert lines.answers(piece) == [f"{line.decode()[:20]}{answer}" for line in piece]
    return asked


def test_no_more_lines_are_kept_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.cli.question_lines._KEPT_LINES", 3)
    assert asked_in_turn([[b"a"], [b"b"], [b"c", b"a"], [b"d"], [b"a", b"d"], [b"a"]]) == [*"abcd", *"ad"]


@pytest.mark.parametrize("answer", ["", "!" * 30])
def test_characters_of_lines_and_of_answers_count(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr("symd.cli.question_lines._KEPT_CHARACTERS", 100)
    first, second, third = (letter * (25 if not answer else 5) for letter in (b"a", b"b", b"c"))
    said = [line.decode() for line in (first, second, third, first)]
    assert asked_in_turn([[first, first], [second], [second], [third], [first]], answer) == said


def test_a_long_line_is_answered_and_not_kept() -> None:
    kept, long = b"k" * _LONGEST_KEPT, b"l" * (_LONGEST_KEPT + 1)
    assert asked_in_turn([[long, kept, long], [kept], [long, kept]]) == [long.decode(), kept.decode(), long.decode()]


def test_memory_does_not_grow_with_long_lines() -> None:
    lines = RepeatedLines(lambda texts: ["??:0\n"] * len(texts))
    tracemalloc.start()
    for number in range(1000):
        lines.answers([b"%x %s" % (number, b"x" * 60_000)])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 << 20


@pytest.mark.parametrize("options", [[], ["-p"], ["-a"], ["--output-style=GNU"]])
def test_many_lines_are_those_of_the_tool(options: list[str]) -> None:
    path = BIN / "v4-gfx900.co"
    text = "\n".join([f"{kind}{place}" for place in addresses(path) for kind in ("", "CODE ")] * 50)
    theirs = said([require("llvm-symbolizer-14"), *options, "-e", str(path)], text)
    assert said([*SYMD, "llvm-symbolizer", *options, "-e", str(path)], text) == theirs


def test_the_shim_is_asked_as_perfetto_asks_it(tmp_path: Path, run: Run) -> None:
    """trace_processor runs ``llvm-symbolizer --output-style=JSON`` from PATH, writes a quoted path and an address, and reads one
    line before it writes the next (google/perfetto, util/symbolizer/local_symbolizer.cc)."""
    assert run("install-shim", tmp_path / "shims").code == 0
    path = BIN / "v4-gfx900.co"
    places = ("0x1900", "0x1904", "0x10")
    lines = "".join(f'"{path}" {place}\n' for place in places)
    theirs = said([require("llvm-symbolizer-14"), "--output-style=JSON"], lines).splitlines()
    variables = {**os.environ, "PATH": f"{tmp_path / 'shims'}:{os.environ['PATH']}"}
    command = ["llvm-symbolizer", "--output-style=JSON"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=variables,
        executable=tmp_path / "shims" / command[0],
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, expected in zip(lines.splitlines(), theirs, strict=True):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            assert without_beginnings(f"[{answer}]") == without_beginnings(f"[{expected}]")
        process.stdin.close()


@pytest.mark.parametrize("style", ["llvm", "gnu"])
def test_styles_of_symbolize(style: str, run: Run) -> None:
    path = BIN / "v4-gfx900.co"
    asked = addresses(path)
    options = ["-a", "-s", "-p", "--adjust-vma=0x0"]
    theirs = said([require("llvm-symbolizer-14"), f"--output-style={style.upper()}", *options, "-e", str(path), *asked])
    assert run("symbolize", "--style", style, *options, str(path), *asked).out == theirs
    assert run("symbolize", "--style", style, *options, "-e", str(path), *asked).out == theirs


def test_an_offset_of_the_mapping_is_taken_off(run: Run) -> None:
    path = str(BIN / "v4-gfx900.co")
    moved = [require("llvm-symbolizer-14"), "--adjust-vma=0x10", "-e", path, "0x1910"]
    assert run("llvm-symbolizer", "--adjust-vma=0x10", "-e", path, "0x1910").out == said(moved)
    assert run("symbolize", "--style=llvm", "--adjust-vma=0x10", "-e", path, "0x1910").out == said(moved)


def test_source_lines_as_llvm_numbers_them(native: tuple[str, list[str]]) -> None:
    program, asked = native
    source = str(Path(program).with_name("t.c"))
    for count in (1, 2, 3, 4, 5, 40):
        theirs = said([require("llvm-symbolizer-14"), f"--print-source-context-lines={count}", "-e", program, asked[0]])
        assert f"t.c:2:12\n{source_lines(source, 2, count)}cube\n" in theirs
    assert source_lines(source, 200, 3) == ""
    assert source_lines("/nowhere/t.c", 2, 3) == ""


def test_options_of_styles_need_one(run: Run) -> None:
    outcome = run("symbolize", "-s", str(BIN / "v4-gfx900.co"), "0x1900")
    assert outcome.code == 2
    assert "--style" in outcome.err


def test_the_command_line_of_llvms_tool() -> None:
    line = parse(["-ap", "-obj=x", "--functions", "0x10", "--output-style", "GNU", "--adjust-vma=16", "--no-inlines"])
    assert (line.module, line.style, line.adjust, line.questions) == ("x", "GNU", 16, ("0x10",))
    assert (line.options.addresses, line.options.pretty, line.options.inlines) == (True, True, False)
    assert line.options.functions is FunctionNames.LINKAGE
    for foreign in ("--filter-markup", "--version", "--functions=every", "--output-style=XML", "--zork"):
        assert parse([foreign]).foreign


@pytest.mark.parametrize(
    ("text", "module", "expected"),
    [
        ("0x10", "m", ("CODE", "m", "0x10")),
        ("CODE 0x10", "m", ("CODE", "m", "0x10")),
        ('CODE "a b" 0x10', "", ("CODE", "a b", "0x10")),
        ("FILE:x 12", "", ("CODE", "x", "12")),
        ("DATA x 12", "", ("DATA", "x", "12")),
        ("0x10", "", ("CODE", "", "")),
        ('"x 0x10', "", ("CODE", "", "")),
        ("", "m", ("CODE", "m", "")),
    ],
)
def test_what_a_line_asks(text: str, module: str, expected: tuple[str, str, str]) -> None:
    assert read_question(text, module) == Question(text, *expected)


def test_shims_answer_in_the_tools_place(tmp_path: Path, native: tuple[str, list[str]], run: Run) -> None:
    folder = tmp_path / "shims"
    assert run("install-shim", str(folder)).out.splitlines() == [
        str(folder / "llvm-symbolizer"),
        str(folder / "addr2line"),
    ]
    assert run("install-shim", str(folder)).code == 0
    assert stat.S_IMODE((folder / "addr2line").stat().st_mode) == 0o755
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    gpu = str(BIN / "v4-gfx900.co")
    assert said(["sh", "-c", f"addr2line -fe '{gpu}' 1900"], PATH=path) == "shade\n/src/shade.cl:18\n"
    program, asked = native
    theirs = said([require("addr2line"), "-fe", program, asked[0]])
    assert said(["sh", "-c", f"addr2line -fe '{program}' {asked[0]}"], PATH=path) == theirs


def test_a_shim_replaces_nobody_elses_program(tmp_path: Path, run: Run) -> None:
    (tmp_path / "addr2line").write_text("somebody's")
    outcome = run("install-shim", str(tmp_path))
    assert (outcome.code, (tmp_path / "addr2line").read_text()) == (2, "somebody's")
    assert "--force" in outcome.err
    assert run("install-shim", "--force", str(tmp_path)).code == 0


def test_questions_of_the_command_line_name_their_modules(native: tuple[str, list[str]], tmp_path: Path) -> None:
    (tmp_path / "llvm-symbolizer").symlink_to(require("llvm-symbolizer-14"))
    program, asked = native
    questions = [f"{BIN / 'v4-gfx900.co'} 0x1900", f"{program} {asked[0]}"]
    theirs = [
        *without_beginnings(said([require("llvm-symbolizer-14"), "--output-style=JSON", "-e", *questions[0].split()])),
        *without_beginnings(said([require("llvm-symbolizer-14"), "--output-style=JSON", "-e", *questions[1].split()])),
    ]
    mine = said([*SYMD, "llvm-symbolizer", "--output-style=JSON", *questions], SYMD_TOOLS=str(tmp_path))
    assert without_beginnings(mine) == theirs


def test_styles_of_queries_that_look_like_numbers() -> None:
    command = [*SYMD, "symbolize", "--style", "llvm", "-a", str(BIN / "v4-gfx900.co")]
    done = subprocess.run(command, input="0123\n12ab\n0x1900\n", capture_output=True, text=True, check=False)
    assert done.stdout.split("\n\n") == [
        "0x7b\n??\n??:0:0",
        "12ab\n??\n??:0:0",
        "0x1900\nshade\n/src/shade.cl:18:0",
        "",
    ]
    assert "Traceback" not in done.stderr


def test_one_kind_of_json_at_a_time(run: Run) -> None:
    outcome = run("symbolize", "--style", "llvm", "--json", str(BIN / "v4-gfx900.co"), "0x1900")
    assert outcome.code == 2
    assert "--style json" in outcome.err


def test_a_shim_imports_nothing_from_the_folder_it_is_called_in(tmp_path: Path, run: Run) -> None:
    run("install-shim", str(tmp_path / "shims"))
    there = tmp_path / "there"
    there.mkdir()
    for name in ("json.py", "click.py"):
        (there / name).write_text("raise SystemExit(99)")
    command = [str(tmp_path / "shims" / "addr2line"), "-fe", str(BIN / "v4-gfx900.co"), "1900"]
    done = subprocess.run(command, cwd=there, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "shade\n/src/shade.cl:18\n")


def test_the_tool_that_path_finds_first_is_the_original(tmp_path: Path) -> None:
    tool = tmp_path / "addr2line"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert said([*SYMD, "addr2line", "-e", "/bin/sh", "10"], PATH=path) == "mine\n"


@pytest.mark.parametrize("verb", ["addr2line", "llvm-symbolizer"])
@pytest.mark.parametrize("asks", ["arguments", "lines"])
def test_names_with_controls_reach_programs_as_they_stand_and_terminals_escaped(
    tmp_path: Path, verb: str, asks: str
) -> None:
    file = tmp_path / "hostile.co"
    file.write_bytes((BIN / "v4-gfx900.co").read_bytes().replace(b"shade.cl", b"\x1b[2J\a.cl"))
    command = [*SYMD, verb, "-e", str(file), *(["0x1978"] if asks == "arguments" else [])]
    master, slave = pseudo_terminal()
    try:
        piped = subprocess.run(command, input=b"0x1978\n", capture_output=True, timeout=120, check=True)
        subprocess.run(command, input=b"0x1978\n", stdout=slave, timeout=120, check=True)
    finally:
        os.close(slave)
    shown = drawn_on(master)
    assert b"\x1b[2J" in piped.stdout
    assert b"\x1b" not in shown
    assert b"\\x1b[2J" in shown


RAYCAST = BIN.parents[1] / "kernels" / "bin" / "raycast" / "dg2-opt-zebin.raycast.elf"


def test_addr2line_says_once_that_a_line_is_not_certain(run: Run) -> None:
    """The places are CONTRADICTORY, where symd gives no line; their lines are those that LLVM prints too."""
    asked = ["0x100", "0x108", "raycast+0x110"]
    done = run("addr2line", "-e", RAYCAST, *asked)
    theirs = said(
        [require("llvm-symbolizer-14"), "--output-style=GNU", "-f=none", "-e", str(RAYCAST), "0x100", "0x108", "0x110"]
    )
    assert done.out.splitlines() == theirs.splitlines()
    assert done.err.count("\n") == 1
    assert "symd: 0x100: the debug data contradicts itself here (CONTRADICTORY)" in done.err
    assert f"; symd symbolize {RAYCAST} 0x100 says what is certain" in done.err
    assert "[CONTRADICTORY]" in run("symbolize", RAYCAST, "0x100").out


def test_addr2line_says_nothing_of_lines_that_are_certain(run: Run) -> None:
    assert run("addr2line", "-fie", BIN / "v4-gfx900.co", "0x1978", "0x1998").err == ""
    inferred = next(
        line
        for line in run("symbolize", RAYCAST, *(hex(each) for each in range(0, 0x6A0, 8))).out.splitlines()
        if "[INFERRED]" in line
    )
    place, _, answer = inferred.partition(": ")
    line = answer.rpartition(":")[0].rpartition(":")[2] or "?"
    done = run("addr2line", "-e", RAYCAST, place)
    assert (done.out.strip().rpartition(":")[2] == line) == (done.err == "")
