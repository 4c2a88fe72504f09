"""Many answers as finished lines of JSON: what an answer shares with others, its location and its section, is written once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from symd.answers_json import to_json
from symd.answers_json.answers import answer_json, frame_json, unreadable_query_json
from symd.model.answers import Answer, Answers, Frame, Locations, Reason, TextSection
from symd.model.written_locations import Names, WrittenLocations


class JsonLines:
    """Each answer as ``answer_json`` has it, one a line. ``names``: functions are called by what it says of their linkage names."""

    def __init__(self, names: Names | None = None) -> None:
        self._names = names
        self._locations: _JsonLocations | None = None
        self._sections: _JsonSections | None = None

    def answers(self, queries: Sequence[str], answers: Answers) -> Iterator[tuple[str, ...]]:
        """The line of each answer, in pieces; not yet those of ``unusual`` ones."""
        places, written = self._places(answers.text_sections), self._written(answers.locations)
        asked = "".join(queries)
        letters = queries if asked.isascii() and asked.isalnum() else [to_json(query)[1:-1] for query in queries]
        kernels = map(written.kernels.__getitem__, answers.locations.kernel[answers.location].tolist())
        sections = map(places.__getitem__, answers.text_section.tolist())
        rows = zip(letters, kernels, sections, answers.offset.tolist(), strict=True)
        heads = [
            f'{{"query": "{query}", {before}{kernel}{section}{offset}, "address": {start + offset}, '
            if start is not None
            else f'{{"query": "{query}", {before}{kernel}{section}null, "address": null, '
            for query, kernel, (before, section, start), offset in rows
        ]
        return zip(heads, *written.pieces(answers.location), strict=True)

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


class _SectionText(NamedTuple):
    """What is written of a text section: before the kernel, and between that and the offset."""

    code_object: str
    section: str
    address: int | None
    """Of its first byte; None where there is no section."""


class _JsonSections(dict[int, _SectionText]):
    """By number, counted from one; 0 is nowhere."""

    def __init__(self, sections: Sequence[TextSection]) -> None:
        super().__init__()
        self.sections = sections

    def __missing__(self, number: int) -> _SectionText:
        path, section, _, address = self.sections[number - 1] if number else (None, None, 0, None)
        self[number] = place = _SectionText(
            f'"object": {to_json(path)}, "kernel": ', f', "section": {to_json(section)}, "section_offset": ', address
        )
        return place


_NO_POSITION = '"line": 0, "column": 0'
"""Of a frame without one; in no string, whose quotation marks are escaped."""


class _JsonLocations(WrittenLocations):
    """Reason and frames; ``kernels`` has the names of kernels by their numbers."""

    def __init__(self, locations: Locations, names: Names | None = None) -> None:
        super().__init__(locations, names)
        self.kernels = _JsonStrings(locations.strings)

    def before(self, reason: Reason) -> str:
        return f'"reason": {to_json(reason.name)}, "frames": ['

    def beginning(self, frame: Frame) -> tuple[str, bool]:
        return to_json(frame_json(frame)).partition(_NO_POSITION)[0], True

    def position(self, line: int, column: int) -> str:
        return f'"line": {line}, "column": {column}'

    def ending(self, reason: Reason, inlined: bool | None) -> str:  # noqa: ARG002 - it is written before the frames
        return "" if inlined is None else f', "inlined": {to_json(inlined)}}}'

    def caller(self, beginning: str, position: str, inlined: bool) -> str:
        return f', {beginning}{position}, "inlined": {to_json(inlined)}}}'

    def end(self) -> str:
        return "]}\n"

    def no_frames(self, kernel: str | None) -> str:  # noqa: ARG002 - it stands elsewhere
        return ""


class _JsonStrings(dict[int, str]):
    """By number; what is empty is null."""

    def __init__(self, strings: Sequence[str]) -> None:
        super().__init__()
        self._strings = strings

    def __missing__(self, number: int) -> str:
        self[number] = text = to_json(self._strings[number] or None)
        return text
