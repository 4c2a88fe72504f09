"""Requests of symbols that name much: each name is looked up once, within a time, and while somebody waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time

import pytest
from starlette.requests import ClientDisconnect

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import LimitExceeded
from symd.formats.debug_ids import ModuleNames, debug_id
from symd.model.cancellation import check_cancelled
from symd.server.http.exchange import _answer_while_connected
from symd.server.http.site import CostClass, WebRoute
from symd.server.waiting import with_question_limit
from symd.server.work_queues import Work
from symd.store import Store
from tests.query.test_listing import every_eight
from tests.server.http.daemon import SAMPLES
from tests.server.http.test_bounds import PATIENCE, eventually, refused, served

VADD = SAMPLES / "kernels" / "bin" / "vadd" / "igc2-dg2-opt.zebin"


class Counting(Engine):
    """An engine that counts its walks and searches. Where ``held`` is set a walk says that it has begun, and waits for ``go_on``."""

    def __init__(self, store):
        super().__init__(store)
        self.walks = self.searches = self.columns = 0
        self.held, self.walking, self.go_on = threading.Event(), threading.Event(), threading.Event()

    def modules(self, *arguments, **named):
        self.walks += 1
        if self.held.is_set():
            self.walking.set()
            assert self.go_on.wait(PATIENCE)
        return super().modules(*arguments, **named)

    def names(self, *arguments, **named):
        self.searches += 1
        return super().names(*arguments, **named)

    def symbolize_column(self, *arguments, **named):
        self.columns += 1
        return super().symbolize_column(*arguments, **named)


@pytest.fixture
def engine(tmp_path):
    with Counting(Store(tmp_path / "store")) as engine:
        yield engine


def request_of(identities, offset=0x110):
    """A request that asks for one place of each."""
    stack = [[number, offset] for number in range(len(identities))]
    return {"memoryMap": [[f"m{number}", each] for number, each in enumerate(identities)], "stacks": [stack]}


def test_many_digests_are_looked_for_in_one_walk(tmp_path, engine):
    engine.add(VADD.read_bytes())
    job = request_of([f"{number:064x}" for number in range(100)])
    with served(tmp_path, engine) as page:
        assert page.asked("symbolicate/v5", json.dumps({"jobs": [job] * 3}).encode())[0] == 200
    assert engine.walks == 1


def test_a_module_that_is_named_often_is_looked_at_once(tmp_path, engine):
    digest = engine.add(VADD.read_bytes()).sha256
    identities = [digest, digest.upper(), debug_id(digest), f"{debug_id(digest)}1", *[digest] * 20]
    with served(tmp_path, engine) as page:
        jobs = [request_of(identities), request_of(identities, 0x120)]
        status, answer = page.asked("symbolicate/v5", json.dumps({"jobs": jobs}).encode())
    assert status == 200
    for number, result in enumerate(json.loads(answer)["results"]):
        [frames] = result["stacks"]
        assert {(each["function"], each["function_offset"]) for each in frames} == {("vadd", hex(0x110 + 16 * number))}
        assert set(result["found_modules"].values()) == {True}
    assert (engine.searches, engine.columns) == (1, 1)


def test_several_names_at_once_mean_what_each_means(engine):
    digest = engine.add(VADD.read_bytes()).sha256
    names = ModuleNames(engine)
    asked = [digest, digest.upper(), debug_id(digest), "0" * 64, "0" * 33, "no id", "x" * 64]
    assert names.of_debug_ids(asked) == {each: names.of_debug_id(each) for each in asked[:5]}


def test_a_request_takes_no_longer_than_a_question(tmp_path, engine):
    engine.add(VADD.read_bytes())
    body = json.dumps(request_of(["0" * 64])).encode()
    with served(tmp_path, engine, question_seconds=0.0) as page:
        status, answer = page.asked("symbolicate/v5", body)
    assert (status, json.loads(answer)["error"]["metadata"]) == (429, {"limit": "question_seconds", "value": "0"})


def test_the_time_of_a_question_is_over_at_some_time():
    with_question_limit(Limits(), check_cancelled)()
    with pytest.raises(LimitExceeded, match="longer than 0 seconds"):
        with_question_limit(Limits(question_seconds=0.0), check_cancelled)()


@contextlib.contextmanager
def walking(page, engine):
    """A connection on which a request of symbols runs that does not go on yet."""
    digest = engine.add(VADD.read_bytes()).sha256
    engine.held.set()
    body = json.dumps(request_of([digest])).encode()
    with page.post("symbolicate/v5", len(body)) as connection:
        connection.sendall(body)
        assert engine.walking.wait(PATIENCE)
        yield connection


def test_a_request_is_given_up_when_its_client_leaves(tmp_path, engine, caplog):
    caplog.set_level("INFO", "symd.requests")
    with served(tmp_path, engine) as page:
        with walking(page, engine):
            pass
        assert eventually(lambda: [each for each in caplog.records if each.name == "symd.requests"])
        engine.go_on.set()
        assert page.asked("symbolicate/v5", json.dumps(request_of(["0" * 64])).encode())[0] == 200
    assert [each.facts["outcome"] for each in caplog.records if each.name == "symd.requests"] == ["CANCELLED", "OK"]
    assert engine.columns == 0


def test_who_waits_when_the_daemon_stops_is_told_so(tmp_path, engine, monkeypatch):
    monkeypatch.setattr("symd.server.http.app.GRACE_SECONDS", 1)
    with contextlib.ExitStack() as stack:
        stack.callback(engine.go_on.set)
        with served(tmp_path, engine) as page:
            waiting = stack.enter_context(walking(page, engine))
        status, error = refused(waiting)
    assert (status, error["reason"]) == (503, "UNAVAILABLE")


class Held:
    """In place of disassemblers: says that it has begun, and asks whether somebody waits once it may go on, again and again where the client
    ``leaves``, which the server hears in a moment."""

    def __init__(self, leaves):
        self.leaves = leaves
        self.begun, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, codes, kernel, limits):
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        try:
            check_cancelled()
            until = time.monotonic() + PATIENCE
            while self.leaves and time.monotonic() < until:
                time.sleep(0.01)
                check_cancelled()
        except ClientDisconnect:
            self.ended.set()
            raise
        return every_eight(codes, kernel, limits)


@pytest.mark.parametrize("path", ["asm/v1", "api/modules/{digest}/listing"])
@pytest.mark.parametrize("leaves", [True, False])
def test_a_listing_is_given_up_when_its_client_leaves(tmp_path, path, leaves):
    held = Held(leaves)
    with Engine(Store(tmp_path / "store"), disassemble=held) as engine:
        digest = engine.add(VADD.read_bytes()).sha256
        wanted = {"codeId": digest, "startAddress": "0x110", "size": "0x10"}
        body = json.dumps(wanted).encode() if path == "asm/v1" else b""
        with served(tmp_path, engine, question_seconds=0.05 if path != "asm/v1" else 30.0) as page:
            verb = "POST" if body else "GET"
            head = f"{verb} {page.path}{path.format(digest=digest)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            with page.connected(head) as connection:
                connection.sendall(body)
                assert held.begun.wait(PATIENCE)
                if not leaves:
                    held.go_on.set()
                    assert connection.recv(1 << 10).startswith(b"HTTP/1.1 200")
            if leaves:
                assert eventually(lambda: not page.daemon.work_queues[Work.BATCH].waiting)
                held.go_on.set()
                assert held.ended.wait(PATIENCE)
    assert held.ended.is_set() is leaves


class Asking:
    """A request whose client leaves when it is told to."""

    def __init__(self):
        self.leave = asyncio.Event()

    async def receive(self):
        await self.leave.wait()
        return {"type": "http.disconnect"}


@pytest.mark.parametrize("effort", [CostClass.QUESTION, CostClass.UPLOAD])
def test_a_client_that_has_left_is_not_told_that_the_daemon_stops(effort):
    async def ended(leaves):
        request, begun = Asking(), asyncio.Event()

        async def answer(_):
            begun.set()
            await asyncio.Event().wait()

        route = WebRoute("/", lambda *_: None, effort=effort)
        asking = asyncio.create_task(_answer_while_connected(request, route, answer))
        await begun.wait()
        if leaves:
            request.leave.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        asking.cancel()  # as the server does that stops
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([asking])
        return asking

    assert isinstance(asyncio.run(ended(True)).exception(), ClientDisconnect)
    assert asyncio.run(ended(False)).cancelled()
