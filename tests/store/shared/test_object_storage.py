"""Object storages keep what they are told: the same for S3 and for a folder, and the same as a dictionary."""

import os
import random
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import InvalidInput, LimitExceeded, StoreUnavailable
from symd.store.shared.object_storage import FolderStorage, ObjectStorage, open_storage
from symd.store.shared.s3_storage import S3Storage
from tests.object_server import BUCKET, WHOLE


@pytest.fixture(params=["folder", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStorage:
    if request.param == "folder":
        return FolderStorage(tmp_path / "objects")
    made = request.getfixturevalue("s3")
    assert isinstance(made, S3Storage)
    return made


def put(storage: ObjectStorage, folder: Path, name: str, data: bytes) -> None:
    path = folder / "to-put"
    path.write_bytes(data)
    storage.put(name, path)


def fetched(storage: ObjectStorage, folder: Path, name: str) -> bytes | None:
    path = folder / "fetched"
    path.unlink(missing_ok=True)
    if storage.fetch(name, path, WHOLE):
        return path.read_bytes()
    assert not path.exists()
    return None


def test_what_is_put_is_fetched(storage: ObjectStorage, tmp_path: Path):
    put(storage, tmp_path, "modules/ab/abc", b"bytes")
    assert fetched(storage, tmp_path, "modules/ab/abc") == b"bytes"
    assert storage.size("modules/ab/abc") == 5
    assert list(storage.names("")) == [("modules/ab/abc", 5)]


def test_what_was_never_put_is_not_there(storage: ObjectStorage, tmp_path: Path):
    put(storage, tmp_path, "modules/ab/abc", b"bytes")
    for name in ("modules/ab/abd", "modules/ab", "modules/ab/abc/d", "other"):
        assert fetched(storage, tmp_path, name) is None, name
        assert storage.size(name) is None, name
    storage.remove("modules/ab/abd")
    storage.remove("other/x")
    assert list(storage.names("other/")) == []
    assert fetched(storage, tmp_path, "modules/ab/abc") == b"bytes"


def test_a_file_that_is_there_is_written_anew_and_not_replaced(storage: ObjectStorage, tmp_path: Path):
    put(storage, tmp_path, "name", b"short")
    path = tmp_path / "there"
    path.write_bytes(b"something longer")
    before = path.stat().st_ino
    assert storage.fetch("name", path, WHOLE)
    assert (path.read_bytes(), path.stat().st_ino) == (b"short", before)


def test_an_empty_file_is_a_file(storage: ObjectStorage, tmp_path: Path):
    put(storage, tmp_path, "empty", b"")
    assert fetched(storage, tmp_path, "empty") == b""
    assert storage.size("empty") == 0


def test_a_large_file_comes_back_whole(storage: ObjectStorage, sample: Path, tmp_path: Path):
    storage.put("large", sample)
    assert fetched(storage, tmp_path, "large") == sample.read_bytes()
    assert storage.size("large") == sample.stat().st_size


def test_random_calls_do_what_a_dictionary_does(storage: ObjectStorage, tmp_path: Path):
    chosen = random.Random(14)
    known: dict[str, bytes] = {}
    names = [f"{folder}/{each}" for folder in ("a", "a-b", "a.b", "index/11") for each in ("x", "x.idx", "xy", "y-")]
    for _ in range(120):
        name = chosen.choice(names)
        match chosen.randrange(4):
            case 0 | 1:
                known[name] = name.encode() * chosen.randrange(3)
                put(storage, tmp_path, name, known[name])
            case 2:
                known.pop(name, None)
                storage.remove(name)
            case 3:
                assert fetched(storage, tmp_path, name) == known.get(name)
                assert storage.size(name) == (len(known[name]) if name in known else None)
    assert known
    for prefix in ("", "a/", "a-b/", "index/", "index/11/x", "a"):
        expected = sorted((name, len(data)) for name, data in known.items() if name.startswith(prefix))
        assert list(storage.names(prefix)) == expected, prefix


def test_more_names_than_a_page_are_listed(storage: ObjectStorage, tmp_path: Path):
    """A page of S3's has a thousand."""
    expected = [(f"many/{number:05}", 1) for number in range(1100)]
    for name, _ in expected:
        put(storage, tmp_path, name, b"x")
    assert list(storage.names("many/")) == expected


@pytest.mark.parametrize("name", ["", "/a", "a/", "../a", "a/../b", "a//b", ".incoming/a", "A", "a\n", "a b"])
def test_what_is_no_name_is_refused(storage: ObjectStorage, tmp_path: Path, name: str):
    for call in (storage.size, storage.remove, lambda each: storage.fetch(each, tmp_path / "x", WHOLE)):
        with pytest.raises(InvalidInput, match="not the name"):
            call(name)
    with pytest.raises(InvalidInput, match="not the name"):
        put(storage, tmp_path, name, b"")


def test_a_missing_file_is_not_put(storage: ObjectStorage, tmp_path: Path):
    with pytest.raises(StoreUnavailable):
        storage.put("name", tmp_path / "none")
    assert storage.size("name") is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "s3://",
        "s3:///prefix",
        "file://host/x",
        "file:relative",
        "/folder",
        "http://server/bucket",
        "s3://key:secret@bucket",
    ],
)
def test_what_names_no_storage_is_refused(url: str):
    with pytest.raises(InvalidInput, match="names no object storage") as raised:
        open_storage(url, Limits(), make=True)
    assert "secret" not in str(raised.value)


def test_a_url_of_a_folder_opens_it(tmp_path: Path):
    storage = open_storage(f"file://{tmp_path}/with%20blank", Limits(), make=True)
    put(storage, tmp_path, "name", b"bytes")
    assert (tmp_path / "with blank" / "name").read_bytes() == b"bytes"


@pytest.mark.usefixtures("proxy")
def test_a_url_of_s3_opens_a_bucket_with_a_prefix(tmp_path: Path, s3_url: str):
    put(open_storage(f"s3://{BUCKET}/outer/inner", Limits(), make=True), tmp_path, "modules/x", b"bytes")
    assert fetched(open_storage(f"s3://{BUCKET}/outer/", Limits(), make=True), tmp_path, "inner/modules/x") == b"bytes"
    assert fetched(open_storage(f"s3://{BUCKET}", Limits(), make=True), tmp_path, "outer/inner/modules/x") == b"bytes"


def test_what_a_dead_process_left_in_a_folder_goes(tmp_path: Path):
    FolderStorage(tmp_path / "objects")
    left = tmp_path / "objects" / ".incoming" / "incoming-0123456789abcdef"
    left.write_bytes(os.urandom(10))
    assert list(FolderStorage(tmp_path / "objects").names("")) == []
    assert not left.exists()


def test_more_than_is_wanted_is_not_fetched(storage: ObjectStorage, tmp_path: Path):
    put(storage, tmp_path, "modules/x", bytes(1001))
    with pytest.raises(LimitExceeded, match="has 1001 bytes, at most 1000 are fetched"):
        storage.fetch("modules/x", tmp_path / "fetched", 1000)
    assert not (tmp_path / "fetched").exists()
    assert storage.fetch("modules/x", tmp_path / "fetched", 1001)
