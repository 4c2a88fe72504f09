"""Answers spelled out, and as columns with the table of just those locations that they point to."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.model import U32, U64, Answer, Answers, Candidate, Frame, Locations, Place, Reason, SectionOffset
from symd.v1 import answer_pb2, location_pb2
from symd.wire.columns import pack, unpack
from symd.wire.text import utf8, utf8s

FEW = 8
"""Up to so many answers are renumbered in plain Python, which is then faster than NumPy over a whole table."""


def to_answer(answer: Answer) -> answer_pb2.Answer:
    return answer_pb2.Answer(
        reason=int(answer.reason),  # type: ignore[arg-type] # the enum's numbers are Reason's own
        object=utf8(answer.object),
        kernel=utf8(answer.kernel),
        section=utf8(answer.section),
        section_index=answer.section_index,
        section_offset=answer.section_offset,
        address=answer.address,
        frames=[to_frame(frame) for frame in answer.frames],
        candidates=[to_candidate(candidate) for candidate in answer.candidates],
    )


def from_answer(message: answer_pb2.Answer) -> Answer:
    """The answer; presence is asked once for all fields, because this is what one address costs."""
    known = {field.name: value for field, value in message.ListFields()}
    return Answer(
        Reason(message.reason),
        known.get("object"),
        known.get("kernel"),
        known.get("section"),
        known.get("section_index"),
        known.get("section_offset"),
        known.get("address"),
        tuple(map(from_frame, message.frames)),
        tuple(map(from_candidate, message.candidates)),
    )


def to_frame(frame: Frame) -> location_pb2.Frame:
    return location_pb2.Frame(
        function=utf8(frame.function),
        linkage_name=utf8(frame.linkage_name),
        file=utf8(frame.file),
        line=frame.line,
        column=frame.column,
        inlined=frame.inlined,
    )


def from_frame(message: location_pb2.Frame) -> Frame:
    return Frame(
        message.function if message.HasField("function") else None,
        message.linkage_name if message.HasField("linkage_name") else None,
        message.file if message.HasField("file") else None,
        message.line,
        message.column,
        message.inlined,
    )


def to_candidate(candidate: Candidate) -> answer_pb2.Candidate:
    return answer_pb2.Candidate(
        object=utf8(candidate.object),
        section=utf8(candidate.section),
        section_index=candidate.section_index,
        section_offset=candidate.section_offset,
        kernel=utf8(candidate.kernel),
    )


def from_candidate(message: answer_pb2.Candidate) -> Candidate:
    return Candidate(
        message.object,
        message.section if message.HasField("section") else None,
        message.section_index,
        SectionOffset(message.section_offset),
        message.kernel if message.HasField("kernel") else None,
    )


def to_place(place: Place) -> location_pb2.Place:
    return location_pb2.Place(
        object=utf8(place.object),
        section=utf8(place.section),
        section_index=place.section_index,
        address=place.address,
    )


def from_place(message: location_pb2.Place) -> Place:
    section = message.section if message.HasField("section") else None
    return Place(message.object, section, message.section_index, message.address)


def to_columns(answers: Answers, values: U64 | None = None) -> answer_pb2.AnswerColumns:
    """The answers as columns; ``values`` is the column that was asked, where one was, so that offsets that follow
    from it need not travel."""
    if len(answers) <= FEW:
        return _few(answers)
    kept, location, parent = _kept_locations(answers)
    places, place = _kept_places(answers)
    base = None if values is None or len(places) != 1 else _base(values, place, answers.offset)
    return answer_pb2.AnswerColumns(
        count=len(answers),
        location=pack(location),
        place=b"" if len(places) <= 1 and place.all() else pack(place),
        offset=b"" if base is not None else pack(np.where(place, answers.offset, 0)),
        base=base,
        places=places,
        locations=_table(answers.locations, kept, parent),
        candidates=_candidates(answers),
    )


def from_columns(message: answer_pb2.AnswerColumns, values: U64 | None = None) -> Answers:
    """The answers; ``values`` is the column that was asked. Raises ``Malformed`` when columns and counts disagree."""
    count = message.count
    places = tuple(from_place(place) for place in message.places)
    if not message.place and len(places) == 1:
        place = np.ones(count, np.uint32)
    else:
        place = unpack(message.place, count, np.uint32)
    if message.HasField("base") and values is not None:
        offset = values - np.uint64(message.base)
        if message.place:
            offset[place == 0] = 0
    else:
        offset = unpack(message.offset, count, np.uint64)
    candidates = {entry.query: tuple(map(from_candidate, entry.candidates)) for entry in message.candidates}
    location = unpack(message.location, count, np.uint32)
    return Answers(location, place, offset, from_table(message.locations), places, candidates)


def from_table(message: location_pb2.LocationTable) -> Locations:
    """The locations. Raises ``Malformed``."""
    count = message.count
    return Locations(
        reason=unpack(message.reason, count, np.uint8),
        kernel=unpack(message.kernel, count, np.uint32),
        function=unpack(message.function, count, np.uint32),
        linkage_name=unpack(message.linkage_name, count, np.uint32),
        file=unpack(message.file, count, np.uint32),
        line=unpack(message.line, count, np.uint32),
        column=unpack(message.column, count, np.uint32),
        inlined=unpack(message.inlined, count, np.uint8),
        parent=unpack(message.parent, count, np.uint32),
        strings=message.strings,
    )


class Kept(NamedTuple):
    """Which locations travel: their numbers in the table they come from, the answers' column renumbered, and the
    parents of those that are kept, renumbered."""

    numbers: NDArray[np.intp]
    location: U32
    parent: U32


def _kept_locations(answers: Answers) -> Kept:
    """Mark what answers point to, then what encloses that, and number the marked in order."""
    parents = answers.locations.parent
    used = np.zeros(len(parents), np.bool_)
    used[0] = True
    used[answers.location] = True
    outer = parents[used]
    while len(outer):
        outer = outer[~used[outer]]
        used[outer] = True
        outer = parents[outer]
    numbers = np.flatnonzero(used)
    renumbered = np.zeros(len(parents), np.uint32)
    renumbered[numbers] = np.arange(len(numbers), dtype=np.uint32)
    return Kept(numbers, renumbered[answers.location], renumbered[parents[numbers]])


def _kept_places(answers: Answers) -> tuple[list[location_pb2.Place], U32]:
    """The places that answers name, and the column renumbered."""
    used = np.zeros(len(answers.places) + 1, np.bool_)
    used[answers.place] = True
    used[0] = False
    numbers = np.flatnonzero(used)
    renumbered = np.zeros(len(used), np.uint32)
    renumbered[numbers] = np.arange(1, len(numbers) + 1, dtype=np.uint32)
    return [to_place(answers.places[number - 1]) for number in numbers.tolist()], renumbered[answers.place]


def _base(values: U64, place: U32, offset: U64) -> int | None:
    """What must be taken from each value for its offset, if that is one number for all that name a place."""
    first = int(np.argmax(place != 0))
    base = (int(values[first]) - int(offset[first])) % (1 << 64)
    fits = values - np.uint64(base) == offset
    return base if bool((fits | (place == 0)).all()) else None


def _table(locations: Locations, kept: NDArray[np.intp], parent: U32) -> location_pb2.LocationTable:
    """The kept entries with the strings they number."""
    texts = [column[kept] for column in (locations.kernel, locations.function, locations.linkage_name, locations.file)]
    used = np.zeros(len(locations.strings), np.bool_)
    used[0] = True
    for column in texts:
        used[column] = True
    numbers = np.flatnonzero(used)
    renumbered = np.zeros(len(used), np.uint32)
    renumbered[numbers] = np.arange(len(numbers), dtype=np.uint32)
    kernel, function, linkage_name, file = (pack(renumbered[column]) for column in texts)
    return location_pb2.LocationTable(
        count=len(kept),
        reason=pack(locations.reason[kept]),
        kernel=kernel,
        function=function,
        linkage_name=linkage_name,
        file=file,
        line=pack(locations.line[kept]),
        column=pack(locations.column[kept]),
        inlined=pack(locations.inlined[kept]),
        parent=pack(parent),
        strings=utf8s(locations.strings[number] for number in numbers.tolist()),
    )


def _few(answers: Answers) -> answer_pb2.AnswerColumns:
    """The same for a handful of answers. This is what one address costs, so nothing here is done per table, and numbers
    travel as wide as the reader keeps them."""
    kept, places = Numbering({0: 0}), Numbering({0: 0})
    location = [_with_parents(number, answers.locations.parent, kept) for number in answers.location.tolist()]
    place = [places[number] for number in answers.place.tolist()]
    offset = [number if where else 0 for number, where in zip(answers.offset.tolist(), place, strict=True)]
    return answer_pb2.AnswerColumns(
        count=len(location),
        location=_packed(location),
        place=b"" if len(places) == 2 and all(place) else _packed(place),
        offset=struct.pack(f"<{len(offset)}Q", *offset),
        places=[to_place(answers.places[number - 1]) for number in islice(places, 1, None)],
        locations=_few_locations(answers.locations, kept),
        candidates=_candidates(answers) if answers.candidates else (),
    )


class Numbering(dict[int, int]):
    """Gives numbers in the order of asking; the old ones are the keys, in that order."""

    def __missing__(self, old: int) -> int:
        new = self[old] = len(self)
        return new


def _with_parents(number: int, parents: U32, kept: Numbering) -> int:
    at = number
    while at not in kept:
        kept[at]
        at = parents.item(at)
    return kept[number]


def _few_locations(locations: Locations, kept: Numbering) -> location_pb2.LocationTable:
    strings = Numbering({0: 0})
    return location_pb2.LocationTable(
        count=len(kept),
        reason=bytes([locations.reason.item(at) for at in kept]),
        kernel=_packed([strings[locations.kernel.item(at)] for at in kept]),
        function=_packed([strings[locations.function.item(at)] for at in kept]),
        linkage_name=_packed([strings[locations.linkage_name.item(at)] for at in kept]),
        file=_packed([strings[locations.file.item(at)] for at in kept]),
        line=_packed([locations.line.item(at) for at in kept]),
        column=_packed([locations.column.item(at) for at in kept]),
        inlined=bytes([locations.inlined.item(at) for at in kept]),
        parent=_packed([kept[locations.parent.item(at)] for at in kept]),
        strings=utf8s(locations.strings[number] for number in strings),
    )


def _packed(numbers: list[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers) if any(numbers) else b""


def _candidates(answers: Answers) -> Iterator[answer_pb2.Candidates]:
    for query, candidates in answers.candidates.items():
        yield answer_pb2.Candidates(query=query, candidates=map(to_candidate, candidates))


def join(pieces: Sequence[Answers]) -> Answers:
    """Answers to the pieces of a batch as answers to the whole. Their tables are put one after another, so a location
    that several pieces have is there several times."""
    if len(pieces) == 1:
        return pieces[0]
    tables = _starts(len(piece.locations) for piece in pieces)
    places = _starts(len(piece.places) for piece in pieces)
    queries = _starts(len(piece) for piece in pieces)
    return Answers(
        np.concatenate([piece.location + start for piece, start in zip(pieces, tables, strict=False)]),
        np.concatenate([_shifted(piece.place, start) for piece, start in zip(pieces, places, strict=False)]),
        np.concatenate([piece.offset for piece in pieces]),
        _joined([piece.locations for piece in pieces], tables),
        [place for piece in pieces for place in piece.places],
        {
            start + query: candidates
            for piece, start in zip(pieces, queries.tolist(), strict=False)
            for query, candidates in piece.candidates.items()
        },
    )


def _joined(tables: Sequence[Locations], starts: U32) -> Locations:
    texts = _starts(len(table.strings) for table in tables)

    def column(name: str, shifts: U32 | None = None) -> NDArray[Any]:
        columns = [getattr(table, name) for table in tables]
        if shifts is not None:
            columns = [_shifted(numbers, shift) for numbers, shift in zip(columns, shifts, strict=False)]
        return np.concatenate(columns)

    return Locations(
        column("reason"),
        column("kernel", texts),
        column("function", texts),
        column("linkage_name", texts),
        column("file", texts),
        column("line"),
        column("column"),
        column("inlined"),
        column("parent", starts),
        [text for table in tables for text in table.strings],
    )


def _starts(lengths: Iterable[int]) -> U32:
    """Where each piece begins, and at the end the length of all."""
    return np.cumsum([0, *lengths]).astype(np.uint32)


def _shifted(numbers: U32, by: np.uint32) -> U32:
    """Numbers into a table that now stands ``by`` entries later; 0 stays "none"."""
    return np.where(numbers, numbers + by, 0).astype(np.uint32)
