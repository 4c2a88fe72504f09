"""Networks whose strangers connect without end, so that gRPC does little but take connections and close them: of their attempts to connect only a
share is taken (``server/packet_filter.py``), as small as it has to be. A client tries again after a second (tcp(7), tcp_syn_retries), so whoever comes new from there gets in
later, and a storm is as thin as the share is. What counts are connections that a look has met, which are more the further gRPC is behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from symd.config import Limits
from symd.server.peer_names import Remote
from symd.server.shut_out import NETWORKS, Network

PERIOD: Final = 4.0
"""Seconds for which connections are added up."""
SETTLING: Final = 1.0
"""Seconds after a step for which none of the network counts: gRPC still takes those that the kernel has ready for it."""
STEPS: Final = (4, 16, 64, 256)
"""Of so many attempts one is taken; a further step where with this one too many come all the same."""


class Arrival(NamedTuple):
    """A stranger's connection that a look has met for the first time."""

    remote: Remote
    network: Network


class _Thinned(NamedTuple):
    step: int
    since: float


class ConnectionRate:
    """Counts by the network that they come from. To be used by one thread."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._since = float("-inf")
        self._met: dict[Remote, Network] = {}
        """Those of this period on which nobody has been let in."""
        self._thinned: dict[Network, _Thinned] = {}
        """In the order of their last steps."""

    @property
    def shares(self) -> Mapping[Network, int]:
        """The networks of which not every attempt is taken: one of so many is."""
        return {network: STEPS[thinned.step] for network, thinned in self._thinned.items()}

    def beyond(self, arrivals: Iterable[Arrival], let_in: Collection[Remote | None], now: float) -> Collection[Network]:
        """The networks of which more came than may, and of which a smaller share is taken from now on."""
        self._widen(now)
        if now - self._since >= PERIOD:
            self._since = now
            self._met.clear()
        settling = {network for network, thinned in self._thinned.items() if now - thinned.since < SETTLING}
        self._met.update((remote, network) for remote, network in arrivals if network not in settling)
        self._met = {remote: network for remote, network in self._met.items() if remote not in let_in}
        counts = Counter(self._met.values())
        beyond = {network for network, count in counts.items() if count > self._limits.unknown_connection_rate}
        for network in beyond:
            self._narrow(network, now)
        self._met = {remote: network for remote, network in self._met.items() if network not in beyond}
        return beyond

    def _narrow(self, network: Network, now: float) -> None:
        before = self._thinned.pop(network, None)
        step = 0 if before is None else min(before.step + 1, len(STEPS) - 1)
        self._thinned[network] = _Thinned(step, now)
        if len(self._thinned) > NETWORKS:
            del self._thinned[next(iter(self._thinned))]

    def _widen(self, now: float) -> None:
        """Go back a step where nobody was beyond for as long as an address is shut out."""
        over = [each for each in self._thinned.items() if now - each[1].since >= self._limits.refused_seconds]
        for network, thinned in over:
            del self._thinned[network]
            if thinned.step:
                self._thinned[network] = _Thinned(thinned.step - 1, now)
