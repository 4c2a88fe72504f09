"""Answers spelled out, and as columns with a table of the locations that they point to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.errors import Malformed
from symd.model.addresses import ObjectAddress, SectionOffset
from symd.model.answers import Answer, Answers, Candidate, Frame, Locations, TextSection, subset
from symd.model.columns import U32, U64
from symd.model.identities import ObjectPath
from symd.rpc.wire.columns import OTHER_SIDE, check_below, check_count, pack, unpack
from symd.rpc.wire.fields import from_reason, utf8
from symd.rpc.wire.location_tables import Numbering, from_table, pack_few, write_small_part, write_table
from symd.v1 import answer_pb2, location_pb2
from symd.v1.symbol_service_pb2 import SymbolizeResponse

PLAIN_PYTHON_ANSWERS = 8
"""Up to this many answers are renumbered in plain Python, which is then faster than NumPy over a whole table."""
NUMBERS_COMPARED_AT_ONCE = 1 << 15
"""Numbers of a column that are compared at a time, so that what is made on the way stays in the processor's cache."""


def to_answer(answer: Answer) -> answer_pb2.Answer:
    return add_answer(SymbolizeResponse().answers, answer)


def add_answer(rows: Any, answer: Answer) -> answer_pb2.Answer:
    """Append to a field of answers. One address costs little beside this, and a message that is made inside the one it
    belongs to need not be copied there."""
    before = len(rows)
    try:
        row: answer_pb2.Answer = rows.add(
            reason=answer.reason,
            path=answer.path,
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
    return row


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
    """The answer. What has an address has a path and a section number too, no name is empty, and what has no
    address alone has candidates, so that little need be asked."""
    reason = from_reason(message.reason)
    kernel, frames = message.kernel or None, tuple([from_frame(frame) for frame in message.frames])
    if not message.HasField("address"):
        candidates = tuple(map(from_candidate, message.candidates))
        return Answer(reason, kernel=kernel, frames=frames, candidates=candidates)
    offset, address = SectionOffset(message.section_offset), ObjectAddress(message.address)
    section, number = message.section or None, message.section_index
    return Answer(reason, ObjectPath(message.path), kernel, section, number, offset, address, frames)


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


def to_candidate(candidate: Candidate) -> answer_pb2.Candidate:
    return answer_pb2.Candidate(
        path=utf8(candidate.path),
        section=utf8(candidate.section),
        section_index=candidate.section_index,
        section_offset=candidate.section_offset,
        kernel=utf8(candidate.kernel),
        function=utf8(candidate.function),
    )


def from_candidate(message: answer_pb2.Candidate) -> Candidate:
    return Candidate(
        ObjectPath(message.path),
        message.section if message.HasField("section") else None,
        message.section_index,
        SectionOffset(message.section_offset),
        message.kernel if message.HasField("kernel") else None,
        message.function if message.HasField("function") else None,
    )


def to_text_section(section: TextSection) -> location_pb2.TextSection:
    return location_pb2.TextSection(
        path=utf8(section.path),
        section=utf8(section.section),
        section_index=section.section_index,
        address=section.address,
    )


def from_text_section(message: location_pb2.TextSection) -> TextSection:
    section = message.section if message.HasField("section") else None
    return TextSection(ObjectPath(message.path), section, message.section_index, message.address)


def to_columns(answers: Answers, values: U64 | None = None) -> answer_pb2.AnswerColumns:
    """The answers as columns; ``values`` is the column that was asked, where one was, so that offsets that follow
    from it need not travel."""
    message = answer_pb2.AnswerColumns()
    write_columns(message, answers, values)
    return message


def write_columns(
    message: answer_pb2.AnswerColumns, answers: Answers, values: U64 | None = None, table: bytes | None = None
) -> None:
    """Write the answers as columns into an empty message. ``values`` is the column that was asked, where one was. ``table`` is a message that stands for the whole table of locations; without it those that answers point to are gathered into one of their own."""
    message.SetInParent()
    if table is not None:
        message.locations.MergeFromString(table)
        _write_columns(message, answers, values, answers.location)
    elif len(answers) <= PLAIN_PYTHON_ANSWERS:
        _write_few(message, answers)
    else:
        part, renumbered = subset(answers.locations, answers.location)
        write_table(message.locations, part)
        _write_columns(message, answers, values, renumbered[answers.location])


def _write_columns(message: answer_pb2.AnswerColumns, answers: Answers, values: U64 | None, location: U32) -> None:
    everywhere = bool(len(answers)) and int(answers.text_section.min()) > 0
    sections, numbers = _used_sections(answers, everywhere)
    one = len(sections) == 1
    base = _base(values, None if everywhere else numbers, answers.offset) if one and values is not None else None
    message.count = len(answers)
    message.location = pack(location)
    if one and everywhere:
        message.common_section = 1
    else:
        message.text_section = pack(numbers)
    if base is not None:
        message.base = base
    else:
        message.offset = pack(answers.offset if everywhere else np.where(numbers, answers.offset, 0))
    _write_sections(message, sections)
    message.candidates.extend(_candidates(answers))


def from_answers(messages: Sequence[answer_pb2.Answer], asked: int) -> list[Answer]:
    """The answers to so many queries. Raises ``Malformed`` where there are more or fewer."""
    check_count(len(messages), asked)
    return [from_answer(message) for message in messages]


def from_columns(
    message: answer_pb2.AnswerColumns, values: U64 | None = None, table: Locations | None = None
) -> Answers:
    """The answers; ``values`` is the column that was asked, ``table`` the one that the message names, where it names
    one. Raises ``Malformed`` when columns and counts disagree, or a number stands for nothing."""
    count = message.count
    if values is not None:
        check_count(count, len(values))
    everywhere = message.HasField("common_section")
    if everywhere:
        section = np.broadcast_to(np.uint32(message.common_section), count)  # takes no memory
    else:
        section = unpack(message.text_section, count, np.uint32)
    if message.HasField("base") and values is not None:
        offset = values - np.uint64(message.base)
        if not everywhere:
            offset[section == 0] = 0
    else:
        offset = unpack(message.offset, count, np.uint64)
    check_below(section[:1] if everywhere else section, max(len(message.text_sections), 1), "text section")
    sections = tuple(map(from_text_section, message.text_sections[1:]))
    candidates = {entry.position: tuple(map(from_candidate, entry.candidates)) for entry in message.candidates}
    location = unpack(message.location, count, np.uint32)
    locations = from_table(message.locations) if table is None else table
    check_below(location, len(locations), "location")
    if count and not location.all():
        raise Malformed("an answer has no location", hint=OTHER_SIDE)
    return Answers(location, section, offset, locations, sections, candidates)


def used_text_sections(answers: Answers) -> NDArray[np.intp]:
    """The numbers of the text sections that answers lie in, as their column has them (1 is the first), ascending."""
    if len(answers.text_sections) == 1:
        return np.arange(1, 2 if answers.text_section.any() else 1)
    used = np.zeros(len(answers.text_sections) + 1, np.bool_)
    used[answers.text_section] = True
    used[0] = False
    return np.flatnonzero(used)


def _used_sections(answers: Answers, everywhere: bool) -> tuple[Sequence[TextSection], U32]:
    """The text sections that answers lie in, and the column renumbered, in which 0 is none and 1 the first."""
    if len(answers.text_sections) == 1 and everywhere:
        return answers.text_sections, answers.text_section
    numbers = used_text_sections(answers)
    renumbered = np.zeros(len(answers.text_sections) + 1, np.uint32)
    renumbered[numbers] = np.arange(1, len(numbers) + 1, dtype=np.uint32)
    return [answers.text_sections[number - 1] for number in numbers.tolist()], renumbered[answers.text_section]


def _write_sections(message: answer_pb2.AnswerColumns, sections: Sequence[TextSection]) -> None:
    """Fill the table of text sections; it stays empty where no answer lies in one."""
    if sections:
        message.text_sections.add()  # entry 0
        message.text_sections.extend(map(to_text_section, sections))


def _base(values: U64, section: U32 | None, offset: U64) -> int | None:
    """What must be taken from each value for its offset, if that is one number for all that lie in a section (all of them
    when ``section`` is None)."""
    first = 0 if section is None else int(np.argmax(section != 0))
    base = (int(values[first]) - int(offset[first])) % (1 << 64)
    for start in range(0, len(values), NUMBERS_COMPARED_AT_ONCE):
        part = slice(start, start + NUMBERS_COMPARED_AT_ONCE)
        fits = values[part] - offset[part] == np.uint64(base)
        if not (fits if section is None else fits | (section[part] == 0)).all():
            return None
    return base


def _write_few(message: answer_pb2.AnswerColumns, answers: Answers) -> None:
    """Write a handful of answers into an empty message: nothing here is done per table, and numbers travel as wide as the reader keeps them."""
    kept, sections = Numbering({0: 0}), Numbering({0: 0})
    location = [_with_parents(number, answers.locations.parent, kept) for number in answers.location.tolist()]
    section = [sections[number] for number in answers.text_section.tolist()]
    offset = [number if where else 0 for number, where in zip(answers.offset.tolist(), section, strict=True)]
    message.count = len(location)
    message.location = pack_few(location)
    if len(sections) == 2 and all(section):
        message.common_section = 1
    else:
        message.text_section = pack_few(section)
    message.offset = pack_few(offset, "Q")
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
    for position, candidates in answers.candidates.items():
        yield answer_pb2.Candidates(position=position, candidates=map(to_candidate, candidates))
