"""A context as the user names it, and what its loads say of its life."""

from __future__ import annotations

from dataclasses import dataclass

from symd.api import ContextVerbs
from symd.errors import BadQuery, ContextNotFound
from symd.model.contexts import ContextRecord

_NAME = "contexts/"
_DIGITS = 32
_SHOWN = 4
"""So many contexts are named that a beginning could mean."""


@dataclass(frozen=True, slots=True)
class Life:
    """``modules`` were loaded in ``loads``, of which ``living`` have not ended; ``began`` and ``ended`` are nanoseconds of the
    context's clock: the first load, and the last end where nothing is loaded any more."""

    modules: int
    loads: int
    living: int
    began: int | None
    ended: int | None


def chosen_context(verbs: ContextVerbs, text: str) -> ContextRecord:
    """The context with that name or id, or whose id alone begins so. Raises ``ContextNotFound`` and ``BadQuery``."""
    beginning = text.removeprefix(_NAME)
    if len(beginning) == _DIGITS:
        return verbs.get(beginning)
    found = [record for record in verbs.all() if record.id.startswith(beginning)] if beginning else []
    if len(found) > 1:
        names = ", ".join(record.id for record in found[:_SHOWN])
        raise BadQuery(f"{len(found)} contexts begin with {text!r}", hint=f"give more of {names}")
    if not found:
        raise ContextNotFound(f"no context begins with {text[:80]!r}", hint="symd contexts lists them")
    return found[0]


def life_of(verbs: ContextVerbs, name: str) -> Life:
    """What the loads of a context say. Raises ``ContextNotFound``."""
    modules: set[str] = set()
    loads = living = 0
    began: int | None = None
    ended: int | None = None
    for _, load in verbs.loads(name):
        modules.add(load.module)
        loads += 1
        living += load.unload_time is None
        began = load.time if began is None else min(began, load.time)
        if load.unload_time is not None:
            ended = load.unload_time if ended is None else max(ended, load.unload_time)
    return Life(len(modules), loads, living, began, None if living else ended)
