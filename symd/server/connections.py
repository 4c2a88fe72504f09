"""Connections over TCP: whoever reaches the port may open one, so those on which nobody has been let in yet are few and live
briefly, and one client has no more than its share. Strangers cannot keep users out by connecting, nor by calls without end: an
address of which too many calls were refused, or too many bytes came, is shut out for a while (``server/shut_out.py``), and of one that connects without
end few attempts are taken (``server/connection_rate.py``).

gRPC closes no single connection and names none before a call comes. So the process's own sockets are looked through (proc(5),
/proc/self/fd): one whose other end has made no call that was let in is shut down, and gRPC sees that it has ended. Where there
is no such folder, gRPC's own bounds are all there is. Addresses that are shut out are kept from connecting by a packet filter on the sockets
that listen; where the kernel has none, their connections are closed as they come."""

from __future__ import annotations

import ctypes
import errno
import heapq
import logging
import os
import socket
import stat
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from symd.config import Limits
from symd.errors import Busy
from symd.server import packet_filter
from symd.server.connection_rate import Arrival, ConnectionRate
from symd.server.logs import QuietLog
from symd.server.other_end import other_end
from symd.server.peer_names import Remote, tcp_remote
from symd.server.shut_out import NETWORKS, Network, ShutOut, network_of
from symd.server.unknown_bytes import Stranger, UnknownBytes, received
from symd.system.os_errors import os_error_text

log = logging.getLogger("symd.server")

PERIOD: Final = 0.1
"""Seconds between two looks."""
SHORT_PERIOD: Final = 0.01
"""The same while connections of an address that is shut out are still met, of which each brings calls until it is closed, and while many new ones are."""
_LOOKS: Final = 10
"""So many looks with as many new ones would reach ``unknown_connection_rate``."""
_OPEN: Final = "/proc/self/fd"
_C: Final = ctypes.CDLL(None)
_NOWHERE: Final = bytes(16)
"""A struct sockaddr of the family AF_UNSPEC. Python's `socket.connect` cannot pass one, so connect(2) is called."""
_FLOODS: Final = ("refused_calls", "unknown_bytes")
"""Limits for which an address is shut out."""
_TCP: Final = (socket.AF_INET, socket.AF_INET6)


class Seen(NamedTuple):
    """A connection: its descriptor, the port here, where it comes from (``network`` is what is shut out with it), and since when
    it is known (time.monotonic)."""

    descriptor: int
    port: int
    remote: Remote
    network: Network
    since: float


@dataclass(frozen=True, slots=True)
class _LetIn:
    client: str
    remote: Remote | None


def _nobody(_reason: str, _limit: str) -> None:
    """The default: nobody is told."""


