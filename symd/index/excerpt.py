"""Answers from a module before all of it is decoded: from the code objects, and the units in them, that questions need."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from symd import debuginfo
from symd.errors import SymdError
from symd.index.builder import Indexed, build
from symd.index.format import Column
from symd.index.lookup import Index
from symd.model import U32, U64, CodeObject, ModuleSummary

MANY = 16
"""From so many code objects on it is worth while to decode some of them whole."""
MOST = 8
"""So often something is decoded; who asks for more wants the whole index."""


def decoded(code: CodeObject) -> Indexed:
    """All of a code object decoded, or why it cannot be."""
    try:
        debug = debuginfo.read(code)
    except SymdError as error:
        return Indexed(code, error)
    return Indexed(debuginfo.named(code, debug), debug)


class Excerpt:
    """The code objects of a module, some of them decoded, or some of their units. Safe to use from several threads."""

    def __init__(self, objects: Sequence[CodeObject], summary: ModuleSummary) -> None:
        self.summary = summary
        self._items = [_Item(code) for code in objects]
        self._count = 0
        self._lock = threading.Lock()
        self._index: Index | None = None

    @cached_property
    def bare(self) -> Index:
        """Knows sections and kernels, and nothing in them: it tells where a query points to."""
        return Index(build([Indexed(item.code, None) for item in self._items], self.summary))

    def index(self, place: Column, offset: U64) -> Index | None:
        """An index that answers at these places of ``bare`` what the whole one does, and nothing elsewhere; None when
        the whole one is as good."""
        columns = self.bare.columns
        owner, section = columns["place_object"][place], columns["place_index"][place].astype(np.uint32)
        with self._lock:
            for number in sorted(set(owner.tolist())):
                mine = owner == number
                if not self._has(self._items[number], section[mine], offset[mine]):
                    return None
            if self._index is None:
                self._index = Index(build([item.indexed for item in self._items], self.summary))
            return self._index

    def _has(self, item: _Item, section: U32, offset: U64) -> bool:
        """Whether the item has what these places need, decoded now if that is not too much."""
        if item.holds(section, offset):
            return True
        self._count += 1
        if self._count > MOST:
            return False
        self._index = None
        return item.decode_part(section, offset) or (len(self._items) >= MANY and item.decode())


class _Item:
    """A code object and what is decoded of it."""

    def __init__(self, code: CodeObject) -> None:
        self.code = code
        self.indexed = Indexed(code, None)
        self._part: debuginfo.Part | None = None
        self._section, self._offset = np.zeros(0, np.uint32), np.zeros(0, np.uint64)

    def holds(self, section: U32, offset: U64) -> bool:
        if self._part is None:
            return self.indexed.debug is not None
        return self._part.holds(section, offset)

    def decode_part(self, section: U32, offset: U64) -> bool:
        """Decode what these places and those before them need; False where that is all."""
        self._section = np.concatenate([self._section, section])
        self._offset = np.concatenate([self._offset, offset])
        try:
            self._part = debuginfo.read_part(self.code, self._section, self._offset)
        except SymdError:
            self._part = None
        if self._part is not None:
            self.indexed = Indexed(self.code, self._part.debug)
        return self._part is not None

    def decode(self) -> bool:
        self.indexed = decoded(self.code)
        return True
