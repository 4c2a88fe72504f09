"""The cache of whole files: fetched once, right, within its bound, and kept as long as they are used."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from symd.config import Limits
from symd.errors import DataLoss, FailedPrecondition, LimitExceeded, StoreUnavailable
from symd.index import VERSION
from symd.store.shared.cached_files import CachedFiles
from symd.store.shared.object_storage import FolderStorage
from tests.builders.index_file import encode
from tests.small_disk import small_disk

LIMITS = Limits(cache_size=10_000, free_disk=0, storage_seconds=5.0)


class Counted(FolderStorage):
    """A storage that counts what is fetched, takes its time, and can fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.fetches: list[str] = []
        self.seconds = 0.0
        self.error: StoreUnavailable | None = None

    def fetch(self, name: str, path: Path, most: int) -> bool:
        self.fetches.append(name)
        time.sleep(self.seconds)
        if self.error:
            raise self.error
        return super().fetch(name, path, most)


@pytest.fixture
def storage(tmp_path: Path) -> Counted:
    return Counted(tmp_path / "storage")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_folders_that_others_may_open_are_the_users_alone(folder: Path, storage: Counted) -> None:
    """Who may open a cached file, if only to read it, could hold its lock for ever."""
    CachedFiles(folder, storage, LIMITS)
    for path in folder.iterdir():
        path.chmod(0o755)
    CachedFiles(folder, storage, LIMITS)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o700}


@pytest.mark.parametrize("other", ["thesis.txt", "files/thesis.txt", "files/letters/a"])
def test_a_folder_that_has_files_of_others_is_no_cache(folder: Path, storage: Counted, other: str) -> None:
    """Those used longest ago would go to make room."""
    (folder / other).parent.mkdir(parents=True)
    (folder / other).write_text("a year's work")
    with pytest.raises(FailedPrecondition, match="the folder is not a cache of symd's, and is not empty") as raised:
        CachedFiles(folder, storage, LIMITS)
    assert raised.value.where == str(folder)
    assert [path for path in folder.rglob("*") if path.is_file()] == [folder / other]


def test_what_somebody_puts_beside_a_caches_files_stays(folder: Path, storage: Counted) -> None:
    cache = CachedFiles(folder, storage, LIMITS)
    other = folder / "files" / "thesis.txt"
    other.write_text("a year's work")
    for number in range(12):
        assert read(cache, stored(storage, f"index/1/{number}.idx", bytes(2000))) is not None
    assert other.read_text() == "a year's work"


def test_a_cache_is_one_still_when_its_files_were_removed(folder: Path, storage: Counted) -> None:
    read(CachedFiles(folder, storage, LIMITS), module(storage, b"module"))
    (folder / "incoming-modules").mkdir()
    shutil.rmtree(folder / "files")
    CachedFiles(folder, storage, LIMITS)


@pytest.fixture
def cache(folder: Path, storage: Counted) -> CachedFiles:
    return CachedFiles(folder, storage, LIMITS)


def module(storage: FolderStorage, data: bytes) -> str:
    """Put a module into the storage alone; its name."""
    digest = hashlib.sha256(data).hexdigest()
    return stored(storage, f"modules/{digest[:2]}/{digest}", data)


def stored(storage: FolderStorage, name: str, data: bytes) -> str:
    path = storage._root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return name


def kept(folder: Path) -> dict[str, int]:
    """Names and sizes of what is in the cache."""
    files = folder / "files"
    return {str(path.relative_to(files)): path.stat().st_size for path in files.rglob("*") if path.is_file()}


def read(cache: CachedFiles, name: str) -> bytes | None:
    view = cache.mapped(name)
    return None if view is None else bytes(view)


def test_a_file_is_fetched_once_and_read_as_it_is(cache: CachedFiles, storage: Counted, folder: Path):
    name = module(storage, b"module")
    for _ in range(3):
        assert read(cache, name) == b"module"
        with cache.file(name) as path:
            assert path is not None
            assert path.read_bytes() == b"module"
    assert storage.fetches == [name]
    assert read(CachedFiles(folder, storage, LIMITS), name) == b"module"
    assert storage.fetches == [name], "another process finds it"


def test_what_nothing_has_is_none_and_asked_for_again(cache: CachedFiles, storage: Counted, folder: Path):
    assert cache.mapped("modules/none") is None
    with cache.file("modules/none") as path:
        assert path is None
    assert len(storage.fetches) == 2
    stored(storage, "modules/none", b"now")
    assert read(cache, "modules/none") == b"now"
    assert list(folder.glob("incoming/*")) == []


