"""The debug instructions of a SPIR-V module by id, its scopes and its rows, decoded without NumPy, whose import takes
longer than one answer.

An address is the byte offset of an instruction; a row begins at the first instruction that a line statement governs,
never at the statement itself, and ends where the block ends. A function with debug data owns its whole OpFunction ..
OpFunctionEnd; DebugScope and DebugInlinedAt say which debug function each instruction belongs to and through which
inlined calls.

Sources: SPIR-V 1.6, 3.52.2 (OpLine, OpNoLine); NonSemantic.Shader.DebugInfo.100 and OpenCL.DebugInfo.100, "Lexical
Scope", "Compilation Unit", DebugScope, DebugNoScope, DebugInlinedAt, DebugLine and DebugNoLine.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from symd.core import spirv as core
from symd.debuginfo.address_scopes import NO_FUNCTION, NO_PARENT
from symd.formats.spirv import Debug, DebugInstruction
from symd.formats.spirv.module import Body, DebugWords
from symd.model.light_typing import NamedTuple

_PARENT = {Debug.TypeTemplate: 0, Debug.LexicalBlock: 3, Debug.LexicalBlockDiscriminator: 2}
"""The operand that names what a scope is in; a template names the function it makes."""
_LINE = 3
"""Where a DebugFunction has the line of its declaration."""
_SOURCE = {Debug.Function: 2, Debug.LexicalBlock: 0, Debug.LexicalBlockDiscriminator: 0}


class InlinedAt(NamedTuple):
    """The call that was inlined: its line and column (0 where the set has none), the id of the scope it is in, and
    the DebugInlinedAt of that one's own inlined call (0 for none)."""

    line: int
    column: int
    scope: int
    next: int


class DebugData:
    """``by_id`` holds the instructions that describe files, functions and scopes; ``definitions`` maps a function's id
    to the id of its DebugFunction."""

    def __init__(self, words: DebugWords) -> None:
        self._strings, self._constants = words.strings, words.constants
        self.by_id: dict[int, DebugInstruction] = {}
        self.definitions: dict[int, int] = {}
        self._function_of: dict[int, int | None] = {}
        self._depth: dict[int, int | None] = {}
        for item in words.described:
            if item.id:
                self.by_id.setdefault(item.id, item)
            self._note_definition(item)

    def _note_definition(self, item: DebugInstruction) -> None:
        if item.opcode == Debug.Function and not item.layout.numbers_are_ids and len(item.operands) > 9:
            self.definitions.setdefault(item.operands[9], item.id)
        elif item.opcode == Debug.FunctionDefinition and item.layout.numbers_are_ids and len(item.operands) > 1:
            self.definitions.setdefault(item.operands[1], item.operands[0])

    def function_of(self, scope: int) -> int | None:
        """The id of the DebugFunction in which ``scope`` stands; None for file scope, types and parents in a circle."""
        path: list[int] = []
        seen: set[int] = set()
        at, found = scope, None
        while at not in seen:
            if at in self._function_of:
                found = self._function_of[at]
                break
            path.append(at)
            seen.add(at)
            item = self.by_id.get(at)
            if item is not None and item.opcode == Debug.Function:
                found = at
                break
            parent = _operand(item, _PARENT)
            if parent is None:
                break
            at = parent
        self._function_of.update(dict.fromkeys(path, found))
        return found

    def file_of(self, source: int) -> str:
        """The path that a DebugSource (or, in the oldest set, an OpString) names; "" for anything else."""
        item = self.by_id.get(source)
        if item is not None and item.opcode == Debug.Source and item.operands:
            source = item.operands[0]
        return self._strings.get(source, "")

    def scope_file(self, scope: int) -> str:
        """The file in which a function or a block stands."""
        item = self.by_id.get(scope)
        if item is not None and item.opcode == Debug.TypeTemplate:
            item = self.by_id.get(self.function_of(scope) or 0)
        source = _operand(item, _SOURCE)
        return self.file_of(source) if source is not None else ""

    def function_names(self, function: int | None) -> tuple[str, str]:
        """(name, linkage name); "" where there is none, and for a linkage name that is the name again."""
        item = self.by_id.get(function) if function is not None else None
        if item is None or not item.operands:
            return "", ""
        name = self._strings.get(item.operands[0], "")
        linkage = self._strings.get(item.operands[6], "") if len(item.operands) > 6 else ""
        return name, "" if linkage == name else linkage

    def declared_line(self, function: int | None) -> int:
        """The line where a DebugFunction is declared; 0 where it does not say."""
        item = self.by_id.get(function) if function is not None else None
        return self._number(item, _LINE) if item is not None and item.opcode == Debug.Function else 0

    def _number(self, item: DebugInstruction, operand: int) -> int:
        """A number among the operands of an instruction; 0 where it is missing or is no plain constant."""
        if operand >= len(item.operands):
            return 0
        value = item.operands[operand]
        return self._constants.get(value, 0) if item.layout.numbers_are_ids else value

    def inlined_at(self, number: int) -> InlinedAt | None:
        """What a DebugInlinedAt says; None for any other id."""
        item = self.by_id.get(number)
        if item is None or item.opcode != Debug.InlinedAt:
            return None
        ops = item.operands
        scope = 2 if item.layout.inlined_at_column else 1
        if len(ops) <= scope:
            return None
        line = self._number(item, 0)
        column = self._number(item, 1) if item.layout.inlined_at_column else 0
        return InlinedAt(line, column, ops[scope], ops[scope + 1] if len(ops) > scope + 1 else 0)

    def stated_places(self) -> Iterator[tuple[int, str, int]]:
        """(DebugFunction, file, line) of what is said to be in functions apart from their code: where they are
        declared, and the calls in them that were inlined."""
        for number, item in self.by_id.items():
            if item.opcode == Debug.Function:
                yield number, self.scope_file(number), self._number(item, _LINE)
            elif (site := self.inlined_at(number)) is not None:
                yield self.function_of(site.scope) or 0, self.scope_file(site.scope), site.line

    def inline_depth(self, inlined_at: int) -> int | None:
        """How many DebugInlinedAt stand from this one outwards, itself counted; None when they form a circle."""
        path: list[int] = []
        at, depth = inlined_at, None
        seen: set[int] = set()
        while at not in seen:
            site = self.inlined_at(at)
            if site is None or at in self._depth:
                depth = 0 if site is None else self._depth[at]
                break
            seen.add(at)
            path.append(at)
            at = site.next
        for one in reversed(path):
            depth = depth + 1 if depth is not None else None
            self._depth[one] = depth
        return depth


