"""Folders into which compilers and drivers write what they build, for programs that nothing else reaches: they are
private to a run and watched while it lasts.

Sources: IGC's flags (``IGC_ElfDumpEnable``, ``IGC_DumpToCustomDir``), FAQ.md of Intel's compute runtime
(``NEO_CACHE_DIR``)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from symd.capture.folder import Finding, FolderModule, FolderWatch
from symd.capture.sink import Sink
from symd.config import Limits
from symd.errors import DeadlineExceeded, SymdError
from symd.model.captures import CaptureWay, ModuleForm, ModuleFound

_LOOK_SECONDS: Final = 0.2
"""How often it is asked whether the program has ended, while nothing is written."""

_ROUND_SECONDS: Final = 1.0
"""How often it is asked while files are written without a pause."""
_ENDING_SECONDS: Final = 10.0
"""How long half-written files are waited for once the program has ended: others that it left behind may write without
end."""


class DumpFolder:
    """Tells ``sink`` of each module in ``folder`` until ``finish``; the sink is told by other threads too, one at a
    time."""

    def __init__(self, folder: Path, sink: Sink, limits: Limits) -> None:
        self.modules = 0
        self.left_out: list[SymdError] = []
        """Why files were not taken, or the sink did not take them."""
        self._sink = sink
        self._watch = FolderWatch([folder], limits)
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(1, "dumps")
        self._running: Future[None] | None = None

    def start(self) -> None:
        """Begin to look, in a thread; what is there already counts too."""
        self._running = self._pool.submit(self._run)

    def finish(self) -> None:
        """Take what is there still, also half-written files: their writers have ended, or have some seconds to."""
        self._ended.set()
        self._pool.shutdown()
        if self._running:
            self._running.result()
        self._watch.close()

    def _run(self) -> None:
        self._take(self._watch.present())
        while not self._ended.is_set():
            self._take_arriving()
        until = time.monotonic() + _ENDING_SECONDS
        self._take_arriving()
        while self._watch.unsettled and time.monotonic() < until:
            self._take_arriving()
        if self._watch.unsettled:
            self.left_out.append(DeadlineExceeded("files were still being written when the program had ended"))

    def _take_arriving(self) -> None:
        self._take(self._watch.arriving(_LOOK_SECONDS, time.monotonic() + _ROUND_SECONDS))

    def _take(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            if not isinstance(finding, FolderModule):
                self.left_out.append(finding.error)
                continue
            now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            name = Path(finding.path).name
            event = ModuleFound(
                CaptureWay.FOLDER, now, ModuleForm.NATIVE_BINARY, finding.data, name, kernels=finding.kernels
            )
            try:
                self._sink.take(event)
                self.modules += 1
            except SymdError as error:
                self.left_out.append(error)
