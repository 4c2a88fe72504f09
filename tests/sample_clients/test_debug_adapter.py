"""The sample debug adapter, spoken to as an editor does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.agreement.dwarfdump_dies import Die, Tree
from tests.agreement.llvm import Row, line_tables
from tests.tools import output, require

ROOT = Path(__file__).parents[2]
SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
PLACE = "shade+0x98"
PATIENCE = 120
FILE = "/src/shade.cl"


def symd(*words: object) -> list[dict[str, Any]]:
    """What the command line answers."""
    command = [sys.executable, "-m", "symd", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=False)
    assert done.returncode in (0, 1), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class Editor:
    """One session with the adapter; ``events`` are those that came while answers were waited for."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.number, self.events = process, 0, []

    def send(self, command: str, arguments: dict[str, Any]) -> int:
        self.number += 1
        message = {"seq": self.number, "type": "request", "command": command, "arguments": arguments}
        data = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()
        return self.number

    def receive(self) -> dict[str, Any]:
        length = self.process.stdout.readline()
        assert length.startswith(b"Content-Length: "), length
        assert self.process.stdout.readline() == b"\r\n"
        return json.loads(self.process.stdout.read(int(length.split()[1])))

    def answer(self, command: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        number = self.send(command, arguments or {})
        while (message := self.receive())["type"] == "event":
            self.events.append(message["event"])
        assert (message["type"], message["request_seq"], message["command"]) == ("response", number, command)
        return message

    def ask(self, command: str, arguments: dict[str, Any] | None = None) -> Any:
        answer = self.answer(command, arguments)
        assert answer["success"], answer
        return answer["body"]


@pytest.fixture
def editor():
    command = [sys.executable, str(ROOT / "samples" / "clients" / "debug_adapter.py")]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    ) as process:
        yield Editor(process)
        process.stdin.close()
        process.wait(PATIENCE)


@pytest.fixture
def stopped(editor: Editor) -> Editor:
    editor.ask("initialize", {"adapterID": "symd"})
    editor.ask("attach", {"module": str(SHADE), "place": PLACE})
    editor.ask("configurationDone")
    return editor


def test_a_session_begins_stops_and_ends(editor: Editor) -> None:
    capabilities = editor.ask("initialize", {"adapterID": "symd"})
    assert capabilities["supportsBreakpointLocationsRequest"]
    assert capabilities["supportsDisassembleRequest"]
    editor.ask("attach", {"module": str(SHADE), "place": PLACE})
    editor.ask("configurationDone")
    assert editor.events == ["initialized", "stopped"]
    assert [each["name"] for each in editor.ask("threads")["threads"]] == ["shade"]
    editor.ask("disconnect")
    assert editor.process.wait(PATIENCE) == 0


def test_the_stack_goes_through_inlined_calls(stopped: Editor) -> None:
    [expected] = symd("symbolize", "--json", SHADE, PLACE)
    trace = stopped.ask("stackTrace", {"threadId": 1})
    assert len(expected["frames"]) > 1
    assert trace["totalFrames"] == len(expected["frames"])
    for shown, frame in zip(trace["stackFrames"], expected["frames"], strict=True):
        assert shown["name"] == frame["function"] + (" (inlined)" if frame["inlined"] else "")
        assert (shown["source"]["path"], shown["line"], shown["column"]) == (
            frame["file"],
            frame["line"],
            frame["column"],
        )
        assert int(shown["instructionPointerReference"], 16) == expected["address"]
    [second] = stopped.ask("stackTrace", {"threadId": 1, "startFrame": 1, "levels": 1})["stackFrames"]
    assert second == trace["stackFrames"][1]


def test_lines_that_can_have_breakpoints_are_those_of_the_line_table(stopped: Editor) -> None:
    found = stopped.ask("breakpointLocations", {"source": {"path": FILE}, "line": 1, "endLine": 40})["breakpoints"]
    rows = [
        row
        for row in symd("lines", "--json", SHADE)
        if row["file"] == FILE and row["is_stmt"] and not row["end_sequence"]
    ]
    assert {each["line"] for each in found} == {row["line"] for row in rows if row["line"]}


