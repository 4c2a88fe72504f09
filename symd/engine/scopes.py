"""Which variables are in scope at several places, of one module or of several: what is read of the bytes of a code
object is read for all of its places at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from symd.api import ServedContextVerbs
from symd.engine.indexes import IndexManager
from symd.engine.reading.questions import VariablesAt
from symd.errors import OF_ONE_MODULE, ModuleNotFound, ObjectNotFound, SymdError
from symd.model.addresses import ByDevice, Query
from symd.model.answers import Answer, Reason
from symd.model.contexts import DevicePlace
from symd.model.variables import InScope
from symd.query.code_ranges import CodeFinder
from symd.query.symbolize import symbolize_one
from symd.query.variables import in_scope, place_to_read


class _Asked(NamedTuple):
    """A question by its number, the answer at its place (a section, and an offset in it), and what its device address
    meant."""

    number: int
    at: Answer
    place: tuple[int, int]
    device: DevicePlace | None


class ScopeReader:
    """Finds what is in scope at places of modules, and at device addresses."""

    def __init__(self, contexts: ServedContextVerbs, indexes: IndexManager) -> None:
        self._contexts, self._indexes = contexts, indexes

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
                visible = self._indexes.ask(name, VariablesAt(within, tuple(each.place for each in several)))
                for each, read in zip(several, visible, strict=True):
                    found[each.number] = _told(in_scope(each.at, read), each.device)
        return found

    @contextmanager
    def _noting(self, found: list[InScope], asked: Sequence[tuple[int, DevicePlace | None]]) -> Iterator[None]:
        """Inside, an error of a module is the reason at device addresses; of the module that was named it is raised."""
        try:
            yield
        except (ModuleNotFound, ObjectNotFound, *OF_ONE_MODULE) as error:
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
