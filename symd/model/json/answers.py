"""The JSON of answers: of address queries (the answer, its frames, its candidates), breakpoint locations, line tables,
listings, names, and variables with the structure of their types.

Where there may be very many rows, finished text is made: strings, locations and sections that many rows share are
encoded once, and rows are put together from pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from symd.model.answers import Answer, Answers, Candidate, Frame, Locations, Reason, TextSection
from symd.model.columns import U32, U64
from symd.model.debug_info import RowFlag
from symd.model.json import to_ascii_json, to_json
from symd.model.line_tables import Flow, LineTable, Listing
from symd.model.reasons import LINED
from symd.model.rendered_answers import (
    Column,
    Names,
    Pieces,
    Shared,
    WrittenLocations,
    decimals,
    encoded,
    numbered,
    pieces_of,
    side_by_side,
)
from symd.model.sources import SourceText

if TYPE_CHECKING:  # some 13 of the 165 ms of symd symbolize --json, which answers with none of them
    from symd.model.breakpoints import Located
    from symd.model.names import NamedItem
    from symd.model.variables import TypeInfo, Variable, Visible


def answer_json(query: str, answer: Answer) -> dict[str, Any]:
    """One answer; ``query`` is the text that was asked. ``candidates`` is there only for AMBIGUOUS and UNKNOWN_KERNEL,
    and for OUTSIDE_TEXT where the query names no section that there is."""
    fields = {
        "query": query,
        "object": answer.path,
        "kernel": answer.kernel,
        "section": answer.section,
        "section_offset": answer.section_offset,
        "address": answer.address,
        "reason": answer.reason.name,
        "frames": [frame_json(frame) for frame in answer.frames],
    }
    if answer.candidates or answer.reason in (Reason.AMBIGUOUS, Reason.UNKNOWN_KERNEL):
        fields["candidates"] = [candidate_json(candidate) for candidate in answer.candidates]
    return fields


def unreadable_query_json(query: str, error: str) -> dict[str, Any]:
    """What is in the place of an answer where the query is none."""
    return {"query": query, "error": error}


def unanswered_json(query: str, answer: Answer) -> dict[str, Any]:
    """Why a question about the variables at an address has no answer, and what else the address may mean."""
    candidates = [candidate_json(candidate) for candidate in answer.candidates]
    return {"query": query, "reason": answer.reason.name, "candidates": candidates}


def frame_json(frame: Frame) -> dict[str, Any]:
    """One frame; of several the innermost comes first. ``start_line`` is there only where it is known."""
    return {
        "function": frame.function,
        "linkage_name": frame.linkage_name,
        **({"start_line": frame.start_line} if frame.start_line else {}),
        "file": frame.file,
        "line": frame.line,
        "column": frame.column,
        "inlined": frame.inlined,
    }


def frames_text(frames: Sequence[Frame]) -> str:
    """The list of frames, innermost first, as finished text in pure ASCII, so that it may be put into any text."""
    return to_ascii_json([frame_json(frame) for frame in frames])


def candidate_json(candidate: Candidate) -> dict[str, Any]:
    """One place that a query may mean."""
    return {
        "object": candidate.path,
        "kernel": candidate.kernel,
        "section": candidate.section,
        "section_index": candidate.section_index,
        "section_offset": candidate.section_offset,
        "function": candidate.function,
    }


def located_json(requested: str, answer: Located, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """One object a location, or one that says the reason; ``names`` are readable ones for functions that have others. A
    location has ``device_addresses`` where it is one of a load that says where, and ``possible_entry`` where it is one
    of several."""
    if answer.refusal is not None:
        yield {"requested": requested, "reason": answer.refusal.name, "candidates": list(answer.candidates)}
    for location in answer.locations:
        yield {
            "requested": requested,
            "object": location.path,
            "kernel": location.kernel,
            "function": names.get(location.function or "", location.function),
            "section": location.section,
            "section_offset": location.section_offset,
            "address": location.address,
            "file": location.file,
            "line": location.line,
            "column": location.column,
            "inlined": location.inlined,
            "slid": location.slid,
            **({"device_addresses": list(location.device_addresses)} if location.device_addresses else {}),
            **({"possible_entry": True} if location.possible_entry else {}),
        }


ROWS_PER_TEXT = 10_000
"""Rows turned into text at a time."""
_PUBLISHED_FLAGS = int(RowFlag.IS_STMT | RowFlag.END_SEQUENCE | RowFlag.PROLOGUE_END)
_FLAGS_JSON = {
    flags: f'"is_stmt": {to_json(bool(flags & RowFlag.IS_STMT))}, "end_sequence": {to_json(bool(flags & RowFlag.END_SEQUENCE))}'
    + (', "prologue_end": true' if flags & RowFlag.PROLOGUE_END else "")
    for flags in range(_PUBLISHED_FLAGS + 1)
}


def row_lines(table: LineTable) -> Iterator[str]:
    """The rows in table order, one object a line, ``ROWS_PER_TEXT`` lines in one text; ``text`` is a member only where
    the table has the text of its lines, ``prologue_end`` only where a row has that mark."""
    strings = [to_json(text or None) for text in table.strings]
    start = f'{{"object": {to_json(table.path)}, "target": {to_json(table.target)}, '
    sections = [_section_json(text.section, text.section_index) for text in table.text_sections]
    starts = [text.address for text in table.text_sections]
    texts = [""] if table.text is None else [f', "text": {string}' for string in strings]
    for rows in row_chunks(table):
        yield "".join(
            f'{start}{sections[section]}, "section_offset": {offset}, "address": {starts[section] + offset}, '
            f'"kernel": {strings[kernel]}, "function": {strings[function]}, "file": {strings[file]}, "line": {line}, '
            f'"column": {column}, {_FLAGS_JSON[flags & _PUBLISHED_FLAGS]}{texts[text]}}}\n'
            for section, offset, kernel, function, file, line, column, flags, text in rows
        )


def _section_json(section: str | None, index: int) -> str:
    number = "null" if section is None else str(index)
    return f'"section": {to_json(section)}, "section_index": {number}'


def row_chunks(table: LineTable) -> Iterator[Iterator[Sequence[int]]]:
    """The columns of a table as rows of plain ints, ``ROWS_PER_TEXT`` at a time: text section, offset, kernel,
    function, file, line, column, flags, text (0 where the table has no texts)."""
    columns = (
        table.text_section,
        table.offset,
        table.kernel,
        table.function,
        table.file,
        table.line,
        table.column,
        table.flags,
        np.zeros(len(table), np.uint32) if table.text is None else table.text,
    )
    for start in range(0, len(table), ROWS_PER_TEXT):
        yield zip(*(column[start : start + ROWS_PER_TEXT].tolist() for column in columns), strict=True)


def instruction_lines(
    listing: Listing, sources: Mapping[str, SourceText], weights: Sequence[tuple[float, float]] | None = None
) -> Iterator[str]:
    """One line of JSON an instruction, in the order of the code; a single line with ``problem`` where there are none.
    ``sources`` are the texts of source files, by the name that the debug data gives them; ``weights`` what the samples
    of a profile at each instruction weigh, and their share of the profile, from 0 to 1."""
    if listing.problem:
        yield to_json({"object": listing.path, "target": listing.target, "problem": listing.problem}) + "\n"
        return
    texts = {file: source.lines() for file, source in sources.items() if source.text is not None}
    endings: dict[int, str] = {}
    answers = listing.answers
    for number, (location, size, text) in enumerate(
        zip(answers.location.tolist(), listing.size.tolist(), listing.text, strict=True)
    ):
        answer = answers[number]
        if location not in endings:
            endings[location] = _of_location(answer, texts)
        own = f'"size": {size}, "text": {to_json(text)}, {_of_instruction(listing, number)}'
        if (device_address := listing.device_address(number)) is not None:
            own = f'"device_address": {device_address}, "module": "modules/{listing.module}", {own}'
        if weights is not None:
            own = f'"value": {weights[number][0]}, "share": {weights[number][1]:.6g}, {own}'
        yield f"{_of_address(answer)}, {own}, {endings[location]}}}\n"


def _of_instruction(listing: Listing, number: int) -> str:
    """The members that say what an instruction is made of and where it leads, without braces; none of a listing that
    does not know."""
    code = listing.code[number].hex() if listing.code else None
    flow = [each.name.lower() for each in Flow if each.name and listing.flow and listing.flow[number] & each]
    targets = list(listing.targets[number]) if listing.targets else []
    return to_json({"bytes": code, "flow": flow, "targets": targets}).removeprefix("{").removesuffix("}")


def _of_address(answer: Answer) -> str:
    """The members that tell instructions apart, without the closing brace."""
    fields = {
        "object": answer.path,
        "kernel": answer.kernel,
        "function": answer.frames[-1].function if answer.frames else None,
        "section": answer.section,
        "section_index": answer.section_index,
        "section_offset": answer.section_offset,
        "address": answer.address,
    }
    return to_json(fields).removesuffix("}")


def _of_location(answer: Answer, texts: Mapping[str, list[str]]) -> str:
    """The members that all instructions of one location share, without braces."""
    frame = answer.frames[0] if answer.frames else None
    lines = texts.get(frame.file or "", []) if frame and answer.reason in LINED else []
    source = lines[frame.line - 1] if frame and 0 < frame.line <= len(lines) else None
    shared = {
        "reason": answer.reason.name,
        "frames": [frame_json(each) for each in answer.frames],
        "source": source,
    }
    return to_json(shared).removeprefix("{").removesuffix("}")


def named_item_json(found: NamedItem, name: str) -> dict[str, Any]:
    """One item; ``name`` is what to call it, which may be the demangled name."""
    return {
        "kind": found.kind.name.lower(),
        "name": name,
        "linkage_name": found.linkage_name,
        "object": found.path,
        "section": found.section,
        "section_index": found.section_index,
        "section_offset": found.section_offset,
        "address": found.address,
        "size": found.size,
        "inlined_copies": found.inlined_copies,
        "facts": dict(found.facts),
        **({"declared_file": found.declared_file, "declared_line": found.declared_line} if found.declared_line else {}),
    }


def variable_json(variable: Variable) -> dict[str, Any]:
    """One variable; ``live`` and ``block`` are section-offset ranges, the end excluded. From ``frame`` on a member is
    there only where it is known and says something; ``block_depth`` and ``block`` only where the variable is declared
    in a block of its function."""
    more = {
        "frame": variable.frame,
        "linkage_name": variable.linkage_name,
        "block_depth": variable.block_depth or None,
        "block": [list(pair) for pair in variable.block] or None,
        "declared_file": variable.declared_file,
        "declared_line": variable.declared_line or None,
        "doubt": next((asdict(each.doubt) for each in variable.locations if each.doubt), None),
    }
    return {
        "name": variable.name or None,
        "type": variable.type,
        "kind": variable.kind,
        "function": variable.function,
        "inlined": variable.inlined,
        "optimized_out": variable.optimized_out,
        "location": variable.location,
        "live": [list(pair) for pair in variable.live],
        **{name: value for name, value in more.items() if value is not None},
    }


def variable_types_json(variable: Variable, visible: Visible) -> dict[str, Any]:
    """The types that the variable's type is made of, numbered from its own, which is 0."""
    if variable.type_number is None:
        return {"types": []}
    order = [variable.type_number]
    numbers: dict[int | None, int | None] = {variable.type_number: 0}
    for number in order:
        for other in _mentioned(visible.types[number]):
            if other not in numbers:
                numbers[other] = len(order)
                order.append(other)
    return {"types": [_type_json(visible.types[number], numbers) for number in order]}


