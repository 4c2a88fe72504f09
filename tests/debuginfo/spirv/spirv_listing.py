"""SPIR-V as independent tools list it, and what the specification says of each listed instruction: its location and its
frames. Two tools, because spirv-dis refuses some modules of llvm-spirv: there llvm-spirv's own text is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests import tools

Location = tuple[str, int, int] | None
FrameNames = tuple[str, str, str, int, int]
"""Function, linkage name, and file, line and column of the call that was inlined ("" and 0 for the outermost)."""

BLOCK_ENDS = {"Branch", "BranchConditional", "Switch", "Return", "ReturnValue", "Unreachable", "Kill"}
LOCATION_STATEMENTS = {"Line", "NoLine", "DebugLine", "DebugNoLine", "DebugScope", "DebugNoScope"}

NUMBERED = {
    "20": "DebugFunction",
    "21": "DebugLexicalBlock",
    "23": "DebugScope",
    "24": "DebugNoScope",
    "25": "DebugInlinedAt",
    "35": "DebugSource",
    "101": "DebugFunctionDefinition",
    "103": "DebugLine",
    "104": "DebugNoLine",
}
"""spirv-dis gives the instructions of a non-semantic set that it does not know by number."""

RESULT_AT = {"String": 0, "ExtInst": 1, "Function": 1, "Constant": 1}
"""Which word is the result in llvm-spirv's text, for the instructions that others refer to."""


@dataclass(frozen=True)
class Instruction:
    """``operands`` are the tool's words without result type and result; a debug instruction has its own ``op``."""

    offset: int
    op: str
    result: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Described:
    """An instruction that is no location statement, with what is in force there."""

    instruction: Instruction
    location: Location
    frames: tuple[FrameNames, ...] | None


def by_spirv_dis(path: Path) -> list[Instruction]:
    listing = tools.output(tools.require("spirv-dis"), "--offsets", "--no-color", "--raw-id", path)
    text = "\n".join(line for line in listing.splitlines() if not line.startswith(";"))
    pieces = re.split(r" ; 0x([0-9a-f]{8})(?:\n|$)", text)
    return [_dis_line(line.strip(), int(offset, 16)) for line, offset in zip(pieces[::2], pieces[1::2], strict=False)]


def _dis_line(line: str, offset: int) -> Instruction:
    match = re.match(r"(?:%(\d+) = )?Op(\w+) ?(.*)", line, re.DOTALL)
    assert match, line
    return _instruction(offset, match[2], match[1] or "", _words(match[3]))


def by_llvm_spirv(path: Path, folder: Path) -> list[Instruction]:
    """Offsets are the sums of the word counts that begin each line."""
    text = folder / "module.spt"
    tools.output(tools.require("llvm-spirv"), "-to-text", path, "-o", text)
    found, offset = [], 20
    for line in text.read_text().splitlines()[1:]:
        match = re.match(r"(\d+) (\w+) ?(.*)", line)
        if match:
            words = _words(match[3])
            result = words[RESULT_AT[match[2]]] if match[2] in RESULT_AT else ""
            found.append(_instruction(offset, match[2], result, words))
            offset += 4 * int(match[1])
    assert offset == path.stat().st_size
    return found


def _words(text: str) -> list[str]:
    quoted = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', text)
    return [word.removeprefix("%") if word else string.replace('\\"', '"') for string, word in quoted]


def _instruction(offset: int, op: str, result: str, words: list[str]) -> Instruction:
    if op == "ExtInst":
        words = words[1:] if words[1] == result else words  # llvm-spirv writes type, result; spirv-dis the type alone
        return Instruction(offset, NUMBERED.get(words[2], words[2]), result, tuple(words[3:]))
    return Instruction(offset, op, result, tuple(words))


class Meaning:
    """The specification's sentences over a listing, one instruction at a time."""

    def __init__(self, listing: list[Instruction]) -> None:
        self.listing = listing
        self.by_id = {item.result: item for item in listing if item.result}
        self.debug_line: Location = None
        self.line: Location = None
        self.scope: tuple[str, ...] | None = None
        self.inlined_place: Location = None
        """The location in force where the last scope of the block was that of an inlined call."""

    def described(self) -> list[Described]:
        found = []
        for item in self.listing:
            if item.op in LOCATION_STATEMENTS:
                self._state(item)
            else:
                frames = tuple(self._frames(*self.scope)) if self.scope else None
                location = self.debug_line or self.line
                if frames is not None:
                    self.inlined_place = location if len(frames) > 1 else None
                found.append(
                    Described(item, None if frames is None and location == self.inlined_place else location, frames)
                )
            if item.op in BLOCK_ENDS:
                self.line = self.debug_line = self.scope = self.inlined_place = None
        return found

    def _state(self, item: Instruction) -> None:
        ops = item.operands
        if item.op == "Line":
            self.line = (self._string(ops[0]), int(ops[1]), int(ops[2]))
        elif item.op == "NoLine":
            self.line = None
        elif item.op == "DebugLine":
            self.debug_line = (self._file(ops[0]), self._number(ops[1]), self._number(ops[3]))
        elif item.op == "DebugNoLine":
            self.debug_line = self.line = None  # as SPIRV-Tools reads and writes it
        else:
            self.scope = (ops[0], ops[1] if len(ops) > 1 else "") if item.op == "DebugScope" else None

    def _string(self, number: str) -> str:
        return self.by_id[number].operands[-1]

    def _file(self, number: str) -> str:
        return self._string(self.by_id[number].operands[0])

    def _number(self, word: str) -> int:
        """A literal, or the id of a constant where the set takes ids."""
        item = self.by_id.get(word)
        return int(item.operands[-1]) if item is not None and item.op == "Constant" and self._takes_ids() else int(word)

    def _takes_ids(self) -> bool:
        return self._imports("NonSemantic")

    def _imports(self, prefix: str) -> bool:
        return any(item.op == "ExtInstImport" and item.operands[-1].startswith(prefix) for item in self.listing)

    def _function(self, scope: str) -> Instruction:
        item = self.by_id[scope]
        step = {"DebugLexicalBlock": 3, "DebugLexicalBlockDiscriminator": 2, "DebugTypeTemplate": 0, "DebugTemplate": 0}
        while item.op != "DebugFunction":
            item = self.by_id[item.operands[step[item.op]]]
        return item

    def _frames(self, scope: str, site: str) -> list[FrameNames]:
        item = self._function(scope)
        name, linkage = self._string(item.operands[0]), self._string(item.operands[6])
        linkage = "" if linkage == name else linkage
        if not site or self.by_id[site].op != "DebugInlinedAt":
            return [(name, linkage, "", 0, 0)]
        line, *rest = self.by_id[site].operands
        column = self._number(rest.pop(0)) if self._imports("NonSemantic.Shader.DebugInfo.200") else 0
        outer, *further = rest
        source = self.by_id[outer]
        file = self._file(source.operands[2 if source.op == "DebugFunction" else 0])
        frame = (name, linkage, file, self._number(line), column)
        return [frame, *self._frames(outer, further[0] if further else "")]
