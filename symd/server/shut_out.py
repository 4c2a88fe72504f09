"""Addresses that are shut out for a while, because more calls of theirs were refused in a second than anybody makes by mistake, or
they brought more bytes without being let in (``server/unknown_bytes.py``).

To refuse a call costs its sender less than the daemon: gRPC has read it before any code of ours is asked. So whoever goes on
and on is not refused call by call; ``server/connections.py`` closes the address's connections and takes no new ones."""

from __future__ import annotations

import threading
from collections import Counter
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Final, NamedTuple

from symd.config import Limits

Network = IPv4Address | IPv6Network
"""An IPv4 address, or the 64 bits of an IPv6 address that a subscriber is given at least (RFC 6177)."""
NETWORKS: Final = 800
"""Networks that are shut out at a time; beyond, the one that has been for longest is let go."""
_SECOND: Final = 1.0
_IPV6_PREFIX: Final = 64


class _Term(NamedTuple):
    until: float
    limit: str
    """The one that the network passed."""


class ShutOut:
    """Counts refused calls by the network that they come from. Safe to use from several threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._since = float("-inf")
        self._refused: Counter[Network] = Counter()
        """Calls that were refused since then, for a second."""
        self._terms: dict[Network, _Term] = {}
        """In the order in which they were shut out."""

    def count(self, network: Network, now: float) -> bool:
        """Count a call that was refused. True: that was one too many, and from now on the network is shut out."""
        with self._lock:
            if now - self._since >= _SECOND:
                self._refused.clear()
                self._since = now
            self._refused[network] += 1
            return self._refused[network] > self._limits.refused_calls and self._begin(network, "refused_calls", now)

    def begin(self, network: Network, limit: str, now: float) -> bool:
        """Shut a network out that has passed ``limit``. False: it is already."""
        with self._lock:
            return self._begin(network, limit, now)

    def limit(self, network: Network, now: float) -> str:
        """The limit for which the network is shut out; "" where it is not."""
        with self._lock:
            return self._limit(network, now)

    def networks(self, now: float) -> tuple[Network, ...]:
        """All that are shut out, in the order in which they were."""
        with self._lock:
            for network in [network for network, term in self._terms.items() if term.until <= now]:
                del self._terms[network]
            return tuple(self._terms)

    def _begin(self, network: Network, limit: str, now: float) -> bool:
        if self._limit(network, now):
            return False
        self._terms.pop(network, None)
        self._terms[network] = _Term(now + self._limits.refused_seconds, limit)
        if len(self._terms) > NETWORKS:
            del self._terms[next(iter(self._terms))]
        return True

    def _limit(self, network: Network, now: float) -> str:
        term = self._terms.get(network)
        return term.limit if term is not None and term.until > now else ""


def network_of(address: str) -> Network:
    """The network of an IP address as ``peer_names.Remote`` has it. Raises ValueError for what is no IP address."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv4Address):
        return parsed
    host_bits = parsed.max_prefixlen - _IPV6_PREFIX
    return IPv6Network((int(parsed) >> host_bits << host_bits, _IPV6_PREFIX))
