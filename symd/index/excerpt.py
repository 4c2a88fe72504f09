"""Answers from a module before all of it is decoded: from the code objects, and the units in them, that questions need."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from symd import debuginfo
from symd.errors import SymdError
from symd.index.builder import build
from symd.index.joined import Indexed
from symd.index.lookup import Index
from symd.index.module import decoded
from symd.model import ByAddress, ByKernel, CodeObject, ModuleSummary, Query

MANY = 16
"""From so many code objects on it is worth while to decode some of them whole."""
MOST = 8
"""So often something is decoded; who asks for more wants the whole index."""


class Excerpt:
    """The code objects of a module, some of them decoded; with ``parts`` also some units of large ones. Safe to use from
    several threads."""

    def __init__(self, objects: Sequence[CodeObject], summary: ModuleSummary, *, parts: bool) -> None:
        self.summary = summary
        self._parts = parts
        self._items = [_Item(code) for code in objects]
        self._texts = _Texts(objects)
        self._count = 0
        self._lock = threading.Lock()
        self._index: Index | None = None

    def index(self, queries: Sequence[Query]) -> Index | None:
        """An index that answers ``queries`` as the whole one does, and knows sections and kernels alone elsewhere; None
        when the whole one is as good, or must say what a kernel is that nobody knows yet."""
        spots: dict[int, list[tuple[int, int]]] = {}
        for query in queries:
            if isinstance(query, ByKernel) and query.kernel not in self._texts.kernels and self._texts.nameless:
                return None
            for spot in self._texts.meant(query):
                spots.setdefault(spot.object, []).append((spot.section, spot.offset))
        with self._lock:
            if not all(self._has(self._items[number], places) for number, places in spots.items()):
                return None
            if self._index is None:
                self._index = Index(build([item.indexed for item in self._items], self.summary))
            return self._index

    def _has(self, item: _Item, places: Sequence[tuple[int, int]]) -> bool:
        """Whether the item has what these places need, decoded now if that is not too much."""
        if item.holds(places):
            return True
        self._count += 1
        if self._count > MOST:
            return False
        self._index = None
        return (self._parts and item.decode_part(places)) or (len(self._items) >= MANY and item.decode())


class _Spot(NamedTuple):
    object: int
    section: int
    offset: int


class _Texts:
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
        return any(map(debuginfo.nameless, self._objects))

    @cached_property
    def kernels(self) -> dict[str, list[_Spot]]:
        """Where the kernels of each name begin."""
        found: dict[str, list[_Spot]] = {}
        for number, code in enumerate(self._objects):
            for kernel in code.kernels:
                found.setdefault(kernel.name, []).append(_Spot(number, kernel.section_index, kernel.offset))
        return found

    def meant(self, query: Query) -> Iterator[_Spot]:
        """Every place that a query may mean, in whichever code object: more than it does where a path chooses one."""
        if isinstance(query, ByKernel):
            size = {(number, section.index): section.size for number, section in self._sections}
            for number, section, offset in self.kernels.get(query.kernel, ()):
                if offset + query.offset < size.get((number, section), 0):
                    yield _Spot(number, section, offset + query.offset)
            return
        for number, text in self._sections:
            if isinstance(query, ByAddress):
                offset = query.address - text.address
            else:
                offset = query.offset if query.section in (text.index, text.name) else -1
            if 0 <= offset < text.size:
                yield _Spot(number, text.index, offset)


class _Item:
    """A code object and what is decoded of it."""

    def __init__(self, code: CodeObject) -> None:
        self.code = code
        self.indexed = Indexed(code, None)
        self._part: debuginfo.Part | None = None
        self._asked: list[tuple[int, int]] = []

    def holds(self, places: Sequence[tuple[int, int]]) -> bool:
        """Whether these places (section numbers, offsets in them) can be answered."""
        if self._part is None:
            return self.indexed.debug is not None
        return all(self._part.holds(section, offset) for section, offset in places)

    def decode_part(self, places: Sequence[tuple[int, int]]) -> bool:
        """Decode what these places and those before them need; False where that is all."""
        self._asked += places
        section, offset = zip(*self._asked, strict=True)
        try:
            self._part = debuginfo.read_part(self.code, np.array(section, np.uint32), np.array(offset, np.uint64))
        except SymdError:
            self._part = None
        if self._part is not None:
            self.indexed = Indexed(self.code, self._part.debug)
        return self._part is not None

    def decode(self) -> bool:
        self._part, self.indexed = None, decoded(self.code)
        return True