def _mentioned(info: TypeInfo) -> Iterator[int]:
    """The numbers of the types that a type speaks of."""
    for number in (info.target, *info.parameters, *(member.type for member in info.members)):
        if number is not None:
            yield number


def _type_json(info: TypeInfo, numbers: dict[int | None, int | None]) -> dict[str, Any]:
    members = [asdict(member) | {"type": numbers.get(member.type)} for member in info.members]
    return {
        "text": info.text,
        "kind": info.kind,
        "size": info.size,
        "encoding": info.encoding,
        "target": numbers.get(info.target),
        "counts": list(info.counts),
        "members": members,
        "parameters": [numbers.get(number) for number in info.parameters],
        "enumerators": dict(info.enumerators),
        "address_space": info.address_space,
    }


_BEFORE_QUERY = b'{"query": "'
_BETWEEN_NUMBERS = b', "address": ', b", "
"""The JSON between the offset in a section and the address, and after the address."""
_NOWHERE = f"null{_BETWEEN_NUMBERS[0].decode()}null{_BETWEEN_NUMBERS[1].decode()}"


class JsonLines:
    """Each answer as ``answer_json`` has it, one a line. ``names``: functions are called by what it says of their
    linkage names."""

    def __init__(self, names: Names | None = None) -> None:
        self._names = names
        self._locations: _JsonLocations | None = None
        self._sections: _JsonSections | None = None

    def query(self, text: str) -> str:
        """How a query is written. Letters, digits and a sign of ASCII are written as they are."""
        return to_json(text)[1:-1]

    def answers(self, queries: Sequence[bytes], answers: Answers) -> list[Column]:
        """The line of each answer, in pieces; not yet those of ``unusual`` ones. The queries as they are written."""
        places, written = self._places(answers.text_sections), self._json_locations(answers.locations)
        count = len(queries)
        opening = Shared(pieces_of([_BEFORE_QUERY]), np.zeros(count, np.int64))
        kernel, number = answers.locations.kernel[answers.location], answers.text_section
        group, of = numbered(number, kernel)
        kernels = (name.decode() or "null" for name in written.strings.several(kernel[of]).tolist())
        heads = encoded(map(places.head, number[of].tolist(), kernels))
        head = Shared(pieces_of(heads), group)
        return [opening, queries, head, places.numbers(number, answers.offset), *written.pieces(answers.location)]

    def answer(self, query: str, answer: Answer) -> str:
        """The line of any answer, as it is."""
        return to_json(answer_json(query, answer)) + "\n"

    def refusal(self, query: str, error: str) -> str:
        """The line of what is no query."""
        return to_json(unreadable_query_json(query, error)) + "\n"

    def _json_locations(self, table: Locations) -> _JsonLocations:
        """The JSON of the locations of a table; that of the last table is kept."""
        if self._locations is None or self._locations.locations is not table:
            self._locations = _JsonLocations(table, self._names)
        return self._locations

    def _places(self, sections: Sequence[TextSection]) -> _JsonSections:
        if self._sections is None or self._sections.sections is not sections:
            self._sections = _JsonSections(sections)
        return self._sections


