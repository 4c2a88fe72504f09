"""What symd makes for itself: open to nobody else whatever the umask says, and an error that says what to set where no folder for it can
be written."""

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from symd.capture.run_folder import make_run_folder
from symd.config import Limits
from symd.errors import StoreUnavailable, ToolFailed
from symd.store.store import Store
from symd.system.private_files import (
    bind_socket,
    child_folder,
    make_folder,
    new_file,
    new_folder,
    open_private,
    open_to_write,
    sweep,
    temp_dir,
)
from symd.system.process.process import ProcessLimits
from symd.system.process.run import run_tool
from tests.tools import require

SAID = "no folder for temporary files can be written (set TMPDIR to a folder that you may write in, such as /dev/shm)"
LIMITS = ProcessLimits(60.0, 1 << 32, 1 << 20)


def _run() -> object:
    return run_tool(["/bin/true"], LIMITS)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", refuse)


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("asked", [temp_dir, lambda: Store.temporary(Limits()), make_run_folder, _run])
def test_what_needs_one_says_what_to_set(asked: Callable[[], object]) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        asked()
    assert str(caught.value) == SAID


@pytest.mark.usefixtures("nowhere")
def test_a_daemon_s_recovery_finds_nothing_left_there() -> None:
    assert sweep() == 0


def test_a_tool_for_which_its_folder_has_no_room_is_an_error_of_that_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(ToolFailed) as caught:
        _run()
    assert str(caught.value) == "true: it cannot be started: no space left on device"


