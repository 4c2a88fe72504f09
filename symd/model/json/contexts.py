"""What happens to modules, and what contexts have loaded. Apart from modules, so that ``symd info`` is not slower by a
fifteenth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symd.model.addresses import ByAddress, ByKernel, BySection, Query
from symd.model.contexts import ContextRecord, Load, LoadInContext
from symd.model.summaries import ModuleRecord
from symd.model.watches import LoadBegan, LoadEnded, ModuleAdded, ModuleEvent, ModuleRemoved, Watching


def event_json(event: ModuleEvent) -> dict[str, Any]:
    """One event; ``resume_token`` is null while what is there is told."""
    token = event.resume_token or None
    match event:
        case ModuleAdded(digest, record):
            return {"event": "added", "resume_token": token, "module": f"modules/{digest}", **_record_json(record)}
        case ModuleRemoved(digest):
            return {"event": "removed", "resume_token": token, "module": f"modules/{digest}"}
        case LoadBegan(loaded):
            return {"event": "loaded", "resume_token": token, **loaded_json(loaded)}
        case LoadEnded(loaded):
            return {"event": "unloaded", "resume_token": token, **loaded_json(loaded)}
        case Watching():
            return {"event": "watching", "resume_token": token}


def loaded_json(loaded: LoadInContext) -> dict[str, Any]:
    """A load and the context in which it was told."""
    return {**load_json(loaded.number, loaded.load), "context": context_json(loaded.context)}


def load_json(number: int, load: Load) -> dict[str, Any]:
    """A load. Times are nanoseconds of the context's clock."""
    return {
        "load": number,
        "module": f"modules/{load.module}",
        "key": load.key,
        "time": load.time,
        "unload_time": load.unload_time,
        "segments": [
            {"address": each.address, "size": each.size, **_start_json(each.start), "object": each.path}
            for each in load.segments
        ],
    }


def context_json(record: ContextRecord) -> dict[str, Any]:
    """A context. ``create_time`` is seconds since the epoch, by the daemon's clock."""
    context = record.context
    return {
        "name": f"contexts/{record.id}",
        "host": context.host,
        "process": context.process,
        "device": context.device,
        "clock": context.clock,
        "address_bits": context.address_bits,
        "attributes": dict(context.attributes),
        "create_time": record.create_time,
    }


def _record_json(record: ModuleRecord | None) -> Mapping[str, Any]:
    if record is None:
        return {"format": None, "label": None, "size": None}
    return {"format": record.format, "label": record.label, "size": record.size}


def _start_json(start: Query) -> dict[str, Any]:
    match start:
        case ByKernel(kernel, offset):
            return {"kernel": kernel, "kernel_offset": offset}
        case BySection(section, offset):
            return {"section": section, "section_offset": offset}
        case ByAddress(address):
            return {"object_address": address}