class _JsonSections:
    """Text sections by number, counted from one; 0 is nowhere."""

    def __init__(self, sections: Sequence[TextSection]) -> None:
        self.sections = sections
        self._addresses = np.array([0, *(each.address for each in sections)], np.uint64)

    def head(self, number: int, kernel: str) -> str:
        """What is written between the query and the offset in the section; nowhere also that and the address."""
        path, section, *_ = self.sections[number - 1] if number else (None, None)
        head = f'", "object": {to_json(path)}, "kernel": {kernel}, "section": {to_json(section)}, "section_offset": '
        return head if number else head + _NOWHERE

    def numbers(self, section: U32, offset: U64) -> list[bytes]:
        """What is written of the offset in the section, and of the address; nothing nowhere."""
        address = self._addresses[section] + offset
        found = np.full(len(section), b"", np.object_)
        there = section != 0
        fits = there & (address >= offset)
        found[fits] = decimals((offset[fits], address[fits]), _BETWEEN_NUMBERS)
        for at in np.flatnonzero(there & ~fits).tolist():  # of code whose end no address can name
            start = self.sections[section.item(at) - 1].address
            found[at] = b"%d%b%d%b" % (
                offset.item(at),
                _BETWEEN_NUMBERS[0],
                start + offset.item(at),
                _BETWEEN_NUMBERS[1],
            )
        return found.tolist()


