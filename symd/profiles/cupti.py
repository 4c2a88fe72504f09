"""CUPTI PC sampling records as JSON lines: one object a line, with the member names of CUpti_PCSamplingPCData. A record
gains ``frames``; nothing else of its line changes.

Source: CUPTI documentation, CUpti_PCSamplingPCData: ``cubinCrc``, ``pcOffset``, ``functionIndex``, ``functionName``,
``stallReason`` (``pcSamplingStallReasonIndex``, ``samples``), ``correlationId``. ``pcOffset`` counts from the start of
the function's section, which is ``.text.`` and its name; every function of a cubin begins at 0."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from symd.errors import Malformed
from symd.model.answers import Reason
from symd.profiles import json_text
from symd.profiles.format import Options, Symbolized, Tally
from symd.profiles.frame_json import frames_json
from symd.profiles.json_text import Cursor, Edit, Place
from symd.profiles.questions import Questions
from symd.profiles.resolver import Found, Resolver, Target

NAME = "cupti"
FRAMES = "frames"
EVERY = 1 << 16
_LINE = re.compile(r"[^\n]+")


def claims(data: bytes) -> bool:
    """The first line is an object with the two members that place a sample."""
    try:
        _, record = next(_records(json_text.decode(data[: 1 << 20].partition(b"\n")[0])), (None, None))
    except Malformed:
        return False
    return isinstance(record, dict) and "cubinCrc" in record and "pcOffset" in record


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add ``frames`` to the records that have none.

    A module is found by the record's CRC, in decimal or 0x hexadecimal as the user wrote it (CUPTI's CRC cannot be
    computed from the file); a CRC that was not given, by the function's name in the modules without an identity.
    """
    text = json_text.decode(data)
    tally = Tally()
    asked = Questions()
    places = _Functions(resolver, asked)
    pending: list[tuple[Place, bool, int]] = []
    for number, (place, record) in enumerate(_records(text)):
        if number % EVERY == 0:
            options.progress("reading records", place.begin, len(text))
        if isinstance(record, dict) and FRAMES in record:
            tally.already += 1
        else:
            pending.append((place, not record, places.ticket(record)))
    answers = asked.ask(resolver, options.progress)
    written = [frames_json(answer.frames) if answer.frames else "" for answer in answers]
    edits: list[Edit] = []
    for place, empty, ticket in pending:
        tally.count(answers[ticket].reason, resolved=bool(written[ticket]))
        if written[ticket]:
            edits.append(json_text.appended(place, FRAMES, written[ticket], empty=empty))
    report = tally.report(NAME, "records", places.notes())
    return Symbolized(json_text.encode(json_text.with_edits(text, edits)) if edits else data, report)


def _records(text: str) -> Iterator[tuple[Place, Any]]:
    """Value and place of each line that is not blank."""
    for line in _LINE.finditer(text):
        cursor = Cursor(text, line.start())
        begin = cursor.at
        if begin >= line.end():
            continue
        record = cursor.value()
        place = Place(begin, cursor.at)
        if cursor.space() < line.end():
            raise Malformed(f"more than one value in the line at letter {line.start()}", where=json_text.WHERE)
        yield place, record


class _Functions:
    """(CRC, function) to a target, each pair looked for once."""

    def __init__(self, resolver: Resolver, asked: Questions) -> None:
        self._resolver = resolver
        self._asked = asked
        self._known: dict[tuple[int, str], int | Reason] = {}
        self._missing: dict[int, None] = {}

    def ticket(self, record: Any) -> int:
        """A ticket for a record; MALFORMED where it lacks the members or they are of another type."""
        if not isinstance(record, dict):
            return self._asked.refuse(Reason.MALFORMED)
        crc, offset, function = record.get("cubinCrc"), record.get("pcOffset"), record.get("functionName")
        if type(crc) is not int or type(offset) is not int or not isinstance(function, str):
            return self._asked.refuse(Reason.MALFORMED)
        key = (crc, function)
        if key not in self._known:
            target = self._target(crc, f".text.{function}")
            self._known[key] = target if isinstance(target, Reason) else self._asked.target(target)
        target_or_reason = self._known[key]
        if isinstance(target_or_reason, Reason):
            return self._asked.refuse(target_or_reason)
        return self._asked.add(target_or_reason, offset)

    def _target(self, crc: int, section: str) -> Target | Reason:
        found = self._resolver.identified(str(crc), f"{crc:#x}", f"{crc:#018x}")
        if isinstance(found, Found):
            return Target(found.digest, section=section, path=found.path)
        if found is not Reason.UNKNOWN_MODULE:
            return found
        target = self._resolver.section(section)
        if target is Reason.UNKNOWN_KERNEL:
            self._missing[crc] = None
            return Reason.UNKNOWN_MODULE
        return target

    def notes(self) -> tuple[str, ...]:
        return tuple(f"no module was given for the cubin with CRC {crc} ({crc:#x})" for crc in self._missing)
