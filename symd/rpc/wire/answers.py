"""Answers spelled out, and as columns with a table of the locations that they point to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.errors import BadQuery, Malformed
from symd.model.addresses import ObjectAddress, SectionOffset, SectionRange
from symd.model.answers import Answer, Answers, Candidate, CodeRanges, Frame, FrameCode, Locations, TextSection, subset
from symd.model.arguments import ColumnQuestion
from symd.model.columns import U32, U64
from symd.model.contexts import DeviceAnswer, DeviceAnswers, DeviceCandidate
from symd.model.identities import ObjectPath
from symd.rpc.wire.columns import OTHER_SIDE, Number, check_below, check_count, concatenated, pack, pack_taken, unpack
from symd.rpc.wire.fields import (
    Conversion,
    bad_field,
    from_reason,
    module_digest,
    module_name,
    record,
    utf8,
)
from symd.rpc.wire.location_tables import (
    Key,
    Numbering,
    Placement,
    from_table,
    pack_few,
    placed,
    write_small_part,
    write_table,
)
from symd.rpc.wire.queries import from_query, to_query
from symd.v1 import answer_pb2, line_table_pb2, location_pb2
from symd.v1.symbol_service_pb2 import SymbolizeResponse

PLAIN_PYTHON_ANSWERS = 8
"""Up to this many answers are renumbered in plain Python, which is then faster than NumPy over a whole table."""


def to_answer(answer: Answer) -> answer_pb2.Answer:
    return add_answer(SymbolizeResponse().answers, answer)


def add_answer(rows: Any, answer: Answer) -> answer_pb2.Answer:
    """Append to a field of answers. One address costs little beside this, and a message that is made inside the one it
    belongs to need not be copied there."""
    before = len(rows)
    try:
        row: answer_pb2.Answer = rows.add(
            reason=answer.reason,
            code_object=answer.path,
            kernel=answer.kernel,
            section=answer.section,
            section_index=answer.section_index,
            section_offset=answer.section_offset,
            address=answer.address,
        )
        frames: Any = row.frames
        for frame in answer.frames:
            frames.add(
                function=frame.function,
                linkage_name=frame.linkage_name,
                file=frame.file,
                line=frame.line,
                column=frame.column,
                inlined=frame.inlined,
                start_line=frame.start_line,
            )
    except UnicodeEncodeError:
        del rows[before:]
        return add_answer(rows, _encodable(answer))
    if answer.candidates:
        row.candidates.extend(map(to_candidate, answer.candidates))
    if answer.ranges is not None:
        _add_ranges(row, answer.ranges)
    return row


def _add_ranges(row: answer_pb2.Answer, ranges: CodeRanges) -> None:
    if ranges.row is not None:
        row.row.CopyFrom(to_range(ranges.row))
    for frame, found in zip(row.frames, ranges.frames, strict=False):
        frame.code.extend(map(to_range, found.code))
        if found.declared_file is not None:
            frame.declared_file = utf8(found.declared_file)


def to_range(within: SectionRange) -> line_table_pb2.SectionRange:
    """Raises ``BadQuery`` for what does not fit."""
    try:
        message = line_table_pb2.SectionRange(start=within.start, end=within.end)
        if isinstance(within.section, str):
            message.section_name = within.section
        else:
            message.section_index = int(within.section)
    except ValueError:
        raise BadQuery(f"{within} does not fit", hint="offsets have 64 bits, section numbers 32") from None
    return message


def from_ranged_answer(message: answer_pb2.Answer) -> Answer:
    """The answer to a query that was asked with ranges. Raises ``InvalidInput`` for a range that is none."""
    answer = from_answer(message)
    if answer.address is None:
        return answer
    row = from_range(message.row) if message.HasField("row") else None
    frames = (FrameCode(tuple(map(from_range, each.code)), each.declared_file or None) for each in message.frames)
    return answer._replace(ranges=CodeRanges(row, tuple(frames)))


def from_range(message: line_table_pb2.SectionRange) -> SectionRange:
    """Raises ``InvalidInput``."""
    kind = message.WhichOneof("section")
    if kind is None:
        raise bad_field("section_range", "the range names no section", "set section_name or section_index")
    if message.start >= message.end:
        raise bad_field("section_range.end", "the range has no bytes", "its end is more than its start")
    section = message.section_name if kind == "section_name" else message.section_index
    return SectionRange(section, SectionOffset(message.start), SectionOffset(message.end))


def add_device_answer(rows: Any, found: DeviceAnswer) -> None:
    """Append the answer to a device address to a field of answers."""
    row = add_answer(rows, found.answer)
    row.device_address = found.address
    if found.module is not None:
        row.module = module_name(found.module)
    row.device_candidates.extend(map(to_device_candidate, found.candidates))


def _encodable(answer: Answer) -> Answer:
    """The answer with texts that Protocol Buffers take."""
    frames = tuple(
        frame._replace(function=utf8(frame.function), linkage_name=utf8(frame.linkage_name), file=utf8(frame.file))
        for frame in answer.frames
    )
    texts = utf8(answer.path), utf8(answer.kernel), utf8(answer.section)
    return answer._replace(
        path=answer.path and ObjectPath(utf8(answer.path)), kernel=texts[1], section=texts[2], frames=frames
    )


def from_answer(message: answer_pb2.Answer) -> Answer:
    """The answer. What has an address has a code object and a section number too, no name is empty, and what has no
    address alone has candidates, so that little need be asked."""
    reason = from_reason(message.reason)
    kernel, frames = message.kernel or None, tuple([from_frame(frame) for frame in message.frames])
    if not message.HasField("address"):
        candidates = tuple(map(from_candidate, message.candidates))
        return Answer(reason, kernel=kernel, frames=frames, candidates=candidates)
    offset, address = SectionOffset(message.section_offset), ObjectAddress(message.address)
    section, number = message.section or None, message.section_index
    return Answer(reason, ObjectPath(message.code_object), kernel, section, number, offset, address, frames)


def from_frame(message: location_pb2.Frame) -> Frame:
    return Frame(
        message.function or None,
        message.linkage_name or None,
        message.file or None,
        message.line,
        message.column,
        message.inlined,
        message.start_line,
    )


to_candidate, from_candidate = record(Candidate, answer_pb2.Candidate)
to_text_section, from_text_section = record(TextSection, location_pb2.TextSection)
MODULE = Conversion(module_name, module_digest)
"""A module by its digest, and by its name."""
to_device_candidate, from_device_candidate = record(
    DeviceCandidate, answer_pb2.DeviceCandidate, module=MODULE, query=Conversion(to_query, from_query, required=True)
)


def to_columns(answers: Answers, question: ColumnQuestion | None = None) -> answer_pb2.PackedAnswers:
    """The answers as columns; ``question`` is the column that was asked, where one was, so that offsets that follow
    from it need not travel."""
    message = answer_pb2.PackedAnswers()
    write_columns(message, answers, question)
    return message


def write_columns(
    message: answer_pb2.PackedAnswers,
    answers: Answers | DeviceAnswers,
    question: ColumnQuestion | None = None,
    table: bytes | None = None,
    number: U32 | None = None,
) -> None:
    """Write the answers as columns into an empty message. ``question`` is the column that was asked, where one was.
    ``table`` is a message that stands for the whole table of locations; without it those that answers point to are
    gathered into one of their own. ``number`` has for each of more queries the number of its answer, where none has
    candidates."""
    message.SetInParent()
    found = answers.answers if isinstance(answers, DeviceAnswers) else answers
    module = None
    if isinstance(answers, DeviceAnswers):
        module = answers.module
        message.modules.extend(["", *map(module_name, answers.modules)])
        _write_device(message, answers, question, number)
    count = len(found) if number is None else len(number)
    if table is not None:
        message.locations.MergeFromString(table)
        message.location = _column(found.location, number)
        _write_columns(message, found, placed(found, question, module, count), None, number)
    elif len(found) <= PLAIN_PYTHON_ANSWERS and module is None and number is None:
        _write_few(message, found)
    else:
        part, renumbered = subset(found.locations, found.location)
        write_table(message.locations, part)
        message.location = _taken(renumbered, found.location, number)
        _write_columns(message, found, placed(found, question, module, count), renumbered, number)


def _column(values: NDArray[Any], number: U32 | None) -> bytes:
    """A column of one value an answer, or of that of the answer that each query has the ``number`` of."""
    return pack(values) if number is None else pack_taken(values, number)


def _taken(table: NDArray[Any], numbers: U32, number: U32 | None) -> bytes:
    """The column ``table[numbers]``, as ``_column``."""
    return pack_taken(table, numbers) if number is None else pack_taken(table[numbers], number)


def _write_columns(
    message: answer_pb2.PackedAnswers,
    answers: Answers,
    placement: Placement,
    renumbered: U32 | None,
    number: U32 | None,
) -> None:
    """Everything but the locations, each of which travels as its number in ``renumbered``; None: as its own."""
    message.count = len(answers) if number is None else len(number)
    numbers = placement.text_section
    used = [number for number in dict.fromkeys(numbers) if number]
    _write_sections(message, [answers.text_sections[number - 1] for number in used])
    sent = {number: at for at, number in enumerate(used, 1)}
    _write_places(message, [sent.get(number, 0) for number in numbers], placement.module, placement.base)
    _write_place(message, placement, renumbered, number)
    if placement.base is None:
        offset = answers.offset if all(numbers) else np.where(answers.text_section, answers.offset, np.uint64(0))
        message.offset = _column(offset, number) or bytes(message.count)  # none at all would mean that places say them
    message.candidates.extend(_candidates(answers))


def _write_place(
    message: answer_pb2.PackedAnswers, placement: Placement, renumbered: U32 | None, number: U32 | None
) -> None:
    """The column of places."""
    if placement.of_answer is not None:
        message.place = _taken(placement.number, placement.of_answer, number)
    elif placement.key is Key.ORIGIN:
        message.place, message.place_by_origin = pack(placement.number), True
    else:
        of_location = placement.number
        if renumbered is not None:  # those that are left out have 0, the number of no answer's location
            of_location = np.ones(message.locations.count, np.uint32)
            of_location[renumbered] = placement.number
        message.place, message.place_by_location = pack(of_location), True


def _write_places(
    message: answer_pb2.PackedAnswers, sections: Sequence[int], modules: Sequence[int], bases: Sequence[int] | None
) -> None:
    message.places.add()  # entry 0
    for number, (section, module) in enumerate(zip(sections, modules, strict=True)):
        message.places.add(module=module, text_section=section, base=bases[number] if bases is not None else 0)


def _write_device(
    message: answer_pb2.PackedAnswers, answers: DeviceAnswers, question: ColumnQuestion | None, number: U32 | None
) -> None:
    whole = None if question is None else _shifted(question)
    if answers.address is not whole and not (whole is not None and np.array_equal(answers.address, whole)):
        message.device_address = _column(answers.address, number)
    for index, candidates in answers.candidates.items():
        message.device_candidates.add(index=index, candidates=map(to_device_candidate, candidates))


def _shifted(question: ColumnQuestion) -> U64:
    """The values, as the forms of their origins shift them."""
    shifts = np.array([each.form.shift for each in question.origins], np.uint64)
    if not shifts.any():
        return question.values
    return question.values << (shifts[0] if question.origin is None else shifts[question.origin])


def from_answers(messages: Sequence[answer_pb2.Answer], asked: int, *, with_ranges: bool = False) -> list[Answer]:
    """The answers to so many queries. Raises ``Malformed`` where there are more or fewer."""
    check_count(len(messages), asked)
    read = from_ranged_answer if with_ranges else from_answer
    return [read(message) for message in messages]


def from_columns(
    message: answer_pb2.PackedAnswers, question: ColumnQuestion | None = None, table: Locations | None = None
) -> Answers:
    """The answers; ``question`` is the column that was asked, ``table`` the one that the message names, where it names
    one. Raises ``Malformed`` when columns and counts disagree, or a number stands for nothing."""
    return _read_columns(message, question, table)[0]


def _read_columns(
    message: answer_pb2.PackedAnswers, question: ColumnQuestion | None, table: Locations | None
) -> tuple[Answers, _Places]:
    """The answers, and their places."""
    count = message.count
    if question is not None:
        check_count(count, len(question.values))
    locations = from_table(message.locations) if table is None else table
    location = unpack(message.location, count, np.uint32)
    check_below(location, len(locations), "location")
    if count and not location.all():
        raise Malformed("an answer has no location", hint=OTHER_SIDE)
    places = _Places.of(message, question, location, len(locations))
    section = places.each(np.array([each.text_section for each in message.places] or [0], np.uint32))
    check_below(section[:1] if section.strides == (0,) else section, max(len(message.text_sections), 1), "text section")
    if message.offset or question is None or not count:
        offset = unpack(message.offset, count, np.uint64)
    else:
        offset = _from_bases(message, question.values, places, section)
    sections = tuple(map(from_text_section, message.text_sections[1:]))
    candidates = {entry.index: tuple(map(from_candidate, entry.candidates)) for entry in message.candidates}
    return Answers(location, section, offset, locations, sections, candidates), places


def from_device_columns(message: answer_pb2.PackedAnswers, question: ColumnQuestion) -> DeviceAnswers:
    """The answers to a column of device addresses, or of several modules; otherwise as ``from_columns``."""
    answers, places = _read_columns(message, question, None)
    module = places.each(np.array([each.module for each in message.places] or [0], np.uint32))
    check_below(module[:1] if module.strides == (0,) else module, max(len(message.modules), 1), "module")
    whole = message.device_address
    return DeviceAnswers(
        answers,
        module,
        unpack(whole, message.count, np.uint64) if whole else _shifted(question),
        [module_digest(name) for name in message.modules[1:]],
        {each.index: tuple(map(from_device_candidate, each.candidates)) for each in message.device_candidates},
    )


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of ``count`` answers: ``number`` has the number of each key's, and ``key`` the key of each answer;
    None where all have the first."""

    number: U32
    key: U32 | None
    count: int

    @classmethod
    def of(
        cls, message: answer_pb2.PackedAnswers, question: ColumnQuestion | None, location: U32, locations: int
    ) -> _Places:
        """Raises ``Malformed``."""
        count, known = message.count, max(len(message.places), 1)
        key: U32 | None
        if message.place_by_location:
            number, key = unpack(message.place, locations, np.uint32), location
        elif not message.place_by_origin:
            number, key = np.arange(known, dtype=np.uint32), unpack(message.place, count, np.uint32)
            check_below(key, known, "place")
        elif question is None or question.origin is None:
            number, key = unpack(message.place, 1, np.uint32), None
        else:
            number, key = unpack(message.place, len(question.origins), np.uint32), question.origin
        check_below(number, known, "place")
        return cls(number, key, count)

    def each(self, values: NDArray[Number]) -> NDArray[Number]:
        """For each answer what its place has of ``values``; where all have one, an array that takes no memory."""
        of_key = values[self.number]
        if self.key is None or (self.count and (of_key == of_key[0]).all()):
            return np.broadcast_to(of_key[0], self.count)
        return of_key[self.key]


