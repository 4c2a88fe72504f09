"""Contexts, and what happens to modules in them, as lines for people.

A context as the user names it, and what its loads say of its life.
"""

from __future__ import annotations

from dataclasses import dataclass

from symd.api import ContextVerbs
from symd.errors import BadQuery, ContextNotFound
from symd.model.contexts import ContextRecord, Load, LoadInContext
from symd.model.module_events import CaughtUp, LoadBegan, LoadEnded, ModuleAdded, ModuleEvent, ModuleRemoved
from symd.model.summaries import ModuleRecord

_NAME = "contexts/"
_DIGITS = 32
_SHOWN = 4
"""The most contexts that are named where the beginning of an id could mean several, and the most segments of a load."""


@dataclass(frozen=True, slots=True)
class Life:
    """What the loads of a context say of its life. ``modules`` were loaded in ``loads``, of which ``living`` have
    not ended; ``began`` and ``ended`` are nanoseconds of the context's clock: the first load, and the last end where
    nothing is loaded any more."""

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


_SECOND = 1_000_000_000


def event_text(event: ModuleEvent) -> str:
    """One event in a line; "" where there is nothing to say to a person."""
    match event:
        case ModuleAdded(_, digest, record):
            return f"added     modules/{digest}{_described(record)}"
        case ModuleRemoved(_, digest):
            return f"removed   modules/{digest}"
        case LoadBegan(_, loaded):
            return f"loaded    modules/{loaded.load.module} {_happened(loaded, loaded.load.time)}{places_text(loaded.load)}"
        case LoadEnded(_, loaded):
            return f"unloaded  modules/{loaded.load.module} {_happened(loaded, loaded.load.unload_time or 0)}"
        case CaughtUp():
            return ""


def process_text(record: ContextRecord) -> str:
    """The process that a context is of, with its host and device, and the context's name."""
    context = record.context
    host = f" of {context.host}" if context.host else ""
    device = f" on {context.device}" if context.device else ""
    return f"process {context.process}{host}{device} (contexts/{record.id})"


def places_text(load: Load) -> str:
    """Where a load put its module."""
    shown = ", ".join(f"{each.address:#x}" for each in load.segments[:_SHOWN])
    more = f" and {len(load.segments) - _SHOWN} more" if len(load.segments) > _SHOWN else ""
    return f" at {shown}{more}" if shown else ""


def seconds_text(time: int) -> str:
    """Nanoseconds of a context's clock as seconds, whole."""
    return f"{time // _SECOND}.{time % _SECOND:09d}"


def _happened(loaded: LoadInContext, time: int) -> str:
    return f"by {process_text(loaded.context)} as {loaded.load.key} at {seconds_text(time)} s"


def _described(record: ModuleRecord | None) -> str:
    if record is None:
        return " (gone again)"
    label = f" {record.label}" if record.label else ""
    return f" {record.format}, {record.size} bytes{label}"
