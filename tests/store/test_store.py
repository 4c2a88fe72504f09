"""What a store promises while nothing goes wrong.

A start reads no module and no index, however many there are.
"""

import hashlib
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import (
    BadQuery,
    BuildFailed,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    HashMismatch,
    LimitExceeded,
    Malformed,
    ModuleNotFound,
    StoreUnavailable,
    SymdError,
    Unsupported,
)
from symd.model.contexts import Alias
from symd.store import ModuleStore, Store
from tests.store.conftest import Opened
from tests.store.start import filled

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1
ABSENT = "0" * 64


def files(root: Path) -> set[str]:
    """Every file of a store but the catalogue's own."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.parent != root}


def test_a_module_is_named_by_its_sha256_and_lies_where_the_layout_says(store: ModuleStore, root: Path):
    assert store.put(b"abc") == ABC
    assert (root / "modules" / "ba" / ABC).read_bytes() == b"abc"


def test_data_comes_back_mapped_and_read_only(store: ModuleStore):
    view = store.data(store.put(b"abc"))
    assert view == b"abc"
    assert view.readonly


def test_an_empty_module_is_a_module(store: ModuleStore):
    assert store.data(store.put(b"")) == b""


def test_adding_again_changes_nothing(store: ModuleStore):
    store.put(b"abc", "first", "spirv")
    before = store.records()
    store.put(b"abc", "second", "zebin")
    assert store.records() == before
    assert (before[0].label, before[0].format, before[0].size) == ("first", "spirv", 3)


def test_missing_keeps_the_order_and_the_repetitions_of_the_question(store: ModuleStore):
    store.put(b"abc")
    assert store.missing(["f" * 64, ABC, ABSENT, "f" * 64]) == ["f" * 64, ABSENT, "f" * 64]
    assert store.missing([]) == []


def test_missing_takes_more_digests_than_sqlite_has_variables(store: ModuleStore):
    store.put(b"abc")
    many = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(40_000)]
    assert store.missing([*many, ABC]) == many


@pytest.mark.parametrize("digest", ["", "abc", ABC.upper(), "../" * 20 + "etcpasswd", ABC + "\n", "é" * 64])
def test_what_is_not_a_digest_is_a_bad_query(store: ModuleStore, digest: str):
    for ask in (store.data, store.record, store.remove, lambda text: store.missing([text])):
        with pytest.raises(BadQuery):
            ask(digest)


def test_an_absent_module_is_not_found_by_any_method(store: ModuleStore):
    asks = [
        store.data,
        store.record,
        store.remove,
        lambda digest: store.put_index(digest, 1, b"index"),
        lambda digest: store.admit(digest, "spirv"),
        lambda digest: store.aliases.add([Alias("build-id", "01", digest)]),
    ]
    for ask in asks:
        with pytest.raises(ModuleNotFound) as caught:
            ask(ABSENT)
        assert ABSENT in str(caught.value)
    assert store.index(ABSENT, 1) is None
    assert store.failure(ABSENT, 1) is None


def test_an_upload_in_pieces_equals_a_put(store: ModuleStore):
    with store.writer() as upload:
        for piece in (b"a", memoryview(b"b"), bytearray(b"c")):
            upload.write(piece)
        assert upload.commit(ABC, "label", "spirv") == ABC
    assert store.data(ABC) == b"abc"
    assert store.record(ABC).label == "label"


def test_an_upload_with_another_hash_leaves_the_store_as_before(store: ModuleStore, root: Path):
    store.put(b"there")
    before = files(root), store.records()
    with store.writer() as upload:
        upload.write(b"abcd")
        with pytest.raises(HashMismatch) as caught:
            upload.commit(ABC)
    assert caught.value.metadata["expected"] == ABC
    assert (files(root), store.records()) == before


def test_an_upload_that_is_left_or_aborted_leaves_nothing(store: ModuleStore, root: Path):
    with store.writer() as upload:
        upload.write(b"abc")
    other = store.writer()
    other.write(b"abc")
    other.abort()
    other.abort()
    assert files(root) == set()
    assert store.missing([ABC]) == [ABC]


def test_an_upload_stops_at_the_limit_and_names_it(open_store: Opened):
    store = open_store(Limits(module_size=10))
    upload = store.writer()
    upload.write(bytes(10))
    with pytest.raises(LimitExceeded) as caught:
        upload.write(b"x")
    upload.abort()
    with pytest.raises(LimitExceeded):
        store.put(bytes(11))
    assert store.put(bytes(10))
    assert caught.value.metadata["limit"] == "module_size"


def test_an_index_belongs_to_one_format_version(store: ModuleStore):
    store.put(b"abc")
    store.put_index(ABC, 7, b"seven")
    assert store.index(ABC, 7) == b"seven"
    assert store.index(ABC, 8) is None


def test_an_index_lies_where_the_layout_says(store: ModuleStore, root: Path):
    store.put(b"abc")
    store.put_index(ABC, 7, b"seven")
    assert (root / "index" / "7" / "ba" / f"{ABC}.idx").read_bytes() == b"seven"


def test_a_replaced_index_leaves_readers_what_they_mapped(store: ModuleStore):
    store.put(b"abc")
    store.put_index(ABC, 1, b"old")
    old = store.index(ABC, 1)
    store.put_index(ABC, 1, b"newer")
    assert old == b"old"
    assert store.index(ABC, 1) == b"newer"


@pytest.mark.parametrize(
    "error",
    [
        Malformed("bad length", where=".debug_line+0x10", hint="rebuild", metadata={"offset": "16", "name": "é\0"}),
        Unsupported("DWARF 6"),
        LimitExceeded("too deep", metadata={"limit": "nesting_depth"}),
        BuildFailed("refused", build_log="1:1: error: no\n"),
    ],
)
def test_a_lasting_failure_comes_back_as_itself_after_a_restart(open_store: Opened, error: SymdError):
    store = open_store()
    store.put(b"abc")
    assert store.remember_failure(ABC, 3, error)
    store.close()
    store = open_store()
    back = store.failure(ABC, 3)
    assert type(back) is type(error)
    assert vars(back) == vars(error)
    assert store.failure(ABC, 4) is None
    assert store.record(ABC).failure == error.reason


@pytest.mark.parametrize("error", [StoreUnavailable("full"), DeadlineExceeded("late"), SymdError("defect")])
def test_a_passing_failure_is_not_remembered(store: ModuleStore, error: SymdError):
    store.put(b"abc")
    assert not store.remember_failure(ABC, 1, error)
    assert store.failure(ABC, 1) is None


def test_the_failure_of_a_module_that_was_not_kept_is_remembered(store: ModuleStore):
    store.remember_failure(ABSENT, 1, Malformed("bad"))
    assert isinstance(store.failure(ABSENT, 1), Malformed)
    assert store.records() == []


def test_the_oldest_failures_go_when_there_are_too_many(store: ModuleStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("symd.store.rows.MAX_FAILURES", 10)
    digests = [f"{number:064x}" for number in range(15)]
    for digest in digests:
        store.remember_failure(digest, 1, Malformed("bad"))
    assert [digest for digest in digests if store.failure(digest, 1)] == digests[5:]


def test_success_ends_the_failures_up_to_its_version(store: ModuleStore):
    store.put(b"abc")
    for version in (1, 2, 3):
        store.remember_failure(ABC, version, Malformed("bad"))
    store.put_index(ABC, 2, b"index")
    assert [store.failure(ABC, version) is None for version in (1, 2, 3)] == [True, True, False]
    assert store.record(ABC).failure == "MALFORMED"
    store.put_index(ABC, 3, b"index")
    assert store.record(ABC).failure == ""


def test_pages_are_oldest_first_without_gap_or_repetition_while_modules_come_and_go(store: ModuleStore):
    digests = [store.put(b"%d" % number) for number in range(25)]
    seen, page = [], store.records(limit=4)
    for _ in range(6):
        seen += [record.sha256 for record in page]
        store.put(b"later %d" % len(seen))
        last = page[-1]
        store.remove(last.sha256)
        page = store.records(after=(last.create_time, last.sha256), limit=4)
    assert seen == digests[:24]
    assert page[0].sha256 == digests[24]


def test_aliases_resolve_until_the_module_is_removed(store: ModuleStore):
    store.put(b"abc")
    named = Alias("build-id", "01", ABC)
    store.aliases.add([named])
    assert store.aliases.resolve("build-id", "01") == named
    assert store.aliases.resolve("uuid", "01") is None
    store.remove(ABC)
    assert store.aliases.resolve("build-id", "01") is None


def test_the_last_alias_told_wins(store: ModuleStore):
    store.put(b"abc")
    other = store.put(b"other")
    store.aliases.add([Alias("build-id", "01", ABC)])
    store.aliases.add([Alias("build-id", "01", other)])
    assert store.aliases.resolve("build-id", "01") == Alias("build-id", "01", other)


def test_remove_takes_everything_and_mapped_bytes_stay(store: ModuleStore, root: Path):
    store.put(b"abc")
    store.put_index(ABC, 1, b"index")
    view = store.data(ABC)
    store.remove(ABC)
    assert view == b"abc"
    assert files(root) == set()
    assert store.records() == []


def test_everything_is_private_to_its_owner(store: ModuleStore, root: Path):
    store.put(b"abc")
    store.put_index(ABC, 1, b"index")
    modes = {path.is_dir(): set() for path in (root, root / "catalogue.sqlite")}
    for path in (root, *root.rglob("*")):
        modes[path.is_dir()].add(stat.S_IMODE(path.stat().st_mode))
    assert modes == {True: {0o700}, False: {0o600}}


def test_a_file_cut_on_disk_is_data_loss(store: ModuleStore, root: Path):
    store.put(b"abc")
    path = root / "modules" / "ba" / ABC
    path.write_bytes(b"ab")
    with pytest.raises(DataLoss):
        store.data(ABC)
    assert store.missing([ABC]) == [ABC]
    store.put(b"abc")
    assert store.data(ABC) == b"abc"


def test_threads_share_a_store(store: ModuleStore):
    failed = []

    def work(first: int) -> None:
        for number in range(first, first + 20):
            data = b"%d" % (number % 30)
            try:
                digest = store.put(data)
                store.put_index(digest, 1, data)
                assert store.data(digest) == data
            except BaseException as error:  # noqa: BLE001 - carried to the main thread
                failed.append(error)

    threads = [threading.Thread(target=work, args=(number * 5,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(store.records()) == 30


def test_a_temporary_store_is_gone_after_close():
    with Store.temporary() as store:
        digest = store.put(b"abc")
        view = store.data(digest)
        root = store.root
        assert root.is_dir()
    assert not root.exists()
    assert view == b"abc"


def test_a_catalogue_of_a_newer_symd_is_left_alone(root: Path):
    Store(root).close()
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(FailedPrecondition, match="999"):
        Store(root)


ROOT = Path(__file__).parents[2]
OPENED = """
import os, sys
from pathlib import Path

