"""Modules that were removed, for those who keep something open of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symd.model.identities import Digest
from symd.store.catalogue_queries import CatalogueQueries

Listener = Callable[[Sequence[str] | None], None]
"""Takes the digests of modules that are gone; None: any may be. Called from several threads; it must not raise."""


class Removals:
    """Tells listeners which modules are gone, whoever removed them: this process or another."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` from now on."""
        self._listeners.append(listener)

    def notify(self, digests: Sequence[str] | None) -> None:
        """Call every listener."""
        if digests is None or digests:
            for listener in self._listeners:
                listener(digests)

    def notify_logged(self, catalogue: CatalogueQueries, removed: Sequence[Digest], *, lost: bool) -> None:
        """Call every listener for what the log of modules says was ``removed``; one that was added again since is kept open. ``lost``: the
        log has forgotten entries that were not read."""
        if lost:
            self.notify(None)
        if removed:
            there = catalogue.sizes(removed)
            self.notify(sorted(set(removed) - there.keys()))