class Connections:
    """To be told of calls on one event loop; looks from a thread of its own, while it watches a port."""

    def __init__(self, limits: Limits, closings: QuietLog, shut_out: QuietLog) -> None:
        self._limits = limits
        self._closings = closings
        self._shutting_out = shut_out
        self._shut_out = ShutOut(limits)
        self._unknown_bytes = UnknownBytes(limits)
        self._rate = ConnectionRate(limits)
        self.refusing: Callable[[str, str], None] = _nobody
        """Told the reason and the limit when an address is shut out, or thinned, and no call of it was refused for that."""
        self._filtered: Mapping[Network, int] = {}
        """Networks from which the sockets that listen take no packets, or a share of the attempts to connect."""
        self._can_filter = True
        self._let_in: dict[str, _LetIn] = {}
        """By the peer as gRPC names it."""
        self._known: set[str] = set()
        """Peers that are let in nowhere and may stay all the same, as long as they are not too many."""
        self._count: Counter[str] = Counter()
        self._seen: dict[int, Seen] = {}
        """By inode."""
        self._ports: set[int] = set()
        self._counted_ports: set[int] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._trouble = ""
        """Why the last look was left out."""
        self._left_out = QuietLog(log, "connections are not looked through")
        self._thinning = QuietLog(log, "took fewer connections")

    @property
    def most(self) -> int:
        """Connections that one client may have."""
        return self._limits.client_connections

    def let_in(self, peer: str, client: str) -> None:
        """Note that a call of ``client`` may be made ("": nobody by name). Raises ``Busy`` where that is one connection too
        many."""
        if peer in self._let_in:
            return
        where = tcp_remote(peer)
        name = client or (where.address if where is not None else peer)
        most = self._limits.client_connections
        with self._lock:
            if self._count[name] >= most:
                raise Busy(
                    f"{name} has {most} connections already",
                    hint="close some, or use one for several calls; client_connections may be raised where the daemon is started",
                    metadata={"limit": "client_connections", "value": str(most)},
                )
            self._count[name] += 1
            self._let_in[peer] = _LetIn(name, where)

    def let_stay(self, peer: str) -> None:
        """Note a call that everybody may make: its connection is not closed for its age."""
        if peer not in self._known and peer not in self._let_in:
            with self._lock:
                self._known.add(peer)

    def refused(self, peer: str) -> None:
        """Note a call of nobody who was let in. Raises ``Busy`` where that is one too many of its address, which is shut out then."""
        where = None if peer in self._let_in else tcp_remote(peer)
        if where is None:
            return
        network = network_of(where.address)
        if self._shut_out.count(network, time.monotonic()):
            self._tell(
                network, f"more than {self._limits.refused_calls} calls in a second were refused (refused_calls)"
            )
            raise self._too_many_refused(network)

    def shut_out_for(self, peer: str) -> str:
        """The limit for which nobody may be let in there: its address has passed it, and nobody was let in on the connection before."""
        where = None if peer in self._let_in else tcp_remote(peer)
        return "" if where is None else self._shut_out.limit(network_of(where.address), time.monotonic())

    def _tell(self, network: Network, why: str) -> None:
        self._shutting_out.warn(f"{network} for {self._limits.refused_seconds:g} s: {why}")

    def _too_many_refused(self, network: Network) -> Busy:
        most, seconds = self._limits.refused_calls, self._limits.refused_seconds
        return Busy(
            f"more than {most} calls in a second from {network} were refused, and nobody new is let in from there for {seconds:g} s",
            hint="look for the client that calls without a token or a right; refused_calls may be raised where the daemon is started",
            metadata={"limit": "refused_calls", "value": str(most)},
        )

    @contextmanager
    def watching(self, port: int, *, counts_bytes: bool = True) -> Iterator[None]:
        """Bound the connections to a port of this machine while it lasts. ``counts_bytes``: also what comes on them before somebody is let in,
        which is little where clients wait for windows, and as much as the kernel takes where they do not (HTTP/1)."""
        first = not self._ports
        self._ports.add(port)
        if counts_bytes:
            self._counted_ports.add(port)
        if first:
            self._over.clear()
            threading.Thread(target=self._watch, args=(self._over,), name="symd-connections", daemon=True).start()
        try:
            yield
        finally:
            self._ports.discard(port)
            self._counted_ports.discard(port)
            if not self._ports:
                self._over.set()
                self._over = threading.Event()

    def _watch(self, over: threading.Event) -> None:
        pause = PERIOD
        while not over.wait(pause):
            pause = SHORT_PERIOD if self._attempt_look(time.monotonic()) else PERIOD

    def _attempt_look(self, now: float) -> bool:
        """As ``_look``. Where the system refuses it (no descriptor is free) the log is told once, and whoever was let in stays so."""
        try:
            is_soon = self._look(now)
        except OSError as error:
            if not self._trouble:
                self._left_out.warn(os_error_text(error))
            self._trouble = str(error)
            return False
        self._trouble = ""
        return is_soon

    def _look(self, now: float) -> bool:
        """Whether to look again soon: there were connections of addresses that are shut out, or many new ones. Raises OSError where the open
        descriptors cannot be listed."""
        with self._lock:
            let_in, known = dict(self._let_in), set(self._known)
        self._seen = {inode: seen for inode, seen in _sockets(self._seen, now) if seen.port in self._ports}
        self._forget_ended(let_in, known)
        own = {entry.remote for entry in let_in.values()}
        strangers = [seen for seen in self._seen.values() if seen.remote not in own]
        arrived = [seen for seen in strangers if seen.since == now]
        are_many = self._count_arrivals(arrived, own, now)
        self._count_bytes(own, now)
        shut_out = self._shut_out.networks(now)
        self._filter(shut_out)
        ended = [seen for seen in strangers if seen.network in shut_out]
        for seen in ended:
            self._close(seen, self._shut_out.limit(seen.network, now))
        others = [seen for seen in strangers if seen.network not in shut_out]
        self._close_lingering(others, {tcp_remote(peer) for peer in known}, now)
        return bool(ended) or are_many

    def _forget_ended(self, let_in: Mapping[str, _LetIn], known: Collection[str]) -> None:
        """Those of both whose connections are not seen any more."""
        live = {seen.remote for seen in self._seen.values()}
        with self._lock:
            for peer, entry in let_in.items():
                if entry.remote not in live:
                    self._leave(peer, entry)
            self._known -= {peer for peer in known if tcp_remote(peer) not in live}

    def _close_lingering(self, strangers: list[Seen], staying: Collection[Remote | None], now: float) -> None:
        """Close those that are too many, and of the others those that are there for too long and not ``staying``."""
        closed = set()
        for seen in _too_many(strangers, self._limits.unknown_connections):
            self._close(seen, "unknown_connections")
            closed.add(seen.descriptor)
        for seen in strangers:
            if (
                seen.descriptor not in closed
                and now - seen.since > self._limits.unknown_seconds
                and seen.remote not in staying
            ):
                self._close(seen, "unknown_seconds")

    def _count_bytes(self, own: Collection[Remote | None], now: float) -> None:
        brought = {}
        for inode, seen in self._seen.items():
            if seen.remote not in own and seen.port in self._counted_ports:
                with suppress(OSError), _still(seen) as connection:
                    brought[inode] = Stranger(seen.remote, seen.network, received(connection))
        with self._lock:  # who was let in meanwhile may have brought much at once
            let_in = {*own, *(entry.remote for entry in self._let_in.values())}
        for network in self._unknown_bytes.beyond(brought, let_in, now):
            if self._shut_out.begin(network, "unknown_bytes", now):
                most = self._limits.unknown_bytes
                self._tell(network, f"more than {most} bytes came where nobody was let in (unknown_bytes)")
                self.refusing(Busy.reason, "unknown_bytes")

    def _count_arrivals(self, arrived: Collection[Seen], own: Collection[Remote | None], now: float) -> bool:
        """Whether there were many."""
        if not self._can_filter:
            return False
        beyond = self._rate.beyond([Arrival(seen.remote, seen.network) for seen in arrived], own, now)
        for network in beyond:
            self._thinning.warn(
                f"one in {self._rate.shares[network]} of {network} for {self._limits.refused_seconds:g} s: more than "
                f"{self._limits.unknown_connection_rate} came in four seconds on which nobody was let in (unknown_connection_rate)"
            )
            self.refusing(Busy.reason, "unknown_connection_rate")
        if beyond:  # before anything else: a look at a thousand connections takes long
            self._filter(self._shut_out.networks(now))
        return len(arrived) * _LOOKS > self._limits.unknown_connection_rate

    def _filter(self, shut_out: Sequence[Network]) -> None:
        """Tell the sockets that listen where that has changed."""
        thinned = {network: share for network, share in self._rate.shares.items() if network not in shut_out}
        wanted = _last(NETWORKS, thinned | dict.fromkeys(shut_out, packet_filter.NONE))  # shut out the latest: the last
        if wanted == self._filtered:
            return
        listening = _listening(self._ports) if self._can_filter else ()
        self._filtered = wanted
        try:
            for descriptor in listening:
                with _borrowed(descriptor) as listener:
                    packet_filter.drop(listener, wanted)
        except OSError as error:
            self._can_filter = False
            log.warning(
                "the kernel takes no packet filter (%s): connections of addresses that are shut out are closed as they come",
                os_error_text(error),
            )

    def _leave(self, peer: str, entry: _LetIn) -> None:
        del self._let_in[peer]
        self._count[entry.client] -= 1
        if not self._count[entry.client]:
            del self._count[entry.client]

    def closed(self, address: str, limit: str) -> None:
        """Note one that somebody else closed, because it passed ``limit``."""
        self._closings.warn(f"that of {address} ({limit})")

    def _close(self, seen: Seen, limit: str) -> None:
        self._closings.warn(f"nobody was let in on that of {seen.remote.address} ({limit})")
        with suppress(OSError), _still(seen) as connection:
            if limit not in _FLOODS or not _reset(connection):
                _shut_down(connection)