def _operand(item: DebugInstruction | None, table: dict[Debug, int]) -> int | None:
    at = table.get(Debug(item.opcode)) if item is not None and item.opcode in table else None
    return item.operands[at] if item is not None and at is not None and at < len(item.operands) else None


class StringNumbers:
    """Strings to numbers; 0 is ""."""

    def __init__(self) -> None:
        self.strings = [""]
        self._numbers = {"": 0}

    def __call__(self, string: str) -> int:
        number = self._numbers.setdefault(string, len(self.strings))
        if number == len(self.strings):
            self.strings.append(string)
        return number


MAX_FRAMES = 256
"""Inlined calls inside one another; where a module claims more, the innermost function is given alone."""
MAX_RANGES = 4_000_000
"""Pieces of code that belong to a scope, counted for every scope around them too."""
_REMEMBERED = 1 << 20
"""Scopes of the chains of one function that are kept for the next piece of code with the same chain."""

_MAX_WARNINGS = 20

SCOPE_COLUMNS = "parent", "name", "linkage_name", "inlined", "call_file", "call_line", "call_column", "function"
"""What stands of each scope, as in ``model.debug_info.Scopes``."""

Scope = tuple[int, int]
"""The ids of a scope (0: none) and of its DebugInlinedAt (0: none)."""
Segment = tuple[int, int, Scope]
"""Instruction numbers [first, end) and the scope in force."""
_NO_SCOPE = 0, 0


class SpirvScopes(NamedTuple):
    """The scopes of a module, those around before those inside: ``table`` has a row of SCOPE_COLUMNS for each. Their
    ranges: bytes [``range_start``, ``range_end``) of a scope."""

    table: array[int]
    range_scope: array[int]
    range_start: array[int]
    range_end: array[int]


