"""Answers from a module before all of it is decoded: from the code objects, and the units in them, that the questions
need. A process that answers a few questions about a file and ends goes no further (``FileIndex``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from symd.config import DEFAULT_LIMITS, Limits
from symd.debuginfo import reading, text_ranges
from symd.debuginfo.reading import read_in_turn
from symd.debuginfo.text_ranges import TextRanges
from symd.errors import SymdError
from symd.formats.containers.code_reloader import CodeReloader, without_bytes
from symd.index.builder import build, build_unless_suspect
from symd.index.lookup import Index
from symd.index.module import decoded_objects, keep_freed_memory
from symd.index.module_tables import DecodedObject
from symd.model.addresses import ByAddress, ByKernel, Query
from symd.model.code import CodeObject, DebugScheme, Function, Kernel
from symd.model.debug_info import DebugInfo, LineRows, Scopes
from symd.model.identities import Digest
from symd.model.summaries import NO_SECTIONS, UNREAD, ModuleSummary, ObjectSummary, code_summary

Places = Sequence[tuple[int, int]]
"""Section numbers and offsets in them."""

Complete = Callable[[CodeObject], CodeObject]

MIN_OBJECTS = 16
"""From so many code objects on it is worth while to decode some of them whole."""
MAX_DECODED = 8
"""How often something is decoded for a partial index; who asks for more wants the whole one."""


_WITHOUT_DEBUG_DATA = DebugInfo(LineRows.empty(), Scopes.empty())


class PartialIndex:
    """The code objects of a module, some of them decoded; with ``units`` also some units of large ones. Safe to use
    from several threads."""

    def __init__(
        self,
        objects: Sequence[CodeObject],
        summary: ModuleSummary,
        *,
        units: bool,
        limits: Limits = DEFAULT_LIMITS,
        complete: Complete | None = None,
    ) -> None:
        """``complete`` gives what decoding a code object needs, where ``objects`` lack it."""
        self.summary = summary
        self._units = units
        self._items = [_Item(code, limits, complete) for code in objects]
        self._text_names = _TextNames(objects)
        self._count = 0
        self._lock = threading.Lock()
        self._file: bytes | None = None
        self._index: Index | None = None

    def index(self, queries: Sequence[Query], path: str | None = None) -> Index | None:
        """An index that answers ``queries`` about the code object at ``path``, or about all, as the whole one does, and
        knows sections and kernels alone elsewhere; None when the whole one is as good, or must say which kernels there
        are."""
        with self._lock:
            file = self._file_for(queries, path)
            if file is None:
                return None
            if self._index is None:
                self._index = Index(file)
            return self._index

    def file(self, queries: Sequence[Query]) -> bytes | None:
        """The index file of the same, about all; what names functions it answers also about the code object at some
        path."""
        with self._lock:
            return self._file_for(queries, None)

    def _file_for(self, queries: Sequence[Query], path: str | None) -> bytes | None:
        names = {query.kernel for query in queries if isinstance(query, ByKernel)}
        if names and (self._text_names.nameless or not all(map(self._text_names.named, names))):
            return None
        asked: dict[int, list[tuple[int, int]]] = {
            position.object: [] for name in names for position in self._text_names.named(name)
        }
        for query in queries:
            meant = [*self._text_names.meant(query, path)]
            if not isinstance(query, ByKernel) and len(meant) > 1 and self._name_kernels(meant):
                continue
            for position in meant:
                asked.setdefault(position.object, []).append((position.section, position.offset))
        if not (names <= self._text_names.kernels.keys() or all(asked.values())):
            return None  # where nothing is decoded kernels are known, and other functions are not
        if not all(self._has(self._items[number], places, names) for number, places in asked.items()):
            return None
        if self._file is None:
            some = [item.indexed for item in self._items]
            parts = any(item.is_part for item in self._items)
            self._file = build_unless_suspect(some, self.summary) if parts else build(some, self.summary)
        return self._file

    def _name_kernels(self, ambiguous: Sequence[_Position]) -> bool:
        """Whether the index knows in which kernels these are: the answer that names them all needs no lines. False
        where debug data has the names, or part of it is decoded."""
        items = [self._items[number] for number in {position.object for position in ambiguous}]
        if self._text_names.nameless or any(item.is_part for item in items):
            return False
        unknown = [item for item in items if item.indexed.debug is None]
        for item in unknown:
            item.name_kernels()
        if unknown:
            self._file = self._index = None
        return True

    def _has(self, item: _Item, places: Places, kernels: set[str]) -> bool:
        """Whether the item has what these places need, decoded now if that is not too much."""
        if item.has(places, kernels):
            return True
        self._file = self._index = None
        if not item.part_holds(places):
            self._count += 1
            if self._count > MAX_DECODED:
                return False
            if not (self._units and item.decode_part(places)):
                return len(self._items) >= MIN_OBJECTS and item.decode()
        item.narrow(places, kernels)
        return True


class _Position(NamedTuple):
    """A byte of text: the number of a code object, of a section in it, and the offset in that."""

    object: int
    section: int
    offset: int


class _TextNames:
    """The text sections and kernels of some code objects, as queries name them."""

    def __init__(self, objects: Sequence[CodeObject]) -> None:
        self._objects = objects
        self._sections = [
            (number, section)
            for number, code in enumerate(objects)
            for section in code.sections
            if section.executable and section.size
        ]

    @cached_property
    def nameless(self) -> bool:
        """Whether kernels may come to light that are not known yet."""
        return any(code.kernel_named_by_debug_data for code in self._objects)

    @cached_property
    def kernels(self) -> dict[str, list[_Position]]:
        """Where the kernels of each name begin."""
        return self._positions(lambda code: code.kernels)

    @cached_property
    def functions(self) -> dict[str, list[_Position]]:
        """Where the function symbols of each name begin."""
        return self._positions(lambda code: code.functions)

    def _positions(self, items: Callable[[CodeObject], Iterable[Kernel | Function]]) -> dict[str, list[_Position]]:
        found: dict[str, list[_Position]] = {}
        for number, code in enumerate(self._objects):
            for item in items(code):
                found.setdefault(item.name, []).append(_Position(number, item.section_index, item.offset))
        return found

    def named(self, name: str) -> list[_Position]:
        """Where kernels and function symbols of that name begin. Nobody else is meant by a name that one of them
        has."""
        return [*self.kernels.get(name, ()), *self.functions.get(name, ())]

    def meant(self, query: Query, path: str | None) -> Iterator[_Position]:
        """Every place that a query may mean. One that names a function may mean it in any code object: more than it
        does where a path chooses one."""
        if isinstance(query, ByKernel):
            size = {(number, section.index): section.size for number, section in self._sections}
            for number, section, offset in self.named(query.kernel):
                if offset + query.offset < size.get((number, section), 0):
                    yield _Position(number, section, offset + query.offset)
            return
        for number, text in self._sections:
            code = self._objects[number]
            if code.is_compiler_input if path is None else code.path != path:
                continue
            if isinstance(query, ByAddress):
                offset = query.address - text.address - code.bias
            else:
                offset = query.offset if query.section in (text.index, text.name) else -1
            if 0 <= offset < text.size:
                yield _Position(number, text.index, offset)


class _Item:
    """A code object and what of it is decoded, or indexed."""

    def __init__(self, code: CodeObject, limits: Limits, complete: Complete | None) -> None:
        self.code, self._limits, self._complete = code, limits, complete
        self.indexed = DecodedObject(code, None)
        self._knows_kernels_alone = False
        self._part: reading.PartialDebugInfo | None = None
        self._ranges: TextRanges | None = None
        self._places: list[tuple[int, int]] = []
        self._kernels: set[str] = set()

    @property
    def is_part(self) -> bool:
        """Whether of its debug data only some units are decoded."""
        return self._part is not None

    def has(self, places: Places, kernels: set[str]) -> bool:
        """Whether ``indexed`` has these places and kernels."""
        if self._ranges is not None:
            return kernels <= self._kernels and all(self._ranges.holds(*place) for place in places)
        if self._part is not None:
            return self.part_holds(places)
        return not places or (self.indexed.debug is not None and not self._knows_kernels_alone)

    def name_kernels(self) -> None:
        """Index, of a code object that is not decoded, which text belongs to which kernel."""
        self.indexed = DecodedObject(self.code, _WITHOUT_DEBUG_DATA)
        self._knows_kernels_alone = self.code.debug is not DebugScheme.NONE

    def part_holds(self, places: Places) -> bool:
        return self._part is not None and all(self._part.text.holds(*place) for place in places)

    def decode_part(self, places: Places) -> bool:
        """Decode what these places and those before them need; False, and nothing changes, where that is all."""
        try:
            part = reading.read_part(self._whole_code(), [*self._places, *places], self._limits)
        except SymdError:
            return False
        self._part = part or self._part
        return part is not None

    def narrow(self, places: Places, kernels: set[str]) -> None:
        """Index, of the part that is decoded, what these places and those before them need."""
        assert self._part is not None  # noqa: S101 - it holds the places
        self._places += places
        self._kernels |= kernels
        debug = self._part.debug
        self._ranges = text_ranges.around(debug, self._places)
        if self._ranges is None:
            self.indexed = DecodedObject(self.code, debug)
        else:
            self.indexed = DecodedObject(*text_ranges.narrowed(self.code, debug, self._ranges, self._kernels))

    def decode(self) -> bool:
        self._part, self._ranges, self._knows_kernels_alone = None, None, False
        self.indexed = decoded_objects([self._whole_code()], self._limits)[0]
        return True

    def _whole_code(self) -> CodeObject:
        return self._complete(self.code) if self._complete else self.code


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
        """The names of all kernels and function symbols of the code object at ``path``, or of all that is meant without
        one."""
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

    def described(self) -> Sequence[ObjectSummary]:
        """The code objects described, without their digests."""
        return [code_summary(code, Digest("")) for code in self._objects] or self._summary.objects

    def whole(self, path: str | None = None) -> Index:
        """The index of all of it, or, without ``path``, of all that is meant then: SPIR-V inside a container is not."""
        inputs = path is not None or not any(code.is_compiler_input for code in self._objects)
        if inputs not in self._wholes:
            self._wholes[inputs] = self._build(inputs=inputs)
        return self._wholes[inputs]

    def _build(self, *, inputs: bool) -> Index:
        """Build the index; the memory freed afterwards is kept for the answers."""
        self._heap = keep_freed_memory(self._summary.size)
        meant = [code for code in self._objects if inputs or not code.is_compiler_input]
        decoded = self._decoded(meant)
        every = [
            next(decoded) if inputs or not code.is_compiler_input else DecodedObject(code, None)
            for code in self._objects
        ]
        return Index(build(every, self._summary), share_location_table=True)

    def _decoded(self, codes: Sequence[CodeObject]) -> Iterator[DecodedObject]:
        """Each with what is decoded from it, and without its bytes where those can be read again."""
        if self._again is None:
            yield from decoded_objects(codes, self._limits)
            return
        for code, debug in read_in_turn(self._complete(codes), self._limits, self._summary.size):
            yield DecodedObject(without_bytes(code), debug)

    def _complete(self, codes: Sequence[CodeObject]) -> Iterable[CodeObject]:
        return self._again.each_complete(codes) if self._again else codes
