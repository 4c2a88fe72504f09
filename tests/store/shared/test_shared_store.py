"""What a store has to do because others share it: builds once, objects that go and come, a server that goes and comes."""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from symd import Client
from symd.cli import command_line
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import (
    BadQuery,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidInput,
    LimitExceeded,
    ModuleNotFound,
    StoreUnavailable,
)
from symd.index import VERSION
from symd.model.contexts import Alias, Context, Load, Unload
from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store import rows
from symd.store.event_batch import BatchChanges, EventBatch, EventRows
from symd.store.module_log import append_to_log
from symd.store.shared import postgresql, shared_urls
from symd.store.shared.catalogue import MIGRATIONS, PostgresCatalogue
from symd.store.shared.housekeeping import PERIOD, SharedWritability
from symd.store.shared.postgresql import BUILDING, AdvisoryLocks, PostgresConnection, PostgresDatabase, PostgresResult
from symd.store.shared.store import SharedStore, index_object, module_object
from tests.store.shared.plain_files import PlainFiles
from tests.store.shared.postgresql_server import PostgresServer, running
from tests.store.shared.replicas import OBJECT

LONG = 30.0
"""Seconds after which a word that does not come is given up."""
_READ = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'loads'"
_COUNTS = "SELECT n_tup_upd FROM pg_stat_xact_user_tables WHERE relname = 'module_log'"
_COUNTS_AND_SUMS = "SELECT sum(n_tup_upd) FROM pg_stat_xact_user_tables WHERE relname IN ('module_log', 'totals')"
Opened = Callable[..., SharedStore]


@pytest.fixture
def stores(open_shared: Opened) -> Iterator[Opened]:
    """Opens stores that are closed at the end."""
    opened: list[SharedStore] = []

    def one_more(limits: Limits | None = None) -> SharedStore:
        opened.append(open_shared(limits))
        return opened[-1]

    yield one_more
    for store in opened:
        store.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    with running() as server:
        yield server


@contextmanager
def served(engine: Engine, config: Config) -> Iterator[str]:
    """A daemon in this process."""
    daemon = build_daemon(engine, config)
    with listening(daemon.server, config.address) as address:
        daemon.server.start()
        yield address
        daemon.stop(0.2)


