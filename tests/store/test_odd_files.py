"""Whatever stands in a store's folder, a start goes on, what was stored is there, and a check names what does not belong."""

from __future__ import annotations

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
from symd.store.inspection import inspect
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


def index(digest: str) -> bytes:
    return encode(
        {"module_sha256": np.frombuffer(bytes.fromhex(digest), np.uint8), "column": np.arange(5, dtype=np.uint8)}
    )


class Filled:
    """A store with two modules, one of which has an index."""

    def __init__(self, root: Path) -> None:
        self.root = root
        with Engine(Store(root)) as engine:
            self.kept = engine.add(SAMPLE, "kept").sha256
            self.other = engine.store.put(b"another module", "other", "none")
            engine.store.admit(self.other, "none")
            engine.store.put_index(self.other, VERSION, index(self.other))
            engine.aliases.add([Alias("build-id", "1", self.other)])


def put_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket is short
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)


@pytest.mark.parametrize("thing", [os.mkfifo, Path.mkdir, put_socket], ids=["fifo", "folder", "socket"])
def test_what_is_no_file_in_the_place_of_a_module_is_missing_and_holds_up_nobody(
    root: Path, thing: Callable[[Path], None]
) -> None:
    filled = Filled(root)
    path = root / "modules" / filled.other[:2] / filled.other
    path.unlink()
    thing(path)
    with Store(root) as store:
        assert store.missing([filled.kept, filled.other]) == [filled.other]
        with pytest.raises(ModuleNotFound):
            store.data(filled.other)


def test_other_names_are_left_alone(root: Path) -> None:
    filled = Filled(root)
    others = [
        root / "modules" / "README",
        root / "modules" / "ab",
        root / "index" / "٣",
        root / "modules" / "zz" / filled.kept,
    ]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    with Store(root) as store:
        assert {record.sha256 for record in store.records()} == {filled.kept, filled.other}
    assert [path.read_text() for path in others] == ["mine"] * 4


@pytest.mark.parametrize("name", ["modules", "index", "incoming", "damaged", "catalogue.sqlite", "catalogue.lock"])
def test_a_link_out_of_the_store_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    filled = Filled(root)
    (root / "damaged").mkdir()
    (root / name).rename(tmp_path / "elsewhere")
    (root / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FailedPrecondition, match=r"symbolic link to .*elsewhere .move what it leads to"):
        Store(root)
    (root / name).unlink()
    (tmp_path / "elsewhere").rename(root / name)
    with Store(root) as store:
        assert store.record(filled.kept).label == "kept"


def test_a_size_that_the_catalogue_has_wrong_is_found_out(root: Path) -> None:
    import sqlite3  # noqa: PLC0415

    filled = Filled(root)
    with sqlite3.connect(root / "catalogue.sqlite") as connection:
        connection.execute("UPDATE modules SET size = 7")
    connection.close()
    with Store(root) as store:
        assert store.missing([filled.kept, filled.other]) == []
        assert store.record(filled.kept).size == len(SAMPLE)
        assert store.recovery.damaged == ()


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
    Store(root).close()
    assert [path for path in root.iterdir() if path.stat().st_mode & 0o077] == []
    assert not inspect(root).findings
