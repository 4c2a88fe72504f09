"""Requests that never end, connections that say nothing, answers that nobody takes: each is ended by name, and a neighbour is answered meanwhile."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import time
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

import symd.server.http.app
from symd.engine.engine import Engine
from symd.errors import LimitExceeded
from symd.model.answers import Answer, Frame, Reason
from symd.model.identities import ObjectPath
from symd.model.names import NamedItem, NameKind
from symd.server import messages
from symd.server.config import Config
from symd.server.http import exchange
from symd.server.http.app import HEAD_BYTES
from symd.server.http.page import MAX_NAMES, MAX_PAGE_NAMES_TEXT
from symd.server.http.symbolication import VALUES, parsed
from symd.server.http_server import web_served
from symd.server.metrics import Metrics
from symd.server.server import build_daemon
from symd.store import Store
from tests.server.fakes import DIGEST, GOOD, FakeEngine
from tests.server.fixed_bounds import bounded
from tests.server.http.daemon import SAMPLES
from tests.server.test_operations import told

OBJECT = SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co"
PATIENCE = 60


class Served:
    """A daemon's page, and the daemon."""

    def __init__(self, url, daemon):
        parts = urlsplit(url)
        self.host, self.port, self.path, self.daemon = parts.hostname, parts.port, parts.path, daemon

    def asked(self, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            connection.request("GET" if body is None else "POST", self.path + path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def connected(self, text="", receive_buffer=None):
        connection = socket.socket()
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(PATIENCE)
        connection.connect((self.host, self.port))
        connection.sendall(text.encode())
        return connection

    def post(self, path, size, **how):
        """A connection on which a request has begun whose body has ``size`` bytes."""
        head = f"POST {self.path}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
        return self.connected(head, **how)


@contextmanager
def served(tmp_path, engine=None, metrics=None, **limits):
    if engine is None:
        engine = FakeEngine()
        engine.add(GOOD)
    with bounded(**limits) as limits:
        config = Config(store=tmp_path, http="127.0.0.1:0", limits=limits, grace=0.2)
        daemon = build_daemon(engine, config)
        try:
            with web_served(daemon, config, metrics) as page:
                yield Served(page.url, daemon)
        finally:
            daemon.stop(0.2)


def everything(connection):
    """What comes until the other end closes."""
    found = b""
    try:
        while piece := connection.recv(1 << 16):
            found += piece
    except ConnectionResetError:
        pass
    return found


def refused(connection):
    """Status and error of the answer that comes."""
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, json.loads(answer.read())["error"]


def eventually(holds):
    until = time.monotonic() + PATIENCE
    while not (found := holds()) and time.monotonic() < until:
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("size", [15_000, 300_000])
def test_a_head_is_bounded(tmp_path, size):
    with served(tmp_path) as page:
        head = f"GET {page.path}api/modules HTTP/1.1\r\nHost: localhost\r\nX-Long: {'x' * size}\r\nConnection: close\r\n\r\n"
        with page.connected(head) as connection, connection.makefile("rb") as answer:
            assert answer.readline().split()[1] == (b"200" if size < HEAD_BYTES else b"400")
        assert page.asked("api/modules")[0] == 200


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("said", ["", "GET / HT"])
def test_a_connection_without_a_whole_head_is_closed(tmp_path, monkeypatch, said, answered):
    monkeypatch.setattr(symd.server.http.app, "SILENT_SECONDS", 1)
    with served(tmp_path) as page, page.connected() as connection:
        if answered:
            connection.sendall(f"GET {page.path}api/about HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            assert answer.status == 200
            answer.read()
        connection.sendall(said.encode())
        assert everything(connection) == b""
        assert page.asked("api/about")[0] == 200


def test_connections_beyond_the_bound_are_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(symd.server.http.app, "CONNECTIONS", 3)
    with served(tmp_path) as page:
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(page.connected("GET / HT"))
            with page.connected() as another:
                assert everything(another) == b""
        assert eventually(lambda: answers(page))


def answers(page):
    try:
        return page.asked("api/about")[0] == 200
    except ConnectionError:
        return False


def test_what_is_no_body_behind_an_answer_is_no_defect(tmp_path, caplog):
    with served(tmp_path) as page:
        head = "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        with page.connected(f"{head}1\r\nx\r\n") as connection:
            assert refused(connection)[0] == 401
            connection.sendall(b"-1\r\n")
            assert everything(connection) == b""
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path):
    with served(tmp_path, message_seconds=0.3) as page, page.post("symbolicate/v5", 1000) as connection:
        status, error = refused(connection)
        assert (status, error["reason"], error["metadata"]) == (504, "DEADLINE_EXCEEDED", {"limit": "message_seconds"})


def test_bodies_that_are_not_whole_count_as_held(tmp_path):
    with served(tmp_path, client_bytes_in_flight=1 << 20) as page, page.post("symbolicate/v5", 8 << 20) as first:
        first.sendall(b" " * (900 << 10))
        assert eventually(lambda: page.daemon.flight.total > 800 << 10)
        with page.post("symbolicate/v5", 8 << 20) as second:
            second.sendall(b" " * (900 << 10))
            status, error = refused(second)
        assert (status, error["metadata"]["limit"]) == (429, "client_bytes_in_flight")
        first.close()
        assert eventually(lambda: page.daemon.flight.total == 0)


def test_a_client_that_leaves_is_no_defect(tmp_path, caplog):
    with served(tmp_path) as page, caplog.at_level(logging.INFO, "symd.requests"):
        with page.post("symbolicate/v5", 100) as connection:
            connection.sendall(b"[")
        assert eventually(lambda: [each for each in caplog.records if each.name == "symd.requests"])
    assert [each.facts["outcome"] for each in caplog.records if each.name == "symd.requests"] == ["CANCELLED"]
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """An engine, a request of symbols, and the bytes of its answer, more than the sockets of both ends hold."""
    with Engine(Store(tmp_path_factory.mktemp("large") / "store")) as engine:
        digest = engine.add(OBJECT.read_bytes()).sha256
        body = json.dumps({"memoryMap": [["x", digest]], "stacks": [[[0, 0x1978]] * 100_000]}).encode()
        with served(tmp_path_factory.mktemp("page"), engine) as page:
            yield engine, body, len(page.asked("symbolicate/v5", body)[1])


def test_answers_that_nobody_takes_count_as_held(tmp_path, large):
    engine, body, size = large
    with served(tmp_path, engine, client_bytes_in_flight=size * 3 // 2) as page:
        with page.post("symbolicate/v5", len(body), receive_buffer=4096) as connection:
            connection.sendall(body)
            assert eventually(lambda: page.daemon.flight.total >= size)
            status, answer = page.asked("symbolicate/v5", body)
            assert (status, json.loads(answer)["error"]["metadata"]["limit"]) == (429, "client_bytes_in_flight")
            assert page.asked("api/about")[0] == 200
        assert eventually(lambda: page.daemon.flight.total == 0)
        assert page.asked("symbolicate/v5", body)[0] == 200


def test_who_takes_nothing_of_an_answer_is_left(tmp_path, large, monkeypatch):
    monkeypatch.setattr(messages, "WRITE_SECONDS", 0.5)
    monkeypatch.setattr(exchange, "SLOWEST", 1 << 40)
    engine, body, size = large
    with (
        served(tmp_path, engine) as page,
        page.post("symbolicate/v5", len(body), receive_buffer=4096) as connection,
    ):
        flight, held = page.daemon.flight, [0]
        add = flight._add
        monkeypatch.setattr(flight, "_add", lambda *more: (add(*more), held.append(flight.total)))
        connection.sendall(body)
        assert eventually(lambda: max(held) >= size)  # for half a second, which may pass between two looks
        assert eventually(lambda: flight.total == 0)
        assert len(everything(connection)) < size


def test_an_answer_of_symbols_is_written_up_to_a_limit(tmp_path):
    with Engine(Store(tmp_path / "store")) as engine:
        digest = engine.add(OBJECT.read_bytes()).sha256
        body = json.dumps({"memoryMap": [["x", digest]], "stacks": [[[0, 0x1978]] * 1000]}).encode()
        with served(tmp_path, engine, response_bytes=100_000) as page:
            status, answer = page.asked("symbolicate/v5", body)
        assert (status, json.loads(answer)["error"]["metadata"]["limit"]) == (429, "response_bytes")
        with served(tmp_path, engine) as page:
            assert page.asked("symbolicate/v5", body)[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"stacks": [' + b"[]," * (VALUES // 2) + b"[]]}",
        b"[" * (VALUES + 1),
        b"{" + b",".join(b'"%x":{}' % number for number in range(VALUES // 3 + 1)) + b"}",
    ],
)
def test_so_many_values_are_not_read(body):
    with pytest.raises(LimitExceeded) as caught:
        parsed(body)
    assert caught.value.metadata == {"limit": "values", "value": str(VALUES)}
    assert parsed(b"[" + b"[0,1]," * (VALUES // 4) + b"0]")[-1] == 0


def test_stacks_without_frames_are_bounded_too(tmp_path):
    with served(tmp_path) as page:
        status, body = page.asked("symbolicate/v5", b'{"memoryMap": [], "stacks": [' + b"[]," * (1 << 18) + b"[]]}")
        error = json.loads(body)["error"]
        assert (status, error["reason"], error["metadata"]["limit"]) == (429, "LIMIT_EXCEEDED", "addresses")


def test_no_log_has_the_secret_part(tmp_path, caplog):
    with served(tmp_path) as page, caplog.at_level(logging.INFO):
        secret = page.path.strip("/")
        host = "Host: localhost\r\n\r\n"
        for target in (
            page.path,
            page.path[:-1],
            f"{page.path[:-1]}x/api",
            f"//x{page.path}",
            f"http://localhost{page.path}",
        ):
            with page.connected(f"GET {target} HTTP/1.0\r\n{host}") as connection:
                everything(connection)
        page.asked("api/modules", b"too much")
        assert eventually(lambda: len([each for each in caplog.records if each.name == "symd.requests"]) == 6)
    assert not [each for each in caplog.records if secret in each.getMessage()]


def test_a_refused_stranger_has_no_second_guess_on_a_connection(tmp_path):
    with served(tmp_path) as page, page.connected("GET /x/ HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5) as connection:
        assert everything(connection).count(b"HTTP/1.1 401") == 1


def test_requests_are_counted_by_route_and_status(tmp_path):
    metrics, one = Metrics(), ("route", "GET /api/modules/{digest}")
    with served(tmp_path, metrics=metrics, client_bytes_in_flight=1 << 16) as page:
        sent = sum(len(page.asked(f"api/modules/{DIGEST}")[1]) for _ in range(2))
        assert page.asked(f"api/modules/{'0' * 64}")[0] == 404
        assert page.asked("nothing")[0] == 404
        assert page.asked("symbolicate/v5", b" " * (1 << 18))[0] == 429
        page.path = "/"
        assert page.asked("api/about")[0] == 401
        with page.connected("GET / HT"):
            assert eventually(lambda: told(metrics.page())["symd_http_connections",] == 1)
        assert eventually(lambda: told(metrics.page())["symd_http_connections",] == 0)
    samples = told(metrics.page())
    assert samples["symd_http_requests_total", one, ("status", "200")] == 2
    assert samples["symd_http_requests_total", one, ("status", "404")] == 1
    assert samples["symd_http_requests_total", ("route", ""), ("status", "404")] == 1
    assert samples["symd_http_requests_total", ("route", ""), ("status", "401")] == 1
    assert samples["symd_http_request_seconds_count", one] == 3
    assert samples["symd_http_sent_bytes_total", one] > sent
    assert samples["symd_http_received_bytes_total", ("route", "POST /symbolicate/v5")] > 1 << 16
    limit = ("limit", "client_bytes_in_flight"), ("reason", "BUSY")
    assert samples["symd_http_refusals_total", *limit] == 1
    assert samples["symd_http_refusals_total", ("limit", ""), ("reason", "UNAUTHENTICATED")] == 1
    assert samples["symd_http_refusals_total", ("limit", ""), ("reason", "UNKNOWN_MODULE")] == 1
    assert DIGEST not in metrics.page().decode()


@pytest.mark.parametrize("name", ["n" * (1 << 20), "\u4e00" * ((1 << 20) // 3 + 1)], ids=["ascii", "three bytes"])
def test_frames_of_long_names_are_not_written(tmp_path, name):
    engine = FakeEngine()
    engine.add(GOOD)
    frame = Frame(name, None, "f", 1, 0, False)
    engine.symbolize_one = lambda *_, **__: Answer(Reason.EXACT, frames=(frame,) * 97)
    with served(tmp_path, engine) as page:
        status, body = page.asked(f"api/modules/{DIGEST}/place?query=0x150")
    assert (status, json.loads(body)["error"]["metadata"]["limit"]) == (429, "response_bytes")


@pytest.mark.parametrize(
    ("path", "count"),
    [("p", MAX_NAMES), ("p" * (MAX_PAGE_NAMES_TEXT // 4), 4), ("\u4e00" * (MAX_PAGE_NAMES_TEXT // 12), 4)],
)
def test_names_end_where_their_texts_are_long(tmp_path, path, count):
    """Each has its code object's path, which is as long as whoever made the module liked."""
    item = NamedItem(NameKind.FUNCTION, "f", ObjectPath(path), "_Z1fv", ".text", 1, 0, 0, 8)
    engine = FakeEngine()
    engine.add(GOOD)
    engine.names = lambda *_, **__: [item] * (MAX_NAMES + 1)
    with served(tmp_path, engine) as page:
        status, body = page.asked(f"api/modules/{DIGEST}/names?pattern=*")
    answer = json.loads(body)
    assert (status, len(answer["names"]), answer["more"]) == (200, count, True)
