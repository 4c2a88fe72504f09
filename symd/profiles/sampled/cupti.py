"""Samples of CUPTI PC sampling records: a record's stall reasons are its samples, each with the number of the reason as a
label. Records are sums over a time that they do not name: there are no times."""

from __future__ import annotations

from typing import Any

from symd.profiles import json_text
from symd.profiles.cupti import FRAMES, each_record
from symd.profiles.profile_budget import ProfileBudget
from symd.profiles.sampled.places import frames_of_json
from symd.profiles.samples import (
    ADDRESSES,
    TIMES,
    AddressTable,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    ValueType,
    within,
)

STALL_REASON, CORRELATION = "stall_reason", "correlation_id"


def read(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """Every record that says where it was taken; one without stall reasons counts nothing. Raises Malformed."""
    found = SampledProfile((ValueType("samples", "count"),))
    addresses = AddressTable(found.addresses)
    modules: dict[int, int] = {}
    for _, record in each_record(json_text.decode(data), spending):
        if not isinstance(record, dict):
            continue
        crc = within(record.get("cubinCrc"), ADDRESSES)
        name, offset = record.get("functionName"), record.get("pcOffset")
        if crc is None or not isinstance(name, str) or type(offset) is not int:
            continue
        if crc not in modules:
            modules[crc] = len(found.modules)
            found.modules.append(SampledModule(f"cubin-{crc:016x}", f"{crc:x}"))
        place = SampledAddress(f"{name}+{offset:#x}", frames_of_json(record.get(FRAMES)), offset, modules[crc])
        number = addresses.number(place)
        found.samples += _samples(number, record)
    found.notes.append("CUPTI sums samples and has no times of them")
    return found


def _samples(number: int, record: dict[str, Any]) -> list[Sample]:
    reasons = record.get("stallReason")
    correlation = within(record.get("correlationId"), TIMES)
    shared: tuple[tuple[str, str | int], ...] = ((CORRELATION, correlation),) if correlation else ()
    found = []
    for item in reasons if isinstance(reasons, list) else []:
        known = item if isinstance(item, dict) else {}
        reason, count = within(known.get("pcSamplingStallReasonIndex"), TIMES), within(known.get("samples"), TIMES)
        if reason is not None and count is not None:
            found.append(Sample((number,), (count,), labels=((STALL_REASON, reason), *shared)))
    return found or [Sample((number,), (0,), labels=shared)]
