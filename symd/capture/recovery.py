"""What runs that were killed have left: their programs went on, and their libraries wrote records into files."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from symd.capture.folder_sink import FolderSink, events_of
from symd.capture.process import boot_id, is_running
from symd.capture.receiver import Receiver
from symd.capture.run_folder import abandoned
from symd.config import Limits
from symd.errors import SymdError
from symd.model.captures import CapturedProcess, CaptureEvent, ModuleFound

_log: Final = logging.getLogger("symd.capture")


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
                counts = Receiver(folder, sink, limits, _of_ended(out)).finish()
        except (SymdError, OSError):  # no room, no right or no descriptor: a later run tries again
            folder.leave()
            continue
        modules += counts.modules
        if folder.spooled():
            folder.leave()
        else:
            folder.remove()
    return modules


def _of_ended(out: Path) -> Iterator[CaptureEvent]:
    """The events of processes that run no more: several runs may share the folder, and those of others go on."""
    runs = functools.cache(partial(_may_run, os.uname().nodename, boot_id()))
    for event, _ in events_of(out, damaged=partial(_log.warning, "passed over: %s")):
        if not isinstance(event, ModuleFound) and not runs(event.process):
            yield event


def _may_run(host: str, boot: str, process: CapturedProcess) -> bool:
    if process.host != host:
        return True
    return process.boot in (boot, "") and is_running(process.process, process.start_time)