def _from_bases(message: answer_pb2.PackedAnswers, values: U64, places: _Places, section: U32) -> U64:
    """Section offsets where places say what they count from."""
    bases = places.each(np.array([each.base for each in message.places] or [0], np.uint64))
    offset: U64 = values - (bases[0] if bases.strides == (0,) else bases)
    if not (section[:1] if section.strides == (0,) else section).all():
        offset[section == 0] = 0
    return offset


def used_text_sections(answers: Answers) -> NDArray[np.intp]:
    """The numbers of the text sections that answers lie in, as their column has them (1 is the first), ascending."""
    if len(answers.text_sections) == 1:
        return np.arange(1, 2 if answers.text_section.any() else 1)
    used = np.zeros(len(answers.text_sections) + 1, np.bool_)
    used[answers.text_section] = True
    used[0] = False
    return np.flatnonzero(used)


def _write_sections(message: answer_pb2.PackedAnswers, sections: Sequence[TextSection]) -> None:
    """Fill the table of text sections; it stays empty where no answer lies in one."""
    if sections:
        message.text_sections.add()  # entry 0
        message.text_sections.extend(map(to_text_section, sections))


def _write_few(message: answer_pb2.PackedAnswers, answers: Answers) -> None:
    """Write a handful of answers into an empty message: nothing here is done per table, and numbers travel as wide as
    the reader keeps them."""
    kept, sections = Numbering({0: 0}), Numbering({0: 0})
    location = [_with_parents(number, answers.locations.parent, kept) for number in answers.location.tolist()]
    section = [sections[number] for number in answers.text_section.tolist()]
    offset = [number if where else 0 for number, where in zip(answers.offset.tolist(), section, strict=True)]
    message.count = len(location)
    message.location = pack_few(location)
    _write_places(message, range(1, len(sections)), [0] * (len(sections) - 1), None)
    if len(sections) == 2 and all(section):
        message.place, message.place_by_origin = pack_few([1]), True
    else:
        message.place = pack_few(section)
    message.offset = pack_few(offset, "Q") or bytes(len(offset))
    _write_sections(message, [answers.text_sections[number - 1] for number in islice(sections, 1, None)])
    write_small_part(message.locations, answers.locations, kept)
    message.candidates.extend(_candidates(answers))