def files_of(store: SharedStore) -> PlainFiles:
    assert isinstance(store._files, PlainFiles)
    return store._files


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + LONG
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def test_a_module_that_all_ask_for_at_once_is_indexed_once(stores: Opened) -> None:
    """Three engines as three daemons have them, with four threads each, and none has its index."""
    opened = [stores() for _ in range(3)]
    engines = [Engine(store) for store in opened]
    digest = opened[0].put(OBJECT.read_bytes())
    together, answers = threading.Barrier(12), []

    def ask(engine: Engine) -> None:
        together.wait(LONG)
        answers.append(engine.symbolize_one(digest, 0x1978).frames)

    threads = [threading.Thread(target=ask, args=(engine,)) for engine in engines for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert len(answers) == 12
    assert len({tuple(frames) for frames in answers}) == 1
    made = [name for store in opened for what, name in files_of(store).log if what == "add" and "index/" in name]
    assert made == [index_object(digest, VERSION)]
    assert opened[0].failure(digest, VERSION) is None


def test_a_lock_is_waited_for_here_and_elsewhere(database: str) -> None:
    one, other = (
        AdvisoryLocks(PostgresDatabase(database, Limits())),
        AdvisoryLocks(PostgresDatabase(database, Limits())),
    )
    digest, order = "ab" * 32, []

    def wait(locks: AdvisoryLocks, name: str) -> None:
        with locks.hold(BUILDING, digest) as held:
            order.append((name, held.waited))

    with one.hold(BUILDING, digest) as mine:
        assert not mine.waited
        waiting = [threading.Thread(target=wait, args=pair) for pair in ((one, "here"), (other, "elsewhere"))]
        for thread in waiting:
            thread.start()
        time.sleep(0.2)
        assert order == []
        with other.hold(BUILDING, "cd" * 32) as another:
            assert not another.waited
    for thread in waiting:
        thread.join(LONG)
    assert sorted(order) == [("elsewhere", True), ("here", True)]
    one.close()
    other.close()


def test_another_daemon_that_holds_the_turn_is_waited_for_no_longer_than_an_attempt_may_take(stores: Opened) -> None:
    limits = Limits(build_seconds=0.3)
    other, store = stores(), stores(limits)
    digest = other.put(b"module")
    with ThreadPoolExecutor(2) as threads, other.attempt(digest, VERSION):

        def attempt() -> None:
            with store.attempt(digest, VERSION):
                pass

        for waiting in [
            threads.submit(attempt) for _ in range(2)
        ]:  # for the other daemon, and for the thread that does
            with pytest.raises(DeadlineExceeded, match="another daemon has been indexing") as caught:
                waiting.result(LONG)
            assert caught.value.metadata == {"limit": "build_seconds", "value": "0.3"}
    with store.attempt(digest, VERSION) as before:
        assert not before.waited


def test_a_lock_that_the_server_took_back_is_noticed(database: str) -> None:
    locks = AdvisoryLocks(PostgresDatabase(database, Limits()))
    with locks.hold(BUILDING, "ab" * 32) as held:
        held.check()
        end_connections(database)
        with pytest.raises(StoreUnavailable, match="held a turn"):
            held.check()
    with locks.hold(BUILDING, "ab" * 32) as again:
        again.check()
    locks.close()


def end_connections(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        query = (
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute(query)


def test_connections_that_the_server_closed_are_made_again(stores: Opened, database: str) -> None:
    store = stores()
    digest = store.put(b"abc")
    end_connections(database)
    assert store.record(digest).size == 3
    store.relabel(digest, "after")
    assert store.record(digest).label == "after"


def test_objects_of_what_was_removed_go(stores: Opened) -> None:
    store = stores()
    digest = store.put(b"abc")
    store.put_index(digest, 1, b"index")
    assert files_of(store).names() == {module_object(digest), index_object(digest, 1)}
    store.remove(digest)
    assert eventually(lambda: files_of(store).names() == set())
    assert eventually(lambda: store._catalogue.unwanted_objects(10) == [])  # the name goes after the object


def test_an_object_that_came_again_stays(stores: Opened) -> None:
    """Its removal was begun by a daemon that was killed, so that its name is still noted."""
    store = stores()
    store._housekeeping.end()
    digest = store.put(b"abc")
    store.remove(digest)
    assert store._catalogue.unwanted_objects(10) == [(module_object(digest), digest)]
    store.put(b"abc")
    store.adopt()
    assert files_of(store).names() == {module_object(digest)}
    assert store.data(digest) == b"abc"


def test_an_upload_that_finds_no_room_leaves_no_object(stores: Opened) -> None:
    store = stores(Limits(store_size=10))
    with pytest.raises(LimitExceeded, match="store_size"):
        store.put(bytes(11))
    assert eventually(lambda: files_of(store).names() == set())


class Killed(BaseException):
    """Ends a writer where it stands, as a kill does: nothing is tidied."""


@pytest.mark.parametrize("what", ["module", "index"])
def test_an_object_whose_writer_was_killed_before_its_row_goes(
    stores: Opened, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    store, other = stores(), stores()
    digest = store.put(b"abc")
    before = files_of(store).names()

    def killed(*_: object, **__: object) -> None:
        raise Killed

    monkeypatch.setattr(store, "_adding", killed)
    with pytest.raises(Killed):
        store.put(b"another") if what == "module" else store.put_index(digest, 1, b"index")
    assert len(files_of(store).names()) == len(before) + 1
    other.adopt()
    assert files_of(store).names() == before
    monkeypatch.undo()
    store.put_index(digest, 1, b"index")
    store.put_index(digest, 1, b"index")
    other.adopt()
    assert store.index(digest, 1) == b"index"


@pytest.mark.parametrize("trouble", ["gone", "cut"])
def test_a_lost_object_is_told_once_and_mended_by_adding_it_again(stores: Opened, trouble: str) -> None:
    store, other = stores(), stores()
    digest = store.put(b"abc", "label")
    path = files_of(store).folder / module_object(digest)
    path.unlink() if trouble == "gone" else path.write_bytes(b"ab")
    with pytest.raises(DataLoss, match="add the module again"):
        store.data(digest)
    assert other.missing([digest]) == [digest]
    assert store.figures().damaged == 1
    assert other.put(b"abc", "another label") == digest
    assert (store.data(digest), store.missing([digest])) == (b"abc", [])
    assert store.record(digest).label == "label"


def test_set_aside_looks_at_the_object_anew(stores: Opened) -> None:
    store = stores()
    digest = store.put(b"abc")
    assert not store.set_aside(digest)
    (files_of(store).folder / module_object(digest)).write_bytes(b"xyz")
    assert store.set_aside(digest)
    assert store.missing([digest]) == [digest]


def test_what_another_daemon_removes_is_let_go_here(stores: Opened) -> None:
    here, there = stores(), stores()
    digest = there.put(b"abc")
    gone = threading.Event()
    here.removals.listen(lambda digests: gone.set() if digests == [digest] else None)
    there.remove(digest)
    assert gone.wait(LONG)


def test_uses_come_to_the_catalogue(stores: Opened) -> None:
    store = stores()
    digest = store.put(b"abc")
    with store._catalogue.writing() as connection:
        connection.execute("UPDATE modules SET used = 1")
    store.data(digest)
    store.close()
    with stores()._catalogue.reading() as connection:
        assert connection.execute("SELECT used > 1 FROM modules").fetchone() == (True,)


def test_a_text_with_nul_is_refused_by_name(stores: Opened) -> None:
    store = stores()
    digest = store.put(b"abc")
    with pytest.raises(BadQuery, match="NUL"):
        store.aliases.add([Alias("build-id", "a\0b", digest)])
    with pytest.raises(BadQuery, match="NUL"):
        store.relabel(digest, "\0")
    assert store.record(digest).label == ""


def test_all_connections_busy_is_said_by_the_limits_name(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "CATALOGUE_SECONDS", 0.2)
    server = PostgresDatabase(database, Limits(catalogue_connections=2))
    busy = pytest.raises(StoreUnavailable, match="all 2 connections")
    with server.connection(), server.connection(), busy as caught, server.connection():
        pass
    assert caught.value.metadata == {"limit": "catalogue_connections", "value": "2"}
    with server.connection() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    server.close()


def test_a_connection_that_is_given_back_after_the_end_is_closed(database: str) -> None:
    server = PostgresDatabase(database, Limits())
    with server.connection() as waiting:
        pass
    with server.connection() as first, server.connection() as second:
        assert waiting in (first, second)
        server.close()
        assert first.execute("SELECT 1").fetchone() == second.execute("SELECT 1").fetchone() == (1,)
    assert not first.is_silent()
    assert not second.is_silent()


def test_who_writes_takes_one_connection(stores: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others that wait for the lock have the rest, a second one would be waited for until they give up."""
    borrowed, real = threading.local(), PostgresDatabase.connection

    @contextmanager
    def alone(self: PostgresDatabase, seconds: float | None = None) -> Iterator[PostgresConnection]:
        assert not getattr(borrowed, "is_held", False)
        borrowed.is_held = True
        try:
            with real(self, seconds) as connection:
                yield connection
        finally:
            borrowed.is_held = False

    monkeypatch.setattr(PostgresDatabase, "connection", alone)
    store = stores()
    digest = store.put(OBJECT.read_bytes())
    store.put_index(digest, VERSION - 1, b"older")
    for absent in (store.remove, partial(store.relabel, label="x"), partial(store.admit, format="x")):
        with pytest.raises(ModuleNotFound):
            absent("ab" * 32)
    assert store.collect(VERSION).indexes == [(digest, VERSION - 1)]
    store.context_log.record(store.context_log.add(Context()), [Load(digest, 1)])
    store.aliases.add([Alias("amd-uri", "file:///a", digest)])
    store.remove(digest)


def test_a_statement_ends_in_time(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "CATALOGUE_SECONDS", 0.2)
    server = PostgresDatabase(database, Limits())
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable, match="the server took too long"), server.connection() as connection:
        connection.execute("SELECT pg_sleep(20)")
    assert time.monotonic() - begun < LONG / 2
    server.close()


def test_what_was_waited_for_a_connection_is_not_waited_once_more_for_the_lock(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this thread. A store that another test left has threads too."""
    said: list[str] = []
    execute, here, times = PostgresConnection.execute, threading.get_ident(), iter([100.0, 101.5])

    def noted(connection: PostgresConnection, query: str, *parameters: Any) -> PostgresResult:
        if threading.get_ident() == here:
            said.append(query)
        return execute(connection, query, *parameters)

    def now() -> float:
        return next(times) if threading.get_ident() == here else time.monotonic()

    catalogue = PostgresCatalogue(PostgresDatabase(database, Limits()))
    monkeypatch.setattr("symd.store.shared.catalogue.monotonic", now, raising=False)
    monkeypatch.setattr(PostgresConnection, "execute", noted)
    with catalogue.writing(seconds=2.0):
        pass
    catalogue.close()
    assert said[0].startswith("BEGIN; SET LOCAL lock_timeout = 500;")


def test_a_catalogue_of_a_newer_symd_is_left_alone(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE symd_schema SET version = 999")
    with pytest.raises(FailedPrecondition, match=f"schema 999, this symd knows {len(MIGRATIONS)}"):
        PostgresCatalogue(PostgresDatabase(database, Limits()))


def test_the_log_of_a_catalogue_of_the_first_schema_goes_on(postgresql: PostgresServer) -> None:
    """A daemon of that version which still runs adds entries without a number, beside those of this one."""
    url = postgresql.database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(MIGRATIONS[0])  # type: ignore[call-overload]
        connection.execute("CREATE TABLE symd_schema (version BIGINT NOT NULL); INSERT INTO symd_schema VALUES (1)")
        add = "INSERT INTO changes (kind, sha256, writer) VALUES ('added', 'old', '')"
        connection.execute(add)
        catalogue = PostgresCatalogue(PostgresDatabase(url, Limits()))
        connection.execute(add)
        with catalogue.writing() as writing:
            append_to_log(catalogue, writing, [("added", "new", None, None)] * 3, 100)
        connection.execute(f"{add}, ('added', 'old', '')")
        told = connection.execute("SELECT sequence, sha256 FROM changes ORDER BY sequence").fetchall()
        last = connection.execute("SELECT last FROM module_log").fetchone()
        catalogue.close()
    assert told == list(enumerate(["old", "old", "new", "new", "new", "old", "old"], 1))
    assert last == (7,)


def test_the_logs_number_is_not_counted_up_for_each_entry(database: str) -> None:
    """Each count leaves a version of the row behind, and all are gone through for the next one: 142 s for 40,000 loads."""
    catalogue = PostgresCatalogue(PostgresDatabase(database, Limits()))
    with catalogue.writing() as connection:
        append_to_log(catalogue, connection, [("added", "0", None, None)] * 100, 1000)
        (counts,) = connection.execute(_COUNTS).fetchone()
    catalogue.close()
    assert counts == 1


def test_what_goes_together_is_counted_and_told_once(database: str) -> None:
    """As with the log's number: 23 s for 8,000 modules that made room, in which nobody else could write."""
    catalogue = PostgresCatalogue(PostgresDatabase(database, Limits()))
    gone = [Digest(hashlib.sha256(b"%d" % each).hexdigest()) for each in range(100)]
    with catalogue.writing() as connection:
        for each in gone:
            rows.insert(connection, ModuleRecord(each, 10, "", "", 0.0))
            rows.keep_index(connection, each, 1, 5)
            connection.execute("INSERT INTO aliases VALUES ('', 'kind', ?, ?, NULL)", (each, each))
    with catalogue.writing() as connection:
        before = connection.execute(_COUNTS_AND_SUMS).fetchone()[0]
        rows.delete(connection, gone)
        counts = connection.execute(_COUNTS_AND_SUMS).fetchone()[0] - before
        assert counts == 4  # the log's number; bytes of indexes and of modules, aliases
        assert connection.execute("SELECT * FROM totals").fetchone() == (0, 0, 0)
        assert connection.execute("SELECT count(*) FROM unwanted_objects").fetchone() == (2 * len(gone),)
        told = connection.execute("SELECT sequence, kind, sha256 FROM changes ORDER BY sequence").fetchall()
    with catalogue.reading() as connection:
        assert connection.execute(catalogue.LAST_ENTRY).fetchone() == (len(gone),)
    catalogue.close()
    assert told == [(number, "removed", each) for number, each in enumerate(sorted(gone), 1)]


def test_of_a_large_context_a_batch_reads_what_matters_to_it(stores: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server, which has not looked at the table since it grew, read all loads of the context for each few hundred events."""
    store, few = stores(), 400
    name = store.context_log.add(Context())
    store.context_log.record(name, [Load("ab" * 32, at, key=f"{at}") for at in range(20 * few)])
    read: list[int] = []
    change = EventRows.change

    def counted(rows: EventRows, batch: EventBatch, changes: BatchChanges, revision: int) -> None:
        assert len(changes.ended) == few
        change(rows, batch, changes, revision)
        read.append(rows._connection.execute(_READ).fetchone()[0])

    monkeypatch.setattr(EventRows, "change", counted)
    told = [Load("ab" * 32, at, key=f"{at}") for at in range(few)]
    store.context_log.record(name, [*told, *(Unload(f"{at}", 100_000) for at in range(few))])
    assert read[0] < 10 * few


def test_a_database_without_its_tables_is_damaged(stores: Opened) -> None:
    store = stores()
    with store._catalogue.writing() as connection:
        connection.execute("DROP TABLE evictions")
    with pytest.raises(DataLoss, match="evictions"):
        store.record("0" * 64)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda url: url.replace("@/t", "@/absent_t"), "createdb"),
        (lambda url: url.replace("postgres@", "nobody:secret@"), "user and the password"),
        (lambda url: url.replace("port=", "port=1"), "whether the server runs"),
    ],
)
def test_a_catalogue_that_cannot_be_had_says_why_and_no_password(
    database: str, change: Callable[[str], str], words: str
) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        PostgresCatalogue(PostgresDatabase(change(database), Limits()))
    assert words in str(caught.value)
    assert "secret" not in f"{caught.value} {caught.value.metadata}"


@pytest.mark.parametrize("url", ["mysql://x/y", "postgresql://a:secret@[b/x", "postgresql://h/x?nonsense=secret"])
def test_what_is_no_url_of_a_catalogue_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidInput, match="URL of a catalogue") as caught:
        shared_urls(f"file://{tmp_path}/objects", url, Limits()).opened(tmp_path / "cache", make=True)
    assert "secret" not in str(caught.value)


def test_a_server_that_goes_is_named_and_its_return_is_noticed(
    own_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open indexes answer meanwhile; everything else ends in time, by its name."""
    monkeypatch.setattr(postgresql, "CATALOGUE_SECONDS", 2.0)
    limits = Limits()
    store = SharedStore(
        PostgresDatabase(own_server.database(), limits), PlainFiles(tmp_path / "objects"), tmp_path / "incoming", limits
    )
    told: list[bool] = []
    store.writability.listen(told.append)
    with Engine(store, limits) as engine:
        digest = engine.add(OBJECT.read_bytes()).sha256
        before = engine.symbolize_one(digest, 0x1978).frames
        own_server.stop()
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match="catalogue refused"):
            engine.add(b"another")
        with pytest.raises(StoreUnavailable):
            engine.record(digest)
        assert time.monotonic() - begun < LONG / 2
        assert engine.symbolize_one(digest, 0x1978).frames == before
        assert eventually(lambda: told[-1:] == [False])
        own_server.start()
        assert eventually(lambda: told[-1:] == [True])
        assert engine.record(digest).sha256 == digest
        subscription = store.module_log.subscribe()
        heard = threading.Event()
        threading.Thread(target=lambda: subscription.wait() and heard.set(), daemon=True).start()
        engine.relabel(digest, "after")
        store.remove(digest)
        assert heard.wait(LONG)


def test_a_cache_that_was_emptied_in_an_outage_takes_what_is_written_after_it(tmp_path: Path) -> None:
    incoming = tmp_path / "cache" / "incoming"
    incoming.mkdir(parents=True)
    writability = SharedWritability(incoming, Limits(free_disk=0))
    writability.check("the catalogue is gone")
    assert not writability.is_writable
    shutil.rmtree(tmp_path / "cache")
    writability.check("")
    assert writability.is_writable


def test_a_client_with_a_file_is_answered_while_the_catalogue_is_gone(
    own_server: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its module's index is open; a file that the daemon does not know is not said to be there."""
    monkeypatch.setattr(postgresql, "CATALOGUE_SECONDS", 2.0)
    config = Config(store=tmp_path, address=f"unix:{tmp_path}/d/s", grace=1.0)
    server = PostgresDatabase(own_server.database(), config.limits)
    store = SharedStore(server, PlainFiles(tmp_path / "objects"), tmp_path / "incoming", config.limits)
    other = tmp_path / "other.co"
    other.write_bytes(OBJECT.read_bytes() + bytes(1))
    with Engine(store, config.limits) as engine, served(engine, config) as address:
        ask = ["symbolize", "--server", address, str(OBJECT), "0x1978"]
        assert command_line.invoke(ask) == 0
        before = capsys.readouterr().out
        own_server.stop()
        assert (command_line.invoke(ask), capsys.readouterr().out) == (0, before)
        assert command_line.invoke(["symbolize", "--server", address, str(other), "0x1978"]) == 3
        assert "catalogue refused" in capsys.readouterr().err
        with Client(address) as client, pytest.raises(StoreUnavailable):
            client.missing([hashlib.sha256(file.read_bytes()).hexdigest() for file in (OBJECT, other)])


def test_writers_of_several_stores_keep_the_log_whole(stores: Opened) -> None:
    """A reader that follows misses nothing, though transactions end in any order."""
    opened = [stores() for _ in range(3)]
    position, seen = opened[0].module_log.end(), []
    put = [[store.put(b"%d %d" % (number, at)) for at in range(20)] for number, store in enumerate(opened)]
    done = threading.Event()

    def follow() -> None:
        at = position
        while True:
            last = done.is_set()
            for entry in opened[0].module_log.after(at, 7):
                seen.append(entry.digest)
                at = at._replace(sequence=entry.sequence)
            if last and at == opened[0].module_log.end():
                return

    def tell(store: SharedStore, digests: list[str]) -> None:
        for digest in digests:
            store.admit(digest, "format")

    follower = threading.Thread(target=follow)
    follower.start()
    threads = [threading.Thread(target=tell, args=pair) for pair in zip(opened, put, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    done.set()
    follower.join(LONG)
    assert Counter(seen) == Counter(digest for digests in put for digest in digests)


def test_a_server_that_stands_still_is_waited_for_no_longer_than_is_said(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "CATALOGUE_SECONDS", 1.0)
    server = PostgresDatabase(own_server.database(), Limits())
    catalogue = PostgresCatalogue(server)
    with own_server.standing_still():
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match="no answer within 3 s"):
            catalogue.has("0" * 64)
        with pytest.raises(StoreUnavailable):  # a connection that is made anew
            catalogue.has("0" * 64)
        assert time.monotonic() - begun < LONG / 2
    assert eventually(lambda: not catalogue.has("0" * 64))
    catalogue.close()


def test_what_stays_in_the_way_of_the_cleaner_is_logged_once(
    stores: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Though the thread beside it succeeds all the while."""
    store = stores()
    digest = store.put(b"module")
    tried: list[str] = []

    def refuse(name: str) -> None:
        tried.append(name)
        raise StoreUnavailable("the storage refused", where=name)

    monkeypatch.setattr(files_of(store), "remove", refuse)
    store.remove(digest)
    for times in range(1, 5):
        assert eventually(lambda: len(tried) >= times)  # noqa: B023 - asked at once
        time.sleep(2 * PERIOD)
        store._housekeeping.hurry()
    said = [each.getMessage() for each in caplog.records if "the storage refused" in each.getMessage()]
    assert said == [f"removing unwanted objects: {module_object(digest)}: the storage refused"]


def test_what_is_wanted_stays_though_the_table_of_the_unwanted_has_it(
    stores: Opened, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the rows came from a backup without the triggers; a name of something else is left alone, and what comes after it goes."""
    store = stores()
    with Engine(store) as engine:
        digest = engine.add(OBJECT.read_bytes()).sha256
    gone = "f" * 64
    (files_of(store).folder / "modules" / "ff").mkdir()
    (files_of(store).folder / module_object(gone)).write_bytes(b"gone")
    names = (module_object(digest), index_object(digest, VERSION), "", "../secret", "index/1/ff", module_object(digest))
    with psycopg.connect(database, autocommit=True) as connection:
        for name, of in zip(names, (digest, digest, gone, gone, gone, gone), strict=True):
            connection.execute("INSERT INTO unwanted_objects VALUES (%s, %s) ON CONFLICT DO NOTHING", (name, of))
        connection.execute("INSERT INTO unwanted_objects VALUES (%s, %s)", (module_object(gone), gone))
        store.adopt()
        left = connection.execute('SELECT name FROM unwanted_objects ORDER BY name COLLATE "C"').fetchall()
    assert files_of(store).names() == {module_object(digest), index_object(digest, VERSION)}
    assert [name for (name,) in left] == ["", "../secret", "index/1/ff"]
    assert "'../secret', which is not an object of module" in caplog.text


def test_a_folder_for_what_comes_in_that_somebody_removed_is_made_again(stores: Opened, tmp_path: Path) -> None:
    store = stores()
    shutil.rmtree(tmp_path / "incoming")
    assert bytes(store.data(store.put(b"module"))) == b"module"
