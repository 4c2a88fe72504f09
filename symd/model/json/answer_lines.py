"""Many answers as finished lines of JSON: what an answer shares with others, its location and its section, is written once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symd.model.answers import Answer, Answers, Locations, Reason, TextSection
from symd.model.columns import U32, U64
from symd.model.json import to_json
from symd.model.json.answers import answer_json, unreadable_query_json
from symd.model.rendered_answers import Column, Pieces, Shared, decimals, encoded, pieces_of, side_by_side
from symd.model.rendered_locations import Names, WrittenLocations, numbered

_BEFORE_QUERY = b'{"query": "'
_BETWEEN_NUMBERS = b', "address": ', b", "
"""Behind the offset in a section, and behind the address."""
_NOWHERE = f"null{_BETWEEN_NUMBERS[0].decode()}null{_BETWEEN_NUMBERS[1].decode()}"


class JsonLines:
    """Each answer as ``answer_json`` has it, one a line. ``names``: functions are called by what it says of their linkage names."""

    def __init__(self, names: Names | None = None) -> None:
        self._names = names
        self._locations: _JsonLocations | None = None
        self._sections: _JsonSections | None = None

    def query(self, text: str) -> str:
        """How a query is written. Letters, digits and a sign of ASCII are written as they are."""
        return to_json(text)[1:-1]

    def answers(self, queries: Sequence[bytes], answers: Answers) -> list[Column]:
        """The line of each answer, in pieces; not yet those of ``unusual`` ones. The queries as they are written."""
        places, written = self._places(answers.text_sections), self._written(answers.locations)
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

    def _written(self, table: Locations) -> _JsonLocations:
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

    def no_frames(self, kernel: str | None) -> str:  # noqa: ARG002 - it stands elsewhere
        return ""
