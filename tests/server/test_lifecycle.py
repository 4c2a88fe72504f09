"""The daemon as a process: its socket, who gets it, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from symd.client import Client
from symd.config import Limits, default_socket
from symd.errors import InvalidInput
from symd.server.config import Config
from symd.server.lifecycle import READY, notify, watchdog_notified
from symd.server.listening import listening, locked_folder, socket_path
from symd.server.server import build_daemon
from symd.v1 import query_pb2 as q
from symd.v1 import symbol_service_pb2 as s
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.server.fakes import DIGEST, FakeEngine

NAME = f"modules/{DIGEST}"
LONG = 120.0
"""Seconds, against hanging."""
BATCH = s.SymbolizeRequest(module=NAME, queries=[q.Query(address=0x150)])


def start(address, grace="5", **how):
    command = [sys.executable, "-m", "tests.server.daemon", address, grace]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)


@contextmanager
def daemon(address, grace="5", **how):
    process = start(address, grace, **how)
    try:
        bound = process.stdout.readline().strip()
        assert bound, process.stderr.read()
        yield process, bound
    finally:
        process.kill()
        process.communicate()


def refused(address):
    """(exit code, stderr) of a daemon that cannot start."""
    with start(address) as process:
        try:
            out, err = process.communicate(timeout=LONG)
        finally:
            process.kill()
    assert out == ""
    assert "Traceback" not in err
    return process.returncode, err


def answers(address):
    with grpc.insecure_channel(address) as channel:
        answer = SymbolServiceStub(channel).Symbolize(BATCH, timeout=LONG, wait_for_ready=True).answers[0]
    return [frame.function for frame in answer.frames] == ["helper", "vadd"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "symd.sock"


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o022])
def test_only_its_owner_may_use_the_socket_and_its_folder(path, mask):
    with daemon(f"unix:{path}", umask=mask) as (process, address):
        assert address == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert answers(address)
        process.terminate()
        assert process.wait(LONG) == 0
        assert not path.exists()


def test_a_second_daemon_on_the_same_socket_is_refused_and_the_first_goes_on(path):
    with daemon(f"unix:{path}") as (_, address):
        code, error = refused(f"unix:{path}")
        assert code == 3
        assert "another daemon answers there (ask that one, stop it" in error
        assert str(path) in error
        assert answers(address)


def test_of_daemons_that_start_at_once_one_wins(path):
    processes = [start(f"unix:{path}") for _ in range(4)]
    try:
        deadline = time.monotonic() + LONG
        while sum(process.poll() is None for process in processes) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        alive = [process for process in processes if process.poll() is None]
        assert len(alive) == 1
        assert all(process.returncode == 3 for process in processes if process not in alive)
        assert answers(f"unix:{path}")
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_socket_that_a_killed_daemon_left_is_replaced(path):
    with daemon(f"unix:{path}") as (process, _):
        process.kill()
        process.wait()
        assert path.exists()
    with daemon(f"unix:{path}") as (_, address):
        assert answers(address)


def test_a_file_that_is_no_socket_is_left_alone(path):
    path.parent.mkdir()
    path.write_text("precious")
    code, error = refused(f"unix:{path}")
    assert code == 3
    assert "not a socket" in error
    assert path.read_text() == "precious"


def test_a_link_to_a_live_socket_is_not_followed(path):
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as mine:
        mine.bind(str(path.parent / "other"))
        path.symlink_to(path.parent / "other")
        assert refused(f"unix:{path}")[0] == 3
        assert path.is_symlink()


def test_somebody_elses_socket_is_not_removed_at_the_end(path):
    with daemon(f"unix:{path}") as (process, _):
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as theirs:
            theirs.bind(str(path))
            process.terminate()
            assert process.wait(LONG) == 0
            assert path.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well_while_a_stream_is_open(path, number):
    with daemon(f"unix:{path}", "0.5") as (process, address), grpc.insecure_channel(address) as channel:
        over = threading.Event()

        def batches():
            yield s.SymbolizeStreamRequest(id=1, request=BATCH)
            over.wait()  # longer than the daemon is waited for

        stream = SymbolServiceStub(channel).SymbolizeStream(batches())
        assert next(stream).id == 1
        process.send_signal(number)
        with pytest.raises(grpc.RpcError) as caught:
            next(stream)
        assert caught.value.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
        assert process.wait(LONG) == 0
        over.set()
        assert "Traceback" not in process.stderr.read()
        assert not path.exists()


def test_a_call_that_ends_at_the_moment_when_its_loop_does_is_no_error():
    """gRPC's own task for the call is about to go on then, and would print a traceback where it is cancelled."""
    code = """
import asyncio, threading
import grpc
from symd.server.listening import GrpcServer

entered = threading.Event()

async def handle(request, context):
    entered.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        server._ended.set()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        raise

class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(handle)

server = GrpcServer(Handler(), [])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
call = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary("/some/method").future(b"")
entered.wait()
try:
    server.stop(0, 60)
except BaseException:
    pass  # it ended before it was told to
print(call.code().name)
"""
    for turns in range(5):
        command = [sys.executable, "-c", code.replace("TURNS", str(turns))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=True)
        assert (done.stdout, "Traceback" in done.stderr) == ("UNAVAILABLE\n", False)