def test_an_empty_file_is_one(cache: CachedFiles, storage: Counted):
    assert read(cache, stored(storage, "index/1/a.idx", b"")) == b""


def test_what_is_added_is_in_the_storage_and_here(cache: CachedFiles, storage: Counted, tmp_path: Path):
    (tmp_path / "made").write_bytes(b"index")
    cache.add("index/1/ab/x.idx", tmp_path / "made")
    assert read(cache, "index/1/ab/x.idx") == b"index"
    assert storage.fetches == []
    assert (storage._root / "index/1/ab/x.idx").read_bytes() == b"index"
    (tmp_path / "made").write_bytes(b"newer")
    cache.add("index/1/ab/x.idx", tmp_path / "made")
    assert read(cache, "index/1/ab/x.idx") == b"newer"


def test_what_is_removed_is_in_neither_and_stays_readable(cache: CachedFiles, storage: Counted):
    name = module(storage, b"module")
    view = cache.mapped(name)
    cache.remove(name)
    cache.remove(name)
    assert cache.mapped(name) is None
    assert storage.size(name) is None
    assert view == b"module"


def test_what_is_dropped_is_fetched_anew(cache: CachedFiles, storage: Counted):
    name = stored(storage, "index/1/ab/x.idx", b"index")
    view = cache.mapped(name)
    cache.drop(name)
    cache.drop(name)
    assert read(cache, name) == b"index"
    assert storage.fetches == [name, name]
    assert view == b"index"


def test_a_file_in_use_stays_where_it_is_though_others_drop_it(cache: CachedFiles, storage: Counted, folder: Path):
    name = module(storage, b"module")
    other = CachedFiles(folder, storage, LIMITS)
    with cache.file(name) as path:
        other.drop(name)
        CachedFiles(folder, storage, LIMITS)  # which sweeps
        assert path is not None
        assert path.read_bytes() == b"module"
        assert read(other, name) == b"module"
    assert not path.exists()
    assert list(folder.glob("incoming/*")) == []


@pytest.mark.parametrize("damage", [b"modulE", b"modul", b"module.", b""])
def test_a_damaged_module_is_fetched_anew_by_the_next_process(
    cache: CachedFiles, storage: Counted, folder: Path, damage: bytes
):
    """A power cut spoils files that nobody synced; it ends the process too."""
    name = module(storage, b"module")
    read(cache, name)
    (folder / "files" / name).write_bytes(damage)
    assert read(CachedFiles(folder, storage, LIMITS), name) == b"module"
    assert storage.fetches == [name, name]


def test_a_file_of_another_size_is_seen_by_the_same_process(cache: CachedFiles, storage: Counted, folder: Path):
    name = module(storage, b"module")
    read(cache, name)
    (folder / "files" / name).write_bytes(b"mod")
    assert read(cache, name) == b"module"


def test_other_bytes_in_the_storage_are_told_and_not_kept(cache: CachedFiles, storage: Counted, folder: Path):
    name = module(storage, b"module")
    stored(storage, name, b"modulE")
    with pytest.raises(DataLoss, match="other bytes") as raised:
        cache.mapped(name)
    assert raised.value.metadata["module"] == name.replace("modules/" + name[8:11], "modules/")
    assert storage.fetches == [name, name], "it is asked twice, for what the network spoils"
    assert kept(folder) == {}
    stored(storage, name, b"module")
    assert read(cache, name) == b"module"


def index_of(name: str) -> bytes:
    return encode({"column": np.frombuffer(name.encode(), np.uint8)})


def test_a_damaged_index_is_fetched_anew_by_the_next_process(storage: Counted, folder: Path):
    name = stored(storage, f"index/{VERSION}/ab/x.idx", index_of("x"))
    read(CachedFiles(folder, storage, LIMITS), name)
    for damage in (b"", index_of("x")[:-1], index_of("x")[:-1] + b"\0"):
        (folder / "files" / name).write_bytes(damage)
        assert read(CachedFiles(folder, storage, LIMITS), name) == index_of("x")
    assert len(storage.fetches) == 4


def test_an_index_that_is_damaged_in_the_storage_is_as_good_as_none(
    cache: CachedFiles, storage: Counted, folder: Path, tmp_path: Path
):
    name = stored(storage, f"index/{VERSION}/ab/x.idx", index_of("x")[:-1])
    assert cache.mapped(name) is None
    assert len(storage.fetches) == 2
    assert kept(folder) == {}
    (tmp_path / "made").write_bytes(index_of("x"))
    cache.add(name, tmp_path / "made")
    assert read(cache, name) == index_of("x")


