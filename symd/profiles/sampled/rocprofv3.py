"""Samples of rocprofv3's PC sampling JSON: each is one wave at one instruction, at a time.

Of a stochastic sample the reason why nothing was issued, and the kind of instruction, are labels."""

from __future__ import annotations

import re
from typing import Any

from symd.profiles import json_text
from symd.profiles.json_text import JsonCursor
from symd.profiles.profile_budget import ProfileBudget
from symd.profiles.rocprofv3 import INDEX, ROOT, SAMPLES, TABLE
from symd.profiles.sampled.places import frames_of_json, place_in_file
from symd.profiles.samples import (
    ADDRESSES,
    PROCESSES,
    TIMES,
    AddressTable,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    Task,
    ValueType,
    within,
)

_PREFIX = re.compile("^ROCPROFILER_PC_SAMPLING_INSTRUCTION_(NOT_ISSUED_REASON|TYPE)_")


def read(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of every process. Raises Malformed."""
    text = json_text.decode(data)
    spending.read_json(text, 0, len(text))
    cursor = JsonCursor(text)
    found = SampledProfile((ValueType("samples", "count"),), tasks=[])
    addresses = AddressTable(found.addresses)
    for key in cursor.members():
        if key == ROOT:
            whole = cursor.value()
            for process in whole if isinstance(whole, list) else [whole]:
                if isinstance(process, dict):
                    _process(process, found, addresses)
    found.tasks = found.tasks or [Task()]
    if found.samples:
        found.notes.append("times are those of rocprofv3's clock, not of the calendar")
    return found


def _process(process: dict[str, Any], found: SampledProfile, addresses: AddressTable) -> None:
    pid = _member(process, "metadata").get("pid")
    found.tasks.append(Task(within(pid, PROCESSES) or 0))
    modules: dict[Any, int] = {}
    for item in _list(process.get("code_objects")):
        number, uri = item.get("code_object_id"), item.get("uri")
        base, size = item.get("load_base"), item.get("load_size")
        base, end = within(base, ADDRESSES), within(base + size if type(base) is type(size) is int else None, ADDRESSES)
        if type(number) is int and base is not None and end is not None:
            modules[number] = len(found.modules)
            found.modules.append(
                SampledModule(uri if isinstance(uri, str) else "", "", base, end, identity=str(number))
            )
    table = _member(process, "strings").get(TABLE)
    stacks = [frames_of_json(frames) for frames in table] if isinstance(table, list) else []
    records = _member(process, "buffer_records")
    for kind in SAMPLES:
        for item in _list(records.get(kind)):
            _sample(item, modules, stacks, found, addresses)


def _sample(
    item: dict[str, Any], modules: dict[Any, int], stacks: list[Any], found: SampledProfile, addresses: AddressTable
) -> None:
    record = _member(item, "record")
    pc = _member(record, "pc")
    owner, offset, time = pc.get("code_object_id"), pc.get("code_object_offset"), record.get("timestamp")
    if type(owner) is not int or type(offset) is not int:
        return
    module = modules.get(owner)
    name = found.modules[module].name if module is not None else ""
    index = item.get(INDEX)
    frames = stacks[index] if type(index) is int and 0 <= index < len(stacks) else ()
    start = found.modules[module].start if module is not None else 0
    label = place_in_file(name or (f"code object {owner}" if owner else ""), offset)
    number = addresses.number(SampledAddress(label, frames, start + offset, module))
    at = within(time, TIMES)
    found.samples.append(Sample((number,), (1,), at, len(found.tasks) - 1, tuple(_labels(record))))


def _labels(record: dict[str, Any]) -> list[tuple[str, str | int]]:
    named = {
        "stall_reason": _member(record, "snapshot").get("stall_reason"),
        "instruction_type": record.get("inst_type"),
        "dispatch_id": record.get("dispatch_id"),
    }
    labels: list[tuple[str, str | int]] = []
    for key, value in named.items():
        if isinstance(value, str):
            labels.append((key, _PREFIX.sub("", value)))
        elif isinstance(value, int) and within(value, TIMES) is not None:
            labels.append((key, value))
    return labels


def _member(item: dict[str, Any], key: str) -> dict[str, Any]:
    found = item.get(key)
    return found if isinstance(found, dict) else {}


def _list(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
