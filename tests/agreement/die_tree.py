"""The functions and inlined calls of an ELF image as llvm-dwarfdump prints its DIE tree, and breakpoints read off it and the
line table by brute force, row by row: what symd must say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.agreement.llvm import Row
from tests.tools import output, require

_DIE = re.compile(r"^0x[0-9a-f]+:( *)(DW_TAG_\w+|NULL)")
_ATTRIBUTE = re.compile(r"^ +DW_AT_(\w+)\s+\((.*)$")
_RANGE = re.compile(r"\[0x([0-9a-f]+), 0x([0-9a-f]+)\)")
_SCOPES = {"DW_TAG_subprogram", "DW_TAG_inlined_subroutine"}
_QUOTED = re.compile(r'"(.*)"')


@dataclass(eq=False)
class Scope:
    """A function or an inlined call; ``parent`` is the scope around an inlined call."""

    tag: str
    indent: int
    parent: Scope | None = None
    name: str = ""
    origin: str = ""
    low: int | None = None
    high: int | None = None
    ranges: list[tuple[int, int]] = field(default_factory=list)
    call_line: int = 0

    @property
    def inlined(self) -> bool:
        return self.tag == "DW_TAG_inlined_subroutine"

    @property
    def is_empty(self) -> bool:
        return all(low == high for low, high in self.spans)

    @property
    def spans(self) -> list[tuple[int, int]]:
        if self.low is not None and self.high is not None:
            return [(self.low, self.high)]
        return self.ranges

    @property
    def begins(self) -> list[int]:
        """Of a function its lowest address, of an inlined copy that of each of its ranges that no other one goes on with."""
        spans = [(low, high) for low, high in self.spans if low < high]
        ends = {high for _, high in spans}
        return [low for low, _ in spans if low not in ends] if self.inlined else [min(low for low, _ in spans)]


def of_symbol(name: str, low: int, high: int) -> Scope:
    """A function that only its symbol knows."""
    return Scope("DW_TAG_subprogram", 0, None, name, "", low, high)


def scopes(elf: Path, dwarfdump: str = "llvm-dwarfdump") -> list[Scope]:
    """All of them, parents before children."""
    found: list[Scope] = []
    stack: list[Scope] = []
    by_offset: dict[str, Scope] = {}
    current: Scope | None = None
    reading_ranges = False
    for line in output(require(dwarfdump), "--debug-info", elf).splitlines():
        die = _DIE.match(line)
        if die:
            indent, tag = len(die[1]), die[2]
            stack = [scope for scope in stack if scope.indent < indent]
            current = Scope(tag, indent, stack[-1] if stack else None) if tag in _SCOPES else None
            reading_ranges = False
            if current:
                found.append(current)
                stack.append(current)
                by_offset[line.partition(":")[0]] = current
            continue
        attribute = _ATTRIBUTE.match(line)
        if attribute and current:
            reading_ranges = attribute[1] == "ranges"
            _set(current, attribute[1], attribute[2])
        if reading_ranges and current:
            current.ranges += [(int(a, 16), int(b, 16)) for a, b in _RANGE.findall(line)]
    for scope in found:
        scope.name = _named(scope, by_offset)
    return found


def _named(scope: Scope, by_offset: dict[str, Scope]) -> str:
    """The name of the DIE itself, or of the one that it refers to, and so on."""
    while not scope.name and scope.origin in by_offset:
        scope = by_offset[scope.origin]
    return scope.name


def _set(scope: Scope, name: str, value: str) -> None:
    quoted = _QUOTED.search(value)
    if name == "name" and quoted:
        scope.name = quoted[1]
    elif name in ("abstract_origin", "specification"):
        scope.origin = value.split(maxsplit=1)[0].rstrip(")")
    elif name in ("low_pc", "high_pc"):
        setattr(scope, name.removesuffix("_pc"), int(value.split(")", maxsplit=1)[0], 16))
    elif name == "call_line":
        scope.call_line = int(value.rstrip(")"))


def innermost(tree: list[Scope], address: int) -> Scope | None:
    """Of the scopes that hold the address the deepest, of functions side by side the smallest."""
    holding = [scope for scope in tree if any(low <= address < high for low, high in scope.spans)]
    return max(holding, key=lambda scope: (_depth(scope), -_size(scope)), default=None)


def _size(scope: Scope) -> int:
    return sum(high - low for low, high in scope.spans)


def _depth(scope: Scope) -> int:
    return 0 if scope.parent is None else 1 + _depth(scope.parent)


Breakpoint = tuple[int, str | None, bool]
"""Address, function, whether it is an inlined copy."""


@dataclass
class Oracle:
    """Breakpoints of one image, found by reading all rows for every question."""

    rows: list[Row]
    tree: list[Scope]

    def files(self) -> set[str]:
        return {row.file for row in self.rows if row.line}

    def statements(self, file: str) -> list[Row]:
        return [
            row
            for row in self.rows
            if row.file == file and row.line and "is_stmt" in row.flags and "end_sequence" not in row.flags
        ]

    def last_line(self, file: str) -> int:
        return max((row.line for row in self.statements(file)), default=0)

    def every(self, file: str, line: int) -> list[int]:
        return sorted({row.address for row in self.statements(file) if row.line == line})

    def chosen(self, file: str, line: int) -> tuple[int, set[Breakpoint]]:
        """The line that it slides to, and a breakpoint for each function and inlined copy."""
        lines = [row.line for row in self.statements(file) if row.line >= line]
        if not lines:
            return 0, set()
        slid = min(lines)
        lowest: dict[int, tuple[int, Scope | None]] = {}
        for row in self.statements(file):
            if row.line == slid:
                owner = self.owner(row)
                at = lowest.get(id(owner), (row.address, owner))[0]
                lowest[id(owner)] = min(at, row.address), owner
        return slid, {self.entered(address, owner) for address, owner in lowest.values()}

    def from_column(self, file: str, line: int, column: int) -> tuple[int, set[int]]:
        """The column of a line that is reached from ``column``, and every address of it; 0 where there is none any more."""
        own = [row for row in self.statements(file) if row.line == line]
        reached = min((row.column for row in own if row.column >= column), default=0)
        return reached, {row.address for row in own if row.column == reached} if reached else set()

    def begins(self, name: str) -> set[Breakpoint]:
        """Where each function of that name begins, and each range of an inlined copy: of those that touch the first."""
        own = [scope for scope in self.tree if scope.name == name and scope.spans and not scope.is_empty]
        return {self.entered(low, scope) for scope in own for low in scope.begins}

    def owner(self, row: Row) -> Scope | None:
        """The innermost scope at the row; where another row at the same address covers this one up, the caller whose
        call stands on the row's line."""
        scope = innermost(self.tree, row.address)
        covering = [other for other in self.rows if other.address == row.address and "end_sequence" not in other.flags]
        at = scope
        line = covering[-1].line
        while at is not None:
            if line == row.line:
                return at
            line, at = at.call_line, at.parent
        return scope

    def entered(self, address: int, owner: Scope | None) -> Breakpoint:
        """The address, behind the prologue where it is the owner's first."""
        if owner is None:
            return address, None, False
        first = min(low for low, _ in owner.spans)
        last = max(high for _, high in owner.spans)
        if not owner.inlined and address == first:
            ends = [row.address for row in self.rows if "prologue_end" in row.flags and first <= row.address < last]
            address = min(ends, default=address)
        return address, owner.name, owner.inlined