def test_the_least_recently_used_go_first(cache: CachedFiles, storage: Counted, folder: Path):
    names = [stored(storage, f"index/1/{number}.idx", bytes(1000)) for number in range(12)]
    for name in names[:10]:
        read(cache, name)
    read(cache, names[0])
    read(cache, names[10])
    assert names[0] in kept(folder)
    assert names[1] not in kept(folder)
    assert names[10] in kept(folder)
    assert sum(kept(folder).values()) <= LIMITS.cache_size


def test_one_process_never_passes_its_bound(cache: CachedFiles, storage: Counted, folder: Path):
    chosen = random.Random(3)
    names = [stored(storage, f"index/1/{number}.idx", bytes(chosen.randrange(2500))) for number in range(60)]
    for _ in range(600):
        name = chosen.choice(names)
        assert read(cache, name) == bytes(storage.size(name) or 0)
        assert sum(kept(folder).values()) <= LIMITS.cache_size
    assert len(storage.fetches) < 600, "some were still there"


def test_several_processes_pass_it_by_a_sixteenth_each(storage: Counted, folder: Path):
    caches = [CachedFiles(folder, storage, LIMITS) for _ in range(4)]
    chosen = random.Random(4)
    names = [stored(storage, f"index/1/{number}.idx", bytes(100)) for number in range(400)]
    for _ in range(600):
        read(chosen.choice(caches), chosen.choice(names))
        assert sum(kept(folder).values()) <= LIMITS.cache_size * (1 + 3 / 16) + 100


def test_what_is_used_stays_though_it_passes_the_bound(cache: CachedFiles, storage: Counted, folder: Path):
    names = [stored(storage, f"index/1/{number}.idx", bytes([number]) * 4000) for number in range(6)]
    views = [cache.mapped(name) for name in names[:3]]
    assert set(kept(folder)) == set(names[:3])
    with cache.file(names[3]) as path:
        for name in names[4:]:
            read(cache, name)
        assert path is not None
        assert path.read_bytes() == bytes([3]) * 4000
        assert set(kept(folder)) >= set(names[:4])
    assert views[0] == bytes(4000)
    del views
    read(cache, names[4])
    read(cache, names[5])
    assert sum(kept(folder).values()) <= LIMITS.cache_size


@pytest.mark.parametrize("how", ["file", "mapped"])
def test_what_a_cache_uses_that_did_not_fetch_it_stays(storage: Counted, folder: Path, how: str):
    name = stored(storage, "index/1/old.idx", bytes(4000))
    read(CachedFiles(folder, storage, LIMITS), name)
    user, other = CachedFiles(folder, storage, LIMITS), CachedFiles(folder, storage, LIMITS)
    with user.file(name) as path:
        view = user.mapped(name) if how == "mapped" else None
        for number in range(4):
            read(other, stored(storage, f"index/1/{number}.idx", bytes(4000)))
        assert path is not None
        assert path.exists()
    assert view is None or name in kept(folder)
    for number in range(4, 8):
        read(other, stored(storage, f"index/1/{number}.idx", bytes(4000)))
    assert (name in kept(folder)) == (view is not None)


def test_a_file_larger_than_the_bound_is_served(cache: CachedFiles, storage: Counted):
    name = stored(storage, "index/1/large.idx", bytes(50_000))
    assert read(cache, name) == bytes(50_000)
    small = stored(storage, "index/1/small.idx", b"small")
    assert read(cache, small) == b"small"
    assert read(cache, name) == bytes(50_000)


def test_a_disk_that_fills_otherwise_takes_from_the_cache(storage: Counted, folder: Path):
    with_room = CachedFiles(folder, storage, LIMITS)
    names = [stored(storage, f"index/1/{number}.idx", bytes(1000)) for number in range(5)]
    for name in names[:4]:
        read(with_room, name)
    without = CachedFiles(folder, storage, Limits(cache_size=10_000, free_disk=1 << 60))
    assert read(without, names[4]) == bytes(1000)
    assert set(kept(folder)) == {names[4]}


def test_threads_that_ask_at_once_fetch_once(cache: CachedFiles, storage: Counted):
    name = module(storage, b"module")
    storage.seconds = 0.3
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: read(cache, name), range(16))) == {b"module"}
    assert storage.fetches == [name]


