"""Whatever stands in a store's folder, a start goes on, what was stored is there, and a check names what does not belong."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import FailedPrecondition, InvalidInput, ModuleNotFound, StoreUnavailable
from symd.index import VERSION
from symd.model.contexts import Alias
from symd.store import Store
from symd.store.catalogue import newest
from symd.store.inspection import FindingKind, inspect
from symd.store.maintenance import collect, repair
from symd.system.symlinks import replaceable
from tests.builders.index_file import encode

ROOT = Path(__file__).parents[2]
LONG = 120
HUGE = 1 << 42
SAMPLE = (ROOT / "samples" / "kernels" / "bin" / "raycast" / "dg2-opt.dbg").read_bytes()
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """A start that hangs fails its test."""

    def late(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    (path / "below").mkdir(parents=True)


def link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def bound(path: Path) -> None:
    """A socket, whose path may be longer than the system takes."""
    before = Path.cwd()
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)
        try:
            made.bind("s")
        finally:
            os.chdir(before)
    (path.parent / "s").rename(path)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)


def closed(path: Path) -> None:
    path.write_bytes(b"nobody may read this")
    path.chmod(0)


def index(digest: str) -> bytes:
    return encode(
        {"module_sha256": np.frombuffer(bytes.fromhex(digest), np.uint8), "column": np.arange(5, dtype=np.uint8)}
    )


REGULAR: tuple[Callable[[Path], None], ...] = (sparse, closed)
THINGS: tuple[Callable[[Path], None], ...] = (fifo, folder, link, bound, *REGULAR)


class Filled:
    """A store with two modules, one of which has an index; what the odd things take the place of is of the second."""

    def __init__(self, root: Path) -> None:
        self.root = root
        with Engine(Store(root)) as engine:
            self.kept = engine.add(SAMPLE, "kept").sha256
            self.other = engine.store.put(b"another module", "other", "none")
            engine.store.admit(self.other, "none")
            engine.store.put_index(self.other, VERSION, index(self.other))
            engine.aliases.add([Alias("build-id", "1", self.other)])

    def place(self, name: str) -> Path:
        digest, unknown = self.other, "ab" * 32
        return (
            self.root
            / {
                "module": f"modules/{digest[:2]}/{digest}",
                "shard": f"modules/{digest[:2]}",
                "unknown module": f"modules/ab/{unknown}",
                "index": f"index/{VERSION}/{digest[:2]}/{digest}.idx",
                "index of nothing": f"index/{VERSION}/ab/{unknown}.idx",
                "version": "index/7777",
                "version beyond all numbers": "index/99999999999999999999999999",
                "version in other digits": "index/٣",
                "shard of indexes": f"index/{VERSION}/{digest[:2]}",
                "incoming": "incoming/incoming-0123456789abcdef",
                "turn": f"incoming/incoming-index-{self.kept}",
                "damaged": f"damaged/{self.kept}",
                "catalogue beyond": "catalogue-99.sqlite",
                "fresh": "catalogue.fresh",
                "odd name": "modules/ab/\udcff\n\x1b[31m",
                "name of no store": "lost\nfound",
            }[name]
        )

    def put(self, name: str, thing: Callable[[Path], None]) -> Path:
        path = self.place(name)
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        thing(path)
        return path


PLACES = (
    "module", "shard", "unknown module", "index", "index of nothing", "version", "version beyond all numbers",
    "version in other digits", "shard of indexes", "incoming", "turn", "damaged", "fresh", "odd name", "name of no store",
)  # fmt: skip


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
@pytest.mark.parametrize("place", PLACES)
def test_whatever_stands_there_a_start_goes_on(root: Path, place: str, thing: Callable[[Path], None]) -> None:
    filled = Filled(root)
    filled.put(place, thing)
    inspect(root)
    with Engine(Store(root, adopt_later=True)) as engine:
        engine.resume()
        assert engine.module(filled.kept).objects
        assert engine.record(filled.kept).label == "kept"
        engine.store.put(b"another module", "other")
        assert bytes(engine.store.data(filled.other)) == b"another module"
        assert engine.store.put_index(filled.other, VERSION, index(filled.other)) == index(filled.other)
        engine.remove(filled.other)
        for digest in (filled.other, "ab" * 32):
            with pytest.raises(ModuleNotFound):
                engine.store.data(digest)
    repair(root, Limits())
    left = {finding.kind for finding in inspect(root).findings}
    damaged = place == "unknown module" and thing in REGULAR
    assert left == {FindingKind.SET_ASIDE} if damaged else left <= {FindingKind.UNKNOWN}
    collect(root, Limits(), damaged=True)
    assert not list((root / "damaged").glob("*"))


@pytest.mark.parametrize("thing", [fifo, folder, link, bound], ids=lambda thing: thing.__name__)
def test_a_module_whose_place_is_taken_is_missing_and_keeps_what_it_was_told(
    root: Path, thing: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    filled = Filled(root)
    path = filled.put("module", thing)
    assert (FindingKind.MISPLACED, str(path.relative_to(root))) in [
        (finding.kind, finding.subject) for finding in inspect(root).findings
    ]
    with Store(root) as store:
        assert str(path) in caplog.text
        assert "damaged" in caplog.text
        assert store.missing([filled.other]) == [filled.other]
        store.put(b"another module")
        assert store.record(filled.other).label == "other"
        assert store.aliases.resolve("build-id", "1") is not None
    assert inspect(root).findings == []


@pytest.mark.parametrize("place", ["modules", "index", "incoming", "damaged"])
@pytest.mark.parametrize("thing", [fifo, bound, sparse], ids=lambda thing: thing.__name__)
def test_a_folder_of_the_store_that_is_none(root: Path, place: str, thing: Callable[[Path], None]) -> None:
    filled = Filled(root)
    shutil.rmtree(root / place, ignore_errors=True)
    thing(root / place)
    assert any(finding.kind is FindingKind.MISPLACED and finding.subject == place for finding in inspect(root).findings)
    with Engine(Store(root)) as engine:
        engine.resume()
        assert engine.add(SAMPLE).sha256 == filled.kept
    assert all(finding.kind is FindingKind.UNKNOWN for finding in inspect(root).findings)


@pytest.mark.parametrize("thing", [fifo, folder, bound, closed], ids=lambda thing: thing.__name__)
@pytest.mark.parametrize("name", ["catalogue.sqlite", "catalogue.lock", "catalogue.sqlite-wal", "catalogue.sqlite-shm"])
def test_a_catalogue_that_is_no_file(root: Path, name: str, thing: Callable[[Path], None]) -> None:
    filled = Filled(root)
    (root / name).unlink(missing_ok=True)
    thing(root / name)
    inspect(root)
    with Engine(Store(root)) as engine:
        engine.resume()
        assert engine.module(filled.kept).objects
    assert inspect(root).findings == []


@pytest.mark.parametrize("name", ["modules", "index", "incoming", "damaged", "catalogue.sqlite", "catalogue.lock"])
def test_a_link_out_of_the_store_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    filled = Filled(root)
    (root / "damaged").mkdir()
    (root / name).rename(tmp_path / "elsewhere")
    (root / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FailedPrecondition, match=r"symbolic link to .*elsewhere .move what it leads to"):
        Store(root)
    assert any(finding.subject == name for finding in inspect(root).findings)
    (root / name).unlink()
    (tmp_path / "elsewhere").rename(root / name)
    with Store(root) as store:
        assert store.record(filled.kept).label == "kept"


def test_a_huge_file_is_not_read(root: Path) -> None:
    filled = Filled(root)
    module, index = filled.place("module"), filled.place("index")
    for path in (module, index):
        sparse(path)
    found = {finding.kind: finding.problem for finding in inspect(root).findings}
    assert set(found) == {FindingKind.MODULE, FindingKind.INDEX}
    assert all("next to none" in problem for problem in found.values())
    with Store(root) as store:
        assert (store.recovery.damaged, store.index(filled.other, VERSION)) == ((filled.other,), None)
        assert store.put(b"another module") == filled.other
        assert store.missing([filled.kept]) == []


def test_a_size_that_the_catalogue_has_wrong_is_found_out(root: Path) -> None:
    import sqlite3  # noqa: PLC0415

    filled = Filled(root)
    with sqlite3.connect(newest(root)) as connection:
        connection.execute("UPDATE modules SET size = 7")
    connection.close()
    with Store(root) as store:
        assert store.missing([filled.kept, filled.other]) == []
        assert store.record(filled.kept).size == len(SAMPLE)
        assert store.recovery.damaged == ()


def test_names_that_symd_gives_to_nothing_are_left_alone_and_told(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    Filled(root)
    (root / "modules" / "README").write_text("mine")
    (root / "lost+found").mkdir()
    with caplog.at_level(logging.INFO), Store(root):
        assert "modules/README" in caplog.text
    assert [finding.kind for finding in inspect(root).findings] == [FindingKind.UNKNOWN]
    assert (root / "modules" / "README").read_text() == "mine"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_is_refused(root: Path, mode: int) -> None:
    root.mkdir()
    root.chmod(mode)
    with pytest.raises(FailedPrecondition, match=f"other users may change the store .*chmod go-w {root}"):
        Store(root)
    root.chmod(0o755)
    Store(root).close()


def test_a_folder_above_that_others_may_write_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    root = tmp_path / "shared" / "below" / "store"
    root.mkdir(parents=True)
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(FailedPrecondition, match="put another folder in the place"):
        Store(root)
    (tmp_path / "shared").chmod(0o1777)
    Store(root).close()


@pytest.mark.parametrize("target", ["{0}/real", "../real", "hop/../../real"])
def test_a_link_where_others_may_put_another_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "real").mkdir(mode=0o755)
    shared = tmp_path / "shared"
    (shared / "hop").mkdir(parents=True)
    (shared / "link").symlink_to(target.format(tmp_path))
    for root in (shared / "link", shared / "link" / "below"):
        root.mkdir(exist_ok=True)
        shared.chmod(0o777)
        with pytest.raises(FailedPrecondition, match="put another folder in the place"):
            Store(root)
        shared.chmod(0o1777)
        Store(root).close()


@as_root
def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o755)
    link = tmp_path / "link"
    link.symlink_to("real")
    Store(link).close()
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(FailedPrecondition, match=f"{link}: .*in the place .*name the folder itself"):
        Store(link)


def test_a_link_that_leads_to_itself_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="symbolic links"):
        replaceable(tmp_path / "round" / "store")


@as_root
def test_the_folder_of_another_user_is_refused_to_root_too(root: Path) -> None:
    Filled(root)
    os.chown(root, NOBODY, NOBODY)
    before = sorted(path for path in root.rglob("*"))
    with pytest.raises(FailedPrecondition, match=f"belongs to another user .*run this as user {NOBODY}"):
        Store(root)
    for act in (repair, collect):
        with pytest.raises(FailedPrecondition, match="another user"):
            act(root, Limits())
    assert [finding.kind for finding in inspect(root).findings] == []
    assert sorted(path for path in root.rglob("*")) == before


AS_NOBODY = """
import os, sys
import symd.cli.store, symd.index.schema  # this user may not be able to
from symd.cli.command_line import invoke
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
raise SystemExit(invoke(sys.argv[2:]))
"""


def as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", AS_NOBODY, str(NOBODY), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONG, check=False)


@as_root
@pytest.mark.parametrize("verb", ["check", "repair", "gc"])
def test_another_user_than_the_owner_is_told_whose_it_is(tmp_path: Path, verb: str) -> None:
    place = Path("/tmp") / f"symd-{os.getpid()}-{verb}"
    try:
        Filled(place)
        done = as_nobody("store", verb, "--store", str(place))
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith(f"symd: {place}: the store belongs to another user (run this as user 0")
    finally:
        shutil.rmtree(place)


@as_root
def test_what_another_user_left_in_the_store_is_set_aside(tmp_path: Path) -> None:
    """A daemon that is not root cannot read what root put there, nor look into root's folders: nothing is lost for that."""
    place = Path("/tmp") / f"symd-{os.getpid()}"
    try:
        filled = Filled(place)
        for path in [place, *place.rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
        module, index = filled.place("module"), filled.place("shard of indexes")
        for path in (module, index):
            os.chown(path, 0, 0)
            path.chmod(0o600 if path.is_file() else 0o700)
        done = as_nobody("store", "check", "--store", str(place))
        assert done.returncode == 1, done.stderr
        assert done.stdout.count("misplaced") == 2
        done = as_nobody("store", "repair", "--store", str(place))
        assert "module-set-aside" in done.stdout, done.stderr
        done = as_nobody("store", "gc", "--store", str(place))
        assert done.returncode == 0, done.stderr
    finally:
        shutil.rmtree(place)


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    for act in (inspect, lambda root: repair(root, Limits()), lambda root: collect(root, Limits())):
        with pytest.raises(InvalidInput, match=r"there is no store .*symd status"):
            act(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "modules"]


def test_a_folder_that_refuses_says_what_to_do(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Filled(root)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StoreUnavailable, match=r"permission denied .*do this as the user to whom it belongs"):
        Store(root)


@pytest.mark.parametrize("name", ["passwd", "modules", "notes/today"])
def test_a_folder_that_is_used_for_something_else_does_not_become_a_store(tmp_path: Path, name: str) -> None:
    path = tmp_path / "etc" / name
    path.parent.mkdir(parents=True)
    path.write_text("somebody's")
    with pytest.raises(FailedPrecondition, match="and is not empty") as caught:
        Store(tmp_path / "etc")
    assert "--store" in caught.value.hint
    assert [each.name for each in (tmp_path / "etc").iterdir()] == [name.split("/", maxsplit=1)[0]]


def test_a_store_whose_catalogue_is_lost_is_one_whatever_stands_beside_it(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        store.put(b"a module")
    for path in (tmp_path / "store").glob("catalogue*"):
        path.unlink()
    (tmp_path / "store" / "notes").touch()
    with Store(tmp_path / "store") as store:
        assert len(store.records()) == 1


def test_what_a_copy_let_others_open_is_the_users_alone(root: Path) -> None:
    """Whoever may open the lock's file, or a folder, could hold its lock for ever."""
    Filled(root)
    for path in (root, *root.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert {finding.kind for finding in inspect(root).findings} == {FindingKind.MISPLACED}
    Store(root).close()
    assert [path for path in root.iterdir() if path.stat().st_mode & 0o077] == []
    assert not inspect(root).findings
