"""Events from a folder of captures to another sink, while the folder fills and after: a daemon that is slow, absent or
dies half-way holds nothing up, and gets each event later.

How far it got is in the file ``sent`` of the folder. It is written after the sink has taken an event, so that one
may be told again; a sink of events counts it once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from symd.capture import Sink
from symd.capture.folder_sink import EVENTS, events_of
from symd.errors import Busy, DeadlineExceeded, ServerUnavailable, SymdError, Unavailable
from symd.model.captures import CaptureEvent, FailedBuild
from symd.system.private_files import open_private

SENT: Final = "sent"
_TRY_AGAIN: Final = (Unavailable, DeadlineExceeded, Busy)
_PAUSE_SECONDS: Final = 0.5
"""Seconds between two tries."""
_PATIENCE_SECONDS: Final = 10.0
"""How long nothing may be taken, once the program has ended, before the rest is left for later."""

OpenSink = Callable[[], AbstractContextManager[Sink]]
_OF_THE_EVENT: Final = frozenset({"INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"})
"""Statuses of errors that concern one event alone. After any other error nothing can be sent until somebody mends its
cause."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of the events of a folder: ``events`` were sent by this process; ``left`` says whether some wait, and
    ``error`` why; ``refused`` has an error for each event that was refused for good, and ``refused_before`` counts such
    events of earlier processes."""

    events: int = 0
    left: bool = False
    error: SymdError | None = None
    refused: tuple[SymdError, ...] = ()
    refused_before: int = 0

    @property
    def complete(self) -> bool:
        """Whether the sink has all that is in the folder."""
        return not (self.left or self.refused or self.refused_before)


class Forwarder:
    """Sends the events of ``folder`` to the sink that ``open_sink`` opens, in a thread of its own."""

    def __init__(self, folder: Path, address: str, open_sink: OpenSink) -> None:
        """``address`` is written into the folder for later processes. Raises OSError, or BlockingIOError where another
        process sends this folder."""
        self._folder, self._address, self._open_sink = folder, address, open_sink
        self._note = open_private(folder / SENT, os.O_RDWR)
        try:
            fcntl.flock(self._note, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._note)
            raise
        note = os.pread(self._note, 4096, 0)
        self._position = _noted_number(note, "position")
        self._refused_before = _noted_number(note, "refused")
        self._events = 0
        self._error: SymdError | None = None
        self._refused: list[SymdError] = []
        self._write_note()
        self._more = threading.Event()
        self._last = threading.Event()
        self._progress = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="forward", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Say that there is another event in the folder."""
        self._more.set()

    def finish(self) -> Sent:
        """Send the rest, until ``_PATIENCE_SECONDS`` pass without an event sent. Returns what became of all events."""
        self._progress = time.monotonic()
        self._last.set()
        self._more.set()
        while self._thread.is_alive() and not self._has_waited_enough():
            self._thread.join(0.05)
        left = self._is_left()
        if not self._thread.is_alive():
            os.close(self._note)
        return Sent(self._events, left, self._error if left else None, tuple(self._refused), self._refused_before)

    def _is_left(self) -> bool:
        try:
            return self._position < (self._folder / EVENTS).stat().st_size
        except OSError:
            return True  # so that nobody removes it

    def _run(self) -> None:
        while True:
            last = self._last.is_set()
            self._more.clear()
            try:
                with self._open_sink() as sink:
                    self._send_until_the_end(sink)
                    return
            except _TRY_AGAIN as error:
                self._error = error
            except SymdError as error:  # the rest cannot be read, or there is no right or no room for it
                self._error = error
                return
            if not last:
                self._last.wait(_PAUSE_SECONDS)
            elif isinstance(self._error, ServerUnavailable) or self._has_waited_enough():
                return
            else:
                time.sleep(_PAUSE_SECONDS)

    def _has_waited_enough(self) -> bool:
        return time.monotonic() - self._progress >= _PATIENCE_SECONDS

    def _send_until_the_end(self, sink: Sink) -> None:
        while True:
            last = self._last.is_set()
            for event, behind in events_of(self._folder, self._position):
                self._send(sink, event)
                self._position = behind
                self._write_note()
                self._progress = time.monotonic()
                self._error = None
            if last:
                return
            self._more.wait()
            self._more.clear()

    def _send(self, sink: Sink, event: CaptureEvent) -> None:
        try:
            sink.take(event)
        except SymdError as error:
            if error.status not in _OF_THE_EVENT:
                raise
            self._refused.append(error)
        self._events += 1

    def _write_note(self) -> None:
        refused = self._refused_before + len(self._refused)
        fields = {"to": self._address, "position": self._position, "refused": refused}
        note = json.dumps(fields).encode()
        with contextlib.suppress(OSError):  # then some events are told again
            os.pwrite(self._note, note.ljust(128), 0)


class ForwardingSink:
    """Keeps events in a folder and wakes the ``forwarder``, once there is one, which sends them on."""

    def __init__(self, folder: Sink) -> None:
        self._folder = folder
        self.forwarder: Forwarder | None = None

    def take(self, event: CaptureEvent) -> None:
        """Keep it in the folder, and let the forwarder know."""
        self._folder.take(event)
        if self.forwarder is not None:
            self.forwarder.wake()


def waiting(captures: Path, address: str) -> Iterator[Path]:
    """Folders below ``captures`` with events for that address, none of which is being sent now."""
    for note in sorted(captures.glob(f"*/{SENT}")):
        fields: dict[str, object] = {}
        with contextlib.suppress(OSError):
            descriptor = os.open(note, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with closing(os.fdopen(descriptor, "rb")) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fields = _fields(file.read(4096))
        if fields.get("to") == address:
            yield note.parent


def remove_sent(folder: Path) -> bool:
    """Remove a folder whose events were all sent, unless a failed build is among them, as its log is nowhere else.
    Returns whether it is gone."""
    try:
        has_logs = any(isinstance(event, FailedBuild) for event, _ in events_of(folder))
    except SymdError:
        return False  # it cannot be read any more: the user may know why
    if has_logs:
        (folder / SENT).unlink(missing_ok=True)
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _noted_number(note: bytes, name: str) -> int:
    number = _fields(note).get(name, 0)
    return number if isinstance(number, int) and number >= 0 else 0


def _fields(note: bytes) -> dict[str, object]:
    try:
        fields = json.loads(note)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
