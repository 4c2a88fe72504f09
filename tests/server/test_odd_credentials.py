"""Paths of credentials that lead to no file: nothing waits for ever, and what is wrong is said."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from symd.errors import StoreUnavailable, SymdError
from symd.server import watched_files
from symd.server.access_file import Access, edit, read_access
from symd.server.watched_files import WatchedFiles
from symd.store import Store
from symd.system.messages import os_error_text
from symd.system.private_files import LARGEST, read_credentials
from tests.server.authority import Authority

SYMD = [sys.executable, "-m", "symd"]
SECONDS = 60


def symd(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real command, which fails its test where it hangs."""
    command = [*SYMD, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, env={**os.environ, **environment}
    )


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path, 0o600)
    return path


@pytest.mark.parametrize("option", ["--access", "--tls-cert", "--tls-key", "--tls-client-ca"])
def test_a_daemon_does_not_wait_for_a_fifo(tmp_path: Path, fifo: Path, option: str) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost")
    files = {"--tls-cert": certificate, "--tls-key": key, option: fifo}
    options = [word for each in files.items() for word in each]
    done = symd("serve", "--store", tmp_path / "store", "--address", "127.0.0.1:0", *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "not a regular file" in done.stderr
    assert str(fifo) in done.stderr


def test_what_was_read_before_stays_where_a_fifo_takes_the_file_s_place(tmp_path: Path) -> None:
    path = tmp_path / "access"
    path.write_text("host admin certificate\n")
    path.chmod(0o600)
    watched = WatchedFiles([path], lambda: read_access(path))
    path.unlink()
    os.mkfifo(path, 0o600)
    assert [line.name for line in watched.value().lines] == ["host"]


def refuse(number: int) -> Callable[..., None]:
    """What the system does while it has nothing free."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refused


def access_of(path: Path, name: str) -> None:
    path.write_text(f"{name} read certificate\n")
    path.chmod(0o600)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE])
def test_what_could_not_be_read_for_a_while_is_read_when_that_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    path = tmp_path / "access"
    access_of(path, "revoked")
    watched = WatchedFiles([path], lambda: read_access(path))
    access_of(path, "other")
    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR, "symd.server"):
        patched.setattr(watched_files, "read_credentials", refuse(number))
        for _ in range(3):
            assert [line.name for line in watched.value().lines] == ["revoked"]
    assert caplog.text.count(os_error_text(OSError(number, os.strerror(number)))) == 1, (
        "it is said once, however many calls ask"
    )
    assert [line.name for line in watched.value().lines] == ["other"]


def test_what_the_file_itself_says_wrong_is_read_once(tmp_path: Path) -> None:
    path, reads = tmp_path / "access", []
    access_of(path, "kept")

    def read() -> Access:
        reads.append(path)
        return read_access(path)

    watched = WatchedFiles([path], read)
    path.write_text("no line of such a file\n")
    for _ in range(3):
        assert [line.name for line in watched.value().lines] == ["kept"]
    assert len(reads) == 2


def test_an_access_file_whose_mode_is_mended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "access"
    access_of(path, "revoked")
    watched = WatchedFiles([path], lambda: read_access(path))
    path.write_text("other read certificate\n")
    path.chmod(0o644)
    assert [line.name for line in watched.value().lines] == ["revoked"]
    path.chmod(0o600)
    assert [line.name for line in watched.value().lines] == ["other"]


@pytest.mark.parametrize("arguments", [["ci"], ["--list"], ["ci", "--revoke"], ["ci", "--rotate"]], ids=" ".join)
@pytest.mark.parametrize("odd", ["fifo", "/dev/full"])
def test_a_token_s_access_file_is_a_file(tmp_path: Path, fifo: Path, arguments: list[str], odd: str) -> None:
    path = fifo if odd == "fifo" else Path(odd)
    done = symd("token", *arguments, "--access", path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "not a regular file" in done.stderr


@pytest.mark.parametrize("variable", ["SYMD_TOKEN_FILE", "SYMD_TLS_CA"])
def test_a_client_does_not_wait_for_a_fifo(fifo: Path, variable: str) -> None:
    done = symd("health", "--server", "tls:localhost:1", **{variable: str(fifo)})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "not a regular file" in done.stderr


def test_a_file_of_no_end_is_not_read_to_it(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.truncate(LARGEST)
    assert len(read_credentials(path)[0]) == LARGEST
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than 16 MiB"):
        read_credentials(path)


def test_a_link_to_nothing_makes_no_access_file(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(SymdError, match=r"a symbolic link to .*target, which is not there"):
        edit(link, lambda text: f"{text}a read certificate\n", create=True)
    assert not target.exists()


def test_a_start_says_what_it_waits_for_and_a_signal_ends_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    with (store / "catalogue.lock").open("w") as lock:
        os.fchmod(lock.fileno(), 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [*SYMD, "serve", "--store", str(store), "--address", f"unix:{tmp_path}/s"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert "catalogue.lock, which another process has locked; for 60 s at most" in process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            try:
                assert (process.wait(SECONDS), process.communicate()[0]) == (0, "")
            finally:
                process.kill()
    assert not (tmp_path / "s").exists()


def test_a_start_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.store.store.LOCK_SECONDS", 0.3)
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    with (store / "catalogue.lock").open("w") as lock:
        os.fchmod(lock.fileno(), 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match=r"another process has held the store's lock for 0\.3 s"):
            Store(store)
