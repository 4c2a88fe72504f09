"""Where what `symd run` captures goes: a folder that the user names, or a folder of symd's and from there to a
daemon."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from symd.capture import Sink
from symd.capture.folder_sink import EVENTS, LOCK, MODULES, SOURCES
from symd.capture.forward import SENT, Forwarder, Sent, remove_sent, waiting
from symd.config import default_captures, own_socket
from symd.errors import FailedPrecondition, InvalidInput, PermissionDenied, StoreUnavailable, SymdError
from symd.model.captures import CaptureEvent
from symd.system.atomic_output import writing
from symd.system.messages import os_error_text
from symd.system.private_files import ensure_writable, new_folder
from symd.system.symlinks import anothers, resolved

if TYPE_CHECKING:
    from symd.capture.daemon_sink import DaemonSink
    from symd.client import Client

_CALL_SECONDS = 30.0
"""The longest that one call to the daemon may take."""
_HEALTH_SECONDS = 10.0
"""The longest that a daemon is waited for which was told nothing, to say that it is there."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where captured events go. ``folder`` takes every event first. ``address`` is the daemon that then gets them,
    "" for none; ``named`` says that the user named the folder, ``why_there`` why it is a temporary one ("" where it
    is not)."""

    folder: Path
    address: str
    named: bool
    why_there: str = ""

    def forwarder(self) -> Forwarder | None:
        """What tells the daemon, where there is one; from now on, in a thread."""
        return Forwarder(self.folder, self.address, lambda: daemon_sink(self.address)) if self.address else None

    def tidy(self, sent: Sent | None) -> bool:
        """Remove the folder where nobody needs it: nothing was captured, or a daemon has all of it. Whether it is
        gone."""
        if self.named:
            return False
        if sent is not None and sent.events and sent.complete and not (self.folder / SOURCES).exists():
            return remove_sent(self.folder)
        return _remove_empty(self.folder)


def destination(program: str, out: Path | None, server: str | None) -> Destination:
    """``out``, or a new folder and the daemon ``server``: None is the default one if it runs, "" none."""
    if out is not None:
        if server:
            raise click.UsageError("--out and --server cannot be used together")
        return Destination(_led_to(out), "", named=True)
    began = time.strftime("%Y%m%d-%H%M%S")
    name = f"{began}-{Path(program).name}-{os.getpid()}"
    address = _default_daemon() if server is None else server
    try:
        captures = default_captures().absolute()
    except FailedPrecondition:
        why = "there is no home folder; set SYMD_CAPTURES to a folder that can be written"
        return Destination(_temporary(name), address, named=False, why_there=why)
    stranger = _anothers(captures)
    if os.environ.get("SYMD_CAPTURES") or (stranger is None and ensure_writable(captures)):
        return Destination(captures / name, address, named=False)
    if stranger is None:
        why = f"{captures} cannot be written; set SYMD_CAPTURES to a folder that can"
    else:
        why = f"{stranger}, on the way to {captures}, is another user's; set SYMD_CAPTURES to a folder that is yours"
    return Destination(_temporary(name), address, named=False, why_there=why)


def _anothers(path: Path) -> Path | None:
    """What another user may change on the way to a place that nobody named: $HOME is his where root got it from him."""
    try:
        return anothers(path)
    except OSError:
        return None  # it cannot be used either, and that is told with its reason


def _led_to(out: Path) -> Path:
    """Where a folder that the user named leads, through nobody else's link (``system.symlinks.resolved``)."""
    with writing(out, "choose another --out"):
        return resolved(out)


def _temporary(name: str) -> Path:
    """A new folder that is this user's alone. Raises StoreUnavailable."""
    try:
        return new_folder(f"symd-captures-{name}-")
    except OSError as error:
        hint = "set SYMD_CAPTURES or TMPDIR to a folder that you may write in"
        raise StoreUnavailable(f"cannot create a folder for captures: {os_error_text(error)}", hint=hint) from error


def send_waiting(address: str) -> int:
    """Send the daemon what earlier runs could not; how many events it took."""
    events = 0
    try:
        captures = default_captures()
    except FailedPrecondition:
        return events
    if not os.environ.get("SYMD_CAPTURES") and _anothers(captures) is not None:
        return events
    for folder in waiting(captures, address):
        with contextlib.suppress(OSError):
            sent = Forwarder(folder, address, lambda: daemon_sink(address)).finish()
            events += sent.events
            if sent.left:
                break
            if sent.complete and not (folder / SOURCES).exists():
                remove_sent(folder)
    return events


def unanswered(address: str) -> str:
    """Why a daemon that was told nothing would have taken nothing; "" where one answers."""
    try:
        client, _ = _client_and_sink(address, _HEALTH_SECONDS)
        with client:
            client.health()
    except PermissionDenied:  # one answers
        return ""
    except SymdError as error:
        return str(error)
    return ""


@contextlib.contextmanager
def daemon_sink(address: str) -> Iterator[Sink]:
    """A sink that a daemon is behind, while it is open."""
    client, sink = _client_and_sink(address, _CALL_SECONDS)
    with client:
        yield RefusalsToldSink(sink)


def _client_and_sink(address: str, seconds: float) -> tuple[Client, DaemonSink]:
    from symd.capture.daemon_sink import client_and_sink  # noqa: PLC0415 - 186 ms: gRPC is slow to import

    return client_and_sink(address, seconds)


class RefusalsToldSink:
    """A sink in front of a daemon's that raises InvalidInput for an event whose module the daemon does not take,
    after the daemon was told all else: otherwise the folder would be taken for sent, and removed with the only copy
    of the module."""

    def __init__(self, sink: DaemonSink) -> None:
        self._sink = sink

    def take(self, event: CaptureEvent) -> None:
        """Tell the daemon an event, as ``DaemonSink.take`` does. Raises InvalidInput where the daemon refuses the
        event's module for good."""
        self._sink.take(event)
        if self._sink.refused:
            digest, error = self._sink.refused.popitem()
            raise InvalidInput(f"module {digest} was refused: {error}") from error


def _default_daemon() -> str:
    """The address of the user's own daemon if one listens there, else "". It is asked without gRPC, which takes a
    while to load. A socket that another user may have put there does not count."""
    path = own_socket()
    if path is None or _anothers(path) is not None:
        return ""
    with socket.socket(socket.AF_UNIX) as asked:
        try:
            asked.connect(str(path))
        except OSError:
            return ""
    return f"unix:{path}"


def _remove_empty(folder: Path) -> bool:
    """Remove a folder into which nothing was captured."""
    try:
        if (folder / EVENTS).stat().st_size:
            return False
    except OSError:
        return not folder.exists()
    for file in (EVENTS, LOCK, SENT):
        (folder / file).unlink(missing_ok=True)
    for inner in (folder / MODULES, folder / SOURCES, folder):
        with contextlib.suppress(OSError):
            inner.rmdir()
    return not folder.exists()
