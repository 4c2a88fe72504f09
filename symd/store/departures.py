"""Word of modules that are removed, for those who keep something open of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Forget = Callable[[Sequence[str] | None], None]
"""Takes the digests of modules that are gone; None: any may be. Called from several threads; it must not raise."""


class Departures:
    """Tells listeners which modules are gone, whoever removed them: this process or another."""

    def __init__(self) -> None:
        self._listeners: list[Forget] = []

    def listen(self, forget: Forget) -> None:
        """Call ``forget`` from now on."""
        self._listeners.append(forget)

    def tell(self, digests: Sequence[str] | None) -> None:
        """Tell all."""
        if digests is None or digests:
            for forget in self._listeners:
                forget(digests)
