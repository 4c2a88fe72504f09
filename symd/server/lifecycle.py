"""The daemon's life: open the engine, listen, report that it is ready (to systemd by sd_notify(3): a datagram to the
socket in $NOTIFY_SOCKET), and end gracefully on SIGTERM or SIGINT.

Spans are sent to a collector where somebody asks for them. OpenTelemetry is an extra (``symd-gpu[otel]``) and is
imported only then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import TimeoutError as TooSlow
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from symd.api import Host
from symd.capture.drivers import grab
from symd.engine.engine import Engine
from symd.errors import FailedPrecondition, InvalidInput, SymdError, extra_hint
from symd.query.disasm import disassemble
from symd.server.config import Config, ListenConfig, rights_text
from symd.server.listening import UNIX, GrpcServer, listening
from symd.server.logs import audit_eviction
from symd.server.metrics import Metrics
from symd.server.own_process import frequent_thread_switches, heap_trimmed, pinned_to_one_cpu
from symd.server.server import build_daemon
from symd.server.workers import Workers
from symd.store import ModuleStore, Store
from symd.store.shared import shared_urls
from symd.system import private_files
from symd.system.process.fork_server import ForkServer

if TYPE_CHECKING:
    from symd.server.http_server import ServedPage
    from symd.server.spans import Spans


READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"
_VARIABLE: Final = "NOTIFY_SOCKET"
_SECONDS: Final = 1.0


def notify(state: str) -> None:
    """Send the service manager ``state``, where there is one. One that does not take it holds nobody up."""
    name = os.environ.get(_VARIABLE, "")
    if not name.startswith(("/", "@")):
        return
    address = f"\0{name[1:]}" if name.startswith("@") else name
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender, suppress(OSError):
        sender.settimeout(_SECONDS)
        sender.sendto(state.encode(), address)


@contextmanager
def watchdog_notified(server: GrpcServer) -> Iterator[None]:
    """Send it ``ALIVE`` as often as it asks for ($WATCHDOG_USEC, sd_watchdog_enabled(3)), as long as the event loop
    runs: a daemon that answers nobody any more is started again."""
    period = _watchdog_seconds()
    if not period:
        yield
        return
    over = threading.Event()

    def notify_while_alive() -> None:
        while not over.wait(period / 4):
            with suppress(TooSlow, RuntimeError):  # it stands still, or has ended
                server.wait_for(asyncio.sleep(0), period)
                notify(ALIVE)

    threading.Thread(target=notify_while_alive, name="symd-watchdog", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watchdog_seconds() -> float:
    """The interval within which the manager wants ``ALIVE``; 0 where it asks for none."""
    text, process = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    return int(text) / 1e6 if text.isdecimal() and process in ("", str(os.getpid())) else 0.0


log = logging.getLogger("symd.server")

Ready = Callable[[str], None]
"""Called with each address that clients use, once calls are answered there."""


def serve(config: Config, engine: Host | None = None, ready: Ready | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Without ``engine`` it opens one over ``config.store``.

    Calls that run when the signal comes get ``config.grace`` seconds; a second signal does not wait. One that comes
    during the start ends the start.
    """
    try:
        _serve(config, engine, ready)
    except _EndedEarly:
        log.info("ended by a signal before calls were answered")
    return 0


def _serve(config: Config, engine: Host | None, ready: Ready | None) -> None:
    with ExitStack() as stack:
        signals = stack.enter_context(closing(_Signals(_ending(config.listen))))
        metrics = Metrics() if config.metrics else None
        spans = stack.enter_context(tracing(config.otlp))
        own = None
        if engine is None:
            own = stack.enter_context(_open_engine(config, metrics, spans))
            engine = own.engine
        daemon = build_daemon(engine, config, metrics, spans)
        if config.http or config.metrics:
            from symd.server import http_server  # noqa: PLC0415 - 78 ms: others start without the web server
        if metrics is not None:
            page = http_server.metrics_served(config.metrics, metrics.page, open_to_all=config.listen.open_metrics)
            log.info("metrics at %s", stack.enter_context(page))
        wanted = dict.fromkeys(config.addresses or (config.address,))
        addresses = [stack.enter_context(listening(daemon.server, address, daemon.authenticator)) for address in wanted]
        web = stack.enter_context(ExitStack())
        shown = web.enter_context(http_server.web_served(daemon, config, metrics)) if config.http else None
        signals.started()
        daemon.server.start()
        stack.enter_context(heap_trimmed())
        stack.enter_context(pinned_to_one_cpu(daemon.server.threads))
        stack.enter_context(frequent_thread_switches())
        for address in addresses:
            _announce(address, config.listen, ready)
        if shown is not None:
            _announce_page(shown, config, ready)
        notify(READY)
        stack.enter_context(watchdog_notified(daemon.server))
        if own is not None:
            own.recovery.start()
            own.engine.store.writability.listen(daemon.set_writable)
            own.engine.store.eviction_log.listen(audit_eviction)
        signals.wait(daemon.authenticator.read_again)
        notify(STOPPING)
        log.info("stopping; running calls have %g s", config.grace)
        web.close()
        daemon.stop(config.grace)


class _EndedEarly(BaseException):
    """A signal came during the start. No Exception: what handles a failed step of the start is not to handle this."""