def test_a_daemon_that_has_nothing_to_read_again_outlives_a_sighup(path):
    """Service managers send it for "reload"; only in a terminal does it say that nobody is there any more."""
    with daemon(f"unix:{path}", stdin=subprocess.DEVNULL) as (process, address):
        process.send_signal(signal.SIGHUP)
        assert answers(address)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 0


def test_a_signal_ends_it_whichever_thread_gets_it(path):
    """The system chooses a thread; the one that waits for the signal may be another."""
    code = (
        "import signal, sys, threading\n"
        "from tests.server import daemon\n"
        "from symd.server import lifecycle\n"
        "def end():\n"
        "    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)\n"
        "def announced(address, listen, ready):\n"
        "    threading.Timer(0.5, end).start()\n"
        "lifecycle._announce = announced\n"
        f"raise SystemExit(daemon.main('unix:{path}'))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=LONG, check=False).returncode == 0


def test_a_stream_that_goes_on_is_told_that_the_daemon_stops(path):
    """The client writes once after the daemon began to stop. One that writes on may find the connection closed: gRPC then tells it of its
    write that failed, and not what the daemon said last, which has come by then."""
    with daemon(f"unix:{path}", "5") as (process, address), grpc.insecure_channel(address) as channel:
        is_stopping, is_over = threading.Event(), threading.Event()

        def batches():
            for number in range(5):
                if number == 4:
                    is_stopping.wait()
                yield s.SymbolizeStreamRequest(id=number, request=BATCH)
            is_over.wait()

        health = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=""))
        assert next(health).status == health_pb2.HealthCheckResponse.SERVING
        stream = SymbolServiceStub(channel).SymbolizeStream(batches())
        got = [next(stream).id for _ in range(4)]
        process.terminate()
        assert next(health).status == health_pb2.HealthCheckResponse.NOT_SERVING
        is_stopping.set()
        with pytest.raises(grpc.RpcError) as caught:
            got.extend(response.id for response in stream)
        is_over.set()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "stopping" in caught.value.details()
        assert got in ([0, 1, 2, 3, 4], [0, 1, 2, 3]), (
            "the daemon may look whether it stops before it waits for the fifth"
        )
        assert process.wait(LONG) == 0


def test_health_says_not_serving_before_the_end(path):
    with daemon(f"unix:{path}", "1") as (process, address), grpc.insecure_channel(address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=""))
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        process.terminate()
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert process.wait(LONG) == 0


def test_tcp_is_served_when_asked():
    with daemon("127.0.0.1:0") as (process, address):
        assert address.startswith("127.0.0.1:")
        assert not address.endswith(":0")
        assert answers(address)
        code, error = refused(address)
        assert code == 3
        assert "cannot listen there: address already in use" in error
        assert "cannot assign requested address" in refused("192.0.2.1:0")[1], "an address that no machine has"
        assert "there is no such host: " in refused("host.invalid:0")[1]
        process.terminate()
        assert process.wait(LONG) == 0


def test_several_addresses_are_served_at_once(path):
    other = path.with_name("other.sock")
    with daemon(f"unix:{path},127.0.0.1:0,unix:{other}", umask=0) as (process, first):
        tcp, last = (process.stdout.readline().strip() for _ in range(2))
        assert (first, last) == (f"unix:{path}", f"unix:{other}")
        assert tcp.startswith("127.0.0.1:")
        assert all(answers(address) for address in (first, tcp, last))
        assert {stat.S_IMODE(each.stat().st_mode) for each in (path, other)} == {0o600}
        process.terminate()
        assert process.wait(LONG) == 0
        assert not path.exists()
        assert not other.exists()


def test_one_address_that_is_taken_refuses_the_whole_start_and_leaves_nothing(path):
    other = path.with_name("other.sock")
    with daemon(f"unix:{path}") as (_, address):
        code, error = refused(f"unix:{other},unix:{path}")
        assert code == 3
        assert "another daemon answers there" in error
        assert not other.exists()
        assert answers(address)


def test_an_address_given_twice_is_served_once(path):
    with daemon(f"unix:{path},unix:{path}") as (process, address):
        assert answers(address)
        process.terminate()
        assert process.wait(LONG) == 0
        assert process.stdout.read() == ""


@pytest.mark.parametrize(
    "address",
    ["", "unix:", "50051", "localhost:", ":50051", "localhost:99999", "x:y", "unix:/" + "a" * 107, f"x:{'9' * 5000}"],
    ids=lambda text: text[:20],
)
def test_what_is_no_address_is_refused(address):
    code, error = refused(address)
    assert code == 2
    assert error.startswith("INVALID_INPUT")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_an_outside_failure(tmp_path):
    tmp_path.chmod(0o500)
    assert refused(f"unix:{tmp_path}/a/b")[0] == 3


