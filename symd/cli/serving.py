"""What ``symd serve`` does once its options are read: a log that never blocks the daemon, and the daemon."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from symd.cli.output import write_line
from symd.cli.process import write
from symd.config import audit_file
from symd.engine.files.listing_sources import allowed_folders
from symd.model.sources import PathRule
from symd.server.config import Config
from symd.server.lifecycle import serve
from symd.server.logs import JsonLogFormatter, TextLogFormatter
from symd.system.messages import complain
from symd.system.private_files import make_folder, open_private
from symd.system.process.process import allow_open_files

log = logging.getLogger("symd.server")

_FILES = 1 << 16
"""Descriptors that the daemon asks the system for."""
_OTHER_FILES = 128
"""Descriptors of the daemon that are not connections: the store's, indexes, workers' pipes."""
_STANDARD_ERROR = 2


LINES: Final = 10_000
"""Lines kept while nobody takes any. Those that come then are counted, and the count is told later."""
LAST_SECONDS: Final = 1.0
"""How long the lines that are left have at the end."""


class BackgroundHandler(logging.Handler):
    """Writes lines to a descriptor from a thread of its own."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes | None] = queue.Queue(LINES)
        self._lost = 0
        self._thread = threading.Thread(target=self._write, name="symd-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Called under the handler's lock."""
        try:
            line = self._line(record)
            if self._lost:
                self._lines.put_nowait(self._line(_lost(self._lost)))
                self._lost = 0
            self._lines.put_nowait(line)
        except queue.Full:
            self._lost += 1
        except (ValueError, TypeError):  # a record whose arguments do not fit its text
            self.handleError(record)

    def close(self) -> None:
        """Let what is left be written, as long as somebody takes it."""
        if self._thread.is_alive():
            try:
                self._lines.put(None, timeout=LAST_SECONDS)
                self._thread.join(LAST_SECONDS)
            except queue.Full:
                pass
        super().close()

    def _line(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode("utf-8", "backslashreplace")

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                write(self._descriptor, line)
            except OSError:  # nobody will ever read it: what follows is thrown away
                self._descriptor = os.open(os.devnull, os.O_WRONLY)


def _lost(count: int) -> logging.LogRecord:
    """A record like others, so that it is written as they are, in JSON too."""
    text = "%d lines of the log were lost: nobody took them"
    return logging.LogRecord("symd.log", logging.WARNING, __file__, 0, text, (count,), None)


def serve_until_stopped(
    config: Config,
    roots: Sequence[Path],
    rules: Sequence[PathRule],
    warnings: Sequence[str],
    *,
    verbose: bool,
    as_json: bool,
) -> int:
    """Run the daemon, which may read source files below ``roots`` and by ``rules``; the exit code. ``warnings`` go to
    the log first. Raises BadQuery for a rule that leads to no folder."""
    _configure_log(verbose=verbose, as_json=as_json)
    logging.getLogger("symd.audit").setLevel(logging.INFO)  # who wrote what is always told
    allowed = allowed_folders(roots, rules, only_roots=True)
    source_map = tuple((rule.prefix, rule.replacement) for rule in allowed.rules)
    config = replace(config, source_roots=allowed.roots, source_map=source_map)
    files = allow_open_files(_FILES)
    if config.limits.connections + _OTHER_FILES > files:
        log.warning(
            "connections is %d, and the system lets this process open %d files: further connections will wait; "
            "raise the hard limit (ulimit -Hn, LimitNOFILE=)", config.limits.connections, files,
        )  # fmt: skip
    for sentence in warnings:
        log.warning("%s", sentence)
    if os.isatty(_STANDARD_ERROR):
        is_default = config.address == Config().address
        stop = "symd stop" if is_default else f"symd stop --server {config.address}"
        ask = f"symd symbolize --server {'default' if is_default else config.address} FILE ADDRESS"
        complain(f"it runs in the foreground until Ctrl-C here, or {stop} in another terminal; {ask} asks it")
    return serve(config, ready=_say_ready)


def _configure_log(*, verbose: bool, as_json: bool) -> None:
    handler = BackgroundHandler(_STANDARD_ERROR)
    handler.setFormatter(JsonLogFormatter() if as_json else TextLogFormatter(verbose=verbose))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=(handler,))
    if not verbose and os.isatty(_STANDARD_ERROR):
        _move_audit_log(handler.formatter)


def _move_audit_log(formatter: logging.Formatter | None) -> None:
    """Write the lines about changes to a file, and say which: in a terminal they would be between answers. They stay
    where the file cannot be opened."""
    path = audit_file()
    try:
        make_folder(path.parent, parents=True, exist_ok=True)
        handler = BackgroundHandler(open_private(path, os.O_WRONLY | os.O_APPEND))
    except OSError:
        return
    handler.setFormatter(formatter)
    audit = logging.getLogger("symd.audit")
    audit.addHandler(handler)
    audit.propagate = False
    complain(f"changes are logged in {path}")


def _say_ready(address: str) -> None:
    write_line(f"symd serves at {address}")
    sys.stdout.flush()
