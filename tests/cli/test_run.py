"""``symd run``: the program's environment and exit code are its own, whatever fails beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.capture.run_folder import in_use
from symd.cli.run import NO_DEVICE, _has_device
from tests.tools import require

ROOT = Path(__file__).parents[2]
NOTHING_SEEN = (
    f"symd: no module was built or loaded where symd could see it{'' if _has_device() else '; ' + NO_DEVICE}\n"
)
MAIN = "from symd.cli.command_line import main; main()"


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for temporary files whose path leaves room for a socket's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """With an environment in which nothing stands but what is needed; ``main`` runs as the console script does."""
    clean = {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-c", MAIN, "run", *words]
    return subprocess.run(command, capture_output=True, text=True, env=clean | environment, timeout=300, check=False)


def test_the_program_gets_nothing_that_symd_set_for_itself(tmp_path: Path, short: Path) -> None:
    done = run(short, "--way", "folder", "--out", str(tmp_path), "--", "/usr/bin/env")
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert "SYMD_CAPTURE" in names
    assert names.isdisjoint({"OPENBLAS_NUM_THREADS", "GRPC_VERBOSITY", "LC_CTYPE"})
    given = {"OPENBLAS_NUM_THREADS": "1", "GRPC_VERBOSITY": "INFO", "LC_CTYPE": "C"}
    done = run(short, "--way", "folder", "--out", str(tmp_path), "--", "/usr/bin/env", **given)
    assert set(done.stdout.splitlines()) >= {f"{name}={value}" for name, value in given.items()}


def test_a_folder_that_is_named_counts_more_than_the_environments_daemon(tmp_path: Path, short: Path) -> None:
    words = ("--way", "folder", "--out", str(tmp_path), "--", "true")
    assert run(short, *words, SYMD_SERVER="unix:/nowhere").returncode == 0
    refused = run(short, "--server", "unix:/nowhere", *words)
    assert (refused.returncode, "cannot be used together" in refused.stderr) == (2, True)


def test_none_is_no_daemon(short: Path) -> None:
    words = ("--way", "folder", "--", "true")
    for done in (run(short, *words, SYMD_SERVER="none"), run(short, "--server", "none", *words)):
        assert (done.returncode, done.stderr) == (0, NOTHING_SEEN)


def test_a_simulated_product_is_in_the_programs_environment(tmp_path: Path, short: Path) -> None:
    words = ("--way", "folder", "--out", str(tmp_path), "--", "/usr/bin/env")
    given = {"PWD": "/here"}
    done = run(short, "--simulate", "pvc", *words, **given)
    assert set(done.stdout.splitlines()) >= {
        "ProductFamilyOverride=pvc",
        "HardwareInfoOverride=8x8x8",
        "NEOReadDebugKeys=1",
        "PWD=/here",
    }
    assert "ProductFamilyOverride" not in run(short, *words).stdout
    refused = run(short, "--simulate", "gfx90a", *words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "there is no product 'gfx90a' to simulate" in refused.stderr


def test_the_folder_stays_for_programs_that_outlive_the_run(tmp_path: Path, short: Path) -> None:
    (short / "go").mkdir()
    script = f"(while [ -e {short}/go ]; do sleep 0.05; done; ls $SYMD_CAPTURE > {short}/said; mv {short}/said {short}/seen) > /dev/null 2>&1 & exit 4"
    path = os.environ["PATH"]
    assert (
        run(short, "--way", "folder", "--out", str(tmp_path), "--", "/bin/sh", "-c", script, PATH=path).returncode == 4
    )
    (folder,) = short.glob("symd-run-*")
    another_run_later(tmp_path, short, folder)
    (short / "go").rmdir()
    deadline = time.monotonic() + 60
    while not (short / "seen").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "spool" in (short / "seen").read_text()
    while in_use(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    another_run_later(tmp_path, short, folder)
    assert not folder.exists()


def another_run_later(out: Path, short: Path, folder: Path) -> None:
    os.utime(folder, (time.time() - 3600,) * 2)
    assert run(short, "--way", "folder", "--out", str(out), "--", "/bin/true").returncode == 0


def test_a_program_without_children_leaves_no_folder(tmp_path: Path, short: Path) -> None:
    assert run(short, "--way", "folder", "--out", str(tmp_path), "--", "/bin/true").returncode == 0
    assert not list(short.glob("symd-run-*"))


def test_a_run_that_can_note_nothing_still_ends_as_its_program(tmp_path: Path, short: Path) -> None:
    """The run's folder cannot be written to while the program runs."""
    failing = "from symd.capture.run_folder import RunFolder\ndef note(*_): raise OSError(28, 'No space left on device')\nRunFolder.note = note\n"
    words = ["run", "--way", "folder", "--out", str(tmp_path), "--", "/bin/sh", "-c", "exit 6"]
    clean = {"PYTHONPATH": str(ROOT), "TMPDIR": str(short), "XDG_CACHE_HOME": str(short / "cache")}
    command = [sys.executable, "-c", failing + MAIN, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=300, check=False)
    assert done.returncode == 6
    assert "no space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("way", [["--way", "folder"], []], ids=["folder", "libraries"])