class _JsonLocations(WrittenLocations):
    """Reason and frames."""

    places_need_files = False

    def string(self, text: str) -> str:
        return to_json(text)

    def before(self, reason: Reason) -> str:
        return f'"reason": {to_json(reason.name)}, "frames": ['

    def beginnings(self, functions: Pieces, linkage_names: Pieces, files: Pieces, start_lines: U64) -> Pieces:
        function, linkage_name, file = (
            np.where(each != b"", each, b"null") for each in (functions, linkage_names, files)
        )
        names = side_by_side(b'{"function": ', function, b', "linkage_name": ', linkage_name)
        start = pieces_of([b', "start_line": %d' % line if line else b"" for line in start_lines.tolist()])
        return side_by_side(names, start, b', "file": ', file, b', "line": ')

    def positions(self, lines: U64, columns: U64) -> Pieces:
        return decimals((lines, columns), (b', "column": ', b""))

    def ending(self, reason: Reason, inlined: bool | None) -> str:  # noqa: ARG002 - it is written before the frames
        return "" if inlined is None else f', "inlined": {to_json(inlined)}}}'

    def around_caller(self, inlined: bool) -> tuple[str, str]:
        return ", ", f', "inlined": {to_json(inlined)}}}'

    def end(self) -> str:
        return "]}\n"

    def no_frames(self, kernel: str | None) -> str:  # noqa: ARG002 - it is elsewhere
        return ""