def test_who_waits_for_a_fetch_that_fails_is_told_too_and_the_next_may_succeed(cache: CachedFiles, storage: Counted):
    name = module(storage, b"module")
    storage.seconds, storage.error = 0.3, StoreUnavailable("gone", where="s3://b", hint="wait")

    def ask(_: int) -> StoreUnavailable:
        with pytest.raises(StoreUnavailable, match="gone") as raised:
            read(cache, name)
        return raised.value

    with ThreadPoolExecutor(8) as pool:
        errors = list(pool.map(ask, range(8)))
    assert len({id(error) for error in errors}) == 8, "each thread has an error of its own"
    assert len(storage.fetches) == 1
    storage.error = None
    assert read(cache, name) == b"module"


@pytest.fixture(name="small_disk")
def disk_of_2_mib(tmp_path: Path) -> Iterator[Path]:
    """Needs the right to mount."""
    with small_disk(tmp_path / "disk", 2 << 20) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        yield tmp_path / "disk"


def test_a_full_disk_is_told_and_everything_goes_on_once_there_is_room(storage: Counted, small_disk: Path):
    cache = CachedFiles(small_disk / "cache", storage, Limits(cache_size=1 << 30, free_disk=0))
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_800_000))
    name = module(storage, os.urandom(500_000))
    with pytest.raises(StoreUnavailable, match="free some space") as raised:
        read(cache, name)
    assert raised.value.metadata["errno"] == "ENOSPC"
    assert list(small_disk.rglob("incoming-*")) == []
    ballast.unlink()
    assert len(read(cache, name) or b"") == 500_000


def test_on_a_disk_that_is_full_a_file_takes_the_room_of_what_was_used_longest_ago(storage: Counted, small_disk: Path):
    cache = CachedFiles(small_disk / "cache", storage, Limits(cache_size=1 << 30, free_disk=600_000))
    names = [module(storage, os.urandom(500_000)) for _ in range(10)]
    for name in names[:3]:
        assert len(read(cache, name) or b"") == 500_000
    with suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    for name in names[3:5]:
        assert len(read(cache, name) or b"") == 500_000
    assert names[4] in kept(small_disk / "cache")
    assert names[0] not in kept(small_disk / "cache")


def test_a_file_takes_the_room_of_many_though_it_is_larger_than_what_is_kept_free(storage: Counted, small_disk: Path):
    cache = CachedFiles(small_disk / "cache", storage, Limits(cache_size=1 << 30, free_disk=100_000))
    small = [module(storage, os.urandom(100_000)) for _ in range(25)]
    large = module(storage, os.urandom(1_000_000))
    for name in small:
        assert len(read(cache, name) or b"") == 100_000
    assert sum(kept(small_disk / "cache").values()) > 1_500_000, "the disk is full of them"
    assert len(read(cache, large) or b"") == 1_000_000
    assert storage.fetches.count(large) == 2, "after the disk has refused it once"
    left = kept(small_disk / "cache")
    assert large in left
    assert small[-1] in left, "the least recently used go"
    assert list(small_disk.rglob("incoming-*")) == []


def test_a_cache_that_is_emptied_while_a_file_is_fetched_is_an_error_of_the_store(folder: Path, tmp_path: Path):
    class Emptied(Counted):
        def fetch(self, name: str, path: Path, most: int) -> bool:
            found = super().fetch(name, path, most)
            if len(self.fetches) == 1:
                shutil.rmtree(folder / "incoming")
            return found

    storage = Emptied(tmp_path / "storage")
    cache, name = CachedFiles(folder, storage, LIMITS), module(storage, b"module")
    with pytest.raises(StoreUnavailable, match="no such file or directory"):
        read(cache, name)
    assert read(cache, name) == b"module", "the next one makes the folder again"


def test_what_has_no_room_here_is_in_the_storage_all_the_same(storage: Counted, small_disk: Path, tmp_path: Path):
    cache = CachedFiles(small_disk / "cache", storage, Limits(cache_size=1 << 30, free_disk=0))
    (small_disk / "ballast").write_bytes(bytes(1_800_000))
    (tmp_path / "made").write_bytes(os.urandom(500_000))
    cache.add("index/1/x.idx", tmp_path / "made")
    assert storage.size("index/1/x.idx") == 500_000


