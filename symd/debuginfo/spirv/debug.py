"""The debug instructions of a SPIR-V module by id: files, functions and the way from a scope to its function.

Source: OpenCL.DebugInfo.100 and NonSemantic.Shader.DebugInfo.100, sections "Lexical Scope" and "Compilation Unit"."""

from __future__ import annotations

from symd.formats.spirv.debug_sets import Debug
from symd.model.named_tuples import NamedTuple

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Iterator

    from symd.formats.spirv.words import DebugInstruction, Words

_PARENT = {Debug.TypeTemplate: 0, Debug.LexicalBlock: 3, Debug.LexicalBlockDiscriminator: 2}
"""The operand that names what a scope stands in; a template names the function it makes."""
_LINE = 3
"""Where a DebugFunction has the line of its declaration."""
_SOURCE = {Debug.Function: 2, Debug.LexicalBlock: 0, Debug.LexicalBlockDiscriminator: 0}
_DESCRIBING = (*_PARENT, Debug.Function, Debug.FunctionDefinition, Debug.InlinedAt, Debug.Source)


class InlinedAt(NamedTuple):
    """The call that was inlined: its line and column (0 where the set has none), the id of the scope it stands in, and the
    DebugInlinedAt of that one's own inlined call (0 for none)."""

    line: int
    column: int
    scope: int
    next: int


class DebugData:
    """``by_id`` holds the instructions that describe files, functions and scopes; ``definitions`` maps a function's id
    to the id of its DebugFunction."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.by_id: dict[int, DebugInstruction] = {}
        self.definitions: dict[int, int] = {}
        self._function_of: dict[int, int | None] = {}
        self._depth: dict[int, int | None] = {}
        for item in words.debug_instructions(*_DESCRIBING):
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
        return self.words.strings.get(source, "")

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
        name = self.words.strings.get(item.operands[0], "")
        linkage = self.words.strings.get(item.operands[6], "") if len(item.operands) > 6 else ""
        return name, "" if linkage == name else linkage

    def declared_line(self, function: int | None) -> int:
        """The line where a DebugFunction is declared; 0 where it does not say."""
        item = self.by_id.get(function) if function is not None else None
        if item is None or item.opcode != Debug.Function or len(item.operands) <= _LINE:
            return 0
        return self._number(item, _LINE)

    def _number(self, item: DebugInstruction, operand: int) -> int:
        return self.words.value(item.operands, operand, item.layout.numbers_are_ids)

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
        """(DebugFunction, file, line) of what is said to stand in functions apart from their code: where they are declared,
        and the calls in them that were inlined."""
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
