"""A full store: what goes, what stays, and what is refused."""

import sqlite3
import threading
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import LimitExceeded, ModuleNotFound, StoreUnavailable
from symd.model.addresses import ByKernel
from symd.model.contexts import Alias, Context, Load, Segment
from symd.store import ModuleStore, Store, rows
from tests.store.conftest import Opened

SIZE = 1000


@pytest.fixture
def store(open_store: Opened) -> ModuleStore:
    return open_store(Limits(store_size=4 * SIZE))


def put(store: ModuleStore, name: str, size: int = SIZE) -> str:
    """A module of that many bytes; each comes a moment after the one before."""
    return store.put(name.encode() * size)


def there(store: ModuleStore) -> list[str]:
    return [record.sha256 for record in store.records()]


def test_the_least_recently_used_go_and_no_more_than_needed(store: ModuleStore):
    a, b, c, d = (put(store, name) for name in "abcd")
    store.data(a)
    store.missing([b])
    e = put(store, "e")
    assert there(store) == [a, b, d, e]
    f = put(store, "f", 2 * SIZE)
    assert there(store) == [b, e, f]
    with pytest.raises(ModuleNotFound):
        store.data(c)


def test_what_goes_goes_from_the_disk(root: Path):
    with Store(root, Limits(store_size=2 * SIZE)) as store:
        for name in "abc":
            put(store, name)
        assert {path.name for path in (root / "modules").glob("??/*")} == set(there(store))


def test_a_use_outlives_a_restart(open_store: Opened):
    limits = Limits(store_size=2 * SIZE)
    store = open_store(limits)
    a, b = put(store, "a"), put(store, "b")
    store.data(a)
    store.close()
    store = open_store(limits)
    c = put(store, "c")
    assert there(store) == [a, c]
    assert b not in there(store)


def test_indexes_count_and_go_with_their_module(store: ModuleStore):
    a = put(store, "a")
    assert store.put_index(a, 1, bytes(2 * SIZE)) is not None
    b = put(store, "b")
    c = put(store, "c")
    assert there(store) == [b, c]
    assert store.index(a, 1) is None


def test_an_index_that_finds_no_room_is_not_kept_and_nothing_goes(store: ModuleStore):
    a, b = put(store, "a"), put(store, "b")
    assert store.put_index(a, 1, bytes(4 * SIZE)) is None
    assert there(store) == [a, b]
    assert store.put_index(a, 1, bytes(3 * SIZE)) is not None
    assert there(store) == [a]


def test_an_index_written_again_counts_once(store: ModuleStore):
    a, b = put(store, "a"), put(store, "b")
    for _ in range(5):
        assert store.put_index(a, 1, bytes(2 * SIZE)) is not None
    assert there(store) == [a, b]


