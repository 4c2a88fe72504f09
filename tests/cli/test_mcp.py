"""symd mcp, asked by the reference client of the package mcp, over standard input and output."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from symd.cli.mcp import with_whole_characters
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import BadQuery, LimitExceeded
from symd.model.answers import Answer, Candidate, Frame, Reason
from symd.model.sources import SourceText, TextOrigin
from symd.server.mcp import tools
from symd.server.mcp.tools import AskedModule, Tools
from symd.store import Store
from tests.cli.conftest import ROOT, Run
from tests.tools import output, require

pytest.importorskip("mcp", reason="the extra symd-gpu[mcp] is not installed")

SAMPLES = ROOT / "samples"
VADD = SAMPLES / "kernels" / "bin" / "vadd" / "dg2-opt.dbg"
SHADE = SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co"
PATIENCE = 120
"""Seconds after which a conversation counts as hung."""


def asked(
    calls: Sequence[tuple[str, dict[str, Any]]], *options: str, mode: str = "auto", cwd: Path = ROOT
) -> list[Any]:
    """What the server, started with these options, answers to each call: the structured content, or the text of the error. Without
    options it may open the samples."""
    from mcp.client import Client  # noqa: PLC0415 - the extra may be missing
    from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415

    async def talk() -> list[Any]:
        started = StdioServerParameters(
            command=sys.executable,
            args=["-m", "symd", "mcp", *(options or ("--source-root", str(SAMPLES)))],
            env={"PYTHONPATH": str(ROOT)},
            cwd=cwd,
        )
        with anyio.fail_after(PATIENCE):
            async with Client(stdio_client(started), mode=mode) as client:
                answers = []
                for name, arguments in calls:
                    if name == "tools/list":
                        answers.append((await client.list_tools()).tools)
                        continue
                    done = await client.call_tool(name, arguments)
                    answers.append(done.content[0].text if done.is_error else done.structured_content)
                return answers

    return anyio.run(talk)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_reference_client_lists_the_tools_and_asks(mode: str) -> None:
    listed, found = asked(
        [("tools/list", {}), ("symbolize", {"file": str(VADD), "places": ["vadd+0x1b0", "nothing+0"]})], mode=mode
    )
    assert {tool.name for tool in listed} >= {
        "info", "symbolize", "why_no_answer", "locate", "variables", "names", "listing", "hot_lines",
    }  # fmt: skip
    for tool in listed:
        assert tool.description
        assert all("description" in each for each in tool.input_schema["properties"].values()), tool.name
        assert tool.annotations.read_only_hint
    exact, unknown = found["answers"]
    assert (exact["reason"], unknown["reason"]) == ("EXACT", "UNKNOWN_KERNEL")


def test_answers_are_those_of_the_command(symd: Run) -> None:
    vadd = {"file": str(VADD)}
    symbolized, variables, located, named = asked(
        [
            ("symbolize", {**vadd, "places": ["vadd+0x1b0"]}),
            ("variables", {**vadd, "place": "vadd+0x1b0"}),
            ("locate", {**vadd, "place": "vadd.cl:14"}),
            ("names", {**vadd, "pattern": "*"}),
        ]
    )
    assert symbolized["answers"] == symd("symbolize", "--json", VADD, "vadd+0x1b0").json
    assert variables["variables"] == symd("variables", "--json", VADD, "vadd+0x1b0").json
    assert located["places"] == symd("locate", "--json", VADD, "vadd.cl:14").json
    assert named["names"] == symd("names", "--json", VADD, "*").json


def test_a_listing_has_the_source_below_an_allowed_folder_and_nowhere_else(tmp_path: Path) -> None:
    require("llvm-objdump")
    shutil.copytree(SAMPLES / "amdgpu" / "src", tmp_path / "src")
    wanted = {"file": str(SHADE), "kernel": "shade", "count": 1000}
    [open_folder] = asked([("listing", wanted)], "--map", f"/src={tmp_path}/src", str(SHADE))
    [closed] = asked([("listing", wanted)], "--source-root", str(tmp_path / "src"), str(SHADE))
    [found] = open_folder["objects"]
    text = (tmp_path / "src" / "shade.cl").read_text().splitlines()
    shown = {place: line for place, line in found["source"].items() if "shade.cl:" in place}
    assert shown
    assert all(line == text[int(place.rpartition(":")[2]) - 1] for place, line in shown.items())
    assert closed["objects"][0]["source"] == {}


def test_what_symd_refuses_is_a_sentence_for_the_assistant() -> None:
    missing, bad, many = asked(
        [
            ("info", {"file": f"{SAMPLES}/nowhere"}),
            ("symbolize", {"file": str(VADD), "places": ["no place"]}),
            ("symbolize", {"file": str(VADD), "places": ["0"] * (tools.QUERIES + 1)}),
        ]
    )
    assert f"INVALID_INPUT: {SAMPLES}/nowhere: cannot read the file" in missing
    assert "BAD_QUERY" in bad
    assert "at most 200" in many


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        (r'"a\ud800"', r'"a\ufffd"'),
        (r'"\uD83d\ude00"', r'"\uD83d\ude00"'),
        (r'"\ude00\ud83d"', r'"\ufffd\ufffd"'),
        (r'"\ud83d\ud83d\ude00"', r'"\ufffd\ud83d\ude00"'),
        (r'"\\ud800"', r'"\\ud800"'),
        (r'"\\\ud800"', r'"\\\ufffd"'),
        (r'"\n\u00e9\ud7ff\ue000"', r'"\n\u00e9\ud7ff\ue000"'),
    ],
)
def test_half_a_character_becomes_one(line: str, whole: str) -> None:
    assert with_whole_characters(line.encode()) == whole.encode()
    json.loads(with_whole_characters(line.encode())).encode()  # Python's reader takes halves, its texts do not


def test_a_message_with_half_a_character_is_answered() -> None:
    """By hand: the reference client writes none."""
    messages = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "info", "arguments": {"file": "half \ud800"}}},
    ]  # fmt: skip
    command = [sys.executable, "-m", "symd", "mcp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        killer = threading.Timer(PATIENCE, process.kill)
        killer.start()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        killer.cancel()
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    assert answers[1]["id"] == 2
    assert "half \ufffd: symd mcp does not open this path" in answers[1]["result"]["content"][0]["text"]


HELLO: list[dict[str, Any]] = [
    {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}},
    {"method": "notifications/initialized"},
]  # fmt: skip
"""How a conversation begins."""


def as_lines(messages: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def test_what_was_asked_before_the_input_ended_is_answered() -> None:
    info = {"name": "info", "arguments": {"file": str(SHADE)}}
    questions = [{"id": number, "method": "tools/call", "params": info} for number in range(2, 12)]
    given_up = [
        {"id": "late", "method": "tools/call", "params": info},
        {"method": "notifications/cancelled", "params": {"requestId": "late"}},
    ]
    command = [sys.executable, "-m", "symd", "mcp", str(SHADE)]
    said = as_lines([*HELLO, *questions, *given_up])
    done = subprocess.run(
        command, input=said, stdout=subprocess.PIPE, cwd=ROOT, text=True, timeout=PATIENCE, check=True
    )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert set(range(1, 12)) <= answers.keys()
    assert all("result" in answers[number] for number in range(1, 12))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_conversation_whose_input_is_open(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "symd", "mcp"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, cwd=ROOT, env=environment, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdin.write(as_lines(HELLO))
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == 1
            assert list(tmp_path.iterdir())
            process.send_signal(number)
            assert process.wait(PATIENCE) == {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM}[number]
            assert process.stderr.read() == ""
        finally:
            process.kill()
    assert not list(tmp_path.iterdir())


BREAK = """
import anyio, os, signal, sys
from symd.server.mcp import server

