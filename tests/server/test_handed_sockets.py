"""A daemon takes the Unix sockets that a service manager hands over: from a stand-in that does what sd_listen_fds(3) says, and from systemd's own program."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from symd.client import Client
from symd.errors import ServerUnavailable
from tests.daemon.processes import children
from tests.tools import require

HAND_OVER = """
import os, sys
numbers, program = [int(each) for each in sys.argv[1].split(",")], sys.argv[2:]
high = [os.dup2(each, 100 + index) for index, each in enumerate(numbers)]
for index, each in enumerate(high):
    os.dup2(each, 3 + index)
    os.close(each)
os.environ |= {"LISTEN_FDS": str(len(high)), "LISTEN_PID": str(os.getpid() + int(os.environ.pop("OTHER", "0")))}
os.execv(program[0], program)
"""
LONG = 120.0
"""Seconds, against hanging."""
DAEMON = [sys.executable, "-m", "tests.server.daemon"]


def listener(path, kind=socket.SOCK_STREAM):
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind(str(path))
    if kind == socket.SOCK_STREAM:
        made.listen(8)
    return made


@contextmanager
def handed(sockets, *arguments, command=DAEMON, **variables):
    """The daemon with these sockets as descriptors 3 and following."""
    numbers = [each.fileno() for each in sockets]
    line = [sys.executable, "-c", HAND_OVER, ",".join(map(str, numbers)), *command, *arguments]
    environment = {**os.environ, **variables}
    process = subprocess.Popen(
        line, env=environment, pass_fds=numbers, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def health(address):
    """What it says once it has started: gRPC waits 20 s for a connection that is taken then."""
    until = time.monotonic() + LONG
    with Client(address, timeout=LONG) as client:
        while True:
            try:
                return client.health()
            except ServerUnavailable:
                assert time.monotonic() < until


def test_who_connected_before_the_daemon_ran_is_answered_and_the_socket_outlives_the_daemon(tmp_path):
    path = tmp_path / "s"
    with listener(path) as ours, grpc.insecure_channel(f"unix:{path}") as early:
        ready = grpc.channel_ready_future(early)  # connects now, and waits for an answer
        with handed([ours], f"unix:{path}") as process:
            ready.result(LONG)
            assert process.stdout.readline() == f"unix:{path}\n"
            assert health(f"unix:{path}") == "SERVING"
            process.terminate()
            assert process.wait(LONG) == 0
        assert path.is_socket()
        with handed([ours], f"unix:{path}"):
            assert health(f"unix:{path}") == "SERVING"


def test_a_real_daemon_passes_the_socket_to_none_of_its_children(tmp_path):
    path = tmp_path / "s"
    options = ["serve", "--address", f"unix:{path}", "--store", str(tmp_path / "store")]
    with listener(path) as ours, handed([ours], *options, command=[sys.executable, "-m", "symd"]) as process:
        assert process.stdout.readline() == f"symd serves at unix:{path}\n"
        name = f"socket:[{os.fstat(ours.fileno()).st_ino}]"
        assert name in _open_files(process.pid)
        assert children(process.pid)
        assert all(name not in _open_files(child) for child in children(process.pid))
        process.terminate()
        assert process.wait(LONG) == 0


def _open_files(process):
    return [str(each.readlink()) for each in Path(f"/proc/{process}/fd").iterdir() if each.is_symlink()]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_only_the_daemons_user_gets_through_an_open_socket(folder):
    path = folder / "s"
    with listener(path) as ours, handed([ours], f"unix:{path}") as process:
        assert process.stdout.readline()
        path.chmod(0o666)
        program = (
            f"import os, socket; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r});"
            "print(len(s.recv(1)))"
        )
        stranger = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
        assert stranger.stdout == "0\n", stranger.stderr
        assert health(f"unix:{path}") == "SERVING"


def refused(sockets, *arguments, **variables):
    with handed(sockets, *arguments, **variables) as process:
        out, err = process.communicate(timeout=LONG)
        assert (out, "Traceback" in err) == ("", False), err
        assert process.returncode
        return err


def test_a_socket_that_no_address_names_is_not_left_unanswered(tmp_path):
    with listener(tmp_path / "a") as one, listener(tmp_path / "b") as other:
        said = refused([one, other], f"unix:{tmp_path}/a")
        assert f"{tmp_path}/b" in said
        assert f"give --address unix:{tmp_path}/b" in said


def test_sockets_of_other_kinds_are_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        assert "no Unix socket with a path" in refused([tcp], f"unix:{tmp_path}/s")
    with listener(tmp_path / "d", socket.SOCK_DGRAM) as datagrams:
        assert "no Unix socket with a path" in refused([datagrams], f"unix:{tmp_path}/d")


def test_what_was_handed_to_another_process_is_left_alone(tmp_path):
    with listener(tmp_path / "other") as ours, handed([ours], f"unix:{tmp_path}/s", OTHER="1") as process:
        assert process.stdout.readline() == f"unix:{tmp_path}/s\n"
        assert health(f"unix:{tmp_path}/s") == "SERVING"


def test_systemd_starts_it_at_the_first_connection(tmp_path):
    require("systemd-socket-activate")
    path = tmp_path / "s"
    command = ["systemd-socket-activate", f"--listen={path}", *DAEMON, f"unix:{path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert "Listening on" in process.stderr.readline()
            assert health(f"unix:{path}") == "SERVING"
            process.terminate()
            assert process.wait(LONG) == 0
        finally:
            process.kill()
