"""Which variables are in scope at several places, of one module or of several: what is read of the bytes of a code
object is read for all of its places at once. And what was disassembled lately: a debugger asks for one place after
another of the same function, and starting a disassembler takes much longer than answering."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from symd.api import ServedContextVerbs
from symd.engine.indexes.manager import IndexManager
from symd.engine.reading.questions import VariablesAt
from symd.errors import MODULE_ERRORS, ModuleNotFound, ObjectNotFound, SymdError
from symd.model.addresses import ByDevice, Query
from symd.model.answers import Answer, Reason
from symd.model.contexts import DevicePlace
from symd.model.line_tables import CodeSpan
from symd.model.variables import InScope, Visible
from symd.query.code_spans import CodeFinder, is_held
from symd.query.line_tables import Disassembled
from symd.query.symbolize import symbolize_one
from symd.query.variables import in_scope, place_to_read


class _Asked(NamedTuple):
    """A question by its number, the answer at its place (a section, and an offset in it), and what its device address
    meant."""

    number: int
    at: Answer
    place: tuple[int, int]
    device: DevicePlace | None


KEPT_VARIABLES: Final = 1 << 14
"""The most variables and types that are kept, of all places together; each takes about 500 bytes."""


class _RecentScopes:
    """What was read lately, by module, code object and place: while a debugger steps, all addresses of a stack but the
    innermost stay as they are, and reading takes the longest of a stop. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, int, int], Visible] = OrderedDict()
        self._size = 0

    def get(self, name: str, path: str, place: tuple[int, int]) -> Visible | None:
        with self._lock:
            key = (name, path, *place)
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def keep(self, name: str, path: str, place: tuple[int, int], read: Visible) -> None:
        with self._lock:
            before = self._kept.pop((name, path, *place), None)
            self._kept[name, path, *place] = read
            self._size += _count(read) - (0 if before is None else _count(before))
            while self._size > KEPT_VARIABLES:
                self._size -= _count(self._kept.popitem(last=False)[1])


def _count(read: Visible) -> int:
    return 1 + len(read.variables) + len(read.types)


class ScopeReader:
    """Finds what is in scope at places of modules, and at device addresses."""

    def __init__(self, contexts: ServedContextVerbs, indexes: IndexManager) -> None:
        self._contexts, self._indexes, self._recent = contexts, indexes, _RecentScopes()

    def at_each(
        self, digest: str, queries: Sequence[Query | ByDevice], path: str | None, *, with_ranges: bool
    ) -> list[InScope]:
        """What is in scope at each place, in order. Errors of a module that a device address is in are reasons."""
        found: list[InScope] = [InScope(Answer(Reason.OUTSIDE_TEXT)) for _ in queries]
        by_object: dict[tuple[str, str], list[_Asked]] = {}
        finders: dict[str, CodeFinder] = {}
        for number, query in enumerate(queries):
            device = self._contexts.place(query) if isinstance(query, ByDevice) else None
            name, asked, within = digest, query, path
            if device is not None and device.query is not None and device.module is not None:
                name, asked, within = device.module, device.query, device.path
            if isinstance(asked, ByDevice):
                found[number] = _told(InScope(Answer(_reason(device))), device)
                continue
            with self._noting(found, [(number, device)]):
                index = self._indexes.whole(name)
                at = symbolize_one(index, asked, within)
                if with_ranges:
                    finder = finders.get(name) or finders.setdefault(name, CodeFinder(index))
                    at = finder.ranged(at)
                place = place_to_read(at)
                if place is None:
                    found[number] = _told(in_scope(at, None), device)
                else:
                    by_object.setdefault((name, place[0]), []).append(_Asked(number, at, place[1:], device))
        for (name, within), several in by_object.items():
            with self._noting(found, [(each.number, each.device) for each in several]):
                visible = self._read(name, within, dict.fromkeys(each.place for each in several))
                for each in several:
                    found[each.number] = _told(in_scope(each.at, visible[each.place]), each.device)
        return found

    def _read(self, name: str, path: str, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Visible | str]:
        """What is in scope at places of a code object, which was found in the module just now."""
        read: dict[tuple[int, int], Visible | str] = {}
        for place in places:
            recent = self._recent.get(name, path, place)
            if recent is not None:
                read[place] = recent
        missing = tuple(place for place in places if place not in read)
        if missing:
            for place, visible in zip(missing, self._indexes.ask(name, VariablesAt(path, missing)), strict=True):
                read[place] = visible
                if isinstance(visible, Visible):
                    self._recent.keep(name, path, place, visible)
        return read

    @contextmanager
    def _noting(self, found: list[InScope], asked: Sequence[tuple[int, DevicePlace | None]]) -> Iterator[None]:
        """Inside, an error of a module is the reason at device addresses; of the module that was named it is raised."""
        try:
            yield
        except (ModuleNotFound, ObjectNotFound, *MODULE_ERRORS) as error:
            if any(device is None for _, device in asked):
                raise
            for number, device in asked:
                found[number] = _told(InScope(Answer(_reason_of(error))), device)


def _told(found: InScope, device: DevicePlace | None) -> InScope:
    if device is None:
        return found
    module = device.module if device.query is not None else None
    return replace(found, module=module, device_address=device.address, device_candidates=device.candidates)


def _reason(device: DevicePlace | None) -> Reason:
    return (device.reason if device is not None else None) or Reason.OUTSIDE_TEXT


def _reason_of(error: SymdError) -> Reason:
    if isinstance(error, ModuleNotFound):
        return Reason.UNKNOWN_MODULE
    return Reason.UNKNOWN_KERNEL if isinstance(error, ObjectNotFound) else Reason.MALFORMED


KEPT_INSTRUCTIONS: Final = 1 << 16
"""The most instructions that are kept, of all modules together; each takes about 200 bytes."""
KEPT_PARTS: Final = 64
"""The most disassembled parts that are kept, each of which is looked at for a place."""


class _Key(NamedTuple):
    digest: str
    target: str | None
    path: str
    section: int


class RecentCode:
    """The disassembled parts of code that were asked for last, of all modules. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[_Key, int], Disassembled] = OrderedDict()

    def get(self, digest: str, target: str | None, span: CodeSpan) -> Disassembled | None:
        """The code object with the instructions of the range of code that ``span`` lies in, and maybe of others; None
        where they are not kept."""
        wanted = _Key(digest, target, span.path, span.section)
        with self._lock:
            for key, code in self._kept.items():
                if (
                    key[0] == wanted
                    and not isinstance(code.instructions, SymdError)
                    and is_held(code.instructions, span)
                ):
                    self._kept.move_to_end(key)
                    return code
        return None

    def keep(self, digest: str, target: str | None, span: CodeSpan, found: Sequence[Disassembled]) -> None:
        """Keep what was disassembled for ``span``, which lies in one code object."""
        (code,) = found
        if not 0 < _instruction_count(code) <= KEPT_INSTRUCTIONS:
            return
        with self._lock:
            self._kept[_Key(digest, target, span.path, span.section), span.start] = code
            left = KEPT_INSTRUCTIONS - sum(map(_instruction_count, self._kept.values()))
            while left < 0 or len(self._kept) > KEPT_PARTS:
                left += _instruction_count(self._kept.popitem(last=False)[1])


def _instruction_count(code: Disassembled) -> int:
    return 0 if isinstance(code.instructions, SymdError) else len(code.instructions)
