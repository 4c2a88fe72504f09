"""CUPTI PC sampling records as JSON lines: one object a line, with the member names of CUpti_PCSamplingPCData. A record
gains ``frames``; nothing else of its line changes. Each stall reason of a record is a sample, labeled with the number
of the reason. Records are sums over a time that they do not state, so samples have no times.

Source: CUPTI documentation, CUpti_PCSamplingPCData: ``cubinCrc``, ``pcOffset``, ``functionIndex``, ``functionName``,
``stallReason`` (``pcSamplingStallReasonIndex``, ``samples``), ``correlationId``. ``pcOffset`` counts from the start of
the function's section, which is ``.text.`` and its name; every function of a cubin begins at 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from symd.errors import LimitExceeded, Malformed
from symd.model.answers import Reason
from symd.model.json.answers import frames_text
from symd.profiles import json_text
from symd.profiles.addresses import AddressBatch, AddressOrigin, AddressOrigins
from symd.profiles.profile_format import Options, ProfileBudget, Symbolized, Tally
from symd.profiles.resolver import Resolver, crc_names
from symd.profiles.samples import (
    ADDRESSES,
    TIMES,
    AddressTable,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    ValueType,
    frames_of_json,
    within,
)

NAME = "cupti"
FRAMES = "frames"
PROGRESS_RECORDS = 1 << 16
"""Progress is told once in so many records."""


def claims(data: bytes) -> bool:
    """The first line is an object with the members that say where a sample was taken: ``pcOffset``, and whose it is."""
    try:
        first = json_text.decode(data[: 1 << 20].partition(b"\n")[0])
        _, record = next(each_record([first], ProfileBudget(Options(), len(first))), (None, None))
    except (Malformed, LimitExceeded):
        return False
    return isinstance(record, dict) and "pcOffset" in record and ("cubinCrc" in record or "functionName" in record)


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add ``frames`` to the records that have none.

    A module is found by the record's CRC, in decimal or 0x hexadecimal as the user wrote it (CUPTI's CRC cannot be
    computed from the file); where no module has the CRC, or the record has none, by the function's name in the modules
    without an identity.
    """
    text = json_text.decode(data)
    tally = Tally()
    batch = AddressBatch()
    functions = AddressOrigins(resolver, options.limits, _origin)
    pending: list[tuple[int, int]] = []
    spending = ProfileBudget(options, len(data))
    lines = text.split("\n")
    for number, record in each_record(lines, spending):
        if number % PROGRESS_RECORDS == 0:
            options.progress("reading records", number, len(lines))
        if isinstance(record, dict) and FRAMES in record:
            tally.already += 1
        elif (function := _function_of(record)) is not None:
            pending.append((number, batch.add(functions.target(function), record["pcOffset"])))
        else:
            pending.append((number, batch.add(Reason.MALFORMED)))
    answers = batch.ask(resolver, options.progress)
    written = [frames_text(answer.frames) if answer.frames else "" for answer in answers]
    for number, handle in pending:
        tally.count(answers[handle].reason, resolved=bool(written[handle]))
        if written[handle]:
            spending.written(len(written[handle]))
            record, _, after = lines[number].rpartition("}")
            lines[number] = f'{record}, "{FRAMES}": {written[handle]}}}{after}'
    report = tally.report(NAME, "records", tuple(functions.notes))
    return Symbolized(json_text.encode("\n".join(lines)) if tally.resolved else data, report)


def each_record(lines: Iterable[str], spending: ProfileBudget) -> Iterator[tuple[int, Any]]:
    """Number and value of each line that is not blank."""
    for number, line in enumerate(lines):
        if line and not line.isspace():
            spending.read_json(line, 0, len(line))
            yield number, json_text.only_value(line)


def _function_of(record: Any) -> tuple[int | None, str] | None:
    """The CRC of a record's cubin and its function; None where it lacks the members or they are of another type."""
    if not isinstance(record, dict):
        return None
    crc, offset, function = record.get("cubinCrc"), record.get("pcOffset"), record.get("functionName")
    if (crc is not None and type(crc) is not int) or type(offset) is not int or not isinstance(function, str):
        return None
    return crc, function


def _origin(key: tuple[int | None, str]) -> AddressOrigin:
    crc, function = key
    called = f"the cubin with CRC {crc} ({crc:#x})" if crc is not None else f"the function {function}"
    names = () if crc is None else tuple(crc_names(crc))
    return AddressOrigin(names, section=f".text.{function}", called=called)


UNNAMED_CUBIN = "cubin-"
"""The module of records that have no CRC: its functions are looked for by their names."""
STALL_REASON, CORRELATION = "stall_reason", "correlation_id"


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """Every record that says where it was taken; one without stall reasons counts nothing. Raises Malformed."""
    found = SampledProfile((ValueType("samples", "count"),))
    addresses = AddressTable(found.addresses)
    modules: dict[int | None, int] = {}
    for _, record in each_record(json_text.decode(data).split("\n"), spending):
        function = _function_of(record)
        if function is None or (function[0] is not None and within(function[0], ADDRESSES) is None):
            continue
        (crc, name), offset = function, record["pcOffset"]
        if crc not in modules:
            modules[crc] = len(found.modules)
            named = (UNNAMED_CUBIN, "") if crc is None else (f"cubin-{crc:016x}", f"{crc:x}")
            found.modules.append(SampledModule(*named))
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
