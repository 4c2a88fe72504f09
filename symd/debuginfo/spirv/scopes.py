"""SPIR-V scopes: which debug function each instruction belongs to and through which inlined calls, from DebugScope and
DebugInlinedAt; a function with debug data owns its whole OpFunction .. OpFunctionEnd.

Source: NonSemantic.Shader.DebugInfo.100 and OpenCL.DebugInfo.100, DebugScope, DebugNoScope and DebugInlinedAt."""

from __future__ import annotations

from array import array
from bisect import bisect_left

from symd.model.named_tuples import NamedTuple

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Iterator

    from symd.debuginfo.spirv.debug import DebugData, StringNumbers
    from symd.formats.spirv.functions import Body

NO_PARENT = NO_FUNCTION = 0xFFFFFFFF
"""The number that stands for no scope, as ``model.debug_info`` has it."""
MOST_FRAMES = 256
"""Inlined calls inside one another; where a module claims more, the innermost function stands alone."""
MOST_RANGES = 4_000_000
"""Pieces of code that belong to a scope, counted for every scope around them too."""
_REMEMBERED = 1 << 20
"""Scopes of the chains of one function that are kept for the next piece of code with the same chain."""

_MOST_WARNINGS = 20

SCOPE_COLUMNS = "parent", "name", "linkage_name", "inlined", "call_file", "call_line", "call_column", "function"
"""What stands of each scope, as in ``model.debug_info.Scopes``."""

if TYPE_CHECKING:
    Scope = tuple[int, int]
    """The ids of a scope (0: none) and of its DebugInlinedAt (0: none)."""
    Segment = tuple[int, int, Scope]
    """Instruction numbers [first, end) and the scope in force."""
_NO_SCOPE = 0, 0


class SpirvScopes(NamedTuple):
    """The scopes of a module, those around before those inside: ``table`` has a row of SCOPE_COLUMNS for each. Their ranges: bytes [``range_start``, ``range_end``) of a scope."""

    table: array[int]
    range_scope: array[int]
    range_start: array[int]
    range_end: array[int]


class ScopeBuilder:
    def __init__(self, data: DebugData, files: StringNumbers, names: StringNumbers) -> None:
        self.data, self.files, self.names, self._words = data, files, names, data.words
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

    def build(self, functions: dict[int, Body], changes: tuple[array[int], array[int], array[int]]) -> SpirvScopes:
        """``changes`` are as ``core.spirv_lines`` finds them."""
        numbers = changes[0]
        for body in functions.values():
            if not body.declared:
                first, last = bisect_left(numbers, body.first), bisect_left(numbers, body.last)
                self._function(body, list(_segments(body, *(column[first:last] for column in changes))))
        return SpirvScopes(self._scopes, self._range_scope, self._range_start, self._range_end)

    def segments(self) -> tuple[array[int], array[int], array[int]]:
        """All code that was built, cut where the scope changes."""
        self._segments.sort()  # functions of one id stand where the first one did
        first, named, own = (array("I", [segment[part] for segment in self._segments]) for part in range(3))
        return first, named, own

    def _function(self, body: Body, segments: list[Segment]) -> None:
        own = self._own_function(body, segments)
        known: dict[Scope, list[int]] = {}
        held = 0
        for first, end, scope in segments:
            if self._pieces >= MOST_RANGES:
                self._warn(f"scopes after byte {body.offset} are left out: there are more than {MOST_RANGES} ranges")
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
        """The numbers of the scopes around code of ``body`` in ``scope``, the outermost first; none where nobody knows."""
        outermost = self._outermost(*scope)
        if outermost is None and own is None:
            return []
        chain = self._chain(*scope)
        if outermost is None:
            assert own is not None  # noqa: S101 - or there was nothing to say
            chain = [*chain[:-1], (own, 0)]
        above, numbers = -1 - body.id, []  # functions are told apart by their body, inlined calls by what they stand in
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
        """The DebugFunction at the end of the chain. It is found once for each DebugInlinedAt: a scope of no function leaves nothing behind that could be counted."""
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
        if depth is not None and depth <= MOST_FRAMES:
            return True
        why = "in a circle" if depth is None else f"under {depth} others, more than {MOST_FRAMES}"
        self._warn(f"DebugInlinedAt %{inlined_at} stands {why}: its callers are left out")
        return False

    def _warn(self, text: str) -> None:
        if len(self.warnings) < _MOST_WARNINGS and text not in self.warnings:
            self.warnings.append(text)

    def _add(self, numbers: list[int], first: int, end: int) -> None:
        """Give [first, end) to the scopes with these numbers."""
        start, stop = self._words.offset(first), self._words.offset(end)
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