def test_breakpoints_are_set_where_symd_locates_them(stopped: Editor) -> None:
    lines = [13, 18, 24, 500]
    set_ = stopped.ask("setBreakpoints", {"source": {"path": FILE}, "breakpoints": [{"line": line} for line in lines]})
    for line, shown in zip(lines, set_["breakpoints"], strict=True):
        located = symd("locate", "--json", SHADE, f"{FILE}:{line}")
        if "reason" in located[0]:
            assert located[0]["reason"] == "PAST_END"
            assert (shown["verified"], shown["message"]) == (False, "no code at this line, nor behind it in the file")
        else:
            assert (shown["verified"], shown["line"]) == (True, located[0]["line"])
            assert int(shown["instructionReference"], 16) == located[0]["address"]
    assert [shown["verified"] for shown in set_["breakpoints"]][-1] is False


def test_variables_are_those_of_each_frame(stopped: Editor) -> None:
    expected = symd("variables", "--json", SHADE, PLACE)
    names = Counter((each.get("frame"), each["kind"], each["name"]) for each in expected)
    frames = stopped.ask("stackTrace", {"threadId": 1})["stackFrames"]
    shown = set()
    for frame in frames:
        for scope in stopped.ask("scopes", {"frameId": frame["id"]})["scopes"]:
            if scope["name"] == "Globals" and frame is not frames[-1]:
                continue
            for each in stopped.ask("variables", {"variablesReference": scope["variablesReference"]})["variables"]:
                shown.add((frame["name"], each["name"], each["type"], each["value"]))
    wanted = {
        (
            each["function"] + (" (inlined)" if each["inlined"] else ""),
            each["name"]
            + (f" (line {each['declared_line']})" if names[each.get("frame"), each["kind"], each["name"]] > 1 else ""),
            each["type"],
            each["location"] or ("<not here>" if each["live"] else "<optimized out>"),
        )
        for each in expected
    }
    assert shown == wanted
    assert len({name for name, *_ in shown}) > 1


def test_each_of_two_frames_of_one_name_has_its_own_variables(editor: Editor) -> None:
    """nested.clcpp: inner::f(x) is inlined into outer::f(x), that into twice, where two blocks hide i and t."""
    nested = ROOT / "samples" / "amdgpu" / "bin" / "nested-14.co"
    editor.ask("initialize")
    editor.ask("attach", {"module": str(nested), "place": "twice+0x54"})
    frames = editor.ask("stackTrace", {"threadId": 1})["stackFrames"]
    assert [each["name"] for each in frames] == ["f (inlined)", "f (inlined)", "twice"]
    shown = []
    for frame in frames:
        for scope in editor.ask("scopes", {"frameId": frame["id"]})["scopes"][:2]:
            found = editor.ask("variables", {"variablesReference": scope["variablesReference"]})["variables"]
            shown.append({each["name"]: each["value"] for each in found})
    inner, _, outer, _, _, locals_ = shown
    assert (inner, outer) == ({"x": "v6"}, {"x": "v4"}), (
        "v_fma_f32 v6, v6, s2, 1.0 is x * 3 + 1, v4 is added at the end"
    )
    assert set(locals_) == {"i (line 28)", "t (line 29)", "t (line 31)", "i (line 32)"}


