"""The daemon's life: open the engine, listen, say that it is ready, and end gracefully on SIGTERM or SIGINT."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FrameType

from symd.api import Host
from symd.config import Config
from symd.engine import Engine
from symd.service.addresses import UNIX, is_local, listening
from symd.service.building import Workers
from symd.service.server import build_daemon
from symd.store import Store

log = logging.getLogger("symd.service")

Ready = Callable[[str], None]
"""Told each address that clients use, once calls are answered there."""


def serve(config: Config, engine: Host | None = None, ready: Ready | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Without ``engine`` it opens one over ``config.store``.

    Calls that run when the signal comes get ``config.grace`` seconds; a second signal does not wait.
    """
    with ExitStack() as stack:
        stop = stack.enter_context(_signals())
        daemon = build_daemon(engine or stack.enter_context(_opened(config)), config)
        wanted = dict.fromkeys(config.addresses or (config.address,))
        addresses = [stack.enter_context(listening(daemon.server, address)) for address in wanted]
        daemon.server.start()
        for address in addresses:
            _announce(address, ready)
        stop.wait()
        log.info("stopping; running calls have %g s", config.grace)
        daemon.stop(config.grace)
    return 0


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that the first SIGTERM or SIGINT sets; after that the signals mean what they meant before."""
    stop = threading.Event()
    before: dict[int, object] = {}

    def note(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # it came from signal.signal

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, note)
    yield stop


@contextmanager
def _opened(config: Config) -> Iterator[Host]:
    """The engine over the configured store, with the real drivers and disassemblers."""
    import zstandard  # noqa: F401, PLC0415 - indexes import it when they first need it: that would be a question's time

    from symd.disasm import disassemble  # noqa: PLC0415 - a daemon that is given its engine needs neither
    from symd.drivers import grab  # noqa: PLC0415

    with (
        Workers(config.builders) as workers,
        Engine(
            Store(config.store, config.limits),
            config.limits,
            partial(grab, drivers=config.drivers),
            disassemble,
            workers.build,
        ) as engine,
    ):
        engine.resume()
        yield engine


def _announce(address: str, ready: Ready | None) -> None:
    log.info("serving at %s", address)
    if not address.startswith(UNIX) and not is_local(address):
        log.warning("whoever reaches %s may use and fill this store: there is no encryption and no password", address)
    if ready is not None:
        ready(address)
