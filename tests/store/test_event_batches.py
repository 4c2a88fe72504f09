"""A batch of loads and unloads changes what its events would, told one after the other: in the loads and their ends, in the log of modules, in the
counts of the context, and all of it or nothing."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symd.config import Limits
from symd.errors import StoreUnavailable
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, ObjectAddress, SectionOffset
from symd.model.contexts import Context, Load, Segment, Unload
from symd.model.identities import Digest
from symd.store import ModuleStore, Store
from symd.store import catalogue as sqlite_catalogue
from symd.store.context_log import ContextChanges
from symd.store.module_log import Position
from tests.store.conftest import Opened
from tests.store.shared.fixtures import shared_store

MODULES = (Digest("ab" * 32), Digest("cd" * 32))
PLACES = (
    ByAddress(ObjectAddress(1 << 63)),
    ByKernel("k", KernelOffset(8)),
    BySection(".text", SectionOffset(0)),
    BySection(3, SectionOffset((1 << 64) - 1)),
)
Event = Load | Unload


class Reader:
    """What was told of one context, read without any haste: an event after the other, each compared with all before it."""

    def __init__(self) -> None:
        self.loads: list[dict[str, Any]] = []
        self.unloads: set[tuple[str, int]] = set()
        self.log: list[tuple[str, str, int, int | None]] = []

    def tell(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Unload):
                self._unload(event.key, event.time)
            else:
                self._load(event)

    def _moments(self, key: str) -> set[int]:
        return {each["time"] for each in self.loads if each["key"] == key} | {
            time for of, time in self.unloads if of == key
        }

    def _load(self, load: Load) -> None:
        said = (load.key, load.module, load.time, load.segments)
        if said not in [each["said"] for each in self.loads]:
            end = min((each for each in self._moments(load.key) if each > load.time), default=None)
            self._end_earlier(load.key, load.time)
            self.loads.append(
                {"said": said, "key": load.key, "module": load.module, "time": load.time, "end": end, "segments": load.segments}
            )  # fmt: skip
            number = len(self.loads) - 1
            self.log.append(("loaded", load.module, number, None))
            if end is not None:
                self.log.append(("unloaded", load.module, number, end))
        if load.unload_time is not None:
            self._unload(load.key, load.unload_time)

    def _unload(self, key: str, time: int) -> None:
        self.unloads.add((key, time))
        self._end_earlier(key, time)

    def _end_earlier(self, key: str, time: int) -> None:
        begun = [each["time"] for each in self.loads if each["key"] == key and each["time"] < time]
        for number, each in enumerate(self.loads):
            if (
                begun
                and each["key"] == key
                and each["time"] == max(begun)
                and (each["end"] is None or each["end"] > time)
            ):
                each["end"] = time
                self.log.append(("unloaded", each["module"], number, time))


def kept(store: ModuleStore, name: str, begin: Position) -> list[object]:
    """The loads of a context and its entries of the log, both with loads counted from 0, and its counts."""
    found = list(store.context_log.loads(name, limit=100_000))
    places = {number: place for place, (number, _) in enumerate(found)}
    log = [
        (entry.kind, entry.digest, places[entry.load], entry.time)
        for entry in store.module_log.after(begin, 100_000)
        if entry.load in places
    ]
    with store._catalogue.reading() as connection:  # type: ignore[attr-defined]
        counts = connection.execute("SELECT segments, events FROM contexts WHERE id = ?", (name,)).fetchone()
    return [
        [(each.key, each.module, each.time, each.unload_time, each.segments) for _, each in found],
        log,
        tuple(counts),
    ]


def read(reader: Reader) -> list[object]:
    """The same of a reader."""
    loads = [(each["key"], each["module"], each["time"], each["end"], each["segments"]) for each in reader.loads]
    segments = sum(len(each["segments"]) for each in reader.loads)
    return [loads, reader.log, (segments, len(reader.loads) + len(reader.unloads))]


def followed(store: ModuleStore, name: str, last: ContextChanges, ends: dict[int, int | None]) -> ContextChanges:
    """Take what happened since a look into ``ends``, by number of load; loads without a segment come with their ends alone."""
    whole = False
    while not whole:
        last = store.context_log.changes(name, last)
        ends |= {row.sequence: row.unloaded for row in last.rows}
        ends |= {number: time for number, time in last.ended if number in ends}
        whole = last.whole
    return last


@pytest.fixture(scope="module", params=["folder", "shared"])
def quick(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleStore]:
    """One store for all examples."""
    folder = tmp_path_factory.mktemp("quick")
    if request.param == "folder":
        with Store(folder, durable=False) as store:
            yield store
    else:
        with shared_store(request.getfixturevalue("postgresql").database(), folder) as store:
            yield store


@pytest.fixture(scope="module", params=["many rows", "few rows"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where few rows travel together, small batches take several statements."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "few rows":
            patch.setattr(sqlite_catalogue, "_ROWS_GIVEN", (3, 2, 1))
            patch.setattr("symd.store.shared.catalogue._ROWS_GIVEN", 3)
        yield request.param


def loaded(time: int, key: str, life: int, module: int, segments: int) -> Load:
    places = tuple(
        Segment((1 << 63) + 256 * at, 16 + at, PLACES[at % len(PLACES)], "o" if at % 2 else None)  # type: ignore[arg-type]
        for at in range(segments)
    )
    return Load(MODULES[module], time, places, key=key, unload_time=time + life if life else None)


keys, moments = st.sampled_from(["a", "b", "c"]), st.integers(0, 12)
event = st.one_of(
    st.builds(loaded, moments, keys, st.integers(0, 3), st.integers(0, 1), st.integers(0, 3)),
    st.builds(Unload, keys, moments),
)
numbers = itertools.count()


@pytest.mark.usefixtures("way")
@settings(max_examples=100, deadline=None)
@given(batches=st.lists(st.tuples(st.integers(0, 1), st.lists(event, max_size=12)), max_size=6))
def test_a_batch_changes_what_its_events_would_one_after_the_other(
    quick: ModuleStore, batches: list[tuple[int, list[Event]]]
) -> None:
    names = [quick.context_log.add(Context(process=next(numbers))) for _ in range(2)]
    readers = [Reader(), Reader()]
    lasts, ends = [ContextChanges(), ContextChanges()], [{}, {}]  # type: ignore[var-annotated]
    begin = quick.module_log.end()
    for which, batch in batches:
        told = quick.context_log.record(names[which], batch)
        assert told == [each.key for each in batch]
        readers[which].tell(batch)
        lasts[which] = followed(quick, names[which], lasts[which], ends[which])
    for name, reader, seen in zip(names, readers, ends, strict=True):
        assert kept(quick, name, begin) == read(reader)
        placed = {number: each.unload_time for number, each in quick.context_log.loads(name) if each.segments}
        assert seen == placed


def many(seed: int, count: int) -> list[Event]:
    """Events of keys of which some are used often and most once, in no order of time; some are told twice."""
    chosen = random.Random(seed)
    events: list[Event] = []
    for at in range(count):
        key = f"often {chosen.randrange(5)}" if chosen.random() < 0.3 else f"{seed} {at}"
        time = chosen.randrange(10 * count)
        if events and chosen.random() < 0.1:
            events.append(chosen.choice(events))
        elif chosen.random() < 0.3:
            events.append(Unload(key, time))
        else:
            events.append(loaded(time, key, chosen.choice([0, 0, 3]), chosen.randrange(2), chosen.randrange(4)))
    return events


@pytest.mark.usefixtures("way")
def test_batches_of_many_statements_too(store: ModuleStore) -> None:
    name, reader, begin = store.context_log.add(Context()), Reader(), store.module_log.end()
    for seed, count in ((1, 700), (2, 1), (3, 90), (1, 700)):
        events = many(seed, count)
        store.context_log.record(name, events)
        reader.tell(events)
        assert kept(store, name, begin) == read(reader)


@pytest.mark.usefixtures("way")
def test_the_log_tells_a_batch_in_the_order_of_its_events(store: ModuleStore) -> None:
    """A load ends the one before it, is loaded, and ends itself; the next event follows."""
    name, begin = store.context_log.add(Context()), store.module_log.end()
    store.context_log.record(name, [loaded(10, "a", 0, 0, 1)])
    store.context_log.record(
        name, [Unload("a", 40), loaded(30, "a", 5, 1, 1), Unload("a", 20), loaded(50, "b", 0, 0, 0)]
    )
    first, second, other = (number for number, _ in store.context_log.loads(name))
    assert [entry[1:] for entry in store.module_log.after(begin, 100)] == [
        ("loaded", MODULES[0], first, None),
        ("unloaded", MODULES[0], first, 40),
        ("unloaded", MODULES[0], first, 30),
        ("loaded", MODULES[1], second, None),
        ("unloaded", MODULES[1], second, 40),
        ("unloaded", MODULES[1], second, 35),
        ("unloaded", MODULES[0], first, 20),
        ("loaded", MODULES[0], other, None),
    ]


def everything(store: ModuleStore, name: str, begin: Position) -> list[object]:
    with store._catalogue.reading() as connection:  # type: ignore[attr-defined]
        rows = [
            sorted(map(tuple, connection.execute(f"SELECT {what}").fetchall()))
            for what in (
                "revision, segments, events FROM contexts",
                "key, time FROM unloads",
                "load, address FROM segments",
            )
        ]
    return [*rows, kept(store, name, begin), store.module_log.end()]


@pytest.mark.usefixtures("way")
def test_a_batch_that_fails_halfway_changes_nothing(store: ModuleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each of the statements that take rows."""
    name, reader, begin = store.context_log.add(Context()), Reader(), store.module_log.end()
    first, batch = many(1, 20), [*many(2, 20), loaded(5, "often 1", 2, 1, 2)]
    store.context_log.record(name, first)
    before = everything(store, name, begin)
    catalogue: Any = store._catalogue  # type: ignore[attr-defined]
    real = type(catalogue).given
    for left in itertools.count():
        remaining = itertools.count(left, -1)

        def failing(*arguments: Any, remaining: Iterator[int] = remaining) -> Iterator[Any]:
            for each in real(catalogue, *arguments):
                if next(remaining) == 0:
                    raise StoreUnavailable("the disk failed")
                yield each

        monkeypatch.setattr(catalogue, "given", failing)
        try:
            store.context_log.record(name, batch)
            break
        except StoreUnavailable:
            monkeypatch.undo()
            assert everything(store, name, begin) == before
    assert left > 5
    monkeypatch.undo()
    reader.tell([*first, *batch])
    assert kept(store, name, begin) == read(reader)


