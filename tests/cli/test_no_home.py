"""A user without a home folder, as services and containers have: HOME is not set, and the system knows nothing of the user."""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from symd.capture import ways
from symd.capture.ways import OPENCL_LAYER, library
from symd.cli import captures_destination
from symd.cli.doctor import daemon_report
from symd.config import default_server, default_socket, default_store
from symd.errors import FailedPrecondition
from symd.server.config import Config
from tests.cli.conftest import Run

SAID = "there is no home folder: $HOME names none, and the system knows none of user "
SAMPLE = "samples/kernels/bin/vadd/dg2-opt.dbg"
_DRIVEN = ("HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "SYMD_SERVER", "SYMD_STORE", "SYMD_CACHE", "SYMD_CAPTURES")


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in _DRIVEN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    monkeypatch.setattr("symd.config._MACHINE_SOCKET", str(tmp_path / "machine"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("serve",), 3),
        (("status",), 3),
        (("modules",), 3),
        (("health",), 1),
        (("store", "check"), 3),
        (("symbolize", "--store", "default", SAMPLE, "vadd+0x10", "vadd+0x20"), 3),
        (("info", "--server", "default", SAMPLE), 3),
        (("collect", "--once", "samples/kernels/bin/vadd"), 3),
    ],
)
def test_what_looks_there_says_what_to_set(run: Run, command: tuple[str, ...], code: int) -> None:
    outcome = run(*command)
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith(f"symd: {SAID}{os.geteuid()} (set HOME or XDG_CACHE_HOME to a folder ")


@pytest.mark.parametrize("home", ["", "here", "~"])
def test_a_home_that_is_no_absolute_path_is_none(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    with pytest.raises(FailedPrecondition, match="no home folder"):
        default_store()
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir="/home/me"))
    assert default_store() == Path("/home/me/.cache/symd/store")
    monkeypatch.setenv("HOME", "/home/you")
    assert default_store() == Path("/home/you/.cache/symd/store")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_store() == Path("/cache/symd/store")


def test_verbs_that_need_none_answer(run: Run) -> None:
    assert run("symbolize", SAMPLE, "vadd+0x1b0").code == 0
    assert run("serve", "--help").code == 0
    assert run("completion", "bash").code == 0
    missing = run("info", "--server", "unix:/nowhere/symd.sock", SAMPLE)
    assert "no daemon is running: no such socket" in missing.err


def test_a_batch_needs_a_cache_for_an_object_storage_alone(run: Run, tmp_path: Path) -> None:
    assert "no home folder" not in run("batch", "-m", SAMPLE, str(tmp_path / "in"), str(tmp_path / "out")).err


def test_a_daemon_that_is_told_where_everything_is_needs_none(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Config] = []

    def serve(config: Config, **_: object) -> int:
        served.append(config)
        return 0

    monkeypatch.setattr("symd.cli.serving.serve", serve)
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")  # what the verb sets, so that it is taken away again
    monkeypatch.setenv("GRPC_EXPERIMENTS", "")
    outcome = run("serve", "--store", str(tmp_path / "store"), "--address", f"unix:{tmp_path}/socket")
    assert (outcome.code, outcome.err) == (0, "")
    assert [(each.store, each.addresses) for each in served] == [(tmp_path / "store", (f"unix:{tmp_path}/socket",))]


def test_the_machine_s_daemon_is_asked(tmp_path: Path) -> None:
    (tmp_path / "machine").touch()
    assert default_server() == f"unix:{tmp_path}/machine"
    with pytest.raises(FailedPrecondition, match="no home folder"):
        default_socket()


def test_doctor_says_so_of_the_daemon() -> None:
    report = daemon_report()
    assert report["address"] == ""
    assert report["says"].startswith(SAID)


def test_a_run_keeps_its_captures_in_a_temporary_folder(tmp_path: Path) -> None:
    chosen = captures_destination.destination("program", None, None)
    assert chosen.folder.parent == tmp_path
    assert chosen.why_there == "there is no home folder; set SYMD_CAPTURES to a folder that can be written"
    assert captures_destination.send_waiting("unix:/nowhere/symd.sock") == 0


def test_libraries_are_built_in_the_run_s_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.capture.ways._NATIVE", _native_without_prebuilt(tmp_path))
    assert library(OPENCL_LAYER, tmp_path / "run").is_relative_to(tmp_path / "run")
    with pytest.raises(FailedPrecondition, match="no home folder"):
        library(OPENCL_LAYER)


def _native_without_prebuilt(tmp_path: Path) -> Path:
    folder = tmp_path / "native"
    folder.mkdir()
    for each in ways._NATIVE.glob("*.[ch]"):
        (folder / each.name).write_bytes(each.read_bytes())
    return folder