@pytest.fixture(params=[0, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.usefixtures("umask")
def test_modes_hold_whatever_the_umask_says(tmp_path: Path) -> None:
    os.close(new_file(tmp_path / "new"))
    os.close(open_private(tmp_path / "opened", os.O_RDWR))
    open_to_write(tmp_path / "written").close()
    make_folder(tmp_path / "one" / "two" / "three", parents=True)
    made = new_folder("made-", tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        bind_socket(listener, tmp_path / "socket")
        assert {mode(tmp_path / name) for name in ("new", "opened", "written", "socket")} == {0o600}
    folders = [tmp_path / name for name in ("one", "one/two", "one/two/three")]
    assert {mode(folder) for folder in (*folders, made)} == {0o700}


def test_a_socket_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even between its making and its change of mode."""
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    before = os.umask(0)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            bind_socket(listener, tmp_path / "socket")
    finally:
        os.umask(before)
    assert mode(tmp_path / "socket") == 0o600


def test_a_file_that_others_could_open_is_private_from_now_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"left")
    (tmp_path / "file").chmod(0o666)
    os.close(open_private(tmp_path / "file", os.O_RDWR))
    assert (mode(tmp_path / "file"), (tmp_path / "file").read_bytes()) == (0o600, b"left")


def test_nothing_is_made_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for make in (new_file, open_to_write, lambda path: open_private(path, os.O_RDWR)):
        with pytest.raises(OSError, match="link"):
            make(tmp_path / "link")
    assert not (tmp_path / "target").exists()


ROOT = Path(__file__).parents[2]
MODULE = ROOT / "samples" / "amdgpu" / "bin" / "split-19-dwarf5-whole.co"
USERS = ["another user than root", "root"] if os.geteuid() == 0 else ["this user"]
PROGRAM = """
import os, signal, sys
from symd.capture.injected.symd_capture import FOUND, Handover, Told
handover = Handover(os.environ["SYMD_CAPTURE"], os.environ["SYMD_CAPTURE_KEY"])
handover.tell(Told(FOUND, 0, "sent", "", "kernel", b"sent" * 1000))
if sys.argv[1:]:
    handover._send = lambda record: False
    os.kill(os.getppid(), signal.SIGSTOP)
    threads = f"/proc/{os.getppid()}/task"
    while any(open(f"{threads}/{each}/stat").read().rpartition(")")[2].split()[0] != "T" for each in os.listdir(threads)):
        pass
    handover.tell(Told(FOUND, 0, "written", "", "kernel", b"written" * 1000))
print("ready", flush=True)
sys.stdin.read()
"""
"""Hands a module over, and where it has an argument another one as a file, which stays there because the run is stopped, and waits for its input's end."""


class Machine:
    """Temporary, home and cache folders of a user, whose umask is 000, and what others could open of what is made there at any moment."""

    def __init__(self, place: Path, user: str) -> None:
        self.place = place
        self.folders = [place / name for name in ("temporary", "home", "cache", "runtime")]
        self._words: list[str] = []
        for folder in self.folders:
            folder.mkdir(mode=0o700)
        self.is_root = user == "root"
        if user == "another user than root":  # which may read root's interpreter
            keeps = ("--inh-caps", "-all,+dac_read_search", "--ambient-caps", "-all,+dac_read_search")
            self._words = [require("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", *keeps]
            for folder in (place, *self.folders):
                os.chown(folder, 65534, 65534)
        temporary, home, cache, runtime = map(str, self.folders)
        self._environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TMPDIR": temporary, "HOME": home}
        self._environment |= {"XDG_CACHE_HOME": cache, "XDG_RUNTIME_DIR": runtime}
        self.seen: set[tuple[str, int]] = set()
        self.made: set[str] = set()

    def start(self, *words: str, **streams: int) -> subprocess.Popen[str]:
        command = [*self._words, sys.executable, "-m", "symd", *words]
        return subprocess.Popen(
            command,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
            umask=0,
            cwd="/",
            **streams,
        )

    def run(self, *words: str) -> str:
        with self.looked_at():
            process = self.start(*words)
            said, _ = process.communicate("", timeout=120)
        assert process.returncode == 0, words
        return said

    def look(self) -> None:
        for folder in self.folders:
            for path in folder.rglob("*"):
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    name = str(path.relative_to(self.place))
                    self.made.add(name)
                    if status.st_mode & 0o077:
                        self.seen.add((name, stat.S_IMODE(status.st_mode)))

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """What is there meanwhile, too."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(0.01):
                with suppress(OSError):  # a folder went
                    self.look()

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield
        finally:
            ended.set()
            looking.join()
            self.look()

    @contextmanager
    def lasting(self, *words: str, ready: str) -> Iterator[subprocess.Popen[str]]:
        """A command that says when it is ready."""
        process = self.start(*words)
        try:
            with self.looked_at():
                assert process.stdout is not None
                line = process.stdout.readline()
            assert ready in line
            yield process
            self.look()
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


@pytest.fixture(params=USERS)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        made = Machine(Path(folder), request.param)
        yield made
        assert {each for each in made.seen if not (made.is_root and is_for_roots_program(each[0]))} == set()


def is_for_roots_program(name: str) -> bool:
    """What ``symd run`` of root leaves open, for its program may become any user: nothing of it can be listed, and its names are secret."""
    outer, _, inner = name.removeprefix("temporary/").partition("/")
    return outer.startswith("symd-run-") and inner != "run.json"


def test_a_run(machine: Machine) -> None:
    require("cc")
    words = ("run", "--server", "none", "--", sys.executable, "-c", PROGRAM)
    with machine.lasting(*words, "written", ready="ready") as process:
        machine.look()
        process.send_signal(signal.SIGCONT)
        process.communicate("")
    assert process.returncode == 0
    made = " ".join(machine.made)
    for wanted in ("/run.json", "/spool/", "/socket", "/opencl_layer.so", "/captures.jsonl", "/modules/"):
        assert wanted in made, wanted
    machine.run("run", "--way", "folder", "--debug-lines", "--", "/bin/true")


def test_a_daemon_and_who_asks_it(machine: Machine) -> None:
    metrics = f"unix:{machine.folders[3]}/symd/metrics"
    with machine.lasting("serve", "--metrics", metrics, ready="serves") as daemon:
        machine.run("info", "--server", "default", str(MODULE))
        machine.run("listing", "--server", "default", str(MODULE), "--function", "shade")
        with machine.lasting("run", "--way", "folder", "--", sys.executable, "-c", PROGRAM, ready="ready") as run:
            run.communicate("")
        assert daemon.poll() is None
    made = " ".join(machine.made)
    for wanted in ("/symd.sock", "/metrics", "/catalogue", "/modules/", "/index", "-wal", "/captures.jsonl"):
        assert wanted in made, wanted


def test_what_is_shown_collected_and_looked_for(machine: Machine) -> None:
    with machine.lasting("view", "--no-browser", str(MODULE), ready="http"):
        pass
    machine.run("listing", str(MODULE), "--function", "shade")
    machine.run("collect", "--once", "--caches", "--out", str(machine.place / "collected"))
    machine.run("doctor")
    with machine.lasting("view", "--no-browser", str(MODULE), ready="http") as view:
        machine.run("attach", str(view.pid), "--out", str(machine.place / "attached"))
    assert machine.made


@pytest.mark.parametrize(
    ("owner", "mode", "is_used"),
    [
        (os.geteuid(), 0o700, True),
        (os.geteuid(), 0o1777, True),
        (os.geteuid(), 0o777, False),
        pytest.param(
            65534, 0o700, False, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
        ),
    ],
)
def test_nothing_is_made_where_another_user_may_put_a_link_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, mode: int, is_used: bool
) -> None:
    """Such as the TMPDIR of the user from whom root got it: what is removed at the end would be what the link leads to."""
    place = tmp_path / "tmp"
    place.mkdir()
    place.chmod(mode)
    os.chown(place, owner, -1)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with child_folder("tool") as folder:
        assert (folder.parent == place) is is_used
