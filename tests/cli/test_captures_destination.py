"""Where captures go: a folder is removed only when a daemon has all of it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from symd.capture import CaptureCounts
from symd.capture.daemon_sink import DaemonSink
from symd.capture.folder_sink import MODULES, FolderSink
from symd.capture.forward import SENT
from symd.capture.run_folder import RunFolder, make_run_folder
from symd.cli import captures_destination
from symd.cli.captures_destination import Destination, RefusalsToldSink, destination, send_waiting
from symd.cli.run import where
from symd.config import Limits
from symd.engine.engine import Engine
from symd.model.captures import CaptureEvent, CaptureWay, ModuleForm, ModuleFound
from symd.store import Store
from tests.capture.test_folder_sink import write
from tests.cli.conftest import Run

NOBODY = 65534
ADDRESS = "unix:/there"
SAMPLE = (Path(__file__).parents[2] / "samples/kernels/bin/vadd/skl-O0.dbg").read_bytes()


@pytest.fixture
def captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of captures, with an engine in the daemon's place."""
    monkeypatch.setenv("SYMD_CAPTURES", str(tmp_path / "captures"))
    limits = Limits()
    with Engine(Store(tmp_path / "store", limits, durable=False), limits) as engine:
        monkeypatch.setattr(
            captures_destination, "daemon_sink", lambda _: nullcontext(RefusalsToldSink(DaemonSink(engine)))
        )
        yield tmp_path / "captures"


def found(data: bytes) -> CaptureEvent:
    return ModuleFound(CaptureWay.FOLDER, 1000, ModuleForm.NATIVE_BINARY, data, "a")


def test_a_module_that_the_daemon_refuses_stays_here(captures: Path) -> None:
    one = Destination(captures / "one", ADDRESS, named=False)
    write(one.folder, [found(b"no module at all"), found(SAMPLE)])
    forwarder = one.forwarder()
    assert forwarder is not None
    sent = forwarder.finish()
    assert (sent.events, sent.left, len(sent.refused)) == (2, False, 1)
    assert "was refused" in str(sent.refused[0])
    assert not one.tidy(sent)
    assert send_waiting(ADDRESS) == 0
    assert len(list((one.folder / MODULES).iterdir())) == 2


def test_a_folder_of_which_the_daemon_has_all_goes(captures: Path) -> None:
    one = Destination(captures / "one", ADDRESS, named=False)
    write(one.folder, [found(SAMPLE)])
    forwarder = one.forwarder()
    assert forwarder is not None
    assert one.tidy(forwarder.finish())
    assert not one.folder.exists()


def test_captures_are_temporary_where_the_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    monkeypatch.delenv("SYMD_CAPTURES", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    chosen = destination("/bin/program", None, "unix:/nowhere")
    assert chosen.folder.parent == tmp_path
    assert chosen.folder.stat().st_mode & 0o777 == 0o700
    with FolderSink(chosen.folder) as sink:
        sink.take(found(SAMPLE))
    (said,) = where(CaptureCounts(dumped=1), chosen, None, gone=chosen.tidy(None))
    assert said == (
        f"in {chosen.folder} ({tmp_path}/file/cache/symd/captures cannot be written; set SYMD_CAPTURES to a folder that can)"
    )
    assert list((chosen.folder / MODULES).iterdir())


def test_a_folder_that_somebody_names_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SYMD_CAPTURES", str(tmp_path / "file"))
    assert destination("program", None, "unix:/nowhere").folder.parent == tmp_path / "file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_nothing_is_kept_or_told_where_another_user_decides(
    tmp_path: Path, anothers_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where root runs a program with that user's HOME."""
    (anothers_home / ".cache/symd/captures").symlink_to(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(anothers_home / ".cache/symd")
        listening.bind("symd.sock")
        listening.listen()
        chosen = destination("/bin/program", None, None)
    assert chosen.address == ""
    assert chosen.folder.parent == tmp_path / "temporary"
    assert chosen.why_there.startswith(f"{anothers_home}, on the way to ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_what_another_user_put_in_his_cache_is_not_sent(captures: Path, anothers_home: Path) -> None:
    del captures  # with an engine in the daemon's place
    one = anothers_home / ".cache/symd/captures/one"
    write(one, [found(SAMPLE)])
    (one / SENT).write_text(json.dumps({"to": ADDRESS, "position": 0, "refused": 0}))
    assert send_waiting(ADDRESS) == 0
    os.chown(anothers_home, 0, 0)
    assert send_waiting(ADDRESS) == 1


@pytest.fixture
def anothers_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / ".cache/symd").mkdir(parents=True)
    os.chown(home, NOBODY, NOBODY)
    (tmp_path / "temporary").mkdir()
    for name in ("SYMD_CAPTURES", "SYMD_SERVER", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return home


@pytest.mark.parametrize("options", [(), ("--debug-lines",)])
def test_a_link_that_is_put_in_the_place_of_the_folder_meanwhile(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()

    def put_then_make() -> RunFolder:
        out.symlink_to(elsewhere)
        return make_run_folder()

    monkeypatch.setattr("symd.cli.run.make_run_folder", put_then_make)
    done = run("run", "--way", "folder", *options, "--out", out, "--", "/bin/true")
    assert (done.code, "a symbolic link" in done.err) == (3, True)
    assert not any(elsewhere.iterdir())
