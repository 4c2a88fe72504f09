"""spirv-dis: kernels of a module, and the position of every instruction, as its listing and the specification say them."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

from tests.debuginfo.spirv.spirv_listing import Described, Meaning, by_spirv_dis
from tests.survey.case import Case, CodeFile, Compared, answered
from tests.survey.measured import Done, run
from tests.survey.toolbox import tool

_NEWER = re.compile(r"Invalid (capability|source language) operand: (\d+)")
_TOO_NEW = re.compile(r"Invalid opcode: \d+")
_SOURCE, _CAPABILITY = 3, 17
_HEADER_WORDS = 5
MODULES = 64
"""Of so many modules of a file, or a few more, the entry points are compared."""
_ENTRY = re.compile(r'^\s*OpEntryPoint \w+ %\S+ "((?:[^"\\]|\\.)*)"', re.MULTILINE)


def kernels(case: Case) -> Compared:
    """The entry points of modules spread over the file; spirv-dis has to read each to its end."""
    modules = [each for each in case.objects if each.format == "spirv"]
    count, newer, differences = 0, 0, []
    for each in modules[:: max(1, len(modules) // MODULES)]:
        done = disassembled(readable(each.path))
        theirs = sorted(_ENTRY.findall(done.output.decode(errors="replace")))
        mine = sorted(kernel["name"] for kernel in each.entry["kernels"])
        if _TOO_NEW.search(done.errors):
            newer += 1
            continue
        count += 1
        if done.code or theirs != mine:
            differences.append(f"{each.name}: symd {mine}, spirv-dis {theirs} {done.errors.strip()}")
    return Compared("spirv-dis: modules with their entry points", count, differences, newer)


def disassembled(path: Path) -> Done:
    return run([tool("spirv-dis"), "--no-color", "--raw-id", path], path.parent)


def readable(module: Path) -> Path:
    """A module as spirv-dis takes it: capabilities and source languages that are newer than the tool are replaced, in a copy,
    by the first ones. No instruction moves."""
    for _ in range(16):
        said = _NEWER.search(disassembled(module).errors)
        if said is None:
            break
        opcode = _CAPABILITY if said[1] == "capability" else _SOURCE
        copy = module.with_name(f"{module.name.removesuffix('.readable')}.readable")
        copy.write_bytes(replaced(module.read_bytes(), opcode, int(said[2])))
        module = copy
    return module


def replaced(data: bytes, opcode: int, operand: int) -> bytes:
    """The module with 0 as first operand of the instructions of this opcode that have ``operand``."""
    words = list(struct.unpack(f"<{len(data) // 4}I", data))
    at = _HEADER_WORDS
    while at < len(words) and words[at] >> 16:
        if words[at] & 0xFFFF == opcode and words[at + 1] == operand:
            words[at + 1] = 0
        at += words[at] >> 16
    return struct.pack(f"<{len(words)}I", *words)


def positions(case: Case) -> Compared:
    """File, line and column at every instruction, and the function names of every frame where the module has scopes."""
    count, differences = 0, []
    for each in case.objects:
        if each.format == "spirv" and each.has_lines:
            found = compare_positions(each)
            count += found.count
            differences += found.differences
    return Compared("spirv-dis: position of every instruction", count, differences)


def compare_positions(each: CodeFile) -> Compared:
    described = _in_functions(Meaning(by_spirv_dis(readable(each.path))).described())
    stdin = "".join(f"{item.instruction.offset:#x}\n" for item in described).encode()
    done = answered(["symbolize", "--json", each.path, "-"], each.path.parent, stdin)
    differences = []
    for item, line in zip(described, done.output.splitlines(), strict=True):
        answer = json.loads(line)
        frames = [frame for frame in answer["frames"] if frame["line"]]
        mine = (frames[0]["file"], frames[0]["line"], frames[0]["column"]) if frames else None
        theirs = item.location if item.location and item.location[1] else None
        stated = answer["reason"] != "APPROXIMATE" or theirs is not None
        if stated and mine != theirs:
            differences.append(f"{each.name} {item.instruction.offset:#x}: symd {mine}, spirv-dis {theirs}")
        names = [frame["function"] for frame in answer["frames"]]
        expected = [frame[0] for frame in item.frames or ()]
        if item.frames and frames and names != expected:
            differences.append(f"{each.name} {item.instruction.offset:#x}: symd {names}, spirv-dis {expected}")
    return Compared("spirv-dis", len(described), differences)


def _in_functions(described: list[Described]) -> list[Described]:
    """From each function's first block to the end of the function."""
    inside, found = False, []
    for item in described:
        op = item.instruction.op
        inside = op == "Label" or (inside and op != "FunctionEnd")
        found += [item] if inside else []
    return found