def test_indexes_of_replaced_formats_go_first(store: ModuleStore):
    a, b = put(store, "a"), put(store, "b")
    store.put_index(a, 1, bytes(SIZE))
    store.put_index(b, 2, bytes(SIZE // 2))
    c = put(store, "c", SIZE // 2 + 1)
    assert there(store) == [a, b, c]
    assert store.index(a, 1) is None
    assert store.index(b, 2) is not None


def test_a_module_that_could_never_fit_is_refused_and_nothing_goes(store: ModuleStore):
    a = put(store, "a")
    with pytest.raises(LimitExceeded, match="raise the limit store_size") as caught:
        put(store, "b", 4 * SIZE + 1)
    assert caught.value.metadata == {"limit": "store_size", "value": "4000"}
    assert there(store) == [a]


def test_what_is_in_use_stays_and_the_newcomer_is_refused(store: ModuleStore):
    held = [put(store, name) for name in "abcd"]
    with store.usage.pin(held[0]), store.usage.pin(held[1]), store.usage.pin(held[2]):
        e = put(store, "e")
        assert there(store) == [*held[:3], e]
        with store.usage.pin(e), pytest.raises(LimitExceeded, match="store_size"):
            put(store, "f")
    put(store, "f")


def test_what_is_open_goes_after_what_is_not_and_is_closed(store: ModuleStore):
    forgotten: list[str] = []
    a, b, c, d = (put(store, name) for name in "abcd")
    store.usage.follow(list, {a, b}.__contains__)
    store.removals.listen(lambda digests: forgotten.extend(digests or ()))
    e = put(store, "e", 2 * SIZE)
    assert (there(store), set(forgotten)) == ([a, b, e], {c, d})
    put(store, "f", 3 * SIZE)
    assert set(forgotten) == {c, d, e, a}


def test_what_aliases_and_contexts_name_goes_last(store: ModuleStore):
    a, b, *_ = (put(store, name) for name in "abcd")
    store.aliases.add([Alias("build-id", "1", a)])
    context = store.context_log.add(Context())
    store.context_log.record(context, [Load(b, 1, (Segment(0x1000, 16, ByKernel("k", 0)),))])
    e = put(store, "e", 2 * SIZE)
    assert there(store) == [a, b, e]
    f = put(store, "f", 3 * SIZE)
    assert there(store) == [b, f]
    assert store.aliases.resolve("build-id", "1") is None
    put(store, "g", 4 * SIZE)
    assert [load.module for _, load in store.context_log.loads(context)] == [b], "it is found again when it comes again"


def test_a_question_about_an_open_index_writes_nothing_and_counts(store: ModuleStore):
    a, b = put(store, "a"), put(store, "b")
    asked = [a]
    store.usage.follow(lambda: asked, lambda _: False)
    put(store, "c", 3 * SIZE)
    assert a in there(store)
    assert b not in there(store)


def test_uploads_at_the_same_time_never_pass_the_limit(open_store: Opened):
    limits = Limits(store_size=10 * SIZE)
    store = open_store(limits)
    over = []

    def work(first: int) -> None:
        for number in range(first, first + 10):
            store.put(b"%04d" % number * (SIZE // 4))
            over.append(sum(record.size for record in store.records()) > limits.store_size)

    threads = [threading.Thread(target=work, args=(10 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(over) == 40
    assert not any(over)
    assert len(there(store)) == 10


def test_uses_outlive_an_upload_that_is_refused(store: ModuleStore):
    a, b, *_ = (put(store, name) for name in "abcd")
    store.data(a)
    with pytest.raises(LimitExceeded, match="store_size"):
        put(store, "x", 5 * SIZE)
    e = put(store, "e")
    assert {a, e} <= set(there(store))
    assert b not in there(store)


def test_an_eviction_is_told_with_its_size_its_last_use_and_why(store: ModuleStore, caplog: pytest.LogCaptureFixture):
    told: list[tuple[str, int]] = []
    store.eviction_log.listen(lambda eviction: told.append((eviction.digest, eviction.size)))
    a = put(store, "a")
    store.put_index(a, 1, bytes(500))
    b, c, _ = (put(store, name) for name in "bcd")
    assert (told, store.eviction_log.sums) == ([(a, SIZE + 500)], (1, SIZE + 500))
    put(store, "e", 2 * SIZE)
    assert [digest for digest, _ in told] == [a, b, c][: len(told)]
    lines = [record.getMessage() for record in caplog.records if "evicted" in record.getMessage()]
    assert len(lines) == len(told)
    assert lines[0].startswith(f"evicted modules/{a}: {SIZE + 500} bytes, used last at 20")
    assert lines[0].endswith(f"; {SIZE} bytes were to come in, and store_size is {4 * SIZE}")


def test_who_asks_for_an_evicted_module_hears_when_it_went_until_it_comes_again(store: ModuleStore, open_store: Opened):
    a = put(store, "a")
    put(store, "b", 4 * SIZE)
    asks = (store.data, store.record, store.remove, lambda digest: store.relabel(digest, "x"))
    for ask in asks:
        with pytest.raises(
            ModuleNotFound, match=r"was evicted at 20.* UTC, because the store was full; .*add it again"
        ):
            ask(a)
    with pytest.raises(ModuleNotFound, match="was evicted"):
        open_store().data(a)
    assert put(store, "a") == a
    store.remove(a)
    with pytest.raises(ModuleNotFound, match="no module"):
        store.data(a)


def test_what_went_for_an_upload_that_then_failed_is_told_and_its_rows_are_gone(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    told: list[str] = []
    forgotten: list[str] = []
    with Store(root, Limits(store_size=4 * SIZE)) as store:
        a, b, c, d = (put(store, name) for name in "abcd")
        store.eviction_log.listen(lambda eviction: told.append(eviction.digest))
        store.removals.listen(lambda digests: forgotten.extend(digests or ()))
        with monkeypatch.context() as failing:
            failing.setattr(rows, "insert", _no_room)
            with pytest.raises(StoreUnavailable, match="disk is full"):
                put(store, "e", 3 * SIZE)
        assert (told, store.eviction_log.sums) == ([a, b, c], (3, 3 * SIZE))
        assert set(forgotten) == {a, b, c}, "whoever reads the log of modules may tell of them once more"
        assert [line for line in caplog.messages if line.startswith("evicted modules/")]
        assert there(store) == [d]
        for digest in (a, b, c):
            with pytest.raises(ModuleNotFound, match="was evicted"):
                store.data(digest)
        assert {path.name for path in (root / "modules").glob("??/*")} == {d}
        assert put(store, "e", 3 * SIZE) in there(store), "there is room by now"
        assert len(told) == 3


def _no_room(*_: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def test_so_many_evictions_are_remembered(store: ModuleStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rows, "MAX_EVICTIONS", 2)
    digests = [put(store, name, 4 * SIZE) for name in "abcd"]
    for digest, words in zip(digests[:3], ("no module", "was evicted", "was evicted"), strict=True):
        with pytest.raises(ModuleNotFound, match=words):
            store.data(digest)


def test_figures_are_what_is_there(store: ModuleStore, root: Path):
    a, b = put(store, "a"), put(store, "b")
    store.put_index(a, 1, bytes(30))
    (root / "modules" / b[:2] / b).write_bytes(b"x" * SIZE)
    store.set_aside(b)
    found = store.figures()
    assert found[:3] == (2, 2 * SIZE, 30)
    assert found.damaged == 1
    assert 0 < found.free < 1 << 60