def _too_many(strangers: Collection[Seen], most: int) -> list[Seen]:
    """What is to be closed so that ``most`` are left: always the oldest of the address that has the most."""
    by_address: defaultdict[str, list[Seen]] = defaultdict(list)
    for seen in strangers:
        by_address[seen.remote.address].append(seen)
    for each in by_address.values():
        each.sort(key=lambda seen: seen.since, reverse=True)
    longest = [(-len(each), number, each) for number, each in enumerate(by_address.values())]
    heapq.heapify(longest)
    closed = []
    for _ in range(len(strangers) - most):
        _, number, each = longest[0]
        closed.append(each.pop())
        heapq.heapreplace(longest, (-len(each), number, each))
    return closed


def _shut_down(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # its other end has reset it
        _reset(connection)


def _reset(connection: socket.socket) -> bool:
    """End a connection together with what has come on it (connect(2), AF_UNSPEC): after a shutdown gRPC still reads all of that, which
    may be some ten thousand calls. False: the system does not do that."""
    return bool(_C.connect(connection.fileno(), _NOWHERE, len(_NOWHERE)) == 0)


def _sockets(before: dict[int, Seen], now: float) -> Iterator[tuple[int, Seen]]:
    """The connections over TCP that this process has open, by inode; also those that were reset and that gRPC has not closed yet."""
    for number in _descriptors():
        with suppress(OSError):  # closed meanwhile, or none of TCP
            status = os.fstat(number)
            if not stat.S_ISSOCK(status.st_mode):
                continue
            known = before.get(status.st_ino)
            if known is not None and known.descriptor == number:
                yield status.st_ino, known
                continue
            with _borrowed(number) as connection:
                if connection.family in _TCP:
                    where = other_end(connection)
                    network = network_of(where.address)
                    yield status.st_ino, Seen(number, connection.getsockname()[1], where, network, now)


def _last(count: int, shares: Mapping[Network, int]) -> Mapping[Network, int]:
    """So many of the entries."""
    return dict(islice(shares.items(), max(len(shares) - count, 0), None))


def _listening(ports: Collection[int]) -> Sequence[int]:
    """The descriptors of this process's sockets that listen on one of the ports."""
    found = []
    for number in _descriptors():
        with suppress(OSError):  # closed meanwhile, or none of TCP
            if stat.S_ISSOCK(os.fstat(number).st_mode) and _listens(number, ports):
                found.append(number)
    return found


def _listens(number: int, ports: Collection[int]) -> bool:
    with _borrowed(number) as each:
        listens = each.family in _TCP and each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        return bool(listens) and each.getsockname()[1] in ports


def _descriptors() -> Sequence[int]:
    """Those that are open; () where the system has no such folder. Raises OSError where the folder cannot be read now."""
    try:
        return [int(name) for name in os.listdir(_OPEN)]  # noqa: PTH208 - a path for each would be made
    except FileNotFoundError:
        return ()


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """A socket that somebody else closes. A descriptor of one's own would be closed here, and if the number had become that of a
    database's file meanwhile, that would let go of the locks on it (fcntl(2))."""
    borrowed = socket.socket(fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()


@contextmanager
def _still(seen: Seen) -> Iterator[socket.socket]:
    """The connection's socket. Raises OSError where it was closed meanwhile, also when its descriptor has become something else's."""
    with _borrowed(seen.descriptor) as connection:
        if connection.family not in _TCP or other_end(connection) != seen.remote:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        yield connection
