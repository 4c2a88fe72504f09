"""Functions and inlined calls around one address, without columns: those of DWARF and of SPIR-V."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise

from symd.core import text_layout
from symd.model.frame_text import PYTHON_SUFFIX, FrameTuple, NeedsIndex
from symd.model.light_typing import NamedTuple

NO_PARENT = NO_FUNCTION = 0xFFFFFFFF
"""The numbers of none, as ``model.debug_info`` has them."""
_INLINED, _BODY = 1, 2
"""What ``model.debug_info`` says of scopes."""
_MAX_DEPTH = 64
"""Calls inside each other."""


class ScopeRange(NamedTuple):
    """The addresses [start, stop) of a scope."""

    scope: int
    start: int
    stop: int


class AddressScopes:
    """Columns are as ``model.debug_info.Scopes`` has them: of numbers, in these ``strings`` and ``files``. ``ranges``
    are scopes (u32), and where their addresses begin and stop (u64)."""

    def __init__(
        self,
        columns: Sequence[memoryview[int]],
        inlined: memoryview[int],
        ranges: tuple[array[int], array[int], array[int]],
        strings: Sequence[str],
        files: Sequence[str],
    ) -> None:
        """``columns`` are parents, names, linkage names, files, lines and columns of calls, and functions."""
        self.parent, self._name, self._linkage_name, *self._call, self._function = columns
        self.inlined, self._strings, self._files = inlined, strings, files
        self._of, self._start, self._stop = self.ranges = ranges
        self._checked: tuple[int, int, int] | None = None

    def __len__(self) -> int:
        return len(self.parent)

    def ranges_overlapping(self, first: int, last: int) -> list[ScopeRange]:
        """The ranges that have an address of [first, last)."""
        return [
            ScopeRange(self._of[at], self._start[at], self._stop[at])
            for at in text_layout.overlapping(self._start, self._stop, first, last)
        ]

    def chain_at(self, address: int) -> tuple[list[int], tuple[int, int]]:
        """(the innermost scope at an address and those around it, the addresses [start, end) of its function there).
        Raises NeedsIndex unless just these hold the address, each by one range, and nobody else has code in that of the
        function."""
        holding = self.ranges_overlapping(address, address + 1)
        chain = max((self._chain(scope) for scope, _, _ in holding), key=len, default=[])
        if not chain or sorted(chain) != sorted(scope for scope, _, _ in holding):
            raise NeedsIndex("the scopes that hold the address do not nest")
        spans = {scope: (start, stop) for scope, start, stop in holding}
        if any(
            spans[outer][0] > spans[inner][0] or spans[inner][1] > spans[outer][1] for inner, outer in pairwise(chain)
        ):
            raise NeedsIndex("a call reaches out of what it was inlined into")
        function = chain[-1], *spans[chain[-1]]
        if function != self._checked:
            self._check_function(*function)
            self._checked = function
        return chain, function[1:]

    def _chain(self, scope: int) -> list[int]:
        found = [scope]
        while (scope := self.parent[scope]) != NO_PARENT:
            found.append(scope)
            if len(found) > _MAX_DEPTH:
                raise NeedsIndex("calls are nested too deep")
        return found

    def _check_function(self, function: int, first: int, last: int) -> None:
        """Nobody else has code among these addresses of a function, and no call in it may be said to be the function
        itself (``index.functions``). Raises NeedsIndex."""
        inside = {*text_layout.inside(function, self.parent, self._of)}
        if any(scope not in inside for scope, _, _ in self.ranges_overlapping(first, last)):
            raise NeedsIndex("several functions claim the code")
        identity = self._identity(function)
        for scope in inside:  # Intel's compiler leaves calls without code behind
            is_same = self._identity(scope) == identity or self._files[self._call[0][scope]].endswith(PYTHON_SUFFIX)
            if is_same and self.inlined[scope] == _INLINED:
                raise NeedsIndex("a call is said to be the function around it")

    def _identity(self, scope: int) -> tuple[int, int, int]:
        return self._name[scope], self._linkage_name[scope], self._function[scope]

    def has_edge_inside(self, start: int, stop: int) -> bool:
        """Whether a range of code begins or ends between two addresses."""
        held = self.ranges_overlapping(start, stop)
        return any(start < each.start < stop or start < each.stop < stop for each in held)

    def is_in_pieces(self, scope: int) -> bool:
        """Whether a scope has several ranges."""
        return self._of.count(scope) > 1

    def frames(self, chain: Sequence[int], position: tuple[str | None, int, int]) -> tuple[FrameTuple, ...]:
        """The innermost of these scopes at a position, and those around it at their calls. A kernel's own body is told
        as the kernel. Raises NeedsIndex where one has no name, which a symbol may have."""
        found = []
        for scope in chain:
            if self.inlined[scope] == _BODY:
                continue
            name, linkage_name = self._strings[self._name[scope]], self._strings[self._linkage_name[scope]]
            if not name:
                raise NeedsIndex("a scope has no name")
            found.append((name, linkage_name if linkage_name not in ("", name) else None, *position))
            file, line, column = (each[scope] for each in self._call)
            position = self._files[file] or None, line, column
        return tuple(found)
