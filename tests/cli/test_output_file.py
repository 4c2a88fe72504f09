"""A file that a verb writes is the new one or the old one, whatever happens on the way."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from symd.capture import folder_sink
from symd.errors import FailedPrecondition, InvalidInput, StoreUnavailable
from symd.system import atomic_output as output_file
from symd.system.atomic_output import output_folder, replacing, write_file
from tests.cli.conftest import ROOT, Run

AMD = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
CSV = ROOT / "samples" / "profiles" / "stalls.csv"
ZEBIN = ROOT / "samples" / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin"


NOBODY = 65534


def let_fail(monkeypatch: pytest.MonkeyPatch, folder: Path, step: str, error: BaseException) -> None:
    """One step of every write in the folder fails from now on."""
    place, name = (output_file, "_create") if step == "write" else (Path, step)
    real = getattr(place, name)

    def failing(path: Path, *arguments: object):
        if path.parent != folder:
            return real(path, *arguments)
        if step == "write":
            return FullStream(real(path, *arguments), error)
        raise error

    monkeypatch.setattr(place, name, failing)


class FullStream:
    """An open file that takes some bytes and then no more."""

    def __init__(self, stream, error: BaseException) -> None:
        self.stream, self.error = stream, error

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def fileno(self) -> int:
        return self.stream.fileno()

    def write(self, data: bytes) -> None:
        self.stream.write(data[: len(data) // 2])
        raise self.error


@pytest.mark.parametrize("step", ["write", "chmod", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "ctrl-c"])
def test_a_write_that_ends_early_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with monkeypatch.context() as patched:
        let_fail(patched, tmp_path, step, error)
        with pytest.raises(StoreUnavailable if isinstance(error, OSError) else KeyboardInterrupt) as raised:
            write_file(path, b"the first half and the second", hint="choose another")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    if isinstance(error, OSError):
        assert str(raised.value) == f"{path}: cannot write the file: no space left on device (choose another)"


def test_the_old_file_is_whole_until_the_new_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    seen: list[bytes] = []
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: (seen.append(path.read_bytes()), replace(self, to))[1])
    write_file(path, b"new", hint="")
    assert (seen, path.read_bytes()) == ([b"old"], b"new")


def test_permissions_of_an_old_file_stay_and_a_new_one_has_the_users(tmp_path: Path) -> None:
    old, new, usual = tmp_path / "old", tmp_path / "new", tmp_path / "usual"
    old.write_bytes(b"")
    old.chmod(0o604)
    usual.write_bytes(b"")
    for path in (old, new):
        write_file(path, b"x", hint="")
    assert old.stat().st_mode & 0o777 == 0o604
    assert new.stat().st_mode == usual.stat().st_mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")
@pytest.mark.parametrize(("theirs", "ours"), [(0o666, 0o644), (0o600, 0o600), (0o007, 0o604), (0o777, 0o644)])
def test_what_replaces_another_users_file_is_no_more_open_than_a_new_one(
    tmp_path: Path, theirs: int, ours: int
) -> None:
    before = os.umask(0o022)
    try:
        for write in (_write, _write_meanwhile):
            path = tmp_path / "out"
            path.write_bytes(b"theirs")
            path.chmod(theirs)
            os.chown(path, 1000, 1000)
            write(path)
            status = path.stat()
            assert (path.read_bytes(), status.st_uid, status.st_mode & 0o777) == (b"ours", 0, ours)
    finally:
        os.umask(before)


def _write(path: Path) -> None:
    write_file(path, b"ours", hint="")


def _write_meanwhile(path: Path) -> None:
    with replacing(path, hint="") as (temporary,):
        temporary.write_bytes(b"ours")


def test_nobody_else_reads_what_replaces_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, modes = tmp_path / "out", []
    path.write_bytes(b"old")
    path.chmod(0o600)
    chmod = Path.chmod
    monkeypatch.setattr(
        Path, "chmod", lambda self, mode: (modes.append(self.stat().st_mode & 0o777), chmod(self, mode))
    )
    write_file(path, b"secret", hint="")
    with replacing(path, hint="") as (temporary,):
        temporary.write_bytes(b"another")
    assert modes == [0o600, 0o600]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_is_followed_or_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", b"new", hint="")
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "real").read_bytes()) == (True, b"new")
    write_file(tmp_path / "link", b"newer", hint="", follow_links=False)
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "link").read_bytes()) == (False, b"newer")
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's link")
@pytest.mark.parametrize("beyond", ["", "below"], ids=["the file", "a folder on the way"])
def test_another_users_link_is_not_followed_where_everybody_may_write(tmp_path: Path, beyond: str) -> None:
    shared, mine = tmp_path / "shared", tmp_path / "mine"
    shared.mkdir()
    mine.mkdir()
    victim = mine / beyond / "victim" if beyond else mine / "victim"
    victim.parent.mkdir(exist_ok=True)
    victim.write_bytes(b"old")
    link = shared / "link"
    link.symlink_to(mine if beyond else victim)
    out = link / beyond / "victim" if beyond else link
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    shared.chmod(0o1777)
    with pytest.raises(FailedPrecondition, match="another user's symbolic link") as refused:
        write_file(out, b"new", hint="")
    assert refused.value.where == str(link)
    with pytest.raises(FailedPrecondition), replacing(out, hint=""):
        pass
    assert victim.read_bytes() == b"old"
    os.chown(link, 0, 0, follow_symlinks=False)
    write_file(out, b"new", hint="")
    assert victim.read_bytes() == b"new"
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    shared.chmod(0o755)
    write_file(out, b"newer", hint="")
    assert victim.read_bytes() == b"newer"


def test_links_that_lead_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(StoreUnavailable, match="too many levels"):
        write_file(tmp_path / "a", b"x", hint="")


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, b"data", hint="")
    reader.join(30)
    assert (read, pipe.is_fifo()) == ([b"data"], True)


def test_a_pipe_without_a_name_is_written_to(tmp_path: Path) -> None:
    """As /dev/stdout may be one."""
    link = tmp_path / "stdout"
    read, write = os.pipe()
    link.symlink_to(f"/proc/self/fd/{write}")
    try:
        write_file(link, b"data", hint="")
        assert os.read(read, 9) == b"data"
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's pipe")
def test_another_users_pipe_gets_nothing_where_everybody_may_write(tmp_path: Path) -> None:
    pipe = tmp_path / "out"
    os.mkfifo(pipe)
    os.chown(pipe, NOBODY, NOBODY)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        tmp_path.chmod(0o1777)
        with pytest.raises(FailedPrecondition, match="another user's pipe"):
            write_file(pipe, b"secret", hint="")
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
        tmp_path.chmod(0o755)
        write_file(pipe, b"data", hint="")
        assert os.read(reader, 9) == b"data"
    finally:
        os.close(reader)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's pipe")
def test_another_users_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "out"
    os.mkfifo(pipe)
    os.chown(pipe, NOBODY, NOBODY)
    tmp_path.chmod(0o1777)
    command = [sys.executable, "-m", "symd", "view", str(AMD), "-o", str(pipe)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert "another user's pipe" in ended.stderr


def test_a_link_that_is_put_in_the_place_of_a_folder_meanwhile_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the way and the making of the folder."""
    made = output_file.make_inside

    def exchanged(folder: Path) -> None:
        folder.symlink_to(tmp_path / "mine")
        made(folder)

    (tmp_path / "mine").mkdir()
    monkeypatch.setattr(output_file, "make_inside", exchanged)
    with pytest.raises(FailedPrecondition, match="put something there meanwhile"):
        output_folder(tmp_path / "out", hint="")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_a_folder_that_another_user_puts_in_the_place_of_a_new_one_is_not_written_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He may put a link in its place later."""
    made = output_file.make_inside

    def exchanged(folder: Path) -> None:
        folder.mkdir()
        os.chown(folder, NOBODY, NOBODY)
        made(folder)

    tmp_path.chmod(0o1777)
    monkeypatch.setattr(output_file, "make_inside", exchanged)
    with pytest.raises(FailedPrecondition, match="put something there meanwhile"):
        output_folder(tmp_path / "out", hint="")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's link")
def test_captures_are_not_kept_behind_a_link_that_is_put_in_their_folder_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = folder_sink.make_inside

    def exchanged(folder: Path) -> None:
        folder.symlink_to(tmp_path / "mine")
        os.chown(folder, NOBODY, NOBODY, follow_symlinks=False)
        made(folder)

    (tmp_path / "mine").mkdir()
    monkeypatch.setattr(folder_sink, "make_inside", exchanged)
    with pytest.raises(InvalidInput, match=f"user {NOBODY}'s"):
        folder_sink.own_folder(tmp_path / "modules")


@pytest.mark.parametrize("is_link", [True, False])
def test_a_file_that_is_put_in_the_place_of_a_pipe_meanwhile_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_link: bool
) -> None:
    """Whoever owns the pipe may exchange it for a link to a file that he may not write."""
    pipe, mine = tmp_path / "out", tmp_path / "mine"
    os.mkfifo(pipe)
    mine.write_bytes(b"precious")
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    real = os.open

    def exchanged(path: object, flags: int, *more: int, **others: int) -> int:
        if pipe.is_fifo():
            pipe.unlink()
            (pipe.symlink_to if is_link else pipe.hardlink_to)(mine)
        return real(path, flags, *more, **others)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(output_file.os, "open", exchanged)
    try:
        with pytest.raises(FailedPrecondition, match="put in its place"):
            write_file(pipe, b"data", hint="")
    finally:
        os.close(reader)
    assert mine.read_bytes() == b"precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's link")
@pytest.mark.parametrize("below", [".", "new/folder"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("extract", AMD),
        ("samples",),
        ("install-shim",),
        ("collect", "--once", AMD.parent, "--out"),
        ("serve", "--store"),
        ("run", "--out"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_folder_behind_another_users_link_is_not_written_in(
    run: Run, tmp_path: Path, arguments: tuple[object, ...], below: str
) -> None:
    shared, mine = tmp_path / "shared", tmp_path / "mine"
    shared.mkdir()
    mine.mkdir()
    (shared / "link").symlink_to(mine)
    os.chown(shared / "link", NOBODY, NOBODY, follow_symlinks=False)
    shared.chmod(0o1777)
    program = ("--", "true") if arguments[0] == "run" else ()
    outcome = run(*arguments, shared / "link" / below, *program)
    assert outcome.code in (2, 3)
    assert "another user's symbolic link" in outcome.err or "other users may put another folder" in outcome.err
    assert not list(mine.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        lambda out: ("profile", "-m", ZEBIN, CSV, out),
        lambda out: ("slim", AMD, out),
        lambda out: ("extract", "--force", AMD, out.parent),
    ],
    ids=["profile", "slim", "extract"],
)
def test_every_verb_leaves_the_old_file_when_it_cannot_write(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments
) -> None:
    out = tmp_path / "v4-gfx900.co.elf"
    out.write_bytes(b"old")
    let_fail(monkeypatch, tmp_path, "replace", OSError(28, "No space left on device"))
    outcome = run(*arguments(out))
    assert (outcome.code, outcome.err.count("\n")) == (3, 1)
    assert "cannot write the file: no space left on device" in outcome.err
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [(out.name, b"old")]


def test_several_files_are_replaced_together_or_not_at_all(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("old")
    first.chmod(0o640)

    def interrupted() -> None:
        with replacing(first, second, hint="x") as temporaries:
            for each in temporaries:
                each.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.name for path in tmp_path.iterdir()] == ["first"]
    assert first.read_text() == "old"
    with replacing(first, second, hint="x") as temporaries:
        for each in temporaries:
            each.write_text("new")
        assert first.read_text() == "old"
    assert (first.read_text(), second.read_text()) == ("new", "new")
    assert (first.stat().st_mode & 0o777, len(list(tmp_path.iterdir()))) == (0o640, 2)


def test_what_is_no_regular_file_is_not_replaced_and_links_are_followed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a regular file"), replacing(tmp_path, hint="x"):
        pass
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with replacing(link, hint="x") as (temporary,):
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    with pytest.raises(StoreUnavailable, match="cannot write the file"), replacing(tmp_path / "no" / "x", hint="x"):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("write", ["replacing(path, hint='')", "writer(path)"])
def test_a_signal_that_ends_the_process_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, number: signal.Signals, write: str
) -> None:
    """Nor does a process that was forked meanwhile take the file from its parent."""
    (tmp_path / "out").write_bytes(b"old")
    program = f"""