async def broken(*_):
    if sys.argv[1] == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
    try:
        await anyio.sleep(0.05)
    finally:
        raise ExceptionGroup("of a task group", [anyio.BrokenResourceError()])

server.server, server.converse = lambda *_: None, broken
try:
    server.serve(None, lambda: None, "")
except BaseException as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("how", "raised"), [("interrupted", "KeyboardInterrupt"), ("by itself", "ExceptionGroup")])
def test_what_breaks_while_a_signal_ends_a_conversation_is_no_error(how: str, raised: str) -> None:
    """The package's own relay may find its receiver gone before it is cancelled itself."""
    command = [sys.executable, "-c", BREAK, how]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, text=True, timeout=PATIENCE, check=True)
    assert (done.stdout, done.stderr) == (f"{raised}\n", "")


def test_standard_input_is_the_protocols() -> None:
    [refused] = asked([("info", {"file": "-"})])
    assert "standard input carries the protocol" in refused


def test_a_pipe_or_a_device_is_no_file_of_an_assistants(tmp_path: Path) -> None:
    """A pipe that nobody writes would hold up every later question."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    names = [str(pipe), str(link), f"file://{pipe}", f"file://{pipe}#offset=0&size=10", "/dev/zero"]
    told = asked(
        [*(("info", {"file": name}) for name in names), ("hot_lines", {"profile": str(pipe), "modules": [str(SHADE)]}),
         ("hot_lines", {"profile": str(SHADE), "modules": [f"1={pipe}"]}), ("info", {"file": str(SHADE)})],
        *("--source-root", str(tmp_path), "--source-root", "/dev", str(SHADE)),
    )  # fmt: skip
    assert all("not a file but a pipe or a device" in each for each in told[:-1]), told
    assert told[-1]["format"] == "amdgpu"


def test_a_module_of_a_daemon_is_asked_by_its_name(server: str, symd: Run) -> None:
    digest = symd("info", "--json", "--server", server, VADD).json[0]["sha256"]
    [found] = asked([("symbolize", {"file": f"modules/{digest}", "places": ["vadd+0x1b0"]})], "--server", server)
    assert found["answers"][0]["frames"][0]["function"] == "vadd"


def test_the_name_of_a_tool_that_nobody_has_is_repeated_in_part() -> None:
    (said,) = asked([("x" * 100_000, {})])
    assert "Unknown tool: " + "x" * 100 + "…" in said
    assert len(said) < 200


def test_without_the_extra_one_sentence_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.cli.mcp.find_spec", lambda name: None)
    done = run("mcp")
    assert done.code == 3
    assert "pip install '.[mcp]'" in done.err


@pytest.fixture
def here():
    """The questions over an engine of this process, and where they read sources."""
    with Engine(Store.temporary(Limits()), Limits()) as engine:

        def opened(file: str) -> AskedModule:
            return AskedModule(engine, engine.add(Path(file).read_bytes(), file).sha256)

        yield Tools(
            opened,
            lambda module, files: {file: SourceText(file, "x\n" * 99, TextOrigin.DISK) for file in files},
            lambda file: Path(file).read_bytes(),
        )


def test_lists_are_cut_and_say_by_how_much(here: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = here.names(str(SHADE), "*")["names"]
    monkeypatch.setattr(tools, "LISTED_NAMES", 2)
    found = here.names(str(SHADE), "*")
    assert len(everything) > 2
    assert found["names"] == everything[:2]
    assert found["names_omitted"] == len(everything) - 2


def test_the_code_objects_of_an_answer_share_its_kernels(here: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library for twelve devices would else be described twelve times over."""
    several = str(SAMPLES / "kernels" / "bin" / "filters" / "dg2-opt.dbg")
    objects = here.info(several)["objects"]
    assert len(objects) > 1
    monkeypatch.setattr(tools, "LISTED_KERNELS", len(objects) - 1)
    fewer = here.info(several)["objects"]
    assert [each["kernels"] for each in fewer] == [[]] * len(objects)
    assert [each.get("kernels_omitted", 0) for each in fewer] == [len(each["kernels"]) for each in objects]


