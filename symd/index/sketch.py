"""Answers from a module of many code objects before all of them are decoded: those that a question names are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence

from symd.index.builder import Indexed, build
from symd.index.lookup import Index
from symd.model import CodeObject, ModuleSummary

LEAST = 16
"""A module of fewer code objects is decoded whole."""
MOST = 8
"""Code objects that are decoded one by one; who asks for more than these wants the whole index."""

Decode = Callable[[CodeObject], Indexed]


class Sketch:
    """The code objects of a module, some of them decoded. Safe to use from several threads."""

    def __init__(self, objects: Sequence[CodeObject], summary: ModuleSummary, decode: Decode) -> None:
        self.summary = summary
        self._objects = objects
        self._decode = decode
        self._items = [Indexed(code, None) for code in objects]
        self._decoded: set[int] = set()
        self._lock = threading.Lock()
        self._index: Index | None = None

    def index(self, kernels: Collection[str]) -> Index | None:
        """An index that answers for ``kernels`` what the whole one does, and for nothing else; None when they stand in
        more code objects than are decoded one by one."""
        wanted = {
            number
            for number, code in enumerate(self._objects)
            if any(kernel.name in kernels for kernel in code.kernels)
        }
        with self._lock:
            missing = wanted - self._decoded
            if len(self._decoded) + len(missing) > MOST:
                return None
            for number in missing:
                self._items[number] = self._decode(self._objects[number])
            self._decoded |= missing
            if self._index is None or missing:
                self._index = Index(build(self._items, self.summary))
            return self._index