def test_instructions_are_exactly_as_many_as_wanted(stopped: Editor) -> None:
    require("llvm-objdump")
    listed = [row for row in symd("listing", "--json", "--function", "shade", SHADE) if "address" in row]
    [place] = symd("symbolize", "--json", SHADE, PLACE)
    at = next(number for number, row in enumerate(listed) if row["address"] >= place["address"])
    wanted = {"memoryReference": hex(place["address"]), "instructionOffset": -3, "instructionCount": 8}
    found = stopped.ask("disassemble", wanted)["instructions"]
    assert [(int(each["address"], 16), each["instruction"]) for each in found] == [
        (row["address"], row["text"]) for row in listed[at - 3 : at + 5]
    ]
    assert [bytes.fromhex(each["instructionBytes"]).hex() for each in found] == [
        row["bytes"] for row in listed[at - 3 : at + 5]
    ]
    nowhere = stopped.ask("disassemble", {"memoryReference": "0x7fffffff", "instructionCount": 2})["instructions"]
    assert [each.get("presentationHint") for each in nowhere] == ["invalid", "invalid"]
    outside = stopped.ask("disassemble", {**wanted, "instructionOffset": -at - 2, "instructionCount": 4})[
        "instructions"
    ]
    assert [each.get("presentationHint") for each in outside] == ["invalid", "invalid", None, None]


def test_source_that_a_module_carries_is_given(editor: Editor) -> None:
    waves = ROOT / "samples" / "spirv" / "bin" / "waves.gVS.spv"
    row = next(row for row in symd("lines", "--json", waves) if row["line"])
    editor.ask("initialize")
    editor.ask("attach", {"module": str(waves), "place": str(row["address"])})
    source = editor.ask("stackTrace", {"threadId": 1})["stackFrames"][0]["source"]
    text = editor.ask("source", {"source": source, "sourceReference": source["sourceReference"]})["content"]
    assert text.splitlines() == (ROOT / "samples" / "spirv" / "waves.comp").read_text().splitlines()
    assert editor.answer("source", {"sourceReference": 99})["success"] is False


def test_files_are_where_the_rules_say(editor: Editor, tmp_path: Path) -> None:
    """Breakpoints are asked for by the path that the editor has, and frames lead there, whatever the daemon knows of it."""
    here = str(tmp_path / "shade.cl")
    editor.ask("initialize")
    editor.ask("attach", {"module": str(SHADE), "place": PLACE, "pathRules": {"/src": str(tmp_path)}})
    frames = editor.ask("stackTrace", {"threadId": 1})["stackFrames"]
    assert [each["source"] for each in frames] == [{"name": "shade.cl", "path": here}] * 2
    source = {"path": here}
    [stop] = editor.ask("setBreakpoints", {"source": source, "breakpoints": [{"line": 13}]})["breakpoints"]
    assert stop["verified"]
    assert editor.ask("breakpointLocations", {"source": source, "line": 13})["breakpoints"]
    [shown] = editor.ask("disassemble", {"memoryReference": stop["instructionReference"], "instructionCount": 1})[
        "instructions"
    ]
    assert shown["location"] == {"path": here}
    [unmapped] = editor.ask("setBreakpoints", {"source": {"path": "/other/shade.cl"}, "breakpoints": [{"line": 13}]})[
        "breakpoints"
    ]
    assert unmapped["message"].startswith("the module has no source file of this path")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("attach", {"module": "/nowhere", "place": "0"}),
        ("attach", {"module": str(SHADE), "place": "no place"}),
        ("attach", {"module": str(SHADE), "place": "nothing+0"}),
        ("attach", {"module": str(ROOT / "README.md"), "place": "0"}),
        ("attach", {}),
        ("fly", {}),
        ("stackTrace", {}),
    ],
)
def test_what_cannot_be_answered_is_said_and_the_session_goes_on(
    editor: Editor, command: str, arguments: dict[str, Any]
) -> None:
    editor.ask("initialize")
    answer = editor.answer(command, arguments)
    assert answer["success"] is False
    assert answer["message"]
    editor.ask("attach", {"module": str(SHADE), "place": PLACE})