class ScopeBuilder:
    def __init__(self, words: DebugWords, data: DebugData, files: StringNumbers, names: StringNumbers) -> None:
        self.data, self.files, self.names = data, files, names
        _, self._start, _, _ = words.columns
        self._end = words.end
        self.warnings: list[str] = []
        self.declared: dict[tuple[int, int], int] = {}
        """Where functions are declared, file and line: their numbers; which other lines they have cannot be told."""
        self._scopes = array("I")
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._range_scope, self._range_start, self._range_end = array("I"), array("Q"), array("Q")
        self._last_range: dict[int, int] = {}
        self._pieces = 0
        self._segments: list[tuple[int, int, int]] = []
        self._ends: dict[int, int] = {}

    def build(self, functions: Mapping[int, Body], changes: tuple[array[int], array[int], array[int]]) -> SpirvScopes:
        """``changes`` are as ``core.spirv`` finds them."""
        numbers = changes[0]
        for body in functions.values():
            if not body.declared:
                first, last = bisect_left(numbers, body.first), bisect_left(numbers, body.last)
                self._function(body, list(_segments(body, *(column[first:last] for column in changes))))
        return SpirvScopes(self._scopes, self._range_scope, self._range_start, self._range_end)

    def segments(self) -> tuple[array[int], array[int], array[int]]:
        """All code that was built, cut where the scope changes."""
        self._segments.sort()  # functions of one id are where the first one did
        first, named, own = (array("I", [segment[part] for segment in self._segments]) for part in range(3))
        return first, named, own

    def _function(self, body: Body, segments: list[Segment]) -> None:
        own = self._own_function(body, segments)
        known: dict[Scope, list[int]] = {}
        held = 0
        for first, end, scope in segments:
            if self._pieces >= MAX_RANGES:
                self._warn(f"scopes after byte {body.offset} are left out: there are more than {MAX_RANGES} ranges")
                self._segments.append((first, 0, 0))
                return
            if scope not in known:
                if held > _REMEMBERED:
                    known, held = {}, 0
                known[scope] = self._numbers_of(body, own, scope)
                held += len(known[scope])
            self._add(known[scope], first, end)
            self._segments.append((first, self.data.function_of(scope[0]) or 0, own or 0))

    def _numbers_of(self, body: Body, own: int | None, scope: Scope) -> list[int]:
        """The numbers of the scopes around code of ``body`` in ``scope``, the outermost first; none where nobody
        knows."""
        outermost = self._outermost(*scope)
        if outermost is None and own is None:
            return []
        chain = self._chain(*scope)
        if outermost is None:
            assert own is not None  # noqa: S101 - or there was nothing to say
            chain = [*chain[:-1], (own, 0)]
        above, numbers = -1 - body.id, []  # functions are told apart by their body, inlined calls by what they are in
        for function, inlined_at in reversed(chain):
            above = self._number(above, function, inlined_at)
            numbers.append(above)
        return numbers

    def _own_function(self, body: Body, segments: list[Segment]) -> int | None:
        """The DebugFunction that defines the body; where none says so, the outermost one of its first scope."""
        defined = self.data.function_of(self.data.definitions.get(body.id, 0))
        if defined is not None:
            return defined
        outermost = (self._outermost(*scope) for _, _, scope in segments)
        return next((function for function in outermost if function is not None), None)

    def _chain(self, scope: int, inlined_at: int) -> list[tuple[int | None, int]]:
        """(DebugFunction, the DebugInlinedAt where it was inlined or 0), innermost first."""
        if not self._has_callers(inlined_at):
            return [(self.data.function_of(scope), 0)]
        chain: list[tuple[int | None, int]] = []
        while (site := self.data.inlined_at(inlined_at)) is not None:
            chain.append((self.data.function_of(scope), inlined_at))
            scope, inlined_at = site.scope, site.next
        return [*chain, (self.data.function_of(scope), 0)]

    def _outermost(self, scope: int, inlined_at: int) -> int | None:
        """The DebugFunction at the end of the chain. It is found once for each DebugInlinedAt: a scope of no function
        leaves nothing behind that could be counted."""
        path: list[int] = []
        if not self._has_callers(inlined_at):
            return self.data.function_of(scope)
        while inlined_at not in self._ends and (site := self.data.inlined_at(inlined_at)) is not None:
            path.append(inlined_at)
            scope, inlined_at = site.scope, site.next
        scope = self._ends.get(inlined_at, scope)
        self._ends.update(dict.fromkeys(path, scope))
        return self.data.function_of(scope)

    def _has_callers(self, inlined_at: int) -> bool:
        """Whether the way outwards has an end, and is not too long."""
        depth = self.data.inline_depth(inlined_at)
        if depth is not None and depth <= MAX_FRAMES:
            return True
        why = "in a circle" if depth is None else f"under {depth} others, more than {MAX_FRAMES}"
        self._warn(f"DebugInlinedAt %{inlined_at} stands {why}: its callers are left out")
        return False

    def _warn(self, text: str) -> None:
        if len(self.warnings) < _MAX_WARNINGS and text not in self.warnings:
            self.warnings.append(text)

    def _add(self, numbers: list[int], first: int, end: int) -> None:
        """Give [first, end) to the scopes with these numbers."""
        start, stop = 4 * self._start[first], 4 * self._start[end] if end < len(self._start) else self._end
        self._pieces += len(numbers)
        for number in numbers:
            last = self._last_range.get(number)
            if last is not None and self._range_end[last] == start:
                self._range_end[last] = stop
                continue
            self._last_range[number] = len(self._range_scope)
            self._range_scope.append(number)
            self._range_start.append(start)
            self._range_end.append(stop)

    def _number(self, above: int, function: int | None, inlined_at: int) -> int:
        key = (above, function or 0, inlined_at)
        if key in self._numbers:
            return self._numbers[key]
        self._numbers[key] = number = len(self._numbers)
        name, linkage = self.data.function_names(function)
        site = self.data.inlined_at(inlined_at) if inlined_at else None
        parent = above if above >= 0 else NO_PARENT
        row = (
            parent,
            self.names(name),
            self.names(linkage),
            int(site is not None),
            self.files(self.data.scope_file(site.scope) if site else ""),
            site.line if site else 0,
            site.column if site else 0,
            self._declaration(function),
        )
        self._scopes.extend(row)
        return number

    def _declaration(self, function: int | None) -> int:
        """The number of the place where a function is declared."""
        line = self.data.declared_line(function)
        if function is None or not line:
            return NO_FUNCTION
        place = self.files(self.data.scope_file(function)), line
        return self.declared.setdefault(place, len(self.declared))


