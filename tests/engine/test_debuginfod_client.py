"""symd as a client of debuginfod: the real server, and servers that do what none should."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.debuginfod_client import DebuginfodServers
from symd.errors import BadQuery, InvalidInput, LimitExceeded, ServerUnavailable
from tests.hostile.bombs import noise
from tests.server.http.daemon import PATIENCE, ROOT, SAMPLES, web_daemon
from tests.server.http.real_debuginfod import found, linked, served_by_debuginfod

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
        DebuginfodServers([url], limits).executable(ID)
    with server(status(200, b"x" * 1001)) as (url, _), pytest.raises(LimitExceeded):
        DebuginfodServers([url], limits).source(ID, "/a.c")


def test_a_server_leads_to_no_file_of_this_machine(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for target in (f"file://{secret}", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"):
        with server(status(302, location=target)) as (url, _), pytest.raises(ServerUnavailable):
            DebuginfodServers([url], Limits()).executable(ID)


def test_a_server_that_stops_in_the_middle_or_fails_is_not_believed_and_the_next_is_asked() -> None:
    for bad in (status(200, b"half", content_length="100"), status(500, b"oops"), status(302, location="/again")):
        with server(bad) as (url, asked), server(status(200, b"whole")) as (good, _):
            with pytest.raises(ServerUnavailable):
                DebuginfodServers([url], Limits()).executable(ID)
            assert DebuginfodServers([url, good], Limits()).executable(ID) == b"whole"
            assert asked[0] == f"/buildid/{ID}/executable"


def test_what_one_lacks_the_next_may_have() -> None:
    with server(status(404)) as (url, asked), server(status(200, b"text")) as (good, _):
        assert DebuginfodServers([url, f"{good}/"], Limits()).source(ID, "/a b/c?d#e%.c") == b"text"
        assert asked == [f"/buildid/{ID}/source/a%20b/c%3Fd%23e%25.c"]
        assert DebuginfodServers([url], Limits()).debuginfo(ID) is None


def test_who_sends_for_ever_is_left() -> None:
    """However fast: the time that one file may take is over at some point, or the bytes are too many."""

    def for_ever(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):  # the client has gone
            while True:
                handler.wfile.write(b"x")

    with server(for_ever) as (url, _), pytest.raises(ServerUnavailable, match="too slowly"):
        DebuginfodServers([url], Limits(module_size=1 << 40), seconds=0.5).executable(ID)


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nx: ",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
)
def test_who_sends_a_byte_now_and_then_is_left(sent: bytes) -> None:
    """In the head, in the body and in the size of a chunk: no single byte is late."""

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        with suppress(OSError):
            handler.wfile.write(sent)
            for _ in range(600):
                handler.wfile.write(b"1")
                time.sleep(0.1)

    begun = time.monotonic()
    with server(answer) as (url, _), pytest.raises(ServerUnavailable, match="too slowly"):
        DebuginfodServers([url], Limits(), seconds=1).executable(ID)
    assert time.monotonic() - begun < PATIENCE / 4


def test_a_server_leads_to_itself_alone(tmp_path: Path) -> None:
    with server(status(200, b"of this machine")) as (inside, reached):
        port = inside.rpartition(":")[2]
        for target in (
            f"{inside}/admin",
            f"http://localhost:{port}/admin",
            f"http://127.0.0.1:{port}@localhost/",
            "http://127.0.0.1:1x/",
        ):
            with server(status(302, location=target)) as (url, _), pytest.raises(ServerUnavailable):
                DebuginfodServers([url], Limits()).executable(ID)
        assert reached == []

    def once(handler: http.server.BaseHTTPRequestHandler) -> None:
        moved = handler.path.endswith("/moved")
        (status(200, b"whole") if moved else status(302, location=f"{handler.path}/moved"))(handler)

    with server(once) as (url, asked):
        assert DebuginfodServers([url], Limits()).executable(ID) == b"whole"
        assert len(asked) == 2


def test_what_a_server_sends_with_its_way_to_itself_is_not_read() -> None:
    """It would be in memory, as much as comes in the time for a file."""
    left = []

    def moved(handler: http.server.BaseHTTPRequestHandler) -> None:
        if handler.path.endswith("/moved"):
            return status(200, b"whole")(handler)
        handler.send_response(302)
        handler.send_header("location", f"{handler.path}/moved")
        handler.end_headers()
        try:
            for _ in range(256):
                handler.wfile.write(bytes(1 << 20))
        except OSError:  # the client has gone
            left.append(handler.path)

    with server(moved) as (url, asked):
        assert DebuginfodServers([url], Limits()).executable(ID) == b"whole"
    assert (len(asked), len(left)) == (2, 1)


def test_what_is_announced_as_too_large_is_not_begun() -> None:
    with server(status(200, b"x", content_length=str(1 << 40))) as (url, _), pytest.raises(LimitExceeded):
        DebuginfodServers([url], Limits()).executable(ID)


def test_a_file_of_another_build_id_is_not_believed(real, tmp_path: Path) -> None:
    _, file, name = real
    with server(status(200, file.read_bytes())) as (url, asked), web_daemon(tmp_path, "--debuginfod", url) as web:
        assert web.ask(f"buildid/{'00' * 20}/executable")[0] == 404
        assert web.ask(f"buildid/{'00' * 20}/executable")[0] == 404
        assert len(asked) == 1
        done = symd("fetch", "--debuginfod", url, "00" * 20, "--server", web.address)
        assert (done.returncode, b"another build ID" in done.stderr) == (2, True), done.stderr
        assert found(tmp_path, web.url, "executable", name) == file.read_bytes()


@pytest.mark.parametrize("what", ["executable", "debuginfo"])
def test_a_file_of_another_build_id_is_not_written(real, tmp_path: Path, what: str) -> None:
    """A code object, and a program that symd can read nothing of."""
    out, more = tmp_path / "out", ["--debuginfo"] * (what == "debuginfo")
    for file in (real[1].read_bytes(), Path("/usr/bin/env").read_bytes()):
        with server(status(200, file)) as (url, _):
            done = symd("fetch", "--debuginfod", url, *more, "00" * 20, "-o", out)
            assert (done.returncode, b"another build ID" in done.stderr, out.exists()) == (2, True, False), done.stderr
            own = re.search(rb"another build ID, ([0-9a-f]+)", done.stderr)
            assert own is not None
            assert symd("fetch", "--debuginfod", url, *more, own[1].decode(), "-o", out).returncode == 0
            assert out.read_bytes() == file
            out.unlink()
            digest = hashlib.sha256(file).hexdigest()
            assert symd("fetch", "--debuginfod", url, *more, digest, "-o", out).returncode == 0
            out.unlink()


def test_what_is_no_module_and_no_program_is_not_written(tmp_path: Path) -> None:
    """It carries no other build ID, and not this one either; who asks by its digest gets it."""
    data, out = b"no build ID at all", tmp_path / "out"
    with server(status(200, data)) as (url, _):
        done = symd("fetch", "--debuginfod", url, "00" * 20, "-o", out)
        assert (done.returncode, b"neither a module nor" in done.stderr, out.exists()) == (2, True, False), done.stderr
        assert symd("fetch", "--debuginfod", url, hashlib.sha256(data).hexdigest(), "-o", out).returncode == 0


def test_a_code_object_without_a_build_id_is_written(tmp_path: Path) -> None:
    """A server may have been told its name, as symd's own is."""
    file, out = (SAMPLES / "cuda" / "bin" / "reduce.sm_90.debug.cubin").read_bytes(), tmp_path / "out"
    with server(status(200, file)) as (url, _):
        assert symd("fetch", "--debuginfod", url, "00" * 20, "-o", out).returncode == 0
    assert out.read_bytes() == file


