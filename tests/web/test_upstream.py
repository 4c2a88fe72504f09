"""symd as a client of debuginfod: the real server, and servers that do what none should."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import BadQuery, InvalidInput, LimitExceeded, ServerUnavailable
from symd.upstream import Upstream
from tests.web.daemon import PATIENCE, ROOT, web_daemon
from tests.web.real_debuginfod import found, linked, served_by_debuginfod

ID = "ab" * 20


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The URL of a real server, the file that it serves, and its build ID."""
    folder = tmp_path_factory.mktemp("real")
    (folder / "served").mkdir()
    file, name = linked(folder / "served")
    with served_by_debuginfod(folder / "served", name) as url:
        yield url, file, name


def symd(*words: object, **variables: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "symd", *map(str, words)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False, env=environment)


def test_a_module_comes_from_the_real_server(real, tmp_path: Path) -> None:
    url, file, name = real
    out = tmp_path / "fetched.co"
    done = symd("fetch", "--debuginfod", url, name, "-o", out)
    assert (done.returncode, done.stderr, out.read_bytes()) == (0, b"", file.read_bytes())
    done = symd("fetch", "--debuginfod-urls", name.upper(), "-o", "-", DEBUGINFOD_URLS=f"http://127.0.0.1:9 {url}")
    assert done.stdout == file.read_bytes()
    assert symd("fetch", "--debuginfod", url, "--debuginfo", name, "-o", "-").stdout == file.read_bytes()
    done = symd("fetch", "--debuginfod", url, "00" * 20, "-o", out)
    assert (done.returncode, b"no server has it" in done.stderr) == (1, True)


def test_nobody_is_asked_who_was_not_named(real) -> None:
    done = symd("fetch", real[2], "-o", "-", DEBUGINFOD_URLS=real[0])
    assert (done.returncode, b"name a server" in done.stderr, done.stdout) == (2, True, b"")


def test_a_daemon_brings_what_it_lacks_and_keeps_it(real, tmp_path: Path) -> None:
    url, file, name = real
    with web_daemon(tmp_path, "--debuginfod", url) as web:
        assert found(tmp_path, web.url, "executable", name) == file.read_bytes()
        listed = web.json("asm/v1", {"codeId": name, "startAddress": "0x1940", "size": "0x8"})
        assert len(listed["instructions"]) == 2
        assert web.ask(f"buildid/{'00' * 20}/executable")[0] == 404
        done = symd("fetch", "--debuginfod", url, name, "--server", web.address)
        assert done.stdout.startswith(b"modules/")
    (tmp_path / "cache").mkdir(exist_ok=True)
    shutil.rmtree(tmp_path / "cache")
    with web_daemon(tmp_path) as web:  # of the same store, without servers
        assert found(tmp_path, web.url, "executable", name) == file.read_bytes()


Answering = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextmanager
def server(answer: Answering):
    """A server that answers every request in this way, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer(self)

        def log_message(self, *words: object) -> None:
            """Into no log."""

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = False  # each is waited for when the server is closed
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}", asked
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def status(code: int, body: bytes = b"", **headers: str) -> Answering:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in {"content_length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def test_more_than_the_limit_is_not_taken() -> None:
    limits = Limits(module_size=1 << 20, source_size=1000)
    with server(status(200, b"x" * ((1 << 20) + 1))) as (url, _), pytest.raises(LimitExceeded):
        Upstream([url], limits).executable(ID)
    with server(status(200, b"x" * 1001)) as (url, _), pytest.raises(LimitExceeded):
        Upstream([url], limits).source(ID, "/a.c")


def test_a_server_leads_to_no_file_of_this_machine(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for target in (f"file://{secret}", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"):
        with server(status(302, location=target)) as (url, _), pytest.raises(ServerUnavailable):
            Upstream([url], Limits()).executable(ID)


def test_a_server_that_stops_in_the_middle_or_fails_is_not_believed_and_the_next_is_asked() -> None:
    for bad in (status(200, b"half", content_length="100"), status(500, b"oops"), status(302, location="/again")):
        with server(bad) as (url, asked), server(status(200, b"whole")) as (good, _):
            with pytest.raises(ServerUnavailable):
                Upstream([url], Limits()).executable(ID)
            assert Upstream([url, good], Limits()).executable(ID) == b"whole"
            assert asked[0] == f"/buildid/{ID}/executable"


def test_what_one_lacks_the_next_may_have() -> None:
    with server(status(404)) as (url, asked), server(status(200, b"text")) as (good, _):
        assert Upstream([url, f"{good}/"], Limits()).source(ID, "/a b/c?d#e%.c") == b"text"
        assert asked == [f"/buildid/{ID}/source/a%20b/c%3Fd%23e%25.c"]
        assert Upstream([url], Limits()).debuginfo(ID) is None


def test_who_sends_for_ever_is_left() -> None:
    """However fast: the time that one file may take is over at some point, or the bytes are too many."""

    def for_ever(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):  # the client has gone
            while True:
                handler.wfile.write(b"x")

    with server(for_ever) as (url, _), pytest.raises(ServerUnavailable, match="too slowly"):
        Upstream([url], Limits(module_size=1 << 40), seconds=0.5).executable(ID)


def test_an_id_or_a_path_leads_nowhere_else() -> None:
    with server(status(200, b"x")) as (url, asked):
        for wrong in ("../../secret", "ab/../..", "", "xyz", "ab?", "a" * 129):
            with pytest.raises(BadQuery):
                Upstream([url], Limits()).executable(wrong)
        with pytest.raises(BadQuery):
            Upstream([url], Limits()).source(ID, "relative.c")
        assert asked == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "example.org", "http://", "http://a/?x=1", "http://a b", "ftp://a"]
)
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        Upstream([url], Limits())