HAMMER = """
import random, sys
from pathlib import Path
from symd.config import Limits
from symd.store.shared.cached_files import CachedFiles
from symd.store.shared.object_storage import FolderStorage

folder, storage, seed = Path(sys.argv[1]), FolderStorage(Path(sys.argv[2])), int(sys.argv[3])
cache = CachedFiles(folder, storage, Limits(cache_size=10_000, free_disk=0))
names = [name for name, _ in storage.names("")]
chosen = random.Random(seed)
held = []
print("begun", flush=True)
for turn in range(int(sys.argv[4])):
    name = chosen.choice(names)
    number = int(name.rpartition("/")[2].removesuffix(".idx"))
    expected = bytes([number]) * (number * 40)
    if chosen.random() < 0.5:
        with cache.file(name) as path:
            assert path.read_bytes() == expected, name
    else:
        view = cache.mapped(name)
        assert view == expected, name
        held = [*held[-2:], view]
    if chosen.random() < 0.05:
        cache.drop(name)
print("ended", flush=True)
"""


def hammer(folder: Path, storage: FolderStorage, seed: int, turns: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HAMMER, str(folder), str(storage._root), str(seed), str(turns)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_that_share_a_folder_and_are_killed_do_no_harm(storage: Counted, folder: Path):
    for number in range(1, 80):
        stored(storage, f"index/1/{number}.idx", bytes([number]) * (number * 40))
    steady = [hammer(folder, storage, seed, 400) for seed in range(3)]
    for seed in range(3, 9):
        killed = hammer(folder, storage, seed, 1_000_000)
        assert killed.stdout is not None
        assert killed.stdout.readline() == "begun\n"
        time.sleep(0.1)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    for process in steady:
        out, err = process.communicate(timeout=120)
        assert (out, err, process.returncode) == ("begun\nended\n", "", 0)
    cache = CachedFiles(folder, storage, LIMITS)
    assert list(folder.glob("incoming/*")) == [], "what the killed left is swept"
    for number in range(1, 80):
        assert read(cache, f"index/1/{number}.idx") == bytes([number]) * (number * 40)
    assert sum(kept(folder).values()) <= LIMITS.cache_size


@pytest.mark.parametrize("gone", ["", "files", "incoming"])
def test_a_cache_that_somebody_emptied_is_filled_anew(
    cache: CachedFiles, storage: Counted, folder: Path, tmp_path: Path, gone: str
) -> None:
    """As services that clean temporary folders do, without a word to the daemon. Without incoming/ a file that was here was looked for
    for ever."""
    first, second = module(storage, b"first"), module(storage, b"second")
    uses: list[Callable[[], None]] = [
        lambda: expect(cache, first, b"first"),
        lambda: expect(cache, second, b"second"),
        lambda: cache.add("index/1/ab/x.idx", tmp_path / "added"),
        lambda: expect(cache, "index/1/ab/x.idx", b"added"),
    ]
    (tmp_path / "added").write_bytes(b"added")
    expect(cache, first, b"first")
    for use in uses:
        shutil.rmtree(folder / gone, ignore_errors=True)
        use()


def expect(cache: CachedFiles, name: str, data: bytes) -> None:
    with cache.file(name) as path:
        assert path is not None
        assert path.read_bytes() == data
    mapped = cache.mapped(name)
    assert mapped is not None
    assert bytes(mapped) == data


def test_what_is_here_is_read_though_the_disk_takes_nothing_any_more(storage: Counted, small_disk: Path) -> None:
    """As a disk that had errors is mounted again."""
    cache = CachedFiles(small_disk / "cache", storage, LIMITS)
    name, other = module(storage, b"here"), module(storage, b"not here")
    assert read(cache, name) == b"here"
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert read(cache, name) == b"here"
    with pytest.raises(StoreUnavailable, match="read-only"):
        read(cache, other)


def test_what_is_larger_than_any_module_or_index_is_not_fetched(
    folder: Path, storage: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    cache = CachedFiles(folder, storage, LIMITS._replace(module_size=1000, index_size=500))
    name, index = module(storage, bytes(1000)), f"index/{VERSION}/ab/x.idx"
    assert read(cache, name) == bytes(1000)
    with pytest.raises(LimitExceeded, match="has 1001 bytes, at most 1000 are fetched") as raised:
        read(cache, module(storage, bytes(1001)))
    assert raised.value.metadata == {"limit": "module_size", "value": "1000"}
    assert read(cache, stored(storage, index, bytes(501))) is None
    assert "an index of the object storage is left alone" in caplog.text
    assert kept(folder).keys() == {name}
