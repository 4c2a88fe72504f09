"""Takes what the libraries in a program hand over, while it runs, and tells a sink.

The kernel says whose connection it is, and who sent or wrote each record. A record is taken if root or the run's own
user wrote it. A record of another user is taken only if it has the run's key, which is in the environment of the run's
programs: a program of root's may have become that user.

One thread waits on the run's socket, on each process's connection and on each process's end. The sink hears of what
came in before it hears of the process's end. The libraries may be another program's work, so that each message and file
is checked (``records``), is read within limits, and costs at most its own connection.

What runs that were killed have left is taken in the same way: their programs went on, and their libraries wrote records
into files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hmac
import logging
import os
import selectors
import socket
import stat
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import filterfalse
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from symd.capture import CaptureCounts, Sink
from symd.capture.folder_sink import FolderSink, events_of
from symd.capture.process import UNKNOWN_USER, boot_id, image_number, is_running, is_trusted, opened
from symd.capture.program_files import is_device_code, read_part
from symd.capture.records import Record, RecordEvents, RecordKind, parse_record, time_of
from symd.capture.run_folder import RunFolder, abandoned, listen, written_at
from symd.config import Limits
from symd.errors import LimitExceeded, Malformed, PermissionDenied, SymdError
from symd.formats.containers import uri
from symd.model.captures import CapturedProcess, CaptureEvent, CaptureWay, ModuleForm, ModuleFound, ModuleLoaded

_log: Final = logging.getLogger("symd.capture")
CAPTURE_SIZE: Final = 1 << 30
"""What a captured program hands over of one module: its debug data, binary, build log."""
_MESSAGE_BYTES: Final = 1 << 16
_LOOK_SECONDS: Final = 1.0
"""How often the folder for records that could not be sent is looked at while nothing comes."""
_GATHER_SECONDS: Final = 0.002
"""What comes right behind another is taken with it: each wakening takes a processor that the program may want."""
_CREDENTIALS: Final = struct.Struct("=iII")
"""Process, user and group of a peer, or of who sent a message (unix(7), SO_PEERCRED and SCM_CREDENTIALS)."""
_CONTROL_BYTES: Final = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(struct.calcsize("i"))
"""What comes with a message: who sent it, and one file."""
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


_BUILDS: Final = (RecordKind.LOADED, RecordKind.BUILD_FAILED)
_REASONS_KEPT: Final = 5
_ROUNDS: Final = 20
"""How often what comes is looked at again for what came meanwhile: a program may write without end."""
_MESSAGES_AT_ONCE: Final = 1000
"""How many messages of a connection, and how many connections, are taken before the others have their turn."""
_LAST_SECONDS: Final = 5.0
"""How long programs may go on sending after the end of the run, faster than it is read."""
_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EIO, errno.EINTR})
"""Errors of opening and reading after which another try may do."""


@dataclass(slots=True)
class _Connection:
    """One process's end. ``process`` of ``user`` is who connected, as the kernel says; ``own_number`` what it calls
    itself, which is another in a process namespace of its own."""

    socket: socket.socket
    process: int
    user: int
    own_number: int = 0
    received: int = 0


class _Sent(NamedTuple):
    """A message, and the user who sent it, as the kernel says: whoever connected may have become another user since, or
    have left the connection to a process of one."""

    data: bytes
    user: int


class Receiver:
    """Listens in a run's folder from when it is made to ``finish``."""

    def __init__(self, folder: RunFolder, sink: Sink, limits: Limits, before: Iterable[CaptureEvent] = ()) -> None:
        """``before`` are the events of a run that was killed, where this one goes on in its folder. Raises OSError
        where the folder has no room for the socket."""
        self.counts = CaptureCounts()
        self._folder, self._sink, self._limits = folder, sink, limits
        self._events = RecordEvents()
        self._events.resume(before)
        self._selector = selectors.DefaultSelector()
        self._ends: dict[int, int] = {}
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ended_before: list[int] = []
        try:
            self._listen()
        except OSError:
            self._close()
            raise
        self._pool = ThreadPoolExecutor(1, "capture")
        self._running: Future[None] | None = None

    def _listen(self) -> None:
        self._listener.setblocking(False)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # of who connects too (unix(7))
        listen(self._folder, self._listener)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def start(self) -> None:
        """Take what comes, in a thread. What is handed over before waits."""
        self._running = self._pool.submit(self._run)

    def finish(self) -> CaptureCounts:
        """Take what is there still, tell that every process ended, close; what came in."""
        os.eventfd_write(self._wake, 1)
        if self._running is None:
            self.start()
        self._pool.shutdown()
        if self._running is not None:
            self._running.result()
        return self.counts

    def _run(self) -> None:
        try:
            wanted = True
            while wanted:
                ready = self._selector.select(_LOOK_SECONDS)
                wanted = not any(key.fileobj == self._wake for key, _ in ready)
                if ready and wanted:
                    time.sleep(_GATHER_SECONDS)
                if self._take_all():
                    for key, _ in ready:
                        if isinstance(key.data, int):
                            self._end(key.data)
            self._take_last()
            for process in self._events.processes():
                self._end(process)
        finally:
            self._close()

    def _take_last(self) -> None:
        """What is there still. Who goes on sending as fast as it is read is left, and counted."""
        deadline = time.monotonic() + _LAST_SECONDS
        while not (complete := self._take_all()) and time.monotonic() < deadline:
            pass
        self.counts.lost += len(self._folder.spooled()) + (not complete)

    def _take_all(self) -> bool:
        """Everything that was handed over before now, in the order of its times: what could not be sent is in files
        between. Whether it was all: a program may send without end, and then there is more."""
        came: list[tuple[_Sent, _Connection]] = []
        closed: list[_Connection] = []
        before: list[Path] | None = None
        files = self._folder.spooled()
        complete, rounds = True, 0
        while complete and files != before and rounds < _ROUNDS:
            rounds += 1  # something written meanwhile may belong before something that was sent
            complete = self._accept_all() and self._drain_all(came, closed)
            before, files = files, self._folder.spooled()
        written = ((written_at(path), partial(self._take_file, path)) for path in files)
        sent = ((time_of(each.data), partial(self._take_sent, each, connection)) for each, connection in came)
        for _, take in sorted((*written, *sent), key=itemgetter(0)):
            take()
        for connection in closed:
            self._closed(connection.process)
        while self._ended_before:
            self._end(self._ended_before.pop())
        return complete and files == before

    def _accept_all(self) -> bool:
        """Whether nobody waits any more."""
        try:
            for _ in range(_MESSAGES_AT_ONCE):
                self._accept()
        except OSError as error:
            # where no more files can be opened they go on without; the listener would be ready all the time
            self._heed_listener(heed=error.errno not in _PASSING)
            return True
        return False

    def _heed_listener(self, *, heed: bool) -> None:
        heeded = self._listener in self._selector.get_map()
        if heed and not heeded:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif heeded and not heed:
            self._selector.unregister(self._listener)

    def _drain_all(self, came: list[tuple[_Sent, _Connection]], closed: list[_Connection]) -> bool:
        """Add what was sent, as many bytes as a record may have and one record more; whether it was all. Who sent least
        comes first."""
        connections = [key.data for key in self._selector.get_map().values() if isinstance(key.data, _Connection)]
        complete = True
        for connection in sorted(connections, key=lambda each: each.received):
            count, room = len(came), CAPTURE_SIZE - sum(len(each.data) for each, _ in came)
            if room < 0:
                return False
            if not self._drain(connection, came, room):
                self._drop(connection)
                closed.append(connection)
            sizes = [len(each.data) for each, _ in came[count:]]
            connection.received += sum(sizes)
            complete = complete and len(sizes) < _MESSAGES_AT_ONCE and sum(sizes) <= room
        return complete

    def _accept(self) -> None:
        connected, _ = self._listener.accept()
        connected.setblocking(False)
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        process, user, _ = _CREDENTIALS.unpack(credentials)
        self._selector.register(connected, selectors.EVENT_READ, _Connection(connected, process, user))

    def _drain(self, connection: _Connection, came: list[tuple[_Sent, _Connection]], room: int) -> bool:
        """Add what was sent, to where it is more than ``room`` bytes; False when nobody holds the other end, or what it
        sent is refused."""
        for _ in range(_MESSAGES_AT_ONCE):
            if room < 0:
                break
            try:
                sent = self._receive(connection.socket)
            except BlockingIOError:
                return True
            except OSError:
                return False
            except SymdError as error:
                self._refuse(error)
                return False
            if sent is None:
                return False
            came.append((sent, connection))
            room -= len(sent.data)
        return True

    def _drop(self, connection: _Connection) -> None:
        if connection.socket.fileno() >= 0:
            self._selector.unregister(connection.socket)
            connection.socket.close()

    def _take_sent(self, sent: _Sent, connection: _Connection) -> None:
        """What makes no sense costs its sender the connection."""
        try:
            self._take(sent, (connection.user, sent.user), connection)
        except SymdError as error:
            self._refuse(error)
            self._drop(connection)

    def _receive(self, connected: socket.socket) -> _Sent | None:
        """The next record; None when nobody holds the other end. Raises BlockingIOError where there is none yet."""
        data, control, _, _ = connected.recvmsg(_MESSAGE_BYTES, _CONTROL_BYTES, socket.MSG_CMSG_CLOEXEC)
        files = [
            number
            for level, kind, content in control
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS
            for (number,) in struct.iter_unpack("i", content[: len(content) // 4 * 4])
        ]
        try:
            if not data and not files:
                return None
            return _Sent(self._in_memory(files[0]) if files else data, _sender(control))
        finally:
            for number in files:
                os.close(number)

    def _in_memory(self, descriptor: int) -> bytes:
        """The bytes of a file in memory that nobody can change any more: reading another file might wait forever."""
        try:
            sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS == _SEALS
        except OSError:
            sealed = False
        if not sealed:
            raise Malformed("its bytes are not in a sealed file in memory", where="captured record")
        return self._whole(descriptor)

    def _whole(self, descriptor: int) -> bytes:
        size = os.fstat(descriptor).st_size
        if size > CAPTURE_SIZE:
            metadata = {"limit": "capture_size"}
            raise LimitExceeded(
                f"{size} bytes, and at most {CAPTURE_SIZE} are taken",
                where="captured record",
                metadata=metadata,
            )
        if 0 < size != os.lseek(descriptor, 0, os.SEEK_HOLE):
            # it would take this process's memory, and took none of the program's, nor of its disk
            raise Malformed("its file has holes", where="captured record")
        parts: list[bytes] = []
        at = 0
        while at < size and (part := os.pread(descriptor, size - at, at)):
            parts.append(part)
            at += len(part)
        return b"".join(parts)  # the one part that it nearly always is, without a copy

    def _take_file(self, path: Path) -> None:
        """A record that could not be sent. The file is removed when it was told, makes no sense, or may not be read."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Malformed("it is not a file", where=str(path))
                status = os.fstat(descriptor)
                self._take(_Sent(self._whole(descriptor), _writer(status)), (status.st_uid,), None)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno in _PASSING:
                return  # it stays, and the next look finds it
            self.counts.lost += 1
        except SymdError as error:
            self._refuse(error)
        with contextlib.suppress(OSError):
            path.unlink()

    def _take(self, sent: _Sent, users: Sequence[int], connection: _Connection | None) -> None:
        """``users`` are who may have had a hand in it: a program with more rights may write to another's connection
        what that wants."""
        record = parse_record(sent.data)
        self._check_known(users, record.key)
        process = self._process(record, connection)
        self.counts.said_lost += record.lost
        if record.kind is RecordKind.FOUND and not any(record.data.values()):
            record = replace(record, data={ModuleForm.NATIVE_BINARY: self._part_of_file(record.source, sent.user)})
        if record.kind in _BUILDS or (record.kind is RecordKind.FOUND and record.way is CaptureWay.LISTENER):
            self.counts.builds += 1
            self.counts.failed += record.kind is RecordKind.BUILD_FAILED
        for event in self._events.events(record, process):
            self._tell(event)
        self._expect_end(process)

    def _check_known(self, users: Sequence[int], key: str) -> None:
        """Raises PermissionDenied for a stranger. The first few are logged."""
        stranger = next(filterfalse(is_trusted, users), None)
        if stranger is None or (self._folder.key and hmac.compare_digest(key.encode(), self._folder.key.encode())):
            return
        who = "a user who is not known" if stranger == UNKNOWN_USER else f"user {stranger}"
        error = PermissionDenied(f"{who} does not have the run's key", where="captured record")
        if len(self.counts.refused) < _REASONS_KEPT:  # a stranger may go on without end
            _log.warning("refused: %s", error)
        raise error

    def _part_of_file(self, source: str, user: int) -> bytes:
        """Device code that a program of ``user`` brought along in a file, which that user may read. Raises what parsing
        the URI and reading raise, Malformed for other bytes."""
        data = read_part(uri.parse_uri(source), self._limits, partial(opened, user))
        if not is_device_code(data):
            raise Malformed("what it names is not device code", where="captured record")
        return data

    def _process(self, record: Record, connection: _Connection | None) -> int:
        """The process's number as it is here. A connection that a process inherited is another's, and a file is
        nobody's."""
        if connection is None:
            return record.process
        if not connection.own_number:
            connection.own_number = record.process
        return connection.process if connection.process and record.process == connection.own_number else record.process

    def _tell(self, event: CaptureEvent) -> None:
        try:
            self._sink.take(event)
        except SymdError as error:
            self.counts.untold = self.counts.untold or error
            self.counts.untold_events += 1
            return
        if isinstance(event, ModuleLoaded) or (isinstance(event, ModuleFound) and event.way is CaptureWay.LISTENER):
            self.counts.modules += 1
            self.counts.ways[event.way] += 1
        elif isinstance(event, ModuleFound):
            self.counts.brought += 1

    def _refuse(self, error: SymdError) -> None:
        self.counts.refusals += 1
        if len(self.counts.refused) < _REASONS_KEPT:
            self.counts.refused.append(error)

    def _expect_end(self, process: int) -> None:
        if process in self._ends:
            return
        try:
            end = os.pidfd_open(process)
        except OSError as error:
            if error.errno in _PASSING:
                return  # the next record of it, or the end of the run, will do
            end = -1
            self._ended_before.append(process)
        self._ends[process] = end
        if end >= 0:
            self._selector.register(end, selectors.EVENT_READ, process)

    def _closed(self, process: int) -> None:
        """Nobody holds a process's connection any more: it closed its descriptors, or became another program."""
        known = self._events.image(process)
        if known and image_number(process) not in (known, 0):
            self._end(process)

    def _end(self, process: int) -> None:
        for event in self._events.ended(process, time.clock_gettime_ns(time.CLOCK_BOOTTIME)):
            self._tell(event)
        end = self._ends.pop(process, -1)
        if end >= 0:
            self._selector.unregister(end)
            os.close(end)

    def _close(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Connection):
                key.data.socket.close()
        for end in self._ends.values():
            if end >= 0:
                os.close(end)
        self._selector.close()
        self._listener.close()
        os.close(self._wake)


def _sender(control: Sequence[tuple[int, int, bytes]]) -> int:
    """The user who sent a message."""
    for level, kind, content in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(content) == _CREDENTIALS.size:
            _, user, _ = _CREDENTIALS.unpack(content)
            return int(user)
    return UNKNOWN_USER


def _writer(status: os.stat_result) -> int:
    """The user who wrote a file, where nobody else could."""
    return UNKNOWN_USER if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else status.st_uid


def recover(limits: Limits) -> int:
    """Take the records of killed runs of this user to their folders of captures, and remove the runs' folders; how many
    modules there were. Those whose programs still run are left for later, and so is one whose captures cannot be
    kept."""
    modules = 0
    for folder, out in abandoned():
        try:
            if not folder.inner.exists():
                folder.remove()
                continue
            with FolderSink(out, limits.capture_bytes) as sink:
                counts = Receiver(folder, sink, limits, _events_of_ended(out)).finish()
        except (SymdError, OSError):  # no room, no right or no descriptor: a later run tries again
            folder.leave()
            continue
        modules += counts.modules
        if folder.spooled():
            folder.leave()
        else:
            folder.remove()
    return modules


def _events_of_ended(out: Path) -> Iterator[CaptureEvent]:
    """The events of processes that run no more: several runs may share the folder, and those of others go on."""
    runs = functools.cache(partial(_may_run, os.uname().nodename, boot_id()))
    for event, _ in events_of(out, damaged=partial(_log.warning, "passed over: %s")):
        if not isinstance(event, ModuleFound) and not runs(event.process):
            yield event


def _may_run(host: str, boot: str, process: CapturedProcess) -> bool:
    if process.host != host:
        return True
    return process.boot in (boot, "") and is_running(process.process, process.start_time)
