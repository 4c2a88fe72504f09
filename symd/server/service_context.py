"""What every handler works with: the engine, the queues, the limits, the disassemblers of this machine, and the source
texts that the operator allows to be read (``symd serve --source-root``)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
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


def installed_disassemblers() -> dict[str, bool]:
    """For each disassembler that symd knows whether it is here."""
    return {each.NAME: each.installed() for each in DISASSEMBLERS}


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
    disassemblers: Mapping[str, bool] = field(default_factory=installed_disassemblers)
    """Whether each disassembler was here when the daemon was started: walking PATH takes longer than a batch of
    addresses, and clients ask before each large batch what the daemon takes."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the daemon is asked to end: streams end after the batch at hand."""

    def check_running(self) -> None:
        """Raises ``Unavailable`` when the daemon is about to end."""
        if self.stopping.is_set():
            raise Unavailable("the daemon is stopping", hint="ask again when it is back")
