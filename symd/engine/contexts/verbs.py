"""The verbs about contexts. Loads and unloads go to the store's log; a context's map in
memory is made from that log, is kept while questions come, and follows the log when any process adds to it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from symd.api import ServedContextVerbs
from symd.engine.contexts.device import ContextMap, OpenIndexOf, place_of, symbolize_question
from symd.engine.contexts.placement import (
    MAX_CONTEXT_TEXT,
    LoadCover,
    SegmentBudget,
    checked_context,
    checked_unload,
    covered_loads,
    placed,
    reduced,
)
from symd.engine.contexts.timeline import FOREVER, Timeline
from symd.errors import BadQuery, LimitExceeded
from symd.model.addresses import LATEST_TIME, ByDevice
from symd.model.arguments import (
    AnyAddresses,
    AnyTimes,
    ColumnQuestion,
    ContextName,
    ModuleName,
    checked_addresses,
    checked_alias_key,
    checked_context_id,
    checked_device,
    checked_load_number,
    unchecked_digest,
)
from symd.model.cancellation import check_cancelled
from symd.model.contexts import (
    ALIAS_HINT,
    EVENT_HINT,
    WHOLE_ADDRESS,
    AddressForm,
    Alias,
    Context,
    ContextRecord,
    DeviceAnswers,
    DevicePlace,
    Load,
    Origin,
    Unload,
)
from symd.model.identities import ObjectPath
from symd.model.texts import checked_text, of_kind
from symd.store.context_log import AliasTable, ContextChanges, ContextLog, ContextRow

KEPT = 4_000_000
"""Segments in the maps that stay in memory, beside the one that was asked last."""
MAX_TEXTS = 1 << 27
"""Bytes of memory for the different names and paths of the segments in one map."""
SEGMENT_BYTES = 150
"""Bytes of memory for one segment of a map, without names and paths."""
PAGE = 1000
"""Loads or aliases that are read together."""
CONTEXTS = 20
"""StoredContexts that are read together: the attributes of one may take three megabytes."""
_PATH_HINT: Final = "leave it out where the name is the module's"


class StoredContexts(ServedContextVerbs):
    """Device addresses in the contexts of a store, answered in this process (``ServedContextVerbs``); ``opener``
    opens the index of a module by its digest."""

    def __init__(self, context_log: ContextLog, opener: OpenIndexOf) -> None:
        self._context_log = context_log
        self._opener = opener
        self._maps: OrderedDict[str, _Map] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, context: Context) -> str:
        return self._context_log.add(checked_context(context))

    def get(self, name: ContextName) -> ContextRecord:
        return self._context_log.context(checked_context_id(name))

    def all(self, after: ContextName = "") -> Iterator[ContextRecord]:
        page = self._context_log.contexts(checked_context_id(after), CONTEXTS)
        while page:
            yield from page
            page = self._context_log.contexts(page[-1].id, CONTEXTS)

    def remove(self, name: ContextName) -> None:
        context = checked_context_id(name)
        self._context_log.remove(context)
        with self._lock:
            self._maps.pop(context, None)

    def record(self, name: ContextName, events: Sequence[Load | Unload]) -> list[str]:
        record = self.get(name)
        width = record.context.address_bits
        checked: list[Load | Unload] = []
        budget = SegmentBudget()
        for event in events:
            if isinstance(event, Unload):
                checked.append(checked_unload(event))
                continue
            load = placed(of_kind(event, Load, EVENT_HINT), width, partial(self._opener, event.module))
            budget.take(load.segments)
            checked.append(load)
        return self._context_log.record(record.id, checked)

    def loads(self, name: ContextName, after: int = 0) -> Iterator[tuple[int, Load]]:
        context = checked_context_id(name)
        page = self._context_log.loads(context, checked_load_number(after), PAGE)
        while page:
            yield from page
            page = self._context_log.loads(context, page[-1][0], PAGE)

    def symbolize(
        self,
        name: ContextName,
        values: AnyAddresses,
        times: AnyTimes = None,
        form: AddressForm = WHOLE_ADDRESS,
    ) -> DeviceAnswers:
        question = checked_addresses(name, values, times, form)
        return symbolize_question(question, self._follow, self._opener)

    def answers(
        self,
        question: ColumnQuestion,
        opener: OpenIndexOf,
        own: str = "",
        *,
        with_ranges: bool = False,
    ) -> DeviceAnswers:
        """Answers to a column of places in several modules and contexts (``symbolize_question``), by the indexes that
        ``opener`` opens."""
        return symbolize_question(question, self._follow, opener, own, with_ranges=with_ranges)

    def place(self, query: ByDevice) -> DevicePlace:
        return place_of(checked_device(query), self._follow)

    def cover(self, name: str, number: int) -> LoadCover:
        """What lies over the load with that number in a context. Raises ``ContextNotFound`` and ``LimitExceeded``."""
        known = self._map(name).follow()
        return LoadCover.of(known.timeline, known.width, number)

    def covered_loads(self, name: str, number: int) -> list[int]:
        """The numbers of the loads before the one with that number that it lies over (``covered_loads``). Raises as
        ``cover`` does."""
        return covered_loads(self._map(name).follow().timeline, number)

    def _follow(self, name: str) -> ContextMap:
        """The map of a context, with everything that its log has by now."""
        return self._map(checked_context_id(name)).follow()

    def _map(self, name: str) -> _Map:
        """The map of a context; the least recently used are dropped when all have more than ``KEPT`` segments."""
        with self._lock:
            found = self._maps.get(name)
        if found is None:
            found = _Map(self._context_log, self._context_log.context(name))
        with self._lock:
            found = self._maps.setdefault(name, found)
            self._maps.move_to_end(name)
            while len(self._maps) > 1 and sum(each.size for each in self._maps.values()) > KEPT:
                self._maps.popitem(last=False)
            return found


class StoredAliases:
    """Other names of the modules in a store, kept in this process (``AliasVerbs``)."""

    def __init__(self, aliases: AliasTable, context_log: ContextLog) -> None:
        self._aliases = aliases
        self._context_log = context_log

    def add(self, aliases: Sequence[Alias]) -> None:
        checked = list(map(_checked_alias, aliases))
        self._context_log.check_known({each.context for each in checked} - {""})
        self._aliases.add(checked)

    def resolve(self, kind: str, key: str, context: ContextName = "") -> Alias | None:
        return self._aliases.resolve(*checked_alias_key(kind, key, context))

    def remove(self, kind: str, key: str, context: ContextName = "") -> None:
        self._aliases.remove(*checked_alias_key(kind, key, context))

    def of(self, digest: ModuleName, after: Alias | None = None) -> Iterator[Alias]:
        name = unchecked_digest(digest)
        if after is not None:
            of_kind(after, Alias, ALIAS_HINT)
        page = self._aliases.of(name, after, PAGE)
        while page:
            yield from page
            page = self._aliases.of(name, page[-1], PAGE)


def _checked_alias(alias: Alias) -> Alias:
    """The alias with its fields checked. Raises ``BadQuery``."""
    of_kind(alias, Alias, ALIAS_HINT)
    kind, key, context = checked_alias_key(alias.kind, alias.key, alias.context)
    path = None if alias.path is None else ObjectPath(checked_text(alias.path, "a code object's path", _PATH_HINT))
    if not kind or not key or len(path or "") > MAX_CONTEXT_TEXT:
        raise BadQuery(f"an alias has a kind and a key, and a path of at most {MAX_CONTEXT_TEXT} characters")
    return replace(alias, path=path, context=context)


class _Map:
    """A timeline and how far in the log it is."""

    def __init__(self, context_log: ContextLog, record: ContextRecord) -> None:
        self._context_log = context_log
        self._name = record.id
        self._lock = threading.Lock()
        self._timeline = Timeline()
        self._last = ContextChanges()
        self._refused = -1
        self.width = record.context.address_bits

    @property
    def size(self) -> int:
        """The memory that the map takes, in segments."""
        return self._timeline.size + self._timeline.texts // SEGMENT_BYTES

    def follow(self) -> ContextMap:
        """What is known, after everything that the log has by now; what was read before the caller
        left stays."""
        with self._lock:
            whole = False
            while not whole:
                check_cancelled()
                changes = self._context_log.changes(self._name, self._last)
                if changes.number == self._refused:
                    raise _too_many_texts()
                if changes.number != self._last.number:
                    self._timeline = Timeline()
                self._take(changes)
                self._last, whole = changes, changes.whole
            ended = self._last.ended_at
            return ContextMap(self._timeline, self.width, LATEST_TIME if ended is None else max(ended - 1, 0))

    def _take(self, changes: ContextChanges) -> None:
        if changes.ended:
            ended = np.array(changes.ended, np.int64)
            self._timeline.end(ended[:, 0], ended[:, 1])
        if changes.rows:
            _append(self._timeline, changes.rows, self.width)
        if self._timeline.texts > MAX_TEXTS:
            self._timeline, self._last, self._refused = Timeline(), ContextChanges(), changes.number
            raise _too_many_texts()


def _too_many_texts() -> LimitExceeded:
    return LimitExceeded(
        f"the segments of the context have more than {MAX_TEXTS} bytes of different names and paths",
        hint="begin another context, or place segments by their sections' numbers or addresses",
        metadata={"limit": "context_texts", "value": str(MAX_TEXTS)},
    )


def _append(timeline: Timeline, rows: Sequence[ContextRow], width: int) -> None:
    columns: dict[str, tuple[Any, ...]] = dict(zip(ContextRow._fields, zip(*rows, strict=True), strict=True))
    start, _ = reduced(np.array(columns["address"], np.int64).view(np.uint64), width)
    until = [FOREVER if each is None else each for each in columns["unloaded"]]
    timeline.append(
        np.array(columns["sequence"], np.int64),
        np.array(columns["loaded"], np.int64),
        np.array(until, np.int64),
        start,
        np.array(columns["size"], np.uint64),
        start - np.array(columns["offset"], np.int64).view(np.uint64),
        list(map(Origin, columns["module"], columns["path"], columns["kernel"], columns["section"])),
    )