def test_a_program_runs_where_the_home_cannot_be_written(way: list[str], short: Path) -> None:
    if not way:
        require("cc")
    (short / "file").touch()
    nowhere = str(short / "file" / "home")
    done = run(short, *way, "--", "/bin/sh", "-c", "echo ran; exit 6", HOME=nowhere, XDG_CACHE_HOME=nowhere)
    assert (done.returncode, done.stdout) == (6, "ran\n")
    assert done.stderr == NOTHING_SEEN
    assert [path.name for path in short.iterdir()] == ["file"]


def test_a_folder_that_cannot_be_sent_still_lets_the_program_end_as_it_ends(short: Path) -> None:
    failing = (
        "from symd.cli.captures_destination import Destination\n"
        "def forwarder(_): raise OSError(28, 'No space left on device')\n"
        "Destination.forwarder = forwarder\n"
    )
    words = ["run", "--way", "folder", "--server", "unix:/nowhere", "--", "/bin/sh", "-c", "exit 6"]
    clean = {"PYTHONPATH": str(ROOT), "TMPDIR": str(short), "XDG_CACHE_HOME": str(short / "cache")}
    command = [sys.executable, "-c", failing + MAIN, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=300, check=False)
    assert done.returncode == 6
    assert "the daemon at unix:/nowhere gets nothing" in done.stderr


@pytest.mark.parametrize("quiet", [[], ["--quiet"]], ids=["told", "quiet"])
def test_an_address_where_no_daemon_answers_is_said_where_nothing_was_captured(quiet: list[str], short: Path) -> None:
    nobody = f"unix:{short}/nobody.sock"
    done = run(short, "--way", "folder", *quiet, "--server", nobody, "--", "/bin/sh", "-c", "exit 6")
    assert done.returncode == 6
    assert f"{nobody}: no daemon is running: no such socket (start one with `symd daemon start" in done.stderr
    assert "no module was built or loaded" in done.stderr


def test_a_daemon_that_answers_and_is_told_nothing_is_not_mentioned(server: str, short: Path) -> None:
    done = run(short, "--way", "folder", "--server", server, "--", "/bin/true")
    assert (done.returncode, done.stderr) == (0, NOTHING_SEEN)


def test_where_there_is_no_device_what_to_type_is_said_once(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = "import symd.cli.run as run\nrun._DEVICES = ('no/such/device',)\n"
    clean = {
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(short),
        "XDG_CACHE_HOME": str(short / "cache"),
        "PATH": os.environ["PATH"],
    }
    command = [sys.executable, "-c", without + MAIN, "run", "--way", "folder", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=300, check=False)
    assert done.stderr.endswith(
        "symd run --simulate dg2 gives the program Intel's drivers without one, and symd doctor says what is installed\n"
    )
    assert done.stderr.count("\n") == 1