def test_a_long_name_is_cut(monkeypatch: pytest.MonkeyPatch, here: Tools) -> None:
    monkeypatch.setattr(tools, "CHARACTERS", 5)
    [answer] = here.symbolize(str(VADD), ["vadd+0x1b0"])["answers"]
    assert answer["frames"][0]["function"] == "vadd"
    monkeypatch.setattr(tools, "CHARACTERS", 3)
    [answer] = here.symbolize(str(VADD), ["vadd+0x1b0"])["answers"]
    assert answer["frames"][0]["function"] == "..."


@pytest.mark.parametrize("count", [tools.LISTED_INSTRUCTIONS + 1])
def test_nobody_gets_more_instructions_than_that(here: Tools, count: int) -> None:
    with pytest.raises(LimitExceeded):
        here.listing(str(VADD), "vadd", count=count)


@pytest.mark.parametrize("line", ["vadd.cl", "vadd.cl:", "vadd.cl:0x1", ":3", "vadd.cl:-1"])
def test_what_is_no_source_line_is_refused(here: Tools, line: str) -> None:
    with pytest.raises(BadQuery):
        here.locate(str(VADD), line)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_meaning_and_all_but_the_sure_ones_an_advice(here: Tools, reason: Reason) -> None:
    summary = here._open(str(SHADE)).symbolizer.module(here._open(str(SHADE)).digest)
    told = tools.explanation(Answer(reason, frames=(Frame("f", None, None, 0, 0, inlined=False),)), summary)
    assert told.meaning.endswith((".", "given."))
    assert told.advice or reason in (Reason.EXACT, Reason.INFERRED)


