"""Paths of credentials that lead to no file: nothing waits for ever, and what is wrong is said."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from symd.credential_file import LARGEST, read_credentials
from symd.errors import SymdError
from symd.service.access_editing import edit
from symd.service.access_file import read_access
from symd.service.watched_files import WatchedFiles
from tests.service.authority import Authority

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
    assert "no regular file" in done.stderr
    assert str(fifo) in done.stderr


def test_what_was_read_before_stays_where_a_fifo_takes_the_file_s_place(tmp_path: Path) -> None:
    path = tmp_path / "access"
    path.write_text("host admin certificate\n")
    path.chmod(0o600)
    watched = WatchedFiles([path], lambda: read_access(path))
    path.unlink()
    os.mkfifo(path, 0o600)
    assert [line.name for line in watched.value().lines] == ["host"]


@pytest.mark.parametrize("arguments", [["ci"], ["--list"], ["ci", "--revoke"], ["ci", "--rotate"]], ids=" ".join)
@pytest.mark.parametrize("odd", ["fifo", "/dev/full"])
def test_a_token_s_access_file_is_a_file(tmp_path: Path, fifo: Path, arguments: list[str], odd: str) -> None:
    path = fifo if odd == "fifo" else Path(odd)
    done = symd("token", *arguments, "--access", path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "no regular file" in done.stderr


@pytest.mark.parametrize("variable", ["SYMD_TOKEN_FILE", "SYMD_TLS_CA"])
def test_a_client_does_not_wait_for_a_fifo(fifo: Path, variable: str) -> None:
    done = symd("health", "--server", "tls:localhost:1", **{variable: str(fifo)})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "no regular file" in done.stderr


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


def test_a_start_does_not_wait_for_ever(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    with (store / "catalogue.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = symd("serve", "--store", store, "--address", f"unix:{tmp_path}/s", "--limit", "lock_seconds=300ms")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "another process has held the store's lock for 0.3 s" in done.stderr
    assert "--limit lock_seconds=" in done.stderr
