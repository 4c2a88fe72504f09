"""Contexts, and what happens to modules in them, as lines for people."""

from __future__ import annotations

from symd.model.contexts import ContextRecord, Load, LoadInContext
from symd.model.module_events import CaughtUp, LoadBegan, LoadEnded, ModuleAdded, ModuleEvent, ModuleRemoved
from symd.model.summaries import ModuleRecord

_SECOND = 1_000_000_000
_SHOWN = 4
"""So many segments of a load are named."""


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
    """Whose context it is."""
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
