"""The sample extension is type-checked as it is built, and draws into an editor's stand-in what llvm-dwarfdump says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import google.rpc
import pytest

from tests import tools
from tests.sample_clients.test_clients import server as server  # noqa: PLC0414 - a fixture, shared

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "samples" / "vscode"
SAMPLE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
SOURCE = ROOT / "samples" / "amdgpu" / "src" / "shade.cl"
INLINED_LINE = 13


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for tool in ("node", "npm", "protoc"):
        tools.require(tool)
    folder = tmp_path_factory.mktemp("vscode")
    googleapis = Path(next(iter(google.rpc.__path__))).parents[1]
    environment = {**os.environ, "GOOGLEAPIS": str(googleapis)}
    done = subprocess.run(
        [EXTENSION / "build", folder], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def rows() -> Iterator[tuple[int, int]]:
    """(address, line) of every row as llvm-dwarfdump has it, those that end a sequence with line 0."""
    for line in tools.output(tools.require("llvm-dwarfdump"), "--debug-line", SAMPLE).splitlines():
        words = line.split()
        if words and words[0].startswith("0x") and len(words) > 5:
            yield int(words[0], 16), 0 if "end_sequence" in words else int(words[1])


def test_the_terminal_and_the_editor_are_shown_the_same(built: Path, server: str, tmp_path: Path) -> None:
    printed = tools.output(
        "node", built / "out" / "print.js", server, SAMPLE, "shade.cl", str(INLINED_LINE)
    ).splitlines()
    listed = dict(line.split(": ", 1) for line in printed)
    lines = {line for _, line in rows()} - {0}
    stop = listed.pop(f"shade.cl:{INLINED_LINE}")
    assert set(listed) == {f"/src/shade.cl:{line}" for line in lines}

    (tmp_path / "shade.cl").write_text(SOURCE.read_text())
    stand_in = [Path(__file__).parent / "editor.js", built / "out" / "extension.js", server, SAMPLE]
    drawn = json.loads(tools.output("node", *stand_in, tmp_path / "shade.cl", "/src/shade.cl", str(INLINED_LINE)))
    assert {f"/src/shade.cl:{line}": text for line, text, _ in drawn["code"]} == listed
    assert [(line, text) for line, text, _ in drawn["stops"]] == [(INLINED_LINE, stop)]
    assert drawn["left"] == 0


def test_places_are_those_of_the_line_table(built: Path, server: str, tmp_path: Path) -> None:
    (tmp_path / "shade.cl").write_text(SOURCE.read_text())
    stand_in = [Path(__file__).parent / "editor.js", built / "out" / "extension.js", server, SAMPLE]
    drawn = json.loads(tools.output("node", *stand_in, tmp_path / "shade.cl", "/src/shade.cl", str(INLINED_LINE)))
    table = list(rows())
    base = table[0][0]
    begins = {line: set() for _, line in table}
    for (address, line), before in zip(table, [(0, 0), *table], strict=False):
        if line != before[1]:
            begins[line].add(address - base)
    for line, _, hover in drawn["code"]:
        places = {int(each.split("+0x")[1].split("`")[0], 16) for each in hover.splitlines()}
        assert begins[line] <= places, line
        assert places <= {address - base for address, row_line in table if row_line == line}
    (stop,) = drawn["stops"]
    address = int(stop[1].split()[0], 16)
    assert (address, INLINED_LINE) in table


def test_what_the_daemon_refuses_is_a_sentence(built: Path, server: str, tmp_path: Path) -> None:
    bad = tmp_path / "notes.txt"
    bad.write_text("no module")
    done = subprocess.run(
        ["node", built / "out" / "print.js", server, bad, "x.cl", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "format" in done.stderr
