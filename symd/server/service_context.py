"""What every handler works with."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from symd.api import Host
from symd.errors import Unavailable
from symd.rpc.wire.location_tables import NamedTables
from symd.server.bytes_in_flight import BytesInFlight
from symd.server.config import Config
from symd.server.health import Watches
from symd.server.installed_disassemblers import InstalledDisassemblers
from symd.server.waiting import WaitingCalls
from symd.server.work_queues import WeightedSemaphore, WorkQueues


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
    """Units are addresses of batches that are answered, in whatever thread: the memory that a batch takes meanwhile follows from them and
    not from the size of its request. It is several times the message, and few bytes of a request may stand for many addresses."""
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
