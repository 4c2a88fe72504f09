"""Functions and inlined calls around one address, without columns: those of DWARF and of SPIR-V."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property

from symd.model.code import PYTHON_SUFFIX
from symd.model.plain_answers import NotPlain

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Sequence

    from symd.model.plain_answers import PlainFrame

_NO_PARENT = 0xFFFFFFFF
_INLINED, _BODY = 1, 2
"""What ``model.debug_info`` says of scopes."""
_DEEPEST = 64
"""Calls inside each other."""


class PlainScopes:
    """Columns are as ``model.debug_info.Scopes`` has them: of numbers, in these ``strings`` and ``files``. ``ranges`` are scopes, each with its addresses [start, end)."""

    def __init__(
        self,
        columns: Sequence[memoryview[int]],
        inlined: memoryview[int],
        ranges: Sequence[tuple[int, int, int]],
        strings: Sequence[str],
        files: Sequence[str],
    ) -> None:
        """``columns`` are parents, names, linkage names, files, lines and columns of calls, and functions."""
        self.parent, self._name, self._linkage_name, *self._call, self._function = columns
        self.inlined, self.ranges, self._strings, self._files = inlined, ranges, strings, files
        self._checked: tuple[int, int, int] | None = None

    def __len__(self) -> int:
        return len(self.parent)

    def at(self, address: int) -> tuple[list[int], tuple[int, int]]:
        """(the innermost scope at an address and those around it, the addresses [start, end) of its function there). Raises NotPlain unless just these
        hold the address, each by one range, and nobody else has code in that of the function."""
        holding = [each for each in self.ranges if each[1] <= address < each[2]]
        chain = max((self._chain(scope) for scope, _, _ in holding), key=len, default=[])
        if not chain or sorted(chain) != sorted(scope for scope, _, _ in holding):
            raise NotPlain
        function = next(each for each in holding if each[0] == chain[-1])
        if function != self._checked:
            self._check_function(*function)
            self._checked = function
        return chain, function[1:]

    def _chain(self, scope: int) -> list[int]:
        found = [scope]
        while (scope := self.parent[scope]) != _NO_PARENT:
            found.append(scope)
            if len(found) > _DEEPEST:
                raise NotPlain
        return found

    @cached_property
    def _roots(self) -> list[int]:
        """The function around each scope."""
        found: list[int] = []
        for scope, parent in enumerate(self.parent):  # parents come before children
            found.append(scope if parent == _NO_PARENT else found[parent])
        return found

    def _check_function(self, function: int, first: int, last: int) -> None:
        """Nobody else has code among these addresses of a function, and no call in it may be said to be the function itself (``index.unnamed_calls``). Raises NotPlain."""
        roots, said = self._roots, self._said(function)
        if any(start < last and first < end and roots[scope] != function for scope, start, end in self.ranges):
            raise NotPlain
        for scope in {scope for scope, _, _ in self.ranges}:  # Intel's compiler leaves calls without code behind
            is_call = roots[scope] == function and self.inlined[scope] == _INLINED
            if is_call and (self._said(scope) == said or self._files[self._call[0][scope]].endswith(PYTHON_SUFFIX)):
                raise NotPlain

    def _said(self, scope: int) -> tuple[int, int, int]:
        return self._name[scope], self._linkage_name[scope], self._function[scope]

    @cached_property
    def _edges(self) -> list[int]:
        return sorted({edge for _, start, end in self.ranges for edge in (start, end)})

    def divide(self, start: int, stop: int) -> bool:
        """Whether a range of code begins or ends between two addresses."""
        return bisect_right(self._edges, start) < bisect_left(self._edges, stop)

    def is_in_pieces(self, scope: int) -> bool:
        """Whether a scope has several ranges."""
        return sum(each[0] == scope for each in self.ranges) > 1

    def frames(self, chain: Sequence[int], position: tuple[str | None, int, int]) -> tuple[PlainFrame, ...]:
        """The innermost of these scopes at a position, and those around it at their calls. A kernel's own body is told as the kernel. Raises NotPlain where one has no name,
        which a symbol may have."""
        found = []
        for scope in chain:
            if self.inlined[scope] == _BODY:
                continue
            name, linkage_name = self._strings[self._name[scope]], self._strings[self._linkage_name[scope]]
            if not name:
                raise NotPlain
            found.append((name, linkage_name if linkage_name not in ("", name) else None, *position))
            file, line, column = (each[scope] for each in self._call)
            position = self._files[file] or None, line, column
        return tuple(found)
