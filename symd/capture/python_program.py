"""Capture from inside a Python program: ``symd.capture.start()``. Triton says what it compiles, loads and unloads."""

from __future__ import annotations

import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, cast

from symd.capture import Sink
from symd.capture.folder_sink import FolderSink
from symd.capture.injected.symd_after_import import AfterImport
from symd.capture.injected.symd_capture import FOUND, LOADED, Handover, Tell, Told, TritonHooks
from symd.capture.process import RunningProcess
from symd.errors import InvalidInput, SymdError
from symd.model.captures import (
    CaptureApi,
    CapturedProcess,
    CaptureEvent,
    CaptureWay,
    ModuleForm,
    ModuleFound,
    ModuleLoaded,
    ModuleUnloaded,
)

if TYPE_CHECKING:
    from symd.api import Symbolizer

_RUN: Final = "SYMD_CAPTURE"
"""What ``symd run`` sets in the environment of the program: the folder of the run."""
_INJECTED: Final = "symd_after_import"
"""Loaded under this name where ``symd run`` listens already."""
_log: Final = logging.getLogger("symd.capture")


class PythonCapture:
    """Listens until ``stop``; a context manager. Modules that were compiled before are not seen. ``tell`` is None where
    somebody listens already."""

    def __init__(self, tell: Tell | None, close: Callable[[], None] | None = None) -> None:
        self._close = close
        self._hooks = TritonHooks(tell) if tell else None
        self._imported = AfterImport("triton.knobs", self._hooks.attach) if self._hooks else None
        if self._imported:
            self._imported.start()

    def stop(self) -> None:
        """Listen no more."""
        if self._imported:
            self._imported.stop()
        if self._hooks:
            self._hooks.detach()
        if self._close:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(destination: Sink | Symbolizer | str | os.PathLike[str] | None = None) -> PythonCapture:
    """Tell of every module that Triton compiles or finds in its cache, loads and unloads in this program, as of now,
    also where Triton is imported later. ``destination`` is a folder of captures, which is made where it is not there; a
    daemon's client; or any sink. None: ``symd run``, which must run this program.

    What a destination refuses is logged (``symd.capture``) and does not reach the program. Raises InvalidInput where
    nobody would be told.
    """
    if destination is not None:
        teller = _teller(destination)
        return PythonCapture(teller.tell, teller.close)
    folder = os.environ.get(_RUN, "")
    if not folder:
        raise InvalidInput(
            "nobody would be told of modules",
            hint="start the program with symd run, or give start() a folder or a Client",
        )
    if _INJECTED in sys.modules:
        return PythonCapture(None)
    return PythonCapture(Handover(folder, os.environ.get("SYMD_CAPTURE_KEY", "")).tell)


def _teller(destination: Sink | Symbolizer | str | os.PathLike[str]) -> _Teller:
    if isinstance(destination, str | os.PathLike):
        folder = FolderSink(Path(destination))
        return _Teller(folder, folder)
    if hasattr(destination, "take"):
        return _Teller(cast("Sink", destination))
    from symd.capture.daemon_sink import DaemonSink  # noqa: PLC0415 - 112 ms: few programs need it

    return _Teller(DaemonSink(destination))


def _renew(teller: weakref.ref[_Teller]) -> None:
    """Renew a teller after a fork. This stays registered forever, so it keeps no teller."""
    there = teller()
    if there is not None:
        there.renew()


class _Teller:
    """Makes events of what Triton's hooks tell, for a sink that is told by one thread at a time."""

    def __init__(self, sink: Sink, opened: FolderSink | None = None) -> None:
        self._sink, self._opened = sink, opened
        self._lock = threading.Lock()
        self._process: CapturedProcess | None = None
        self._closed = False
        os.register_at_fork(after_in_child=partial(_renew, weakref.ref(self)))

    def renew(self) -> None:
        """Begin anew in a process that was forked off, where another thread may have held the lock."""
        self._lock, self._process = threading.Lock(), None

    def tell(self, told: Told) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                self._sink.take(self._event(told))
            except SymdError as error:
                _log.warning("a module of Triton's was not kept: %s", error)

    def close(self) -> None:
        """Tell nothing more; a folder that was opened for it is closed."""
        with self._lock:
            if not self._closed and self._opened is not None:
                self._opened.close()
            self._closed = True

    def _event(self, told: Told) -> CaptureEvent:
        if self._process is None:
            self._process = RunningProcess(os.getpid()).identity
        process, kernels = self._process, (told.kernel,) if told.kernel else ()
        if told.kind == FOUND:
            return ModuleFound(
                CaptureWay.LISTENER,
                told.time,
                ModuleForm.NATIVE_BINARY,
                told.data,
                told.source,
                CaptureApi.TRITON,
                process,
                told.device,
                kernels,
            )
        if told.kind == LOADED:
            return ModuleLoaded(
                process,
                CaptureApi.TRITON,
                CaptureWay.LISTENER,
                told.handle,
                told.time,
                ModuleForm.NATIVE_BINARY,
                told.data,
                told.device,
                kernels,
            )
        return ModuleUnloaded(process, CaptureApi.TRITON, told.handle, told.time)