def test_an_attach_that_fails_says_why_and_later_requests_say_that_nothing_is_open(editor: Editor) -> None:
    """An editor sends its breakpoints even so."""
    editor.ask("initialize")
    lacking = editor.answer("attach", {"module": str(SHADE)})
    assert lacking["message"] == 'attach needs place (such as "module": "k.co", "place": "vadd+8")'
    refused = editor.answer("attach", {"module": "/nowhere/k.co", "place": "0"})
    assert refused["message"] == "/nowhere/k.co: cannot read the module: No such file or directory"
    later = editor.answer("setBreakpoints", {"source": {"path": FILE}, "breakpoints": [{"line": 13}]})
    assert later["message"].startswith("no module is open: attach comes first")


def test_what_is_no_message_ends_the_session(editor: Editor) -> None:
    editor.process.stdin.write(b"Content-Length: 3\r\n\r\nabc")
    editor.process.stdin.close()
    assert editor.process.wait(PATIENCE) == 0


NESTED = ROOT / "samples" / "amdgpu" / "bin" / "nested-14.co"


class Machine:
    """Steps by brute force: each address after another, with what llvm-dwarfdump prints of its row and of the functions around it."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.tables, tree = line_tables(path.read_bytes(), folder), Tree(path)
        tags = ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine")
        self.functions = [die for die in tree.dies.values() if die.tag in tags and die.ranges()]

    def row(self, address: int) -> Row:
        rows = [
            pair for table in self.tables for pair in pairwise(table) if pair[0].address <= address < pair[1].address
        ]
        return rows[-1][0]

    def around(self, address: int) -> list[Die]:
        """Innermost first."""
        found = [die for die in self.functions if any(low <= address < high for low, high in die.ranges())]
        return sorted(found, key=lambda die: sum(high - low for low, high in die.ranges()))

    def step(self, address: int, granularity: str, *, into: bool = False) -> int | None:
        own, *_, outermost = [*self.around(address), self.around(address)[-1]]
        start = self.position(address, granularity)
        for at in range(address + 4, outermost.ranges()[0][1], 4):
            around, row = self.around(at), self.row(at)
            is_inlined = own in around and around[0] is not own
            if not row.line or (is_inlined and not into):
                continue
            if own not in around or is_inlined or self.position(at, granularity) != start:
                return at
        return None

    def out(self, address: int) -> int:
        [end] = [high for low, high in self.around(address)[0].ranges() if low <= address < high]
        return next(at for at in range(end, end + 0x1000, 4) if self.row(at).line)

    def position(self, address: int, granularity: str) -> tuple[str, int, int]:
        row = self.row(address)
        return row.file, row.line, row.column if granularity == "statement" else 0


def attached(editor: Editor, module: Path, place: str) -> int:
    editor.ask("initialize")
    editor.ask("attach", {"module": str(module), "place": place})
    return pointer(editor)


def pointer(editor: Editor) -> int:
    return int(editor.ask("stackTrace", {"threadId": 1})["stackFrames"][0]["instructionPointerReference"], 16)


@pytest.mark.parametrize("granularity", ["statement", "line"])
@pytest.mark.parametrize("command", ["next", "stepIn"])
@pytest.mark.parametrize(("module", "kernel"), [(NESTED, "twice"), (SHADE, "shade")])
def test_steps_go_where_the_line_table_and_the_functions_say(
    editor: Editor, tmp_path: Path, module: Path, kernel: str, command: str, granularity: str
) -> None:
    machine, at, steps = Machine(module, tmp_path), attached(editor, module, f"{kernel}+0"), 0
    while True:
        expected = machine.step(at, granularity, into=command == "stepIn")
        editor.ask(command, {"threadId": 1, "granularity": granularity})
        if expected is None:
            break
        assert pointer(editor) == expected, hex(at)
        at, steps = expected, steps + 1
    editor.ask("threads")
    assert editor.events[-1] == "terminated"
    assert steps > 3
    assert editor.events.count("stopped") == steps + 1


def test_a_step_over_passes_what_is_inlined_and_a_step_into_does_not(editor: Editor) -> None:
    """From line 33 of nested.clcpp, t += outer::f(x), whose code begins where f is inlined."""
    attached(editor, NESTED, "twice+0")
    depths = []
    for _ in range(40):
        editor.ask("next", {"threadId": 1})
        if editor.ask("threads") and editor.events[-1] == "terminated":
            break
        depths.append(editor.ask("stackTrace", {"threadId": 1})["totalFrames"])
    assert set(depths) == {1}


def test_a_step_out_ends_behind_the_inlined_call(editor: Editor, tmp_path: Path) -> None:
    machine, at = Machine(NESTED, tmp_path), attached(editor, NESTED, "twice+0x54")
    depths = []
    for _ in range(2):
        depths.append(editor.ask("stackTrace", {"threadId": 1})["totalFrames"])
        expected = machine.out(at)
        editor.ask("stepOut", {"threadId": 1})
        assert pointer(editor) == expected
        at = expected
    assert depths == [3, 2]
    editor.ask("stepOut", {"threadId": 1})
    editor.ask("threads")
    assert editor.events[-1] == "terminated"


def test_steps_of_an_instruction_are_those_of_the_disassembler(editor: Editor) -> None:
    printed = output(require("llvm-objdump"), "-d", "--mcpu=gfx900", SHADE)
    addresses = [int(found, 16) for found in re.findall(r"// ([0-9A-F]{12}): ", printed)]
    at = attached(editor, SHADE, "shade+0x98")
    first = addresses.index(at)
    for expected in addresses[first + 1 : first + 6]:
        editor.ask("next", {"threadId": 1, "granularity": "instruction"})
        assert pointer(editor) == expected


def test_breakpoints_at_columns_are_where_the_line_table_has_them(stopped: Editor, tmp_path: Path) -> None:
    machine = Machine(SHADE, tmp_path)
    columns: dict[int, set[int]] = {}
    for row in (row for table in machine.tables for row in table):
        if (
            row.file == FILE.rpartition("/")[2]
            and row.line
            and row.column
            and {"is_stmt"} <= row.flags
            and "end_sequence" not in row.flags
        ):
            columns.setdefault(row.line, set()).add(row.column)
    wanted = [(line, column) for line, several in columns.items() if len(several) > 1 for column in sorted(several)]
    assert len(wanted) > 3
    set_ = stopped.ask(
        "setBreakpoints",
        {"source": {"path": FILE}, "breakpoints": [{"line": line, "column": column} for line, column in wanted]},
    )["breakpoints"]
    for (line, column), shown in zip(wanted, set_, strict=True):
        assert (shown["verified"], shown["line"], shown["column"]) == (True, line, column)
        row = machine.row(int(shown["instructionReference"], 16))
        assert (row.line, row.column) == (line, column)


def test_breakpoints_at_functions_are_inside_them_and_a_run_stops_there(editor: Editor, tmp_path: Path) -> None:
    machine = Machine(NESTED, tmp_path)
    start = attached(editor, NESTED, "twice+0")
    names = [{"name": each} for each in ("f", "twice", "nobody")]
    inlined, kernel, nobody = editor.ask("setFunctionBreakpoints", {"breakpoints": names})["breakpoints"]
    assert nobody == {"verified": False, "message": "no function of this name has code"}
    around = machine.around(int(inlined["instructionReference"], 16))
    assert around[0].tag == "DW_TAG_inlined_subroutine"
    assert machine.around(int(kernel["instructionReference"], 16))[-1] is machine.around(start)[-1]
    begins = [low for die in machine.functions if die.tag == "DW_TAG_inlined_subroutine" for low, _ in die.ranges()[:1]]
    rows = (row for table in machine.tables for row in table if "prologue_end" in row.flags)
    for expected in (min(row.address for row in rows if row.address >= start), min(begins)):
        editor.ask("continue", {"threadId": 1})
        assert pointer(editor) == expected
    editor.ask("setFunctionBreakpoints", {"breakpoints": []})
    editor.ask("continue", {"threadId": 1})
    editor.ask("threads")
    assert editor.events[-1] == "terminated"