opened = []

def note(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, os.PathLike)):
        opened.append((event, os.fspath(arguments[0])))

from symd.engine.engine import Engine
from symd.store import Store
sys.addaudithook(note)
root = Path(sys.argv[1])
with Engine(Store(root, adopt_later=True)) as engine:
    engine.resume()
    files = [path for event, path in opened if event == "open" and Path(path).is_relative_to(root)]
    print(len(engine.missing([record.sha256 for record in engine.modules()])))
print(len([path for path in files if "/modules/" in path or "/index/" in path]))
print(len(files) < 20)
"""


def test_a_start_with_two_thousand_modules_opens_none_of_them(tmp_path: Path) -> None:
    filled(tmp_path / "store", 2000, 10)
    command = [sys.executable, "-c", OPENED, str(tmp_path / "store")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.split(), done.stderr) == (["0", "0", "True"], "")


def test_only_a_module_that_nobody_admitted_is_refused(store: Store):
    error = Malformed("bad", where="w")
    admitted, new = store.put(b"admitted"), store.put(b"new")
    store.admit(admitted, "spirv")
    for digest in (admitted, new):
        store.refuse(digest, 1, error)
    assert store.missing([admitted, new]) == [new]
    assert store.failure(admitted, 1) is None
    assert isinstance(store.failure(new, 1), Malformed)
