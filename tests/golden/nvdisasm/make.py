"""Runs nvdisasm over files of samples/cuda/bin, as symd runs it (bare instructions) and over the whole file, and keeps both.

    SYMD_TOOLS=FOLDER python -m tests.golden.nvdisasm.make

For each file NAME.json: ``runs`` maps the SHA-256 of bare instructions and the base address to what nvdisasm printed,
``whole`` maps each text section of the file to the offsets and mnemonics that it printed for it.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tempfile
from pathlib import Path

from symd.formats import containers
from symd.query.disasm.disassembler import code_ranges
from symd.system.installed import programs

HERE = Path(__file__).parent
SAMPLES = HERE.parents[2] / "samples" / "cuda" / "bin"
FILES = ("raycast.sm_75.lines.cubin", "tonemap.sm_90a.lines.cubin", "reduce.sm_100.lines.cubin")
SECTION = re.compile(r"//-+ (\.text\S+)\s+-+")
INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+((?:@!?\w+ )?[A-Z0-9_.]+)")


def main() -> None:
    program = programs("nvdisasm")[0]
    version = re.search(r"\bV(\d\S+)", _printed(program, "--version"))
    for name in FILES:
        golden = {
            "version": version[1] if version else "?",
            "runs": _runs(program, SAMPLES / name),
            "whole": _whole(_printed(program, "-c", str(SAMPLES / name))),
        }
        (HERE / f"{name}.json").write_text(json.dumps(golden, indent=1) + "\n")


def _runs(program: str, file: Path) -> dict[str, str]:
    """What is printed for each run of instructions; only the lines that hold one are kept."""
    runs = {}
    for code in containers.unpack(file.read_bytes()).objects:
        for span in code_ranges(code):
            key = f"{hashlib.sha256(span.data).hexdigest()} {span.offset:#x}"
            architecture = (code.target or "").upper().replace("_", "", 1).replace("A", "a")
            with tempfile.NamedTemporaryFile() as bare:
                bare.write(span.data)
                bare.flush()
                text = _printed(program, "-b", architecture, "-base", f"{span.offset:#x}", bare.name)
            runs[key] = "".join(f"{line}\n" for line in text.splitlines() if INSTRUCTION.match(line))
    return runs


def _whole(text: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    current = ""
    for line in text.splitlines():
        begins, instruction = SECTION.match(line), INSTRUCTION.match(line)
        if begins:
            current = begins[1]
        elif instruction:
            sections.setdefault(current, []).append(f"{instruction[1]} {instruction[2]}")
    return sections


def _printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
