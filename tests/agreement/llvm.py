"""LLVM's answers, parsed: the line rows of llvm-dwarfdump and the frames of llvm-symbolizer."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from tests.tools import require

Frame = tuple[str, str, int, int]
"""Function, file, line, column."""


@dataclass(frozen=True)
class Row:
    """``file`` is the name as the table has it, without its folder."""

    address: int
    line: int
    column: int
    file: str
    flags: frozenset[str]

    def moved(self, distance: int) -> Row:
        return replace(self, address=self.address + distance)


_ROW = re.compile(r"^0x([0-9a-f]+)\s+(\d+)\s+(\d+)\s+(\d+)\s+\d+\s+\d+((?:\s+\w+)*)\s*$")
_FILE = re.compile(r'^file_names\[\s*(\d+)\]:\s*\n\s+name: "(.*)"$', re.MULTILINE)


def line_tables(elf: bytes, folder: Path) -> list[list[Row]]:
    """The rows of each line table, in order."""
    path = folder / "dwarfdump.elf"
    path.write_bytes(elf)
    text = _run([require("llvm-dwarfdump-14"), "--debug-line", str(path)])
    return [_rows(part) for part in re.split(r"^debug_line\[0x[0-9a-f]+\]$", text, flags=re.MULTILINE)[1:]]


def _rows(text: str) -> list[Row]:
    files = {int(number): name for number, name in _FILE.findall(text)}
    rows = []
    for line in text.splitlines():
        match = _ROW.match(line)
        if match:
            address, number, column, file, flags = match.groups()
            name = files.get(int(file), "")
            rows.append(Row(int(address, 16), int(number), int(column), name, frozenset(flags.split())))
    return rows


def frames(elf: bytes, addresses: list[int], folder: Path) -> list[list[Frame]]:
    """For each address the frames, innermost first; "" and 0 stand for what LLVM does not know."""
    path = folder / "symbolizer.elf"
    path.write_bytes(elf)
    command = [require("llvm-symbolizer-14"), f"--obj={path}", "--inlines", "--no-demangle", "--output-style=JSON"]
    text = _run(command, "\n".join(hex(address) for address in addresses) + "\n")
    answers = [json.loads(line) for line in text.splitlines() if line.strip()]
    assert len(answers) == len(addresses)
    return [[_frame(symbol) for symbol in answer["Symbol"]] for answer in answers]


def _frame(symbol: dict[str, object]) -> Frame:
    return (str(symbol["FunctionName"]), str(symbol["FileName"]), int(symbol["Line"]), int(symbol["Column"]))


def _run(command: list[str], stdin: str | None = None) -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=True)
    assert "error:" not in done.stderr, done.stderr
    return done.stdout