def _with_parents(number: int, parents: U32, kept: Numbering) -> int:
    at = number
    while at not in kept:
        kept[at]
        at = parents.item(at)
    return kept[number]


def _candidates(answers: Answers) -> Iterator[answer_pb2.Candidates]:
    for index, candidates in answers.candidates.items():
        yield answer_pb2.Candidates(index=index, candidates=map(to_candidate, candidates))


def concatenated_device(pieces: Sequence[DeviceAnswers]) -> DeviceAnswers:
    """Answers to the pieces of a batch as answers to the whole."""
    if len(pieces) == 1:
        return pieces[0]
    modules = list(dict.fromkeys(digest for piece in pieces for digest in piece.modules))
    number = {digest: at for at, digest in enumerate(modules, 1)}
    tables = [np.array([0, *(number[digest] for digest in piece.modules)], np.uint32) for piece in pieces]
    starts = np.cumsum([0, *(len(piece) for piece in pieces)]).tolist()
    return DeviceAnswers(
        concatenated([piece.answers for piece in pieces]),
        np.concatenate([table[piece.module] for table, piece in zip(tables, pieces, strict=True)]),
        np.concatenate([piece.address for piece in pieces]),
        modules,
        {
            start + query: candidates
            for start, piece in zip(starts, pieces, strict=False)
            for query, candidates in piece.candidates.items()
        },
    )