def test_a_small_file_that_expands_for_ever_is_read_within_limits(tmp_path: Path) -> None:
    """By a process that is held to them, not by the command's own."""
    bomb, out = gzip.compress(noise(3_300_000) + bytes(300 << 20)), tmp_path / "out"
    with server(status(200, bomb)) as (url, _):
        done = symd("fetch", "--debuginfod", url, "00" * 20, "-o", out, "--limit", "build_memory=256M")
    assert (done.returncode, out.exists()) == (2, False), done.stderr
    assert b"more than 268435456 bytes of memory" in done.stderr


@pytest.mark.parametrize("told", ["9" * 5000, "-5", "\xb2", "0x10", "1 2"])
def test_a_size_that_is_no_number_is_a_server_that_fails_and_the_next_is_asked(told: str) -> None:
    with server(status(200, b"x" * 100, content_length=told)) as (url, _), server(status(200, b"whole")) as (good, _):
        with pytest.raises(ServerUnavailable, match="not a number of bytes"):
            DebuginfodServers([url], Limits()).executable(ID)
        assert DebuginfodServers([url, good], Limits()).executable(ID) == b"whole"


def test_what_a_server_says_is_repeated_in_printable_characters() -> None:
    """A status line that would give the terminal commands."""

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"\x1b]0;owned\x07\x9b31m" + b"x" * 5000 + b"\r\n\r\n")

    with server(answer) as (url, _), pytest.raises(ServerUnavailable, match=r"\\x1b\]0;owned\\x07\\x9b31m") as caught:
        DebuginfodServers([url], Limits()).executable(ID)
    assert str(caught.value).isprintable()
    assert len(caught.value.message) < 1000


