"""The folder of captures: what is written is read back, once, whatever happened in between."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from pathlib import Path

import pytest

from symd.capture.folder_sink import EVENTS, LOCK, MODULES, FolderSink, events_of
from symd.errors import DataLoss, FailedPrecondition, InvalidInput, LimitExceeded, StoreUnavailable
from symd.model.addresses import DeviceAddress
from symd.model.captures import (
    CaptureApi,
    CapturedProcess,
    CaptureEvent,
    CaptureWay,
    FailedBuild,
    ModuleForm,
    ModuleFound,
    ModuleLoaded,
    ModuleUnloaded,
    ProcessEnded,
)

PROCESS = CapturedProcess("here", 12, 3456, ("./a", "ä\n", "\udcff"))
LOADED = ModuleLoaded(
    PROCESS, CaptureApi.OPENCL, CaptureWay.OPENCL_LAYER, 0x10, 1000, ModuleForm.DEBUG_DATA, b"bytes", "gpu",
    ("vadd", "k"), {"vadd": DeviceAddress(0xFFFF_8000_0000_0000)}, 0x2000, "a log\n",
)  # fmt: skip
ALL: list[CaptureEvent] = [
    LOADED,
    ModuleUnloaded(PROCESS, CaptureApi.OPENCL, 0x10, 1001),
    FailedBuild(PROCESS, CaptureApi.LEVEL_ZERO, CaptureWay.PRELOAD, 1002, -11, "no", "gpu"),
    ModuleFound(CaptureWay.FOLDER, 1003, ModuleForm.NATIVE_BINARY, b"found", "/cache/a.cubin"),
    ProcessEnded(PROCESS, 1003),
]


def write(folder: Path, events: list[CaptureEvent]) -> None:
    with FolderSink(folder) as sink:
        for event in events:
            sink.take(event)


def found(data: bytes) -> ModuleFound:
    return ModuleFound(CaptureWay.FOLDER, 1003, ModuleForm.NATIVE_BINARY, data, "/cache/a.cubin")


def test_no_more_is_added_than_the_limit_of_a_run(tmp_path: Path) -> None:
    with FolderSink(tmp_path / "out", 3000) as sink:
        sink.take(found(b"x" * 2000))
        with pytest.raises(LimitExceeded, match="capture_bytes") as refused:
            sink.take(found(b"y" * 2000))
        sink.take(found(b"x" * 2000))
    assert refused.value.metadata == {"limit": "capture_bytes"}
    assert [event.data for event, _ in events_of(tmp_path / "out") if isinstance(event, ModuleFound)] == [
        b"x" * 2000
    ] * 2
    assert len(list((tmp_path / "out" / "modules").iterdir())) == 1


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write(tmp_path / "new" / "out", ALL)
    assert [event for event, _ in events_of(tmp_path / "new" / "out")] == ALL


def test_reading_goes_on_from_a_position(tmp_path: Path) -> None:
    write(tmp_path, ALL[:2])
    *_, (_, behind) = events_of(tmp_path)
    write(tmp_path, ALL[2:])
    assert [event for event, _ in events_of(tmp_path, behind)] == ALL[2:]


def test_equal_bytes_are_one_file(tmp_path: Path) -> None:
    write(tmp_path, [LOADED, LOADED])
    assert [path.read_bytes() for path in (tmp_path / MODULES).iterdir()] == [b"bytes"]
    assert len(list(events_of(tmp_path))) == 2


def test_a_line_that_was_not_finished_is_no_event(tmp_path: Path) -> None:
    write(tmp_path, ALL)
    with (tmp_path / EVENTS).open("a") as lines:
        lines.write('{"event": "process-en')
    assert len(list(events_of(tmp_path))) == 5
    write(tmp_path, [ALL[4]])
    assert [event for event, _ in events_of(tmp_path)] == [*ALL, ALL[4]]


def test_two_writers_share_a_folder(tmp_path: Path) -> None:
    with FolderSink(tmp_path) as one, FolderSink(tmp_path) as other:
        for event in ALL:
            one.take(event)
            other.take(event)
    assert len(list(events_of(tmp_path))) == 10


@pytest.mark.parametrize(
    "line",
    [
        "", "[]", "{}", '{"event": "module-unloaded"}', '{"event": "x"}', '{"event": ["x"]}', "\udcff", "1e999", "null",
        '{"event": ' + "[" * 200_000,
        '{"event": "process-ended", "process": null, "time": 1}',
        '{"event": "process-ended", "process": {"host": "", "process": 1, "start_time": 1, "command": []}, "time": []}',
        '{"event": "process-ended", "process": {"host": "", "process": 1e999}}',
    ],
    ids=lambda line: line[:40],
)  # fmt: skip
def test_a_line_that_is_no_event_says_where(tmp_path: Path, line: str) -> None:
    write(tmp_path, ALL[1:2])
    with (tmp_path / EVENTS).open("a", errors="surrogateescape") as lines:
        lines.write(f"{line}\n")
    with pytest.raises(DataLoss, match=r"byte [0-9]+: it is not an event"):
        list(events_of(tmp_path))


@pytest.mark.parametrize("digest", ["../../etc/passwd", "0" * 64, 7])
def test_a_module_is_named_by_its_digest_and_by_nothing_else(tmp_path: Path, digest: object) -> None:
    write(tmp_path, [LOADED])
    line = json.loads((tmp_path / EVENTS).read_text())
    (tmp_path / EVENTS).write_text(json.dumps(line | {"sha256": digest}) + "\n")
    with pytest.raises(DataLoss):
        list(events_of(tmp_path))


def test_a_module_that_changed_is_not_believed(tmp_path: Path) -> None:
    write(tmp_path, [LOADED])
    next((tmp_path / MODULES).iterdir()).write_bytes(b"others")
    with pytest.raises(DataLoss, match="other bytes"):
        list(events_of(tmp_path))


def test_a_list_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("a\nb")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / EVENTS).symlink_to(precious)
    with pytest.raises(InvalidInput, match="it is a link") as caught:
        FolderSink(folder)
    assert "--out" in str(caught.value.hint)
    assert precious.read_text() == "a\nb"
    with pytest.raises(InvalidInput):
        list(events_of(folder))


@pytest.mark.parametrize("text", ["a\nb", "notes", '{"event": "login", "user": 1}\n{', "\n"])
def test_a_list_of_anothers_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / EVENTS).write_text(text)
    with pytest.raises(InvalidInput, match="does not begin with an event of symd's"):
        FolderSink(tmp_path)
    assert (tmp_path / EVENTS).read_text() == text


def test_a_first_line_that_was_not_finished_is_symds(tmp_path: Path) -> None:
    (tmp_path / EVENTS).write_text('{"event": "modu')
    write(tmp_path, [LOADED])
    assert [event for event, _ in events_of(tmp_path)] == [LOADED]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_list_of_another_user_is_not_written_to(tmp_path: Path) -> None:
    write(tmp_path, [LOADED])
    os.chown(tmp_path / EVENTS, 12345, 12345)
    with pytest.raises(InvalidInput, match="user 12345"):
        FolderSink(tmp_path)


def test_a_pipe_or_a_folder_in_the_lists_place_is_not_waited_for(tmp_path: Path) -> None:
    for number, make in enumerate((os.mkfifo, os.mkdir)):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(folder / EVENTS)
        with pytest.raises(InvalidInput, match="not a regular file"):
            FolderSink(folder)
        with pytest.raises((InvalidInput, StoreUnavailable)):
            list(events_of(folder))


def test_a_module_is_written_where_no_link_leads(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"bytes").hexdigest()
    precious = tmp_path / "precious"
    precious.write_text("mine")
    with FolderSink(tmp_path / "out") as sink:
        (tmp_path / "out" / MODULES / f".{digest}.{os.getpid()}").symlink_to(precious)
        sink.take(LOADED)
    assert precious.read_text() == "mine"
    assert (tmp_path / "out" / MODULES / digest).read_bytes() == b"bytes"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="captures cannot be kept there"):
        FolderSink(tmp_path / "file" / "out")
    with pytest.raises(StoreUnavailable):
        list(events_of(tmp_path / "nowhere"))


def test_a_descriptor_that_the_program_closed_and_has_for_its_own_file_is_not_written_to(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path / "out")
    sink.take(ALL[0])
    number = sink._events
    os.close(number)
    own = os.open(tmp_path / "own", os.O_RDWR | os.O_CREAT)
    assert own == number
    sink.take(ALL[1])
    os.dup2(own, sink._events)
    other = sink._events
    sink.close()
    assert os.fstat(own).st_size == os.fstat(other).st_size == 0
    os.close(own)
    os.close(other)
    assert [event for event, _ in events_of(tmp_path / "out")] == ALL[:2]


def test_whoever_may_read_the_list_keeps_no_writer_waiting(tmp_path: Path) -> None:
    """To hold the lock of a file it is enough to read it."""
    with FolderSink(tmp_path) as sink:
        sink.take(ALL[1])
        with (tmp_path / EVENTS).open("rb") as reader:
            fcntl.flock(reader, fcntl.LOCK_SH)
            sink.take(ALL[1])
    assert len(list(events_of(tmp_path))) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_lock_that_is_another_users_is_told(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("")
    os.chown(tmp_path / LOCK, 65534, 65534)
    with pytest.raises(StoreUnavailable, match="its lock is a file that others may open"):
        FolderSink(tmp_path)


def test_a_folder_that_was_resolved_is_not_followed_elsewhere(tmp_path: Path) -> None:
    """Between the two somebody may put a link in its place."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    out = tmp_path / "out"
    FolderSink(out, follow_links=False).close()
    out.rename(tmp_path / "was")
    out.symlink_to(elsewhere)
    with pytest.raises(FailedPrecondition, match=f"a symbolic link to {elsewhere} was put on the way") as caught:
        FolderSink(out, follow_links=False)
    assert caught.value.where == str(out)
    assert not any(elsewhere.iterdir())