@pytest.mark.parametrize(
    ("sample", "place", "reason", "word"),
    [
        ("amdgpu/bin/v4-gfx900-nodebug.co", "shade+0x40", "NO_DEBUG_INFO", "hipcc"),
        ("cuda/bin/saxpy.sm_90.none.cubin", "scale+0x10", "NO_DEBUG_INFO", "-lineinfo"),
        ("spirv/bin/inline.O2.none.spv", "0x200", "NO_DEBUG_INFO", "clang -g"),
        ("kernels/bin/vadd/dg2-opt.dbg", "vad+0", "UNKNOWN_KERNEL", "vadd"),
        ("kernels/bin/vadd/dg2-opt.dbg", "0xfffffff0", "OUTSIDE_TEXT", "KERNEL+OFFSET"),
    ],
)
def test_what_to_do_depends_on_who_compiled(here: Tools, sample: str, place: str, reason: str, word: str) -> None:
    told = here.explain(str(SAMPLES / sample), place)
    assert told["reason"] == reason
    assert word in " ".join(told["advice"])


def test_a_candidate_is_named_by_a_query() -> None:
    assert tools.query_of(Candidate("", ".text.a", 3, 16, "a")) == "(.text.a)+0x10"
    assert tools.query_of(Candidate("x/y", None, 3, 16, None)) == "(#3)+0x10 in the code object x/y"


def llvm_lines(*addresses: int) -> list[list[tuple[str, str]]]:
    """(FILE:LINE, function) of each address in the sample, innermost first, by llvm-symbolizer."""
    words = ["--obj", str(SHADE), "--output-style=GNU", "-f", "-i", "-p", *map(hex, addresses)]
    found: list[list[tuple[str, str]]] = []
    for line in output(require("llvm-symbolizer"), *words).splitlines():
        name, _, place = line.removeprefix(" (inlined by) ").partition(" at ")
        if not line.startswith(" (inlined by)"):
            found.append([])
        found[-1].append((place, name))
    return found


def test_hot_lines_are_those_of_the_samples(tmp_path: Path) -> None:
    """Offsets count from the kernel's address, 0x1900."""
    (tmp_path / "stacks.folded").write_text("a;[shade+0x98] 5\na;[shade+0x40] 7\nb;[shade+0x40] 1\nc;on the host 3\n")
    profile = str(tmp_path / "stacks.folded")
    arguments = {"profile": profile, "modules": [str(SHADE)]}
    hot, callers, one, none, unknown = asked(
        [
            ("hot_lines", arguments),
            ("hot_lines", {**arguments, "callers": True}),
            ("hot_lines", {**arguments, "count": 1}),
            ("hot_lines", {**arguments, "modules": []}),
            ("hot_lines", {**arguments, "value": "no such value"}),
        ],
        *(profile, str(SHADE)),
    )
    inlined, plain = llvm_lines(0x1998, 0x1940)
    assert len(inlined) > 1
    shown = [(each["line"], each["function"], each["value"]) for each in hot["lines"]]
    assert shown == [(*plain[0], 8), (*inlined[0], 5)]
    assert (hot["total"], hot["without_line"]) == (16, 3)
    assert [each["share"] for each in hot["lines"]] == [0.5, 0.3125]
    assert [(each["line"], each["function"], each["value"]) for each in callers["lines"]] == [
        (*plain[-1], 8),
        (*inlined[-1], 5),
    ]
    assert (len(one["lines"]), one["lines_omitted"]) == (1, 1)
    assert "no module is named" in none
    assert "BAD_QUERY" in unknown


def test_a_module_may_be_called_as_the_profile_does(here: Tools, tmp_path: Path) -> None:
    profile = tmp_path / "stacks.folded"
    profile.write_text("kernel.co+0x1940 4\n")
    assert here.hot_lines(str(profile), [str(SHADE)])["lines"] == []
    [line] = here.hot_lines(str(profile), [f"kernel.co={SHADE}"])["lines"]
    assert (line["value"], line["share"], line["source"]) == (4, 1.0, "x")
