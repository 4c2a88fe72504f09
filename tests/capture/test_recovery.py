"""What a run that was killed has left is taken in by the next one, once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.capture.folder_sink import EVENTS, FolderSink, events_of
from symd.capture.process import start_time
from symd.capture.receiver import recover
from symd.capture.records import RecordEvents, parse_record
from symd.capture.run_folder import RunFolder, abandoned, in_use, make_run_folder
from symd.config import Limits
from symd.model.captures import ModuleLoaded, ModuleUnloaded, ProcessEnded
from tests.capture.records_made import UNLOADED, loaded, record
from tests.open_files import open_files

LIMITS = Limits()


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        yield tmp_path / "out"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "100"]) as process:
        yield process
        process.kill()


def killed(out: Path, process: subprocess.Popen[bytes], *records: bytes) -> RunFolder:
    """A run's folder whose run was killed some time ago, with records in files."""
    folder = make_run_folder()
    folder.note(out, process.pid)
    for number, each in enumerate(records):
        (folder.spool / f"{number}-1-1.record").write_bytes(each)
    folder.leave()
    old = time.time() - 3600
    os.utime(folder.outer, (old, old))
    return folder


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_a_line_that_cannot_be_read_is_passed_over_and_told(
    out: Path, sleeper: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    with FolderSink(out) as sink:
        for event in RecordEvents().events(parse_record(loaded(handle=1, process=7)), 7):
            sink.take(event)
    with (out / EVENTS).open("a") as lines:
        lines.write('{"event": ' + "[" * 200_000 + "\n")
    folder = killed(out, sleeper, loaded(b"late", handle=2, process=7, time=3000))
    end(sleeper)
    assert recover(LIMITS) == 1
    assert not folder.outer.exists()
    assert "passed over" in caplog.text


def test_records_go_where_the_run_wanted_them(out: Path, sleeper: subprocess.Popen[bytes]) -> None:
    with FolderSink(out) as sink:
        for event in RecordEvents().events(parse_record(loaded(handle=1, process=7)), 7):
            sink.take(event)
    folder = killed(
        out, sleeper, record(UNLOADED, handle=1, process=7, time=2000), loaded(b"late", handle=2, process=7, time=3000)
    )
    assert recover(LIMITS) == 0  # the program still runs
    assert folder.outer.exists()
    end(sleeper)
    assert recover(LIMITS) == 1
    assert not folder.outer.exists()
    assert recover(LIMITS) == 0
    events = [event for event, _ in events_of(out)]
    assert [type(event) for event in events] == [ModuleLoaded, ModuleUnloaded, ModuleLoaded, ProcessEnded]
    assert len({event.process for event in events}) == 1  # type: ignore[union-attr]


def test_a_run_that_lasts_is_left_alone(out: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = make_run_folder()
    folder.note(out, sleeper.pid)
    end(sleeper)
    old = time.time() - 3600
    os.utime(folder.outer, (old, old))
    assert list(abandoned()) == []
    folder.remove()


def test_one_that_had_not_begun_is_removed_and_a_new_one_is_not(out: Path) -> None:
    del out
    old, new = (Path(tempfile.mkdtemp(prefix="symd-run-")) for _ in range(2))
    os.utime(old, (0, 0))
    assert recover(LIMITS) == 0
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize("note", ["", "[]", "{}", json.dumps({"inner": 1, "out": 2, "process": "x", "start_time": 1})])
def test_a_note_that_makes_no_sense_is_nobodys(out: Path, note: str) -> None:
    del out
    folder = Path(tempfile.mkdtemp(prefix="symd-run-"))
    (folder / "run.json").write_text(note)
    os.utime(folder, (0, 0))
    assert recover(LIMITS) == 0
    assert not folder.exists()


def test_captures_that_cannot_be_kept_wait(out: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = killed(out, sleeper, loaded(process=7))
    end(sleeper)
    out.write_text("a file stands in the way")
    assert recover(LIMITS) == 0
    out.unlink()
    assert recover(LIMITS) == 1
    assert not folder.outer.exists()


def test_a_folder_is_in_use_while_a_process_has_it_in_its_environment(out: Path) -> None:
    folder = make_run_folder()
    assert not in_use(folder.inner)
    with subprocess.Popen(
        ["sleep", "100"], env={"LD_PRELOAD": f"{folder.inner}/nothing.so"}, stderr=subprocess.DEVNULL
    ) as process:
        assert in_use(folder.inner)
        process.kill()
    assert not in_use(folder.inner)
    folder.remove()


def test_a_killed_runs_folder_stays_for_those_who_outlive_its_program(
    out: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    folder = killed(out, sleeper)
    end(sleeper)
    environment = {"LD_PRELOAD": f"{folder.inner}/nothing.so"}
    with subprocess.Popen(["sleep", "100"], env=environment, stderr=subprocess.DEVNULL) as child:
        recover(LIMITS)
        assert folder.inner.exists()
        child.kill()
    recover(LIMITS)
    assert not folder.outer.exists()


def test_processes_of_other_runs_that_live_are_not_ended(out: Path, sleeper: subprocess.Popen[bytes]) -> None:
    own = os.getpid()
    with FolderSink(out) as sink:
        living = loaded(handle=1, process=own, start_time=start_time(own))
        for process, data in ((own, living), (7, loaded(handle=2, process=7))):
            for event in RecordEvents().events(parse_record(data), process):
                sink.take(event)
    killed(out, sleeper)
    end(sleeper)
    recover(LIMITS)
    ended = [event.process.process for event, _ in events_of(out) if isinstance(event, ProcessEnded)]
    assert ended == [7]


def test_a_folder_whose_inner_one_is_gone_is_removed(out: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = killed(out, sleeper)
    end(sleeper)
    shutil.rmtree(folder.inner)
    assert recover(LIMITS) == 0
    assert not folder.outer.exists()


def test_a_folder_without_room_for_a_socket_waits(out: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = killed(out, sleeper, loaded(process=7))
    end(sleeper)
    folder.socket.mkdir()
    before = open_files()
    assert recover(LIMITS) == 0
    assert open_files() <= before
    folder.socket.rmdir()
    assert recover(LIMITS) == 1
    assert not folder.outer.exists()


def test_a_run_killed_just_now_is_taken_in_by_the_next_one(out: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = killed(out, sleeper, loaded(process=7))
    os.utime(folder.outer)
    end(sleeper)
    assert recover(LIMITS) == 1
    assert not folder.outer.exists()
