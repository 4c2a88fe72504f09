"""Commands of gdb and LLDB in the place of a verb: they are answered, or the call that answers them is written out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Run

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
CUBIN = ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.lines.cubin"
DUMP = ROOT / "samples" / "cores" / "bin" / "illegal_address.nvcudmp"

ANSWERED = {
    "the line of an address": (("image", "lookup", "-a", "0x1978", SHADE), ("symbolize", SHADE, "0x1978")),
    "options in one word": (("image", "lookup", "-va", "0x1978", SHADE), ("symbolize", SHADE, "0x1978")),
    "short words": (("im", "loo", "-v", "--address=0x1978", SHADE), ("symbolize", SHADE, "0x1978")),
    "the long name": (("target", "modules", "lookup", SHADE, "-a", "0x1978"), ("symbolize", SHADE, "0x1978")),
    "an option of symd's": (("image", "lookup", "--json", "-a", "0x1978", SHADE), ("symbolize", "--json", SHADE, "0x1978")),
    "a function": (("image", "lookup", "-n", "blend", SHADE), ("locate", SHADE, "blend")),
    "a function by the other option": (("image", "lookup", "-F", "shade", SHADE), ("locate", SHADE, "shade")),
    "a symbol": (("image", "lookup", "-s", "shade", SHADE), ("names", SHADE, "shade")),
    "a regular expression": (("image", "lookup", "-rn", "sh.*e$", SHADE), ("names", SHADE, "*sh*e")),
    "a part of a name": (("image", "lookup", "-r", "-s", "^blen", SHADE), ("names", SHADE, "blen*")),
    "breakpoints in functions of a pattern": (("breakpoint", "set", "-r", "had", SHADE), ("names", SHADE, "*had*")),
    "a line": (("image", "lookup", "-f", "shade.cl", "-l", "13", SHADE), ("locate", SHADE, "shade.cl:13")),
    "symbols": (("image", "dump", "symtab", SHADE), ("names", SHADE)),
    "a line table": (("target", "modules", "dump", "line-table", SHADE), ("lines", SHADE)),
    "sections": (("image", "dump", "sections", SHADE), ("info", SHADE)),
    "shared libraries in a file": (("info", "sharedlibrary", SHADE), ("info", SHADE)),
    "a module that is listed": (("image", "list", SHADE), ("info", SHADE)),
    "a target": (("target", "create", SHADE), ("info", SHADE)),
    "mixed source": (("disassemble", "-m", "-n", "shade", SHADE), ("listing", "--by-address", SHADE, "shade")),
    "bytes": (("di", "-b", "--name", "shade", SHADE), ("listing", "--by-address", SHADE, "shade")),
    "raw instructions": (("disassemble", "-r", "-n", "shade", SHADE), ("listing", "--by-address", SHADE, "shade")),
    "a number of instructions": (
        ("disassemble", "-s", "0x1978", "-c", "3", SHADE),
        ("listing", SHADE, "--around", "0x1978", "--before", "0", "--after", "2"),
    ),
    "instructions from a place on": (
        ("disassemble", "--start-address", "shade+0x80", SHADE),
        ("listing", SHADE, "--around", "shade+0x80", "--before", "0"),
    ),
    "a range": (
        ("disassemble", "-s", "0x1978", "-e", "0x1998", SHADE),
        ("listing", SHADE, "--start-address", "0x1978", "--stop-address", "0x1998"),
    ),
    "an end without a beginning": (("disassemble", "-e", "0x1908", SHADE), ("listing", SHADE, "--stop-address", "0x1908")),
    "instructions of a function, values in their options' words": (
        ("disassemble", "-nshade", "-c3", SHADE),
        ("listing", SHADE, "--around", "shade", "--before", "0", "--after", "2"),
    ),
    "the code around an address": (("dis", "-a", "0x1978", SHADE), ("listing", SHADE, "--around", "0x1978")),
    "a module that is disassembled": (("disassemble", "-m", SHADE), ("listing", "--by-address", SHADE)),
    "a breakpoint at a line": (("breakpoint", "set", "-f", "shade.cl", "-l", "13", SHADE), ("locate", SHADE, "shade.cl:13")),
    "a breakpoint at a column": (
        ("br", "s", "-f", "shade.cl", "-l", "13", "-u", "30", SHADE),
        ("locate", SHADE, "shade.cl:13:30"),
    ),
    "a breakpoint in a module": (("breakpoint", "set", "-H", "-s", SHADE, "--name=blend"), ("locate", SHADE, "blend")),
    "a breakpoint at an address": (("breakpoint", "set", "-a", "0x1978", SHADE), ("locate", SHADE, "0x1978")),
    "a breakpoint without options": (("breakpoint", "set", SHADE, "shade.cl:13"), ("locate", SHADE, "shade.cl:13")),
    "the source of a function": (("source", "list", "-n", "shade", SHADE), ("listing", SHADE, "--function", "shade")),
    "the source of a line": (("source", "list", "-f", "shade.cl", "-l", "13", SHADE), ("locate", SHADE, "shade.cl:13")),
    "variables": (("frame", "variable", SHADE, "0x1978"), ("variables", SHADE, "0x1978")),
    "the stack of an address": (("thread", "backtrace", SHADE, "0x1978"), ("symbolize", SHADE, "0x1978")),
    "the stack of a dump": (("th", "b", DUMP), ("core", DUMP)),
    "all stacks of a dump": (("thread", "backtrace", "all", DUMP), ("core", DUMP)),
    "all stacks of a dump in gdb": (("bt", "all", DUMP), ("core", DUMP)),
    "some frames of a dump in gdb": (("bt", "3", DUMP), ("core", DUMP)),
    "threads": (("thread", "list", DUMP), ("core", DUMP)),
    "LLDB before its command": (("lldb", "image", "lookup", "-a", "0x1978", SHADE), ("symbolize", SHADE, "0x1978")),
    "a command by an option": (("-b", "-o", "image lookup -a 0x1978", SHADE), ("symbolize", SHADE, "0x1978")),
    "LLDB and a command by an option": (("lldb", "-b", "-o", "image lookup -n blend", SHADE), ("locate", SHADE, "blend")),
    "a variable of LLDB": (("frame", "variable", "-T", "lane", SHADE, "0x1978"), ("variables", SHADE, "0x1978")),
    "where a variable is": (("info", "address", "lane", SHADE, "0x1978"), ("variables", SHADE, "0x1978")),
    "a scope": (("info", "scope", SHADE, "*0x1978"), ("variables", SHADE, "0x1978")),
    "the type of a variable": (("whatis", "lane", SHADE, "shade+0x78"), ("variables", SHADE, "shade+0x78")),
    "what a variable points at": (("p/x", "*in", "--json", SHADE, "0x1978"), ("variables", "--json", SHADE, "0x1978")),
    "a sum": (("print", "lane+1", "0x1978", SHADE), ("variables", SHADE, "0x1978")),
    "where a function is": (("info", "address", "shade", SHADE), ("names", SHADE, "shade")),
    "a dump and a command": (("-c", DUMP, "-batch", "-ex", "thread apply all bt"), ("core", DUMP)),
    "a dump": ((f"--core={DUMP}",), ("core", DUMP)),
    "gdb and a dump": (("gdb", "-c", DUMP), ("core", DUMP)),
    "LLDB and a dump": (("lldb", "-b", "-o", "thread backtrace", "-c", DUMP), ("core", DUMP)),
    "a program and its dump": (("cuda-gdb", CUBIN, DUMP), ("core", DUMP, "-m", CUBIN)),
    "gdb and instructions": (
        ("gdb", "-batch", "-ex", "x/2i shade", SHADE),
        ("listing", SHADE, "--around", "shade", "--before", "0", "--after", "1"),
    ),
    "gdb and a command by an option": (("gdb", "-batch", "-ex", "info line *0x1978", SHADE), ("symbolize", SHADE, "0x1978")),
    "a command behind its file": ((SHADE, "-ex", "info line *0x1978"), ("symbolize", SHADE, "0x1978")),
}  # fmt: skip
"""What is typed, and the call of symd that answers the same."""
WRITTEN = {
    "no module": (("image", "lookup", "-a", "0x1978"), "'image lookup'", "symd symbolize FILE 0x1978"),
    "no module for a function": (("image", "lookup", "-vn", "shade"), "'image lookup'", "symd locate FILE shade"),
    "no module for a line": (
        ("breakpoint", "set", "-f", "shade.cl", "-l", "13"),
        "'breakpoint set'",
        "symd locate FILE shade.cl:13",
    ),
    "no module to disassemble": (
        ("disassemble", "-m", "-n", "shade"),
        "'disassemble'",
        "symd listing FILE --by-address --function shade",
    ),
    "a module that is missing": (
        ("target", "modules", "lookup", "-n", "shade", "none.co"),
        "'target modules lookup'",
        "symd locate none.co shade",
    ),
    "variables": (("frame", "variable"), "'frame variable'", "symd variables FILE PLACE"),
    "a variable": (("fr", "v", "x"), "'fr v'", "symd variables FILE PLACE"),
    "a variable at a place": (("frame", "variable", "x", "0x1978"), "'frame variable'", "symd variables FILE 0x1978"),
    "a stack": (("thread", "backtrace"), "'thread backtrace'", "symd symbolize FILE ADDRESS"),
    "a frame": (("frame", "select", "1", SHADE), "'frame select'", f"symd symbolize {SHADE} ADDRESS"),
    "a line without its source": (
        ("image", "lookup", "-l", "13", SHADE),
        "'image lookup'",
        f"symd locate {SHADE} SOURCE:13",
    ),
    "a source without its line": (
        ("image", "lookup", "-f", "shade.cl", SHADE),
        "'image lookup'",
        f"symd locate {SHADE} shade.cl:LINE",
    ),
    "a number of instructions": (
        ("disassemble", "-c", "4", SHADE),
        "'disassemble'",
        f"symd listing {SHADE} --around START --before 0 --after 3",
    ),
    "a range in a kernel": (
        ("disassemble", "-s", "shade+0x10", "-e", "shade+0x40", SHADE),
        "'disassemble'",
        f"symd listing {SHADE} --around shade+0x10 --before 0",
    ),
    "a process": (("process", "attach", "-p", "4711"), "'process attach'", "symd attach 4711"),
    "a program": (("process", "launch", "--", "./app"), "'process launch'", "symd run -- ./app"),
    "a file for a target": (
        ("target", "modules", "add", SHADE),
        "'target modules add'",
        f"symd daemon add {SHADE}",
    ),
}
"""What is typed, the command of LLDB in it, and the call of symd that is named."""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of files that are typed without a folder are nobody's."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("typed", "meant"), ANSWERED.values(), ids=ANSWERED)
def test_a_command_about_a_file_is_answered(run: Run, typed: tuple[object, ...], meant: tuple[object, ...]) -> None:
    assert run(*typed) == run(*meant)


@pytest.mark.parametrize(("typed", "command", "call"), WRITTEN.values(), ids=WRITTEN)
def test_the_call_that_answers_a_command_is_written_out(
    run: Run, typed: tuple[object, ...], command: str, call: str
) -> None:
    done = run(*typed)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"symd: {command} is a command of LLDB; write {call} (see symd --help)\n"


@pytest.mark.parametrize("call", [call for *_, call in WRITTEN.values()], ids=WRITTEN)
def test_the_call_that_is_written_out_has_a_verb_of_symd(run: Run, call: str) -> None:
    verbs = [word for word in shlex.split(call)[1:3] if re.fullmatch("[a-z]+", word)]
    assert run(*verbs[: 1 + (verbs[0] == "daemon")], "--help").code == 0


def test_shared_libraries_of_a_debugger_are_the_modules_of_a_daemon(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = f"unix:{tmp_path}/nobody"
    monkeypatch.setenv("SYMD_SERVER", server)
    expected = run("daemon", "modules")
    assert server in expected.err
    for typed in (("info", "sharedlibrary"), ("image", "list"), ("target", "modules", "list")):
        assert run(*typed) == expected
    monkeypatch.delenv("SYMD_SERVER")
    for typed in (("info", "sharedlibrary"), ("image", "list")):
        assert run(*typed, "--server", server) == run("daemon", "modules", "--server", server)


@pytest.mark.parametrize(("command", "count"), [("x/i", 1), ("x/3i", 3), ("x/8i", 8)])
def test_so_many_instructions_of_gdb_begin_at_the_place(run: Run, command: str, count: int) -> None:
    shown = re.findall(r"^ +(?:=> )?(0x[0-9a-f]+)  ", run(command, SHADE, "0x1978").out, re.MULTILINE)
    assert (int(shown[0], 16), len(shown)) == (0x1978, count)


@pytest.mark.parametrize(
    ("typed", "call"),
    [
        (("x/8i", "0x1978"), "listing FILE --around 0x1978 --before 0 --after 7"),
        (("print", "x"), "variables FILE PLACE"),
        (("p", "x", "0x1978"), "variables FILE 0x1978"),
    ],
)
def test_a_command_of_gdb_without_a_file_is_answered_with_its_call(run: Run, typed: tuple[str, ...], call: str) -> None:
    verb = call.split(maxsplit=1)[0]
    assert run(*typed).err == f"symd: no verb {typed[0]!r}; did you mean {verb}? Write symd {call} (see symd --help)\n"


@pytest.mark.parametrize("before", [(), ("gdb",), ("gdb", SHADE), (SHADE,)])
def test_several_commands_are_answered_in_their_order(run: Run, before: tuple[object, ...]) -> None:
    done = run(
        *before,
        "-batch",
        "-ex",
        "set pagination off",
        "-ex",
        "info sources",
        "-ex",
        "info functions",
        *([] if SHADE in before else [SHADE]),
    )
    assert done.out == run("sources", SHADE).out + run("functions", SHADE).out
    assert (done.code, done.err) == (0, "")


def test_several_commands_of_lldb_are_answered_in_their_order(run: Run) -> None:
    done = run("lldb", "-b", "-o", "image lookup -n blend", "-o", "image lookup -a 0x1978", SHADE)
    assert done.out == run("locate", SHADE, "blend").out + run("symbolize", SHADE, "0x1978").out


@pytest.mark.parametrize("before", [("lldb", SHADE), (SHADE,), ("lldb",), ()])
def test_a_command_that_lacks_a_place_is_not_answered(run: Run, before: tuple[object, ...]) -> None:
    done = run(*before, "-o", "disassemble -c 4", *([] if SHADE in before else [SHADE]))
    assert (done.code, done.out) == (2, "")
    assert f"symd listing {SHADE} --around START --before 0 --after 3 (see" in done.err


def test_commands_with_the_same_answer_have_it_once(run: Run) -> None:
    done = run(f"--core={DUMP}", "-batch", "-ex", "info threads", "-ex", "thread apply all bt")
    assert done == run("core", DUMP)


@pytest.mark.parametrize("wrong", ["frobnicate 7", "run", "rm x"])
def test_a_command_that_is_not_understood_leaves_the_others_answered(run: Run, wrong: str) -> None:
    done = run("-batch", "-ex", wrong, "-ex", "info sources", SHADE)
    assert (done.code, done.out, done.err.count("\n")) == (2, run("sources", SHADE).out, 1)
    assert run("-batch", "-ex", wrong, SHADE).out == ""


def test_a_file_that_is_named_as_a_command_is_a_file(run: Run) -> None:
    Path("variable").write_bytes(SHADE.read_bytes())
    assert "is a command of LLDB" not in run("frame", "variable").err
    Path("variable").unlink()
    assert "is a command of LLDB" in run("frame", "variable").err


@pytest.mark.parametrize(
    "words",
    [
        ("disassemble", SHADE, "shade"),
        ("disassemble", "-d", "-S", SHADE, "shade"),
        ("disassemble", "-c", SHADE, "shade"),
        ("disassemble", "--function", "shade", SHADE),
    ],
)
def test_a_disassembly_without_options_of_lldb_is_a_listing(run: Run, words: tuple[object, ...]) -> None:
    assert run(*words) == run("listing", SHADE, "shade")


@pytest.mark.parametrize("call", ["b", "continue", "step"])
def test_a_command_of_one_word_is_none_of_these(run: Run, call: str) -> None:
    assert f"no verb '{call}'" in run(call).err


@pytest.mark.parametrize("typed", [("disassemble", "-c"), ("breakpoint", "set", "-f", "shade.cl", "-l")], ids=" ".join)
def test_a_number_of_any_length_is_refused_as_others_are(run: Run, typed: tuple[str, ...]) -> None:
    done = run(*typed, "9" * 5000, SHADE)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("symd: ")
