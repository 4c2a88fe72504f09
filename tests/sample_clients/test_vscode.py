"""The sample extension is type-checked and packaged, and draws into an editor's stand-in what LLVM's tools say. ``make editor`` drives it in a real editor."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests import tools
from tests.sample_clients.extension import SAMPLE, SOURCE, address, functions, line_at, packaged, rows
from tests.sample_clients.test_clients import server as server  # noqa: PLC0414 - a fixture, shared

INLINED_LINE = 13
EDITOR = Path(__file__).parent / "editor.js"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, in the folder where it was built."""
    return packaged(tmp_path_factory.mktemp("vscode"))


@pytest.fixture(scope="module")
def drawn(package: Path, server: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the editor shows of the sample, with a profile of five samples, one of them outside of its kernels."""
    folder = tmp_path_factory.mktemp("open")
    (folder / "shade.cl").write_text(SOURCE.read_text())
    (folder / "stacks.folded").write_text("".join(f"{place} {count}\n" for place, count in PROFILE.items()))
    return edited(
        package,
        server=server,
        python=sys.executable,
        module=str(SAMPLE),
        profile=str(folder / "stacks.folded"),
        source=str(folder / "shade.cl"),
        shown="/src/shade.cl",
        line=INLINED_LINE,
        printed="fault at main+0x10, wave 3: shade+0x98, then march+0x4",
    )


PROFILE = {"shade+0x98": 2, "shade+0x14": 1, "clear+0x8": 1, "nobody+0x0": 1}


def edited(package: Path, **asked: Any) -> dict[str, Any]:
    return json.loads(tools.output("node", EDITOR, package.parent / "out" / "extension.js", json.dumps(asked)))


def test_the_package_has_what_the_manifest_names(package: Path) -> None:
    with zipfile.ZipFile(package) as vsix:
        names = set(vsix.namelist())
        manifest = json.loads(vsix.read("extension/package.json"))
    assert package.name == f"symd-{manifest['version']}.vsix"
    assert {"extension/out/extension.js", "extension/adapter/debug_adapter.py", "extension/readme.md"} <= {
        name.replace("README", "readme") for name in names
    }
    assert not [name for name in names if name.endswith(".ts") or "node_modules" in name]
    code = (package.parent / "out" / "extension.js").read_text()
    assert all(f'registerCommand("{each["command"]}"' in code for each in manifest["contributes"]["commands"])


def test_the_terminal_and_the_editor_are_shown_the_same(package: Path, server: str, drawn: dict[str, Any]) -> None:
    asked = [f"shade.cl:{INLINED_LINE}", "shade+0x98", hex(address("shade+0x98")), "nobody+0x10"]
    printed = tools.output("node", package.parent / "out" / "print.js", server, SAMPLE, *asked).splitlines()
    listed = dict(line.split(": ", 1) for line in printed)
    stop, frames, same, nobody = (listed.pop(each) for each in asked)
    assert set(listed) == {f"/src/shade.cl:{line}" for _, line in rows() if line}
    assert {f"/src/shade.cl:{line}": text for line, text in drawn["code"]} == listed
    assert drawn["stops"] == [[INLINED_LINE, stop]]
    assert drawn["left"] == 0

    symbolizer = [tools.require("llvm-symbolizer"), "-e", SAMPLE, hex(address("shade+0x98"))]
    named = tools.output(*symbolizer).split("\n")[:4]
    assert frames == same == f"{named[0]} at {named[1]}, inlined into {named[2]} at {named[3]}"
    assert nobody == "UNKNOWN_KERNEL"


def test_places_are_those_of_the_line_table(drawn: dict[str, Any]) -> None:
    table = rows()
    base = table[0][0]
    begins: dict[int, set[int]] = {line: set() for _, line in table}
    for (start, line), before in zip(table, [(0, 0), *table], strict=False):
        if line != before[1]:
            begins[line].add(start - base)
    assert len(drawn["hovers"]) == len(drawn["code"])
    for line, hover in drawn["hovers"]:
        places = {int(each, 16) for each in re.findall(r"^- `\(.*\)\+(0x[0-9a-f]+)`", hover, re.MULTILINE)}
        assert begins[line] <= places, line
        assert places <= {start - base for start, own in table if own == line}
    (stop,) = drawn["stops"]
    assert (int(stop[1].split()[0], 16), INLINED_LINE) in table


def test_the_pointer_over_a_line_shows_its_instructions(drawn: dict[str, Any]) -> None:
    """Of lines with few places all are shown: together they are what llvm-objdump prints at the addresses of the line's rows."""
    printed = tools.output(tools.require("llvm-objdump"), "-d", "--mcpu=gfx900", SAMPLE)
    disassembled = {
        int(found[2], 16): found[1] for found in re.finditer(r"^\t(\w+).*// ([0-9A-F]{12}): ", printed, re.MULTILINE)
    }
    instructions = [each for each in disassembled if any(each in code for code in functions().values())]
    table, compared = rows(), 0
    base = table[0][0]
    for line, hover in drawn["hovers"]:
        shown = re.findall(r"^(0x[0-9a-f]+)  (.+)$", hover, re.MULTILINE)
        if hover.count("\n- ") >= 4 or "more" in hover:
            continue
        ranges = [range(start, end) for (start, own), (end, _) in pairwise(table) if own == line]
        expected = [each for each in instructions if any(each in run for run in ranges)]
        assert [base + int(offset, 16) for offset, _ in shown] == expected, line
        for offset, text in shown:
            assert text.split()[0] == disassembled[base + int(offset, 16)]
        compared += len(shown)
    assert compared > 20


def test_hot_lines_have_their_shares(drawn: dict[str, Any]) -> None:
    expected: Counter[int] = Counter()
    for place, count in PROFILE.items():
        if not place.startswith("nobody"):
            expected[line_at(address(place))] += count
    total = sum(PROFILE.values())
    assert dict(drawn["heat"]) == {
        line: f"{100 * count / total:.2f}%, {count} {'sample' if count == 1 else 'samples'}"
        for line, count in expected.items()
    }


def test_links_are_at_places_of_the_module_and_lead_to_their_lines(drawn: dict[str, Any]) -> None:
    assert drawn["links"] == ["shade+0x98", "march+0x4"], "main is a function of the host program"
    ((file, line, _),) = drawn["opened"]
    assert Path(file).read_text() == SOURCE.read_text()
    assert line == line_at(address("shade+0x98"))


def test_what_the_daemon_refuses_is_a_sentence(package: Path, server: str, tmp_path: Path) -> None:
    bad = tmp_path / "notes.txt"
    bad.write_text("no module")
    assert "format" in complaint(package, server, bad)
    assert "`symd daemon start` starts one" in complaint(package, f"unix:{tmp_path}/nobody.sock", SAMPLE)


def complaint(package: Path, server: str, module: Path) -> str:
    command = ["node", package.parent / "out" / "print.js", server, module]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr
