"""Events forwarded from a folder: late, once, and never in the way."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from symd.capture import Sink, forward
from symd.capture.folder_sink import FolderSink
from symd.capture.forward import SENT, Forwarder, ForwardingSink, remove_sent, waiting
from symd.errors import (
    Busy,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidInput,
    LimitExceeded,
    PermissionDenied,
    ServerUnavailable,
    StoreUnavailable,
    SymdError,
)
from symd.model.captures import CaptureEvent
from tests.capture.test_folder_sink import ALL, LOADED, write

ADDRESS = "unix:/there"


class Daemon:
    """Takes events unless it is ``absent``; ``slow`` holds it up until it is set."""

    def __init__(self) -> None:
        self.taken: list[CaptureEvent] = []
        self.absent = False
        self.dies_after = 1 << 30
        self.refuses: type[CaptureEvent] | None = None
        self.refusal: type[SymdError] = InvalidInput
        self.slow: threading.Event | None = None
        self.hiccups: list[SymdError] = []

    @contextlib.contextmanager
    def open(self) -> Iterator[Daemon]:
        yield self

    def take(self, event: CaptureEvent) -> None:
        if self.slow is not None:
            self.slow.wait(60)
        if self.absent or len(self.taken) >= self.dies_after:
            raise ServerUnavailable("nobody answers")
        if self.hiccups:
            raise self.hiccups.pop()
        if self.refuses is not None and isinstance(event, self.refuses):
            raise self.refusal("not that")
        self.taken.append(event)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    monkeypatch.setattr(forward, "_PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(forward, "_PAUSE_SECONDS", 0.01)
    return Daemon()


def send(folder: Path, daemon: Daemon) -> forward.Sent:
    return Forwarder(folder, ADDRESS, daemon.open).finish()


def test_events_arrive_while_the_folder_fills(tmp_path: Path, daemon: Daemon) -> None:
    with FolderSink(tmp_path) as folder:
        forwarder = Forwarder(tmp_path, ADDRESS, daemon.open)
        sink = ForwardingSink(folder)
        sink.forwarder = forwarder
        for event in ALL:
            sink.take(event)
        sent = forwarder.finish()
    assert daemon.taken == ALL
    assert (sent.events, sent.left, sent.error, sent.refused) == (len(ALL), False, None, ())


def test_a_daemon_that_is_absent_gets_them_later_once(tmp_path: Path, daemon: Daemon) -> None:
    write(tmp_path / "one", ALL)
    daemon.absent = True
    sent = send(tmp_path / "one", daemon)
    assert sent.left
    assert isinstance(sent.error, ServerUnavailable)
    assert list(waiting(tmp_path, ADDRESS)) == [tmp_path / "one"]
    assert list(waiting(tmp_path, "unix:/elsewhere")) == []
    daemon.absent = False
    assert not send(tmp_path / "one", daemon).left
    assert not send(tmp_path / "one", daemon).left
    assert daemon.taken == ALL


def test_a_daemon_that_dies_half_way_goes_on_where_it_was(tmp_path: Path, daemon: Daemon) -> None:
    write(tmp_path, ALL)
    daemon.dies_after = 2
    assert send(tmp_path, daemon).left
    daemon.dies_after = 100
    assert not send(tmp_path, daemon).left
    assert daemon.taken == ALL


def test_a_daemon_that_is_slow_holds_nothing_up_for_ever(
    tmp_path: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "_PATIENCE_SECONDS", 0.5)
    write(tmp_path, ALL)
    daemon.slow = threading.Event()
    sent = send(tmp_path, daemon)
    assert sent.left
    daemon.slow.set()


def test_what_is_refused_for_good_does_not_stop_the_rest(tmp_path: Path, daemon: Daemon) -> None:
    write(tmp_path, ALL)
    daemon.refuses = type(LOADED)
    sent = send(tmp_path, daemon)
    assert [str(error) for error in sent.refused] == ["not that"]
    assert daemon.taken == ALL[1:]


@pytest.mark.parametrize("error", [PermissionDenied, LimitExceeded, FailedPrecondition])
def test_what_nothing_can_be_told_for_now_keeps_everything_for_later(
    tmp_path: Path, daemon: Daemon, error: type[SymdError]
) -> None:
    """A token without the right to write, a store that has no room: the events are not to blame."""
    write(tmp_path, ALL)
    daemon.refuses, daemon.refusal = type(LOADED), error
    sent = send(tmp_path, daemon)
    assert (sent.events, sent.left, sent.refused) == (0, True, ())
    assert isinstance(sent.error, error)
    daemon.refuses = None
    assert not send(tmp_path, daemon).left
    assert daemon.taken == ALL


def test_one_folder_is_sent_by_one_process(tmp_path: Path, daemon: Daemon) -> None:
    write(tmp_path / "one", ALL)
    forwarder = Forwarder(tmp_path / "one", ADDRESS, daemon.open)
    with pytest.raises(BlockingIOError):
        Forwarder(tmp_path / "one", ADDRESS, daemon.open)
    assert list(waiting(tmp_path, ADDRESS)) == []
    forwarder.finish()


@pytest.mark.parametrize("note", ["", "{", "[]", '{"position": -1}', '{"position": "x"}'])
def test_a_note_that_makes_no_sense_begins_again(tmp_path: Path, daemon: Daemon, note: str) -> None:
    write(tmp_path, ALL)
    (tmp_path / SENT).write_text(note)
    assert not send(tmp_path, daemon).left
    assert daemon.taken == ALL
    assert json.loads((tmp_path / SENT).read_text())["to"] == ADDRESS


def test_a_folder_goes_when_all_is_sent_but_not_with_the_only_copy_of_a_log(tmp_path: Path, daemon: Daemon) -> None:
    write(tmp_path / "one", ALL[:2])
    write(tmp_path / "two", ALL)
    for name in ("one", "two"):
        send(tmp_path / name, daemon)
    assert remove_sent(tmp_path / "one")
    assert not remove_sent(tmp_path / "two")
    assert [path.name for path in tmp_path.iterdir()] == ["two"]
    assert list(waiting(tmp_path, ADDRESS)) == []


def test_what_passes_does_not_end_the_sending_when_the_program_has_ended(tmp_path: Path, daemon: Daemon) -> None:
    write(tmp_path, ALL)
    daemon.slow = threading.Event()
    forwarder = Forwarder(tmp_path, ADDRESS, daemon.open)
    daemon.hiccups = [Busy("full"), DeadlineExceeded("slow"), StoreUnavailable("no room"), Busy("full")]
    threading.Timer(0.2, daemon.slow.set).start()
    sent = forwarder.finish()
    assert (sent.events, sent.left) == (len(ALL), False)
    assert daemon.taken == ALL


def test_what_was_refused_once_is_not_complete_for_another_process(tmp_path: Path, daemon: Daemon) -> None:
    write(tmp_path, ALL)
    daemon.refuses = type(LOADED)
    assert not send(tmp_path, daemon).complete
    sent = send(tmp_path, daemon)
    assert (sent.left, sent.refused, sent.refused_before, sent.complete) == (False, (), 1, False)


def test_a_folder_that_cannot_be_read_is_not_removed(tmp_path: Path, daemon: Daemon) -> None:
    write(tmp_path, ALL)
    send(tmp_path, daemon)
    for module in (tmp_path / "modules").iterdir():
        module.unlink()
    assert not remove_sent(tmp_path)
    assert tmp_path.exists()


def test_the_note_is_private_and_behind_no_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    with FolderSink(tmp_path / "out"):
        (tmp_path / "out" / SENT).symlink_to(precious)
        with pytest.raises(OSError, match="symbolic links"):
            Forwarder(tmp_path / "out", "unix:nowhere", fail)
        (tmp_path / "out" / SENT).unlink()
        Forwarder(tmp_path / "out", "unix:nowhere", fail).finish()
    assert precious.read_text() == "mine"
    assert (tmp_path / "out" / SENT).stat().st_mode & 0o777 == 0o600


def fail() -> AbstractContextManager[Sink]:
    raise ServerUnavailable("nobody is there")
