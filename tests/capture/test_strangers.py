"""Another user of the machine beside a ``symd run`` that lasts: nothing leads to the run's folder, and what is handed in there is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.capture.folder_sink import events_of
from symd.model.captures import ModuleLoaded

ROOT = Path(__file__).parents[2]
NOBODY = 65534
by_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

PROGRAM = """
import os, socket, sys, time
from tests.capture.records_made import KEY, field, loaded
said, drop = sys.argv[1:]
folder, key = os.environ["SYMD_CAPTURE"], os.environ.get("SYMD_CAPTURE_KEY", "").encode()
own = open(said, "w")
if drop:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
connected = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connected.connect(folder + "/socket")
connected.send(loaded(b"own, sent", more=field(KEY, key), process=os.getpid(), handle=1))
with open(folder + "/spool/1.partial", "xb") as file:
    file.write(loaded(b"own, in a file", more=field(KEY, key), process=os.getpid(), handle=2))
os.rename(folder + "/spool/1.partial", folder + "/spool/1-1-1.record")
print(folder, file=own, flush=True)
sys.stdin.read()
"""
"""Hands two modules over as symd's libraries do, the second after it may have become another user, and waits for its input's end."""

STRANGER = """
import glob, json, os, socket, sys
from tests.capture.records_made import KEY, field, loaded
temporary, inner, key = sys.argv[1:]
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
done = {}
def attempt(name, what):
    try:
        done[name] = what()
    except OSError as error:
        done[name] = type(error).__name__
def hand_in(folder):
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connected.connect(folder + "/socket")
    connected.send(loaded(b"a stranger's", more=field(KEY, key.encode()) if key else b"", process=os.getpid(), handle=3))
    connected.settimeout(10)
    return "let go" if not connected.recv(1) else "answered"
def leave(folder):
    with open(folder + "/spool/2.partial", "xb") as file:
        file.write(loaded(b"a stranger's", process=os.getpid(), handle=4))
    os.rename(folder + "/spool/2.partial", folder + "/spool/2-1-1.record")
(outer,) = glob.glob(temporary + "/symd-run-*")
attempt("list", lambda: os.listdir(outer))
attempt("note", lambda: json.load(open(outer + "/run.json")))
found = outer + "/" + done["note"]["inner"] if isinstance(done["note"], dict) else ""
if found or inner:
    attempt("hand in", lambda: hand_in(found or inner))
    attempt("leave", lambda: leave(found or inner))
print(json.dumps(done))
"""
"""Becomes another user, looks for the folder of the run, and hands modules in there, or where it is told that the folder is."""


class Run:
    """``symd run`` of ``PROGRAM``, which has handed its own over and waits."""

    def __init__(self, place: Path, drop: str = "") -> None:
        self.place, self.out = place, place / "out"
        said = place / "said"
        words = ["--out", str(self.out), "--way", "folder", "--", sys.executable, "-c", PROGRAM, str(said), drop]
        clean = {"PYTHONPATH": str(ROOT), "TMPDIR": str(place), "XDG_CACHE_HOME": str(place / "cache")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from symd.cli.command_line import main; main()", "run", *words],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean,
        )
        while not said.exists() or not said.read_text().endswith("\n"):
            assert self.process.poll() is None, self.process.communicate()[1]
            time.sleep(0.02)
        self.inner = Path(said.read_text().strip())
        while not (self.inner.parent / "run.json").exists():
            time.sleep(0.02)

    def stranger(self, inner: str = "", key: str = "") -> dict[str, object]:
        command = [sys.executable, "-c", STRANGER, str(self.place), inner, key]
        environment = {"PYTHONPATH": str(ROOT)}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return dict(json.loads(ended.stdout))

    def end(self) -> tuple[list[bytes], str]:
        """The modules that are kept, and what was said."""
        _, said = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, said
        return sorted(event.data for event, _ in events_of(self.out) if isinstance(event, ModuleLoaded)), said


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for temporary files that other users may go through, as /tmp is."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o711 if os.geteuid() else 0o755)
        yield Path(folder)


@by_root
def test_a_stranger_finds_no_run(place: Path) -> None:
    run = Run(place)
    done = run.stranger()
    kept, said = run.end()
    assert done == {"list": "PermissionError", "note": "PermissionError"}
    assert kept == [b"own, in a file", b"own, sent"]
    assert "refused" not in said


@by_root
@pytest.mark.parametrize("drop", ["", "drop"], ids=["a program of root", "a program that became the stranger's user"])
@pytest.mark.parametrize("key", ["", "0" * 32], ids=["without a key", "with another key"])
def test_a_stranger_who_is_told_the_folder_is_refused(place: Path, drop: str, key: str) -> None:
    """The program's own records arrive, whoever it became."""
    run = Run(place, drop)
    done = run.stranger(str(run.inner), key)
    kept, said = run.end()
    assert (done["hand in"], done["leave"]) == ("let go", None)
    assert kept == [b"own, in a file", b"own, sent"]
    assert "2 messages refused, the first because: " in said
    assert f"user {NOBODY} does not have the run's key" in said