def _segments(body: Body, numbers: array[int], scopes: array[int], inlined: array[int]) -> Iterator[Segment]:
    """The body cut where the scope changes; together the segments are the whole body."""
    at, current = body.first, _NO_SCOPE
    for number, scope, inlined_at in zip(numbers, scopes, inlined, strict=True):
        cut = min(number, body.last + 1)
        if cut > at:
            yield at, cut, current
            at = cut
        current = scope, inlined_at
    yield at, body.last + 1, current


class SpirvRows(NamedTuple):
    """Columns, as ``model.debug_info.LineRows`` has them; all rows are of section 0."""

    offset: array[int]
    file: array[int]
    line: array[int]
    column: array[int]
    flags: array[int]


class DecodedSpirv(NamedTuple):
    """``files`` and ``names`` begin with ""; ``declared`` are file and line where functions are declared, in the order
    of their numbers."""

    rows: SpirvRows
    scopes: SpirvScopes
    files: list[str]
    names: list[str]
    warnings: list[str]
    declared: list[tuple[int, int]]


def decode(words: DebugWords) -> DecodedSpirv:
    """Whatever is wrong with debug operands only leaves out what they would have said."""
    data, files, names = DebugData(words), StringNumbers(), StringNumbers()
    _, start, opcode, _ = words.columns
    sets = {number: layout.numbers_are_ids for number, layout in words.sets.items()}
    kinds, of_lines, of_debug_lines = core.kinds(words.columns, sets)
    line_files = {each: files(words.strings.get(each, "")) for each in sorted(of_lines)}
    debug_files = {each: files(data.file_of(each)) for each in sorted(of_debug_lines)}
    places, statements, are_scopes = core.in_force(kinds)
    location = core.locations(words.columns, kinds, statements, (line_files, debug_files), words.constants)
    builder = ScopeBuilder(words, data, files, names)
    scopes = builder.build(words.functions, core.scope_changes(words.columns, kinds))

    def stated_places() -> Iterator[tuple[int, int, int]]:
        return ((function, files(file), line) for function, file, line in data.stated_places())

    core.leave_out_foreign(opcode, (places, statements), location[:2], builder.segments(), stated_places)
    rows = core.rows(start, words.end // 4, (places, statements, are_scopes), location)
    return DecodedSpirv(SpirvRows(*rows), scopes, files.strings, names.strings, builder.warnings, [*builder.declared])