@contextmanager
def statements(store: ModuleStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts those of transactions that write."""
    catalogue: Any = store._catalogue  # type: ignore[attr-defined]
    counted: Counter[str] = Counter()
    writing: Callable[..., Any] = catalogue.writing

    class Counting:
        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def execute(self, query: str, *arguments: Any) -> Any:
            counted[query.split("(", 1)[0]] += 1
            return self._connection.execute(query, *arguments)

        def executemany(self, query: str, parameters: Any) -> Any:
            rows = list(parameters)
            counted[query] += len(rows)
            return self._connection.executemany(query, rows)

    @contextmanager
    def counting(**arguments: Any) -> Iterator[Any]:
        with writing(**arguments) as connection:
            yield Counting(connection)

    with monkeypatch.context() as patch:
        patch.setattr(catalogue, "writing", counting)
        yield counted


def test_a_large_batch_holds_the_lock_for_few_statements(store: ModuleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took about six for each load, of 40,000 loads, while everybody else waited."""
    name = store.context_log.add(Context())
    store.context_log.record(name, [loaded(at, f"{at}", 0, 0, 1) for at in range(1024)])
    batch = [loaded(2000 + at, f"{at}", 7, 0, 1) for at in range(1024)]
    with statements(store, monkeypatch) as counted:
        store.context_log.record(name, batch)
    assert counted.total() < 60


def test_a_log_that_remembers_less_than_a_batch_has_its_last_entries(open_store: Opened) -> None:
    store = open_store(Limits(module_events=5))
    name, begin = store.context_log.add(Context()), store.module_log.end()
    store.context_log.record(name, [loaded(at, f"{at}", 0, 0, 0) for at in range(12)])
    end = store.module_log.end()
    assert end.sequence == begin.sequence + 12
    last = store.module_log.after(end._replace(sequence=end.sequence - 5), 100)
    assert [entry.load for entry in last] == [number for number, _ in store.context_log.loads(name)][-5:]
    store.context_log.record(name, [loaded(100, "more", 0, 0, 0)])
    assert store.module_log.end().sequence == end.sequence + 1