def test_servers_that_are_slow_hold_up_nobody_else(tmp_path: Path) -> None:
    def for_ever(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):  # the client has gone
            while not done.wait(0.5):
                handler.wfile.write(b"x" * (1 << 20))

    done = threading.Event()
    with server(for_ever) as (url, asked), web_daemon(tmp_path, "--debuginfod", url) as web:
        [digest] = web.add(SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co")
        asking = [
            threading.Thread(target=web.ask, args=(f"buildid/{number:040x}/executable",)) for number in range(1, 9)
        ]
        for each in asking:
            each.start()
        try:
            until = time.monotonic() + PATIENCE
            while len(asked) < 4 and time.monotonic() < until:
                time.sleep(0.05)
            for path in (f"api/modules/{digest}/names?pattern=*", f"buildid/{digest}/executable"):
                assert web.ask(path)[0] == 200
            assert len(asked) == 4  # `fetches` at a time, while the others wait
        finally:
            done.set()
            for each in asking:
                each.join()


def test_an_id_or_a_path_leads_nowhere_else() -> None:
    with server(status(200, b"x")) as (url, asked):
        for wrong in ("../../secret", "ab/../..", "", "xyz", "ab?", "a" * 129):
            with pytest.raises(BadQuery):
                DebuginfodServers([url], Limits()).executable(wrong)
        with pytest.raises(BadQuery):
            DebuginfodServers([url], Limits()).source(ID, "relative.c")
        assert asked == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        *((url, "it lacks") for url in ("file:///etc/passwd", "example.org", "http://", "http://a/?x=1", "ftp://a")),
        ("http://a b", "it lacks"),
        ("http://[::1", "server: invalid IPv6 URL"),
        ("http://a:99999", "server: port out of range"),
        ("http://a:b", "server: port could not be cast"),
        ("http://a..b", "its host is not a name"),
        ("http://user:secret@a", "symd sends no password"),
        ("http://a/\N{LATIN SMALL LETTER A WITH DIAERESIS}", "%XX"),
    ],
)
def test_what_is_no_url_of_a_server_is_refused(url: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        DebuginfodServers([url], Limits())


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"garbage\r\n\r\n", "it does not answer in HTTP: garbage"),
        (b"HTTP/9.9 200 OK\r\n\r\n", "it does not answer in HTTP: HTTP/9.9"),
        (b"", "it ended the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc", "it stopped in the middle of the file"),
    ],
)
def test_what_is_no_answer_is_told_in_words(sent: bytes, said: str) -> None:
    with server(lambda handler: handler.wfile.write(sent)) as (url, _), pytest.raises(ServerUnavailable, match=said):
        DebuginfodServers([url], Limits()).executable(ID)


def test_why_a_server_cannot_be_asked_is_told_in_the_system_s_words() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and nobody listens
        upstream = DebuginfodServers([f"http://127.0.0.1:{nobody.getsockname()[1]}"], Limits())
        with pytest.raises(ServerUnavailable, match="it cannot be asked: connection refused"):
            upstream.executable(ID)
