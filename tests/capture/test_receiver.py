"""The receiver of a run: what programs hand over, in every way that they may, and what hostile ones try."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from symd.capture import receiver as receiver_module
from symd.capture.process import image_number
from symd.capture.receiver import Receiver
from symd.capture.run_folder import RunFolder, make_run_folder
from symd.config import Limits
from symd.errors import LimitExceeded, Malformed, StoreUnavailable
from symd.model.captures import CaptureEvent, ModuleFound, ModuleLoaded, ProcessEnded
from tests.capture.records_made import DATA, FAILED, FOUND, NATIVE_BINARY, SOURCE, UNLOADED, field, loaded, record

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class CompressedColumn:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.events: list[CaptureEvent] = []
        self.refuses = False

    def take(self, event: CaptureEvent) -> None:
        if self.refuses:
            raise StoreUnavailable("no space left on device")
        self.events.append(event)


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    made = make_run_folder()
    yield made
    made.remove()
    assert not made.outer.exists()


@pytest.fixture
def kept() -> CompressedColumn:
    return CompressedColumn()


@pytest.fixture
def receiver(folder: RunFolder, kept: CompressedColumn, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    monkeypatch.setattr("symd.capture.receiver.CAPTURE_SIZE", 10_000)
    made = Receiver(folder, kept, Limits())
    made.start()
    return made


def connect(folder: RunFolder) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connected.connect(str(folder.socket))
    return connected


def in_memory(data: bytes, seals: int = SEALS) -> int:
    descriptor = os.memfd_create("record", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(descriptor, data)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def send_file(connected: socket.socket, descriptor: int) -> None:
    socket.send_fds(connected, [b"symd"], [descriptor])
    os.close(descriptor)


def own(data: bytes = b"bytes", **more: int) -> bytes:
    return loaded(data, process=os.getpid(), **more)


def test_small_records_large_ones_and_files_arrive_in_order(
    folder: RunFolder, receiver: Receiver, kept: CompressedColumn
) -> None:
    with connect(folder) as connected:
        connected.send(own(handle=1, time=1))
        send_file(connected, in_memory(own(b"x" * 9000, handle=2, time=2)))
        path = folder.spool / "3-1-0.record"
        path.with_suffix(".partial").write_bytes(own(handle=3, time=3))
        path.with_suffix(".partial").rename(path)
        connected.send(own(handle=4, time=4))
    (folder.spool / "8-1-1").write_bytes(b"not whole yet")
    counts = receiver.finish()
    assert [event.handle for event in kept.events if isinstance(event, ModuleLoaded)] == [1, 2, 3, 4]
    assert isinstance(kept.events[-1], ProcessEnded)
    assert (counts.builds, counts.modules, counts.failed, counts.refusals) == (4, 4, 0, 0)
    assert not path.exists()


def test_what_was_sent_by_a_process_that_is_gone_arrives_before_its_end(
    folder: RunFolder, receiver: Receiver, kept: CompressedColumn
) -> None:
    script = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1])\n"
        "from tests.capture.records_made import loaded\n"
        "for n in range(50): s.send(loaded(process=os.getpid(), handle=n))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(folder.socket)], check=False, cwd=Path(__file__).parents[2])
    deadline = time.monotonic() + 30
    while not kept.events or not isinstance(kept.events[-1], ProcessEnded):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    receiver.finish()
    assert len(kept.events) == 51


def refuse(folder: RunFolder, receiver: Receiver, act: Callable[[socket.socket], None]) -> list[Exception]:
    """What is refused of one connection; another one goes on."""
    with connect(folder) as other, connect(folder) as connected:
        other.send(own(handle=1))
        act(connected)
        other.send(own(handle=2))
        counts = receiver.finish()
    assert counts.modules == 2
    return list(counts.refused)


def test_bytes_that_are_no_record(folder: RunFolder, receiver: Receiver) -> None:
    [error] = refuse(folder, receiver, lambda connected: connected.send(b"GET / HTTP/1.1"))
    assert isinstance(error, Malformed)


@pytest.mark.parametrize("seals", [0, fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE])
def test_memory_that_may_change_is_not_read(folder: RunFolder, receiver: Receiver, seals: int) -> None:
    [error] = refuse(folder, receiver, lambda connected: send_file(connected, in_memory(own(), seals)))
    assert "sealed" in str(error)


def test_a_spooled_file_with_holes_is_not_read(folder: RunFolder, receiver: Receiver) -> None:
    whole = own(b"x" * 5000)
    with (folder.spool / "1.partial").open("xb") as file:
        file.write(whole[:-5000])
        file.truncate(8192 + len(whole) - 5000)
    (folder.spool / "1.partial").rename(folder.spool / "1-1-1.record")
    [error] = receiver.finish().refused
    assert "has holes" in str(error)


def test_memory_with_holes_is_not_read(folder: RunFolder, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may say a gigabyte, and has none."""
    descriptor = os.memfd_create("record", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(descriptor, own(b"x" * 5000))
    os.ftruncate(descriptor, 1 << 30)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    monkeypatch.setattr("symd.capture.receiver.CAPTURE_SIZE", 1 << 30)
    [error] = refuse(folder, receiver, lambda connected: send_file(connected, descriptor))
    assert "has holes" in str(error)


def test_a_pipe_that_never_ends_is_not_read(folder: RunFolder, receiver: Receiver) -> None:
    reading, writing = os.pipe()
    [error] = refuse(folder, receiver, lambda connected: send_file(connected, reading))
    os.close(writing)
    assert "sealed" in str(error)


def test_a_record_beyond_the_limit_names_the_limit(folder: RunFolder, receiver: Receiver) -> None:
    [error] = refuse(folder, receiver, lambda connected: send_file(connected, in_memory(own(b"x" * 10_000))))
    assert isinstance(error, LimitExceeded)
    assert error.metadata == {"limit": "capture_size"}


def test_descriptors_that_are_sent_are_closed(folder: RunFolder, receiver: Receiver) -> None:
    reading, writing = os.pipe()

    def act(connected: socket.socket) -> None:
        socket.send_fds(connected, [own(handle=9)], [writing] * 20)
        os.close(writing)

    refuse(folder, receiver, act)
    assert os.read(reading, 1) == b""  # nobody holds the other end any more
    os.close(reading)


def test_files_that_are_none(folder: RunFolder, receiver: Receiver, kept: CompressedColumn, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(own())
    (folder.spool / "1-1-1.record").symlink_to(secret)
    os.mkfifo(folder.spool / "1-1-2.record")
    (folder.spool / "1-1-3.record").write_bytes(b"x" * 10_001)
    (folder.spool / "1-1-4.record").write_bytes(own())
    counts = receiver.finish()
    assert counts.modules == 1
    assert counts.refusals == 2
    assert secret.exists()


def test_what_a_program_lost_is_counted(folder: RunFolder, receiver: Receiver) -> None:
    with connect(folder) as connected:
        connected.send(own(lost=3))
        connected.send(record(FAILED, process=os.getpid(), lost=1))
        connected.send(record(UNLOADED, process=os.getpid()))
    counts = receiver.finish()
    assert (counts.builds, counts.failed, counts.lost, counts.said_lost, counts.went_well) == (2, 1, 0, 4, False)


def test_the_list_of_sockets_does_not_tell_the_folders_name(folder: RunFolder, receiver: Receiver) -> None:
    with connect(folder) as connected:
        connected.send(own())
        assert folder.inner.name not in Path("/proc/net/unix").read_text(errors="replace")
    assert receiver.finish().modules == 1


def test_a_folder_in_a_records_place_is_not_taken(folder: RunFolder, receiver: Receiver) -> None:
    (folder.spool / "1-1-1.record").mkdir()
    (folder.spool / "1-1-2.record").write_bytes(own())
    counts = receiver.finish()
    assert (counts.modules, counts.refusals) == (1, 0)
    assert folder.spooled() == []


def test_a_named_file_that_cannot_be_read_is_counted(folder: RunFolder, receiver: Receiver) -> None:
    source = field(SOURCE, b"file:///proc/self/mem#offset=0&size=10")  # nothing is mapped there: EIO
    (folder.spool / "1-1-1.record").write_bytes(record(FOUND, source, process=os.getpid()))
    counts = receiver.finish()
    assert counts.refusals == 1
    assert "cannot read the file" in str(counts.refused[0])


def test_a_large_record_is_copied_once(folder: RunFolder, kept: CompressedColumn) -> None:
    size = 32 << 20
    receiver = Receiver(folder, kept, Limits())
    tracemalloc.start()
    try:
        with connect(folder) as connected:
            descriptor = os.memfd_create("record", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
            fields = struct.pack("<IIQQ", DATA, NATIVE_BINARY, 0, size)
            os.write(descriptor, record(fields=fields, process=os.getpid(), size=len(fields) + size))
            for _ in range(size >> 20):
                os.write(descriptor, bytes(1 << 20))
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
            send_file(connected, descriptor)
            counts = receiver.finish()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert counts.modules == 1
    assert peak < 2.5 * size  # what came, and the module of it


def test_a_sink_that_refuses_is_said_and_stops_nothing(
    folder: RunFolder, receiver: Receiver, kept: CompressedColumn
) -> None:
    kept.refuses = True
    with connect(folder) as connected:
        connected.send(own(handle=1))
        connected.send(own(handle=2))
    counts = receiver.finish()
    assert isinstance(counts.untold, StoreUnavailable)
    assert counts.untold_events == 3
    assert counts.modules == 0


def test_many_processes_and_connections(folder: RunFolder, receiver: Receiver) -> None:
    connections = [connect(folder) for _ in range(200)]
    for number, connected in enumerate(connections):
        connected.send(own(handle=number))
    for connected in connections:
        connected.close()
    assert receiver.finish().modules == 200


def test_two_runs_have_nothing_in_common(folder: RunFolder) -> None:
    other = make_run_folder()
    assert other.outer != folder.outer
    other.remove()
    assert folder.inner.exists()
    assert other.key != folder.key


ZEBIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin"


def brought(uri: str) -> bytes:
    """A record of device code in a file, as a preloaded library has it."""
    return record(FOUND, field(SOURCE, uri.encode()), api=3, way=1, process=os.getpid())


def test_device_code_in_a_file_is_read_from_there(folder: RunFolder, kept: CompressedColumn, tmp_path: Path) -> None:
    program = tmp_path / "a program"
    program.write_bytes(b"in front" + ZEBIN.read_bytes() + b"behind")
    receiver = Receiver(folder, kept, Limits())
    with connect(folder) as connected:
        connected.send(brought(f"file://{tmp_path}/a%20program#offset=8&size={ZEBIN.stat().st_size}"))
    counts = receiver.finish()
    (found,) = [event for event in kept.events if isinstance(event, ModuleFound)]
    assert found.data == ZEBIN.read_bytes()
    assert (counts.brought, counts.builds, counts.modules, counts.refusals) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd",
        "file:///nowhere",
        "file:///proc/self/environ",
        "file:///dev/zero#offset=0&size=4096",
        f"file://{ZEBIN}#offset=0&size=1000000",
        f"file://{ZEBIN}#offset=0x7fffffffffffffff&size=8",
        f"file://{ZEBIN}#offset=0x8000000000000000&size=8",
        f"file://{ZEBIN}#offset=0&size=0xffffffffffffffff",
        "memory://1#offset=0&size=8",
        "no URI",
        "",
    ],
)
def test_a_program_cannot_have_other_files_read(folder: RunFolder, kept: CompressedColumn, uri: str) -> None:
    receiver = Receiver(folder, kept, Limits())
    with connect(folder) as connected:
        connected.send(brought(uri))
    counts = receiver.finish()
    assert (counts.refusals, counts.brought) == (1, 0)
    assert not [event for event in kept.events if isinstance(event, ModuleFound)]


def test_a_file_that_is_too_large_is_refused_by_the_limits_name(folder: RunFolder, kept: CompressedColumn) -> None:
    receiver = Receiver(folder, kept, Limits(folder_bytes=100))
    with connect(folder) as connected:
        connected.send(brought(f"file://{ZEBIN}"))
    (error,) = receiver.finish().refused
    assert error.metadata == {"limit": "folder_bytes"}


SENDER = """
import os, socket, sys
from tests.capture.records_made import FOUND, KEY, SOURCE, field, record
when, folder, key, source = sys.argv[1:]
def drop():
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
fields = field(SOURCE, source.encode()) + field(KEY, key.encode())
sent = record(FOUND, fields, api=3, way=1, process=os.getpid())
if when == "in a file":
    drop()
    with open(folder + "/spool/1.partial", "xb") as file:
        file.write(sent)
    os.rename(folder + "/spool/1.partial", folder + "/spool/1-1-1.record")
else:
    if when == "connected as it":
        drop()
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connected.connect(folder + "/socket")
    if when == "became it since":
        drop()
    connected.send(sent)
"""
"""A program that becomes user 65534, and names a file."""


def send_as_another_user(folder: RunFolder, when: str, path: Path) -> None:
    command = [sys.executable, "-c", SENDER, when, str(folder.inner), folder.key, f"file://{path}"]
    subprocess.run(command, check=True, env={"PYTHONPATH": os.pathsep.join(sys.path)})


def a_folder_for(name: str, mode: int) -> Path:
    """A folder that everybody may come to, unlike pytest's."""
    made = Path(tempfile.mkdtemp(prefix=f"symd-test-{name}-"))
    made.chmod(mode)
    return made


WHEN = ("connected as it", "became it since", "in a file")
by_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@by_root
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize(("folder_mode", "mode"), [(0o700, 0o644), (0o750, 0o644), (0o755, 0o600), (0o755, 0o640)])
def test_a_file_that_a_programs_user_may_not_read_is_not_read_for_it(
    folder: RunFolder, kept: CompressedColumn, when: str, folder_mode: int, mode: int
) -> None:
    place = a_folder_for("private", folder_mode)
    try:
        (place / "program").write_bytes(ZEBIN.read_bytes())
        (place / "program").chmod(mode)
        receiver = Receiver(folder, kept, Limits())
        send_as_another_user(folder, when, place / "program")
        counts = receiver.finish()
    finally:
        shutil.rmtree(place)
    assert [error.message for error in counts.refused] == ["cannot read the file: its program's user may not read it"]
    assert not kept.events


@by_root
@pytest.mark.parametrize("when", WHEN)
def test_a_file_that_a_programs_user_may_read_is_read(folder: RunFolder, kept: CompressedColumn, when: str) -> None:
    place = a_folder_for("public", 0o755)
    try:
        (place / "program").write_bytes(ZEBIN.read_bytes())
        (place / "program").chmod(0o644)
        (place / "link").symlink_to("../" + place.name + "/program")
        receiver = Receiver(folder, kept, Limits())
        send_as_another_user(folder, when, place / "link")
        counts = receiver.finish()
    finally:
        shutil.rmtree(place)
    assert (counts.brought, counts.refusals) == (1, 0)


@by_root
def test_what_a_privileged_program_writes_to_a_strangers_connection_is_refused(
    folder: RunFolder, receiver: Receiver, kept: CompressedColumn, caplog: pytest.LogCaptureFixture
) -> None:
    """A stranger may start a setuid program whose output is that connection: the kernel says that root sent it."""
    ours, its = socket.socketpair()
    with ours, its:
        script = (
            "import os, socket, sys; os.setresuid(65534, 65534, 65534)\n"
            "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1])\n"
            "socket.send_fds(socket.socket(fileno=int(sys.argv[2])), [b'x'], [s.fileno()])\n"
        )
        command = [sys.executable, "-c", script, str(folder.socket), str(its.fileno())]
        subprocess.run(command, check=True, pass_fds=(its.fileno(),))
        _, (descriptor,), _, _ = socket.recv_fds(ours, 1, 1)
    with socket.socket(fileno=descriptor) as connected:
        connected.send(own())
        connected.settimeout(30)
        assert connected.recv(1) == b""
    counts = receiver.finish()
    assert [error.message for error in counts.refused] == ["user 65534 does not have the run's key"]
    assert not kept.events
    assert "user 65534 does not have the run's key" in caplog.text


@by_root
def test_a_link_leads_another_users_program_into_no_private_folder(folder: RunFolder, kept: CompressedColumn) -> None:
    public, private = a_folder_for("public", 0o755), a_folder_for("private", 0o700)
    try:
        (private / "program").write_bytes(ZEBIN.read_bytes())
        (public / "program").symlink_to(private / "program")
        receiver = Receiver(folder, kept, Limits())
        send_as_another_user(folder, "connected as it", public / "program")
        counts = receiver.finish()
    finally:
        shutil.rmtree(public)
        shutil.rmtree(private)
    assert (counts.brought, counts.refusals) == (0, 1)


@by_root
def test_the_owner_of_a_private_file_has_it_read(folder: RunFolder, kept: CompressedColumn) -> None:
    place = a_folder_for("own", 0o700)
    try:
        (place / "program").write_bytes(ZEBIN.read_bytes())
        for path in (place / "program", place):
            os.chown(path, 65534, 65534)
        (place / "program").chmod(0o600)
        receiver = Receiver(folder, kept, Limits())
        send_as_another_user(folder, "connected as it", place / "program")
        counts = receiver.finish()
    finally:
        shutil.rmtree(place)
    assert (counts.brought, counts.refusals) == (1, 0)


def wait_for_events(kept: CompressedColumn, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(kept.events) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ends(kept: CompressedColumn) -> int:
    return sum(isinstance(event, ProcessEnded) for event in kept.events)


@pytest.mark.parametrize("process", [1 << 31, (1 << 32) - 1])
def test_a_number_that_no_process_has_costs_its_sender_the_connection(
    folder: RunFolder, receiver: Receiver, process: int
) -> None:
    [error] = refuse(folder, receiver, lambda connected: connected.send(loaded(process=process)))
    assert isinstance(error, Malformed)


def test_a_process_with_another_title_that_closes_its_connection_lives_on(
    folder: RunFolder, receiver: Receiver, kept: CompressedColumn
) -> None:
    image = image_number(os.getpid())
    assert image
    for number in range(3):
        with connect(folder) as connected:
            connected.send(own(handle=number, image=image))
        wait_for_events(kept, number + 1)
    receiver.finish()
    assert [type(event) for event in kept.events] == [ModuleLoaded] * 3 + [ProcessEnded]


@pytest.mark.parametrize(("failures", "expected"), [(1, (1, 0)), (1000, (0, 1))])
def test_a_file_that_cannot_be_opened_now_is_tried_again_and_not_forgotten(
    folder: RunFolder, kept: CompressedColumn, monkeypatch: pytest.MonkeyPatch, failures: int, expected: tuple[int, int]
) -> None:
    (folder.spool / "1-1-1.record").write_bytes(own())
    failed: list[Path] = []
    open_file = os.open

    def refuse_some(path: Path, flags: int) -> int:
        if len(failed) < failures:
            failed.append(path)
            raise OSError(errno.EMFILE, "too many open files")
        return open_file(path, flags)

    made = Receiver(folder, kept, Limits())
    monkeypatch.setattr(os, "open", refuse_some)
    made.start()
    deadline = time.monotonic() + 30
    while not failed or (failures == 1 and not kept.events):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    counts = made.finish()
    assert (counts.modules, counts.lost) == expected
    assert counts.went_well is (counts.lost == 0)


def test_a_process_whose_end_cannot_be_waited_for_has_not_ended(
    folder: RunFolder, receiver: Receiver, kept: CompressedColumn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_all(process: int) -> int:
        raise OSError(errno.EMFILE, "too many open files", process)

    monkeypatch.setattr(os, "pidfd_open", refuse_all)
    with connect(folder) as connected:
        for number in range(2):
            connected.send(own(handle=number))
            wait_for_events(kept, number + 1)
        assert ends(kept) == 0
    receiver.finish()


def test_without_descriptors_whoever_connects_waits_and_the_thread_rests(
    folder: RunFolder, kept: CompressedColumn, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Receiver(folder, kept, Limits())
    tried: list[int] = []

    def refuse_all(_: socket.socket) -> None:
        tried.append(1)
        raise OSError(errno.EMFILE, "too many open files")

    with connect(folder) as connected, monkeypatch.context() as patch:
        connected.send(own())
        patch.setattr(socket.socket, "accept", refuse_all)
        made.start()
        until = time.monotonic() + 60
        while not tried:
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(0.5)
        assert len(tried) < 50
        patch.undo()
        assert made.finish().modules == 1


def test_a_program_that_sends_without_end_does_not_hold_the_run(
    folder: RunFolder, kept: CompressedColumn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_module, "_LAST_SECONDS", 0.2)
    monkeypatch.setattr(Receiver, "_receive", lambda *_: receiver_module._Sent(own(), os.geteuid()))
    made = Receiver(folder, kept, Limits())
    with connect(folder):
        counts = made.finish()
    assert counts.modules
    assert counts.lost == 1


def test_more_than_is_held_at_once_arrives_all_the_same(
    folder: RunFolder, receiver: Receiver, kept: CompressedColumn
) -> None:
    with connect(folder) as connected, connect(folder) as other:
        for number in range(10):
            send_file(connected, in_memory(own(b"x" * 9000, handle=number)))
            other.send(own(handle=100 + number))
        counts = receiver.finish()
    handles = [event.handle for event in kept.events if isinstance(event, ModuleLoaded)]
    assert [handle for handle in handles if handle < 100] == list(range(10))
    assert (counts.modules, counts.lost, counts.refusals) == (20, 0, 0)