class _Signals:
    """SIGTERM, SIGINT and SIGHUP, waited for. The system may hand a signal to any thread, or to the main one just
    before that begins to sleep, and nothing wakes it then; so what is waited for is the byte that Python writes for
    each signal that comes."""

    def __init__(self, ending: Iterable[signal.Signals]) -> None:
        self._ending = tuple(ending)
        self._starting = True
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._before_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._note) for number in (*_ENDING, signal.SIGHUP)}

    def started(self) -> None:
        """Say that the daemon serves: from here on a signal interrupts nothing, as it is waited for."""
        self._starting = False

    def wait(self, again: Callable[[], None]) -> None:
        """Return when one has come that ends the daemon; after that they mean what they meant before. SIGHUP calls
        ``again``."""
        while (number := os.read(self._read, 1)[0]) not in self._ending:
            if number == signal.SIGHUP:
                again()
        self._restore()

    def close(self) -> None:
        self._restore()
        signal.set_wakeup_fd(self._before_fd)
        os.close(self._read)
        os.close(self._write)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        """The byte is enough once there is somebody who waits for it; a start may itself wait, for a lock or a disk."""
        if self._starting and number in self._ending:
            self._starting = False
            self._restore()
            raise _EndedEarly

    def _restore(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())


_ENDING = (signal.SIGTERM, signal.SIGINT)


def _ending(listen: ListenConfig) -> Sequence[signal.Signals]:
    """What ends the daemon. SIGHUP asks for files to be read again; where there are none and the daemon runs in a
    terminal, it says that the terminal was closed."""
    files = (listen.access, listen.tls_certificate)
    return _ENDING if any(files) or not os.isatty(0) else (*_ENDING, signal.SIGHUP)


class _OwnEngine(NamedTuple):
    """An engine that the daemon has opened itself; ``recovery`` is the thread, to be started once calls are answered,
    that finishes what a daemon that was killed had begun."""

    engine: Engine
    recovery: threading.Thread


@contextmanager
def _open_engine(config: Config, metrics: Metrics | None, spans: Spans | None) -> Iterator[_OwnEngine]:
    """The engine over the configured store, with the real drivers and disassemblers. What its workers do is told to
    ``metrics`` and ``spans``."""
    observers = [each.read for each in (metrics, spans) if each is not None]
    with ExitStack() as stack:
        workers = stack.enter_context(Workers(config.limits, config.readers, config.builders, observers))
        store = _store(config)
        listed = partial(disassemble, fork_server=stack.enter_context(ForkServer()))
        engine = stack.enter_context(
            Engine(store, config.limits, partial(grab, drivers=config.drivers), listed, workers)
        )
        recovery = threading.Thread(target=_recover, args=(engine,), name="symd-recovery", daemon=True)
        stack.callback(_end, engine, workers, recovery)
        if metrics is not None:
            metrics.watch_store(store, config.limits)
        yield _OwnEngine(engine, recovery)


def _store(config: Config) -> ModuleStore:
    """The store that the configuration names: in a folder, or shared with other daemons."""
    if not config.objects:
        return Store(config.store, config.limits, adopt_later=True)

    return shared_urls(config.objects, config.catalogue, config.limits).opened(config.cache, make=True)


def _recover(engine: Engine) -> None:
    """Finish, or clear away, what daemons that were killed had begun."""
    removed = private_files.sweep()
    if removed:
        log.info("removed %d folders of drivers and tools whose daemon was killed", removed)
    try:
        engine.resume()
    except SymdError as error:
        log.error("recovery ended: %s", error)  # noqa: TRY400 - the error says all
    else:
        log.info("recovery is done")


def _end(engine: Engine, workers: Workers, recovery: threading.Thread) -> None:
    """End what modules are read for, before what answers is closed."""
    engine.stop_resuming()
    workers.close()
    if recovery.ident is not None:
        recovery.join()


def _announce(address: str, listen: ListenConfig, ready: Ready | None) -> None:
    """Say once where the daemon listens: to ``ready``, who tells it, or else in the log."""
    if listen.anonymous_rights and (listen.socket_group is not None or not address.startswith(UNIX)):
        log.warning(
            "whoever reaches %s may %s, and is asked for nothing", address, rights_text(listen.anonymous_rights)
        )
    if ready is not None:
        ready(address)
    else:
        log.info("serving at %s", address)


def _announce_page(page: ServedPage, config: Config, ready: Ready | None) -> None:
    if page.is_open and config.listen.anonymous_rights:
        log.warning(
            "whoever reaches %s may %s, and is asked for nothing",
            page.address,
            rights_text(config.listen.anonymous_rights),
        )
    if ready is not None:
        ready(page.url)
    else:
        log.info("serving the page at %s", page.address)


ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""The variables that name a collector (opentelemetry.io/docs/specs/otel/protocol/exporter)."""
_NEEDED: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.grpc")


@contextmanager
def tracing(endpoint: str) -> Iterator[Spans | None]:
    """What makes spans and sends them to ``endpoint``, or to where the environment says; None where nobody asked for
    them.

    Raises InvalidInput for an ``endpoint`` that is no URL, FailedPrecondition where ``endpoint`` is given and
    OpenTelemetry is not installed; a mere variable, which may be meant for others, is then passed over with a
    warning."""
    if not (endpoint or _asked_by_the_environment()):
        yield None
        return
    if endpoint:
        _check_url(endpoint)
    if not all(map(_installed, _NEEDED)):
        hint = extra_hint("otel")
        if endpoint:
            raise FailedPrecondition("spans take OpenTelemetry, which is not installed", where="--otlp", hint=hint)
        log.warning("no spans are sent: OpenTelemetry is not installed (%s)", hint)
        yield None
        return
    from symd.server.spans import sending  # noqa: PLC0415 - 237 ms: an extra

    with sending(endpoint) as spans:
        yield spans


def _check_url(endpoint: str) -> None:
    try:
        url = urlsplit(endpoint)
        good = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        good = False
    if not good:
        raise InvalidInput(
            "not the URL of a collector", where=f"--otlp {endpoint}", hint="give http://HOST:PORT or https://HOST:PORT"
        )


def _asked_by_the_environment() -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(os.environ.get(name) for name in ENDPOINTS)


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it
        return False
