"""What is wrong with a store is found, said with what to do about it, and mended."""

import fcntl
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from symd.config import Limits
from symd.errors import InvalidInput
from symd.index import VERSION
from symd.model.contexts import Alias
from symd.store import Store
from symd.store.inspection import ADVICE, FindingKind, inspect
from symd.store.maintenance import collect, copy, repair
from tests.builders.index_file import encode


def index(digest: str) -> bytes:
    return encode(
        {"module_sha256": np.frombuffer(bytes.fromhex(digest), np.uint8), "column": np.arange(5, dtype=np.uint8)}
    )


@pytest.fixture
def digests(root: Path) -> list[str]:
    """Modules of a store that is closed again; each has an index and an alias."""
    with Store(root) as store:
        found = [store.put(b"module %d" % number, f"label {number}") for number in range(3)]
        for digest in found:
            store.put_index(digest, VERSION, index(digest))
            store.aliases.add([Alias("build-id", digest, digest)])
        return found


def module_file(root: Path, digest: str) -> Path:
    return root / "modules" / digest[:2] / digest


def index_file(root: Path, digest: str, version: int = VERSION) -> Path:
    return root / "index" / str(version) / digest[:2] / f"{digest}.idx"


def flip(path: Path, at: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def found(root: Path) -> list[tuple[FindingKind, str]]:
    return [(finding.kind, Path(finding.subject).name) for finding in inspect(root).findings]


def execute(root: Path, statement: str, *values: str) -> None:
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(statement, values)
        connection.commit()


def test_a_store_with_nothing_wrong_is_counted(root: Path, digests: list[str]):
    assert repr(inspect(root)) == (
        f"Inspection(modules=3, module_bytes=24, indexes=3, index_bytes={3 * len(index(digests[0]))}, aliases=3, contexts=0, older_schema=0, findings=[])"
    )


def test_looking_changes_nothing(root: Path, digests: list[str]):
    flip(module_file(root, digests[0]))
    before = {
        path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file() and "catalogue" not in path.name
    }
    inspect(root)
    after = {
        path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file() and "catalogue" not in path.name
    }
    assert before == after


def test_a_flipped_byte_of_a_module_is_found_and_set_aside_until_it_comes_again(root: Path, digests: list[str]):
    flip(module_file(root, digests[1]))
    assert found(root) == [(FindingKind.MODULE, digests[1])]
    done = repair(root, Limits())
    assert [finding.kind for finding in done.after] == [FindingKind.SET_ASIDE]
    with Store(root) as store:
        assert store.missing(digests) == [digests[1]]
        store.put(b"module 1")
        assert store.record(digests[1]).label == "label 1"
        assert store.aliases.resolve("build-id", digests[1]) is not None
    assert found(root) == []


def test_what_was_set_aside_is_still_told_when_the_catalogue_was_lost(root: Path, digests: list[str]):
    flip(module_file(root, digests[1]))
    repair(root, Limits())
    (root / "catalogue.sqlite").write_bytes(b"no catalogue" * 1000)
    assert [finding.kind for finding in repair(root, Limits()).after] == [FindingKind.SET_ASIDE]
    assert [kind for kind, _ in found(root)] == [FindingKind.SET_ASIDE]
    with Store(root) as store:
        store.put(b"module 1")
    assert found(root) == []


def test_a_flipped_byte_of_an_index_is_found_and_the_index_removed(root: Path, digests: list[str]):
    flip(index_file(root, digests[2]))
    assert found(root) == [(FindingKind.INDEX, f"{digests[2]}.idx")]
    assert repair(root, Limits()).after == []
    with Store(root) as store:
        assert store.index(digests[2], VERSION) is None
        assert store.index(digests[0], VERSION) == index(digests[0])


def test_an_index_of_another_format_is_not_judged(root: Path, digests: list[str]):
    with Store(root) as store:
        store.put_index(digests[0], VERSION - 1, b"another format")
    assert found(root) == []


def test_files_and_rows_that_have_no_counterpart_are_found_and_mended(root: Path, digests: list[str]):
    module_file(root, digests[0]).unlink()
    execute(root, "DELETE FROM modules WHERE sha256 = ?", digests[1])
    (root / "incoming" / "incoming-0123456789abcdef").write_bytes(b"left by the dead")
    assert sorted(found(root)) == sorted(
        [
            (FindingKind.LEFTOVER, "incoming-0123456789abcdef"),
            (FindingKind.NO_FILE, digests[0]),
            (FindingKind.NO_ROW, digests[1]),
            (FindingKind.STRAY_INDEX, f"{digests[1]}.idx"),
        ]
    )
    assert repair(root, Limits()).after == []
    with Store(root) as store:
        assert {record.sha256 for record in store.records()} == {digests[1], digests[2]}


def test_an_upload_that_runs_is_no_leftover(root: Path, digests: list[str]):
    with Store(root) as store, store.writer() as upload:
        upload.write(b"half")
        assert found(root) == []
    path = root / "incoming" / "incoming-0123456789abcdef"
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert found(root) == []
    assert found(root) == [(FindingKind.LEFTOVER, path.name)]


@pytest.mark.parametrize("damage", ["header", "a page", "missing"])
def test_a_damaged_catalogue_is_found_and_made_again(root: Path, digests: list[str], damage: str):
    catalogue = root / "catalogue.sqlite"
    if damage == "missing":
        catalogue.unlink()
    else:
        with catalogue.open("r+b") as file:
            file.seek(0 if damage == "header" else 4096)
            file.write(b"\x5a" * 4096)
    kind = FindingKind.NO_CATALOGUE if damage == "missing" else FindingKind.CATALOGUE
    assert [name for name, _ in found(root)] == [kind]
    done = repair(root, Limits())
    assert (done.after, not done.rebuilt) == ([], damage == "missing")
    with Store(root) as store:
        assert {record.sha256 for record in store.records()} == set(digests)


def test_a_folder_that_is_no_store_is_left_alone(tmp_path: Path):
    for act in (inspect, lambda root: repair(root, Limits()), lambda root: collect(root, Limits())):
        with pytest.raises(InvalidInput, match="there is no store"):
            act(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_copy_of_catalogue_and_modules_alone_is_a_store(root: Path, digests: list[str], tmp_path: Path):
    """docs/operations.md says of a backup by hand that nothing else needs a copy."""
    copied = tmp_path / "by-hand"
    shutil.copytree(root / "modules", copied / "modules")
    with (
        closing(sqlite3.connect(root / "catalogue.sqlite")) as here,
        closing(sqlite3.connect(copied / "catalogue.sqlite")) as there,
    ):
        here.backup(there)
    assert inspect(copied).modules == len(digests)
    assert copy(copied, tmp_path / "again").modules == len(digests)
    assert repair(copied, Limits()).after == []
    assert inspect(copied).findings == []


def test_every_kind_has_advice():
    assert set(ADVICE) == set(FindingKind)


def test_what_nobody_needs_is_removed(root: Path, digests: list[str]):
    (root / "incoming" / "incoming-0123456789abcdef").write_bytes(b"left by the dead")
    with Store(root) as store:
        for digest in digests:
            store.put_index(digest, VERSION - 1, b"older")
        store.put_index(digests[0], VERSION + 1, b"of a newer symd")
        store.data(digests[0])
    flip(module_file(root, digests[2]))
    repair(root, Limits())
    gone = collect(root, Limits(store_size=2 * len(index(digests[0])) + 40), damaged=True)
    assert (gone.leftovers, gone.damaged) == (0, [digests[2]])
    assert {key for key in gone.indexes if key[1] < VERSION} == {(digest, VERSION - 1) for digest in digests}
    assert digests[0] not in gone.modules
    assert not index_file(root, digests[0], VERSION - 1).exists()
    with Store(root) as store:
        assert digests[0] in [record.sha256 for record in store.records()]


def test_leftovers_are_removed_and_counted(root: Path, digests: list[str]):
    (root / "incoming" / "incoming-0123456789abcdef").write_bytes(b"left by the dead")
    assert collect(root, Limits()).leftovers == 1
    assert not list((root / "incoming").iterdir())


def test_room_in_the_catalogue_is_given_back(root: Path):
    with Store(root) as store:
        digest = store.put(b"abc")
        store.aliases.add([Alias("build-id", f"{number:01000}", digest) for number in range(3000)])
        store.remove(digest)
    assert (root / "catalogue.sqlite").stat().st_size > 3_000_000
    collect(root, Limits())
    assert (root / "catalogue.sqlite").stat().st_size < 500_000


def test_a_store_in_use_is_mended_beside_who_uses_it(root: Path, digests: list[str]):
    with Store(root) as store:
        flip(index_file(root, digests[0]))
        shutil.rmtree(root / "modules" / digests[1][:2])
        assert {kind for kind, _ in found(root)} == {FindingKind.INDEX, FindingKind.NO_FILE}
        assert repair(root, Limits()).after == []
        collect(root, Limits())
        assert store.missing(digests) == [digests[1]]
        assert store.put(b"module 1") == digests[1]
        assert store.index(digests[0], VERSION) is None
    assert found(root) == []
