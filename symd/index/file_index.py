"""The index of one opened module in a process that answers a few questions and ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from symd.config import DEFAULT_LIMITS, Limits
from symd.debuginfo import read_in_turn
from symd.errors import SymdError
from symd.formats.containers.code_reloader import CodeReloader, without_bytes
from symd.index.builder import build
from symd.index.lookup import Index
from symd.index.module import decoded_objects, keep_freed_memory
from symd.index.module_tables import DecodedObject
from symd.index.partial import PartialIndex
from symd.model.addresses import Query
from symd.model.code import CodeObject
from symd.model.summaries import NO_SECTIONS, UNREAD, ModuleSummary

if TYPE_CHECKING:
    from symd.index.partial import PartialIndex

MAX_PARTIAL_QUERIES = 64
"""Queries about one file that partial indexes may answer, all together; more need most of the file anyway."""


class FileIndex:
    """Partial, then whole. ``again`` has the bytes of those code objects that have none."""

    def __init__(
        self, objects: Sequence[CodeObject], summary: ModuleSummary, limits: Limits, again: CodeReloader | None = None
    ) -> None:
        self._objects, self._limits, self._again = objects, limits, again
        self._summary = summary
        self._asked = 0
        self._wholes: dict[bool, Index] = {}

    @classmethod
    def of(cls, whole: Index) -> FileIndex:
        """One that is there already."""
        found = cls((), whole.summary, DEFAULT_LIMITS)
        found._wholes = {False: whole, True: whole}
        return found

    def for_queries(self, queries: Sequence[Query], path: str | None = None) -> Index:
        """An index that answers ``queries`` about the code object at ``path``, or about all."""
        return self.before_whole(queries, path) or self.whole(path)

    def before_whole(self, queries: Sequence[Query], path: str | None = None) -> Index | None:
        """An index that answers ``queries`` from less than the whole module; None where the whole index is made
        already, or takes no longer."""
        self._asked += len(queries)
        if self._wholes or self._asked > MAX_PARTIAL_QUERIES:
            return None
        return self._partial.index(queries, path)

    def has_object(self, path: str) -> bool:
        """Whether the code object at ``path`` is here, and not only on the way to others."""
        return any(code.path == path for code in self._objects)

    def symbols(self, path: str | None) -> set[str]:
        """The names of all kernels and function symbols of the code object at ``path``, or of all that is meant without one."""
        meant = [code for code in self._objects if (code.path == path if path else not code.is_compiler_input)]
        return {
            name for code in meant for own in (code.kernels, code.functions) for name in (each.name for each in own)
        }

    @cached_property
    def _partial(self) -> PartialIndex:

        complete = self._again.complete if self._again else None
        return PartialIndex(self._objects, self._summary, units=True, limits=self._limits, complete=complete)

    def spirv_with(self, kernel: str) -> str:
        """The path of the first SPIR-V inside the module that has a kernel of that name; "" where none has."""
        found = (code.path for code in self._objects if code.is_compiler_input and code.has_kernel(kernel))
        return next(found, "") or self._summary.spirv_with(kernel)

    def unread(self, path: str | None) -> str:
        """Why the debug data of the code object at ``path`` cannot be read or found, or, where ``path`` is None, why
        the module has no code object; "" where neither is so."""
        if path is None:
            return "" if self._objects else self._summary.unread(None)
        there = [each for each in self._objects if each.path == path]
        lost = next((note for each in there for note in each.warnings if note.startswith(NO_SECTIONS)), "")
        if lost:
            return lost
        meant = self._complete(there)
        decoded = (item.debug for item in decoded_objects(list(meant), self._limits))
        refused = next((f"{UNREAD}{debug}" for debug in decoded if isinstance(debug, SymdError)), "")
        return refused or self._summary.unread(path)

    def kernel_sizes(self, kernel: str, path: str | None = None) -> set[int]:
        """Sizes in bytes of the kernels of that name in the code object at ``path``; where ``path`` is None, in all
        code objects but SPIR-V inside a container."""
        meant = (code for code in self._objects if (not code.is_compiler_input if path is None else code.path == path))
        found = {own.size for code in meant for own in code.kernels if own.name == kernel}
        return found or self._summary.kernel_sizes(kernel, path)

    def whole(self, path: str | None = None) -> Index:
        """The index of all of it, or, without ``path``, of all that is meant then: SPIR-V inside a container is not."""
        inputs = path is not None or not any(code.is_compiler_input for code in self._objects)
        if inputs not in self._wholes:
            self._wholes[inputs] = self._built(inputs=inputs)
        return self._wholes[inputs]

    def _built(self, *, inputs: bool) -> Index:
        """Build the index; the memory freed afterwards is kept for the answers."""
        self._heap = keep_freed_memory(self._summary.size)
        meant = [code for code in self._objects if inputs or not code.is_compiler_input]
        decoded = self._decoded(meant)
        every = [
            next(decoded) if inputs or not code.is_compiler_input else DecodedObject(code, None)
            for code in self._objects
        ]
        return Index(build(every, self._summary), one_table=True)

    def _decoded(self, codes: Sequence[CodeObject]) -> Iterator[DecodedObject]:
        """Each with what is decoded from it, and without its bytes where those can be read again."""
        if self._again is None:
            yield from decoded_objects(codes, self._limits)
            return
        for code, debug in read_in_turn(self._complete(codes), self._limits, self._summary.size):
            yield DecodedObject(without_bytes(code), debug)

    def _complete(self, codes: Sequence[CodeObject]) -> Iterable[CodeObject]:
        return self._again.each_complete(codes) if self._again else codes
