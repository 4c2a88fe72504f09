"""Several processes with one store: each hears what another adds and removes."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import StoreUnavailable
from symd.model.identities import Digest
from symd.store import Store
from symd.store.module_log import append_to_log

ANOTHER = """
import sys
from pathlib import Path
from symd.store import Store
with Store(Path(sys.argv[1])) as store:
    for line in sys.stdin:
        verb, text = line.split()
        if verb == "add":
            store.admit(store.put(text.encode()), "format")
        else:
            store.remove(text)
        print("done", flush=True)
"""
LONG = 30.0
"""Seconds after which a word that does not come is given up."""


@pytest.fixture
def another(root: Path):
    """A process that does to the same store what a line tells it."""
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:

        def tell(verb: str, text: str) -> None:
            child.stdin.write(f"{verb} {text}\n")
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"

        yield tell
        child.stdin.close()
        assert child.wait(LONG) == 0


def heard(store: Store, count: int, act) -> list[str]:
    """The modules that are added while ``act`` runs and after, as one hears of them who waits."""
    subscription, position, found = store.module_log.subscribe(), store.module_log.end(), []
    timer = threading.Timer(LONG, subscription.close)
    timer.start()
    act()
    while len(found) < count and subscription.wait():
        entries = store.module_log.after(position, 1000)
        found += [entry.digest for entry in entries if entry.kind == "added"]
        position = position._replace(sequence=entries[-1].sequence) if entries else position
    timer.cancel()
    return found


def test_a_module_that_another_process_adds_is_heard_of_once(root: Path, store: Store, another):
    told = heard(store, 2, lambda: (another("add", "one"), another("add", "two")))
    assert told == [record.sha256 for record in store.records()]


def test_a_module_of_ones_own_is_heard_of_once(store: Store, another):
    def act() -> None:
        store.admit(store.put(b"mine"), "format")
        another("add", "theirs")

    told = heard(store, 2, act)
    assert [store.data(digest) for digest in told] == [b"mine", b"theirs"]


def test_a_module_that_another_process_removes_is_let_go(store: Store, another):
    digest = store.put(b"abc")
    gone = threading.Event()
    store.removals.listen(lambda digests: gone.set() if digests == [digest] else None)
    another("remove", digest)
    assert gone.wait(LONG)


def test_news_that_nobody_has_any_more_is_said_to_be_lost(root: Path, store: Store):
    """Whoever keeps something open of a module that may have been removed lets go of it."""
    everything = threading.Event()
    store.removals.listen(lambda digests: everything.set() if digests is None else None)
    with Store(root, Limits(module_events=10)) as other:
        with other._catalogue.writing() as connection:
            entries = [("added", f"{number:064x}", None, None) for number in range(20)]
            append_to_log(other._catalogue, connection, entries, 10)
        assert everything.wait(LONG)


def test_a_removal_that_cannot_be_told_at_once_is_told_later(root: Path, store: Store, monkeypatch: pytest.MonkeyPatch):
    """Whether a module was added again since is asked of the catalogue, which may refuse."""
    digest, everything = store.put(b"abc"), threading.Event()
    store.removals.listen(lambda digests: everything.set() if digests is None else None)
    refusals, real = iter([StoreUnavailable("too many open files")]), store._catalogue.sizes

    def sizes(digests: Sequence[Digest]) -> dict[Digest, int]:
        for refusal in refusals:
            raise refusal
        return real(digests)

    monkeypatch.setattr(store._catalogue, "sizes", sizes)
    with Store(root) as other:
        other.remove(digest)
        assert everything.wait(LONG)


def test_a_store_that_is_given_up_ends_its_thread(root: Path):
    before = set(threading.enumerate())  # other tests' stores may live
    store = Store(root)
    begun = {thread for thread in threading.enumerate() if thread.name == "symd-store"} - before
    assert len(begun) == 1
    del store
    assert not begun & set(threading.enumerate())
