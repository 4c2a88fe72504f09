"""What a watch tells: the answers of modules to breakpoints that wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from symd.model.breakpoints import Located
from symd.model.contexts import AsyncEventStream, EventStream, LoadInContext
from symd.model.identities import Digest


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the module ``digest`` answers to the breakpoint ``id``: places, or why there are none. ``loaded`` is the load by which
    it came to a device, told without its segments; None: it was added. ``position`` is where a watch goes on that has heard of it; "" while
    what was there is told, and where the next answer still belongs to the same module."""

    id: str
    digest: Digest
    answer: Located
    loaded: LoadInContext | None = None
    position: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Watching:
    """The modules that were there are done, and what happened up to ``position``; whatever is added from now on will be looked at."""

    position: str = field(default="", compare=False)


Event = Resolved | Watching


Watch: TypeAlias = EventStream[Event]
AsyncWatch: TypeAlias = AsyncEventStream[Event]