def test_a_folder_that_is_a_file_is_an_outside_failure(tmp_path):
    (tmp_path / "file").write_text("")
    code, error = refused(f"unix:{tmp_path}/file/s")
    assert code == 3
    assert "cannot use the folder" in error
    assert re.search(r"may write in: --address unix:/\S+/s\)$", error.strip())


def test_a_mistyped_folder_is_not_made_from_its_beginning(tmp_path):
    code, error = refused(f"unix:{tmp_path}/no/such/s")
    assert code == 3
    assert f"the folder above it, which symd does not make, is not there: mkdir -p {tmp_path}/no, or choose" in error
    assert not list(tmp_path.iterdir())


def test_the_folder_of_the_default_socket_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"{tmp_path}/run/user")
    with locked_folder(default_socket().parent, "elsewhere"):
        assert (tmp_path / "run" / "user" / "symd").is_dir()


@pytest.mark.parametrize(
    ("address", "path"), [("unix:/a/b", "/a/b"), ("unix:///a/b", "/a/b"), ("unix:a", str(Path.cwd() / "a"))]
)
def test_a_unix_address_names_a_path(address, path):
    assert str(socket_path(address)) == path


def test_a_path_too_long_for_a_socket_is_refused():
    with pytest.raises(InvalidInput):
        socket_path("unix:/" + "é" * 54)


def test_watchers_that_leave_while_the_daemon_stops_do_not_hold_it(tmp_path):
    """The health package can lock up when a watcher goes away while a status is sent to the others."""
    for round_number in range(15):
        config = Config(limits=Limits(), store=tmp_path, address=f"unix:{tmp_path}/{round_number}", grace=0.5)
        daemon = build_daemon(FakeEngine(), config)
        with listening(daemon.server, config.address) as address:
            daemon.server.start()
            channels = [grpc.insecure_channel(address, (("grpc.use_local_subchannel_pool", 1),)) for _ in range(8)]
            stubs = [health_pb2_grpc.HealthStub(channel) for channel in channels]
            watches = [stub.Watch(health_pb2.HealthCheckRequest()) for stub in stubs]
            for watch in watches:
                assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            leaving = threading.Thread(target=lambda found=channels: [channel.close() for channel in found])
            leaving.start()
            stopping = threading.Thread(target=daemon.stop, args=(0.2,), daemon=True)
            stopping.start()
            stopping.join(LONG)
            leaving.join(LONG)
            assert not stopping.is_alive()


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_a_service_manager_is_told_when_calls_are_answered_and_when_they_are_not(tmp_path, abstract):
    name = f"\0{tmp_path}/notify" if abstract else f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.settimeout(LONG)
        address = f"unix:{tmp_path}/s"
        environment = {**os.environ, "NOTIFY_SOCKET": name.replace("\0", "@")}
        command = [sys.executable, "-m", "tests.server.daemon", address]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert manager.recv(100) == b"READY=1"
            with Client(address, timeout=LONG) as client:
                assert client.health() == "SERVING"
            process.terminate()
            assert manager.recv(100) == b"STOPPING=1"
        assert process.returncode == 0


def test_a_service_manager_that_is_gone_holds_nobody_up(tmp_path, monkeypatch):
    for name in ("", "relative", f"{tmp_path}/nobody", "@symd-nobody"):
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        notify(READY)


def heard_for_ever(manager):
    for _ in range(100):
        manager.recv(100)


def test_a_service_manager_hears_that_the_loop_turns_while_it_does(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{tmp_path}/notify")
        manager.settimeout(LONG)
        monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        server = build_daemon(FakeEngine(), Config(store=tmp_path)).server
        go_on, stands = threading.Event(), threading.Event()

        async def stand_still():
            stands.set()
            go_on.wait(LONG)

        with watchdog_notified(server):
            assert {manager.recv(100) for _ in range(3)} == {b"WATCHDOG=1"}
            still = threading.Thread(target=server.wait_for, args=(stand_still(),))
            still.start()
            assert stands.wait(LONG)
            manager.settimeout(1)
            with pytest.raises(TimeoutError):
                heard_for_ever(manager)
            go_on.set()
            still.join()
            manager.settimeout(LONG)
            assert manager.recv(100) == b"WATCHDOG=1"
        server.stop(0, 10)


@pytest.mark.parametrize(("period", "process"), [("", ""), ("0", ""), ("soon", ""), ("200000", "1")])
def test_a_manager_that_does_not_ask_hears_nothing(tmp_path, monkeypatch, period, process):
    monkeypatch.setenv("WATCHDOG_USEC", period)
    monkeypatch.setenv("WATCHDOG_PID", process)
    before = set(threading.enumerate())  # one that another test left may end meanwhile
    with watchdog_notified(None):
        assert set(threading.enumerate()) <= before