import os, pathlib, signal, sys, time
from contextlib import contextmanager
from symd.system.atomic_output import _replace, replacing
path = pathlib.Path({str(tmp_path / "out")!r})

def sleep():  # a signal just before a long one waits for its end
    while True:
        time.sleep(0.05)

def wait(*_):
    begun, told = os.pipe()
    child = os.fork()
    if not child:
        os.write(told, b"x")  # before, Python would forget the signal
        sleep()
    os.read(begun, 1)
    os.kill(child, {int(number)})
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(ended, len(os.listdir(path.parent)), flush=True)
    sleep()

@contextmanager
def writer(path):
    pathlib.Path.replace = wait
    yield _replace(path, b"new")

with {write}:
    wait()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{-number} 2\n"
        process.send_signal(number)
        assert process.wait(60) == -number
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("out", b"old")]


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is replacing the file at ``path``, and has written some of it."""
    program = f"""
import pathlib, time
from symd.system.atomic_output import replacing
with replacing(pathlib.Path({str(path)!r}), hint="") as (temporary,):
    temporary.write_text("half")
    print(temporary.name, flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def begun(process: subprocess.Popen[str]) -> str:
    """What it calls its temporary file."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_what_a_killed_process_left_goes_with_the_next_attempt(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with writer(path) as killed:
        left = tmp_path / begun(killed)
    assert left.read_text() == "half"
    with replacing(path, hint="") as (temporary,):
        assert not left.exists()
        temporary.write_text("new")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("out", "new")]


def test_what_killed_processes_left_goes_with_the_next_whole_write(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with writer(path) as killed:
        left = tmp_path / begun(killed)
    assert left.exists()
    write_file(path, b"new", hint="")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("out", "new")]


def test_what_another_process_writes_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    path, others = (
        tmp_path / "out",
        [".out.0123abcd", ".out.0123abcd.symd.bak", ".out2.0123abcd.symd", "out.0123abcd.symd"],
    )
    for name in others:
        (tmp_path / name).write_text("another's")
    (tmp_path / ".out.00000000.symd").mkdir()
    (tmp_path / ".out.11111111.symd").symlink_to(tmp_path / others[0])
    os.mkfifo(tmp_path / ".out.22222222.symd")
    before = set(tmp_path.iterdir())
    with writer(path) as alive:
        theirs = tmp_path / begun(alive)
        with replacing(path, hint="") as (temporary,):
            assert {*before, theirs, temporary} == set(tmp_path.iterdir())
        assert {*before, theirs, path} == set(tmp_path.iterdir())
        write_file(path, b"newer", hint="")
        assert theirs.read_text() == "half"


def test_a_folder_that_cannot_be_listed_can_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refused)
    with replacing(tmp_path / "out", hint="") as (temporary,):
        temporary.write_text("new")
    assert (tmp_path / "out").read_text() == "new"


def test_who_handles_the_signal_goes_on_doing_so(tmp_path: Path) -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        with replacing(tmp_path / "out", hint="") as (temporary,):
            os.kill(os.getpid(), signal.SIGTERM)
            assert temporary.exists()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert told == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def _shared_with_everybody(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's pipe")
def test_a_shim_does_not_wait_for_another_users_pipe(tmp_path: Path) -> None:
    shared = _shared_with_everybody(tmp_path / "shared")
    os.mkfifo(shared / "llvm-symbolizer")
    os.chown(shared / "llvm-symbolizer", NOBODY, NOBODY)
    command = [sys.executable, "-m", "symd", "install-shim", str(shared)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, "another program lies there" in ended.stderr) == (2, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's link")
def test_a_shim_is_not_looked_for_behind_another_users_link(run: Run, tmp_path: Path) -> None:
    shared = _shared_with_everybody(tmp_path / "shared")
    run("install-shim", tmp_path / "mine")
    link = shared / "llvm-symbolizer"
    link.symlink_to(tmp_path / "mine" / link.name)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    outcome = run("install-shim", shared)
    assert "another user's symbolic link" in outcome.err
    assert link.is_symlink()


def test_a_shim_is_written_where_no_link_leads(run: Run, tmp_path: Path) -> None:
    """Whoever knows the process's number could put a link under the name of the file that becomes the shim."""
    folder, precious = tmp_path / "shims", tmp_path / "precious"
    folder.mkdir()
    precious.write_text("mine")
    (folder / f".llvm-symbolizer.{os.getpid()}").symlink_to(precious)
    assert run("install-shim", folder).code == 0
    assert precious.read_text() == "mine"
    assert (folder / "llvm-symbolizer").stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's link")
@pytest.mark.parametrize("name", ["modules", "sources"])
@pytest.mark.parametrize("is_link", [True, False])
def test_captures_are_not_written_in_what_another_user_put_into_their_folder(
    run: Run, tmp_path: Path, name: str, is_link: bool
) -> None:
    shared, mine = _shared_with_everybody(tmp_path / "shared"), tmp_path / "mine"
    mine.mkdir()
    if is_link:
        (shared / name).symlink_to(mine)
    else:
        (shared / name).mkdir()
    os.chown(shared / name, NOBODY, NOBODY, follow_symlinks=False)
    outcome = run("run", "--debug-lines", "--out", shared, "--", "true")
    assert outcome.code in (2, 3)
    assert ("another user's symbolic link" if is_link else "another user's folder") in outcome.err


def test_a_file_that_its_maker_did_not_lock_first_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may read the temporary file may hold its lock, for ever."""
    held: list[int] = []

    def opened(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        descriptor = opening(path, flags, mode, dir_fd=dir_fd)
        if not held and str(path).endswith(".symd"):
            held.append(opening(path, os.O_RDONLY))
            fcntl.flock(held[0], fcntl.LOCK_SH)
        return descriptor

    opening = os.open
    monkeypatch.setattr(os, "open", opened)
    write_file(tmp_path / "out", b"data", hint="")
    os.close(held.pop())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_bytes() == b"data"
