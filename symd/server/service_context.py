"""What every handler works with: the engine, the queues, the limits, the disassemblers of this machine, and the source
texts that the operator allows to be read (``symd serve --source-root``). Disassemblers are looked for at most every 30
seconds, because walking PATH takes longer than a batch of addresses, and clients ask before each large batch what the
daemon takes.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import partial

from symd.api import Host
from symd.errors import Unavailable
from symd.model.sources import PathRule, SourceText
from symd.query.disasm import DISASSEMBLERS
from symd.query.source_files import Allowed, completed
from symd.rpc.wire.location_tables import NamedTables
from symd.server.config import Config
from symd.server.messages import BytesInFlight
from symd.server.standard_services import Watches
from symd.server.waiting import WaitingCalls
from symd.server.work_queues import WeightedSemaphore, WorkQueues
from symd.system.symlinks import read_below

REMEMBERED_SECONDS = 30.0
"""How long an installation, or a removal, may go unnoticed."""


class InstalledDisassemblers:
    """Looked up when they are asked for, at most every 30 seconds. Safe to use from several threads."""

    def __init__(self) -> None:
        self._found: tuple[float, dict[str, bool]] | None = None

    def by_name(self) -> dict[str, bool]:
        """For each disassembler that symd knows whether it is here."""
        now = time.monotonic()
        found = self._found
        if found is None or now - found[0] > REMEMBERED_SECONDS:
            found = self._found = now, {each.NAME: each.installed() for each in DISASSEMBLERS}
        return found[1]


class DiskSources:
    """Reads below the roots that ``config`` names, by its path rules."""

    def __init__(self, config: Config) -> None:
        rules = tuple(PathRule(prefix, here) for prefix, here in config.source_map)
        self._allowed = Allowed(config.source_roots, rules)
        self._read = partial(read_below, largest=config.limits.source_size)

    def completed(self, source: SourceText) -> SourceText:
        """``source`` itself where its module carried the text or no allowed file is the one, else the same with the
        file's text."""
        return completed(source, self._allowed, self._read)


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """The daemon as its handlers see it."""

    engine: Host
    config: Config
    work_queues: WorkQueues
    waiting: WaitingCalls
    flight: BytesInFlight
    watches: Watches
    addresses_at_work: WeightedSemaphore
    """Units are addresses of batches that are answered, in whatever thread: the memory that a batch takes meanwhile
    follows from them and not from the size of its request. It is several times the message, and few bytes of a request
    may stand for many addresses."""
    services: tuple[str, ...]
    """The full names of the services that are served."""
    tables: NamedTables = field(default_factory=NamedTables)
    disassemblers: InstalledDisassemblers = field(default_factory=InstalledDisassemblers)
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the daemon is asked to end: streams end after the batch at hand."""

    def check_running(self) -> None:
        """Raises ``Unavailable`` when the daemon is about to end."""
        if self.stopping.is_set():
            raise Unavailable("the daemon is stopping", hint="ask again when it is back")
