"""A store after a kill: at every single step, at random moments, and beside a process that is still at work."""

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from symd.store import Store, folder

ROUNDS = int(os.environ.get("SYMD_KILL_ROUNDS", "12"))
"""Random kills in one run; set it high for a long watch."""

PUT_LOOP = """
import os, sys
from pathlib import Path
from symd.store import Store
store = Store(Path(sys.argv[1]))
for number in range(10**6):
    data = os.urandom(number * 7919 % 200_000)
    digest = store.put(data, f"module {number}")
    print(number, flush=True)
    store.put_index(digest, 1, data[:1000])
    if number % 5 == 4:
        store.remove(digest)
"""

DIE_AT_STEP = """
import os, sqlite3, sys
from pathlib import Path
from symd.store import Store, catalogue, files

steps = int(sys.argv[2])

def counted(call):
    def wrapper(*args, **kwargs):
        global steps
        if steps == 0:
            os.kill(os.getpid(), 9)
        steps -= 1
        return call(*args, **kwargs)
    return wrapper

store = Store(Path(sys.argv[1]))
for name in ("open", "write", "fsync", "replace", "rename", "unlink", "close", "mkdir"):
    setattr(os, name, counted(getattr(os, name)))

class Counted(sqlite3.Connection):
    def execute(self, *args):
        return counted(super().execute)(*args)

connect = sqlite3.connect
sqlite3.connect = lambda *args, **kwargs: connect(*args, factory=Counted, **kwargs)
store.close()
digest = store.put(b"new", "label")
store.put_index(digest, 1, b"new index")
store.remove(bytes.fromhex(sys.argv[3]).hex())
"""


def start(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE)


def assert_whole(store: Store, root: Path) -> None:
    """Every row has its bytes, every file its row, every index its module, and nothing is left over."""
    records = store.records(limit=10**6)
    for record in records:
        assert hashlib.sha256(store.data(record.sha256)).hexdigest() == record.sha256
    catalogued = {record.sha256 for record in records}
    assert {path.name for path in (root / "modules").glob("??/*")} == catalogued
    assert {path.stem for path in (root / "index").glob("*/??/*")} <= catalogued
    assert list((root / "incoming").iterdir()) == []
    assert not (root / "damaged").exists()


def rows_without_a_file(root: Path) -> set[str]:
    """What the catalogue says before a start has mended anything."""
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        digests = {row[0] for row in connection.execute("SELECT sha256 FROM modules")}
    return {digest for digest in digests if not (root / "modules" / digest[:2] / digest).exists()}


def test_a_store_is_whole_after_kills_at_random_moments(root: Path):
    chance = random.Random(20)
    for _ in range(ROUNDS):
        with start(PUT_LOOP, str(root)) as child:
            assert child.stdout
            for _ in range(chance.randrange(1, 8)):
                child.stdout.readline()
            time.sleep(chance.uniform(0, 0.01))
            child.kill()
        assert child.returncode == -signal.SIGKILL
        with Store(root) as store:
            assert_whole(store, root)
    with Store(root) as store:
        assert store.records()


def test_a_store_is_whole_after_a_kill_at_every_single_step(tmp_path: Path):
    new = hashlib.sha256(b"new").hexdigest()
    seen = set()
    for step in range(200):
        root = tmp_path / str(step)
        with Store(root) as store:
            old = store.put(b"old")
        with start(DIE_AT_STEP, str(root), str(step), old) as child:
            pass
        assert rows_without_a_file(root) <= {old}, "a row came before its file"
        with Store(root) as store:
            assert_whole(store, root)
            state = (not store.missing([new]), store.index(new, 1) is not None, not store.missing([old]))
            seen.add(state)
            if state[1]:
                assert store.index(new, 1) == b"new index"
        if child.returncode == 0:
            break
        assert child.returncode == -signal.SIGKILL
    assert step > 15
    assert seen == {
        (False, False, True),
        (True, False, True),
        (True, True, True),
        (True, True, False),
    }


def test_a_file_without_a_row_is_adopted_after_hashing_it(root: Path):
    with Store(root) as store:
        store.put(b"there")
    good = hashlib.sha256(b"good").hexdigest()
    bad = hashlib.sha256(b"other").hexdigest()
    for digest, data in ((good, b"good"), (bad, b"bytes of something else")):
        path = root / "modules" / digest[:2] / digest
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    with Store(root) as store:
        assert store.data(good) == b"good"
        assert store.missing([good, bad]) == [bad]
        assert store.recovery.damaged == (bad,)
        assert (root / "damaged" / bad).read_bytes() == b"bytes of something else"


def test_a_row_without_a_file_is_dropped_with_its_index(root: Path):
    with Store(root) as store:
        digest = store.put(b"abc")
        store.put_index(digest, 1, b"index")
    (root / "modules" / digest[:2] / digest).unlink()
    with Store(root) as store:
        assert store.records() == []
        assert store.index(digest, 1) is None
        assert store.recovery.dropped == 1
        assert not list((root / "index").rglob("*.idx"))


def test_a_start_leaves_the_upload_of_a_live_process_alone(root: Path):
    with Store(root) as first:
        upload = first.writer()
        upload.write(b"ab")
        (root / "incoming" / "incoming-0123456789abcdef").write_bytes(b"left by the dead")
        with Store(root) as second:
            assert second.recovery.leftovers == 1
            upload.write(b"c")
            digest = upload.commit()
            assert second.data(digest) == b"abc"


def test_two_processes_fill_one_store(root: Path):
    script = """
import sys
from pathlib import Path
from symd.store import Store
with Store(Path(sys.argv[1])) as store:
    for number in range(60):
        data = b"%d" % number * 1000
        digest = store.put(data)
        store.put_index(digest, 1, data)
        if number % 3 == 0:
            assert store.data(digest) == data
"""
    children = [start(script, str(root)) for _ in range(2)]
    for child in children:
        child.communicate(timeout=60)
    assert [child.returncode for child in children] == [0, 0]
    with Store(root) as store:
        assert len(store.records()) == 60
        assert_whole(store, root)


@pytest.mark.parametrize("rounds", [3])
def test_processes_may_open_a_new_store_at_the_same_moment(tmp_path: Path, rounds: int):
    script = "import sys; from pathlib import Path; from symd.store import Store; Store(Path(sys.argv[1])).put(b'abc')"
    for number in range(rounds):
        root = tmp_path / str(number)
        children = [start(script, str(root)) for _ in range(4)]
        for child in children:
            child.communicate(timeout=60)
        assert [child.returncode for child in children] == [0] * 4


def test_a_start_may_meet_another_process_that_closes_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """SQLite removes its own files as the last connection closes: also between a start's look at what is there and
    its look at a file's mode."""
    Store(tmp_path).close()
    other = sqlite3.connect(tmp_path / "catalogue.sqlite")
    other.execute("SELECT count(*) FROM modules").fetchone()
    assert (tmp_path / "catalogue.sqlite-shm").exists()
    keep_from_others = folder.keep_from_others

    def close_other_first(path: Path) -> None:
        other.close()
        keep_from_others(path)

    monkeypatch.setattr(folder, "keep_from_others", close_other_first)
    with Store(tmp_path) as store:
        assert store.missing([store.put(b"a module")]) == []
