"""Many answers as lines of text: what an answer shares with others, its location, is written once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from symd.cli.answer_text import answer_text, no_frames_text, reason_text
from symd.cli.output import printable
from symd.model.answers import Answer, Answers, Reason
from symd.model.columns import U64
from symd.model.written_answers import Column, Pieces, decimals, side_by_side
from symd.model.written_locations import Names, WrittenLocations


class AnswerLines(Protocol):
    """How answers are written; a query is the text that was typed."""

    def query(self, text: str) -> str:
        """How a query is written. Letters, digits and a sign of ASCII are written as they are."""
        ...

    def answers(self, queries: Sequence[bytes], answers: Answers) -> list[Column]:
        """The lines of each answer, in pieces; not yet those of ``unusual`` ones. The queries as they are written."""
        ...

    def answer(self, query: str, answer: Answer) -> str:
        """The lines of any answer, as it is."""
        ...

    def refusal(self, query: str, error: str) -> str:
        """The line of what is no query."""
        ...


class TextLines:
    """As addr2line writes. ``names``: functions are called by what it says of their linkage names."""

    def __init__(self, names: Names | None = None) -> None:
        self._names = names
        self._locations: _TextLocations | None = None

    def query(self, text: str) -> str:
        return printable(text)

    def answers(self, queries: Sequence[bytes], answers: Answers) -> list[Column]:
        if self._locations is None or self._locations.locations is not answers.locations:
            self._locations = _TextLocations(answers.locations, self._names)
        return [queries, *self._locations.pieces(answers.location)]

    def answer(self, query: str, answer: Answer) -> str:
        return answer_text(query, answer)

    def refusal(self, query: str, error: str) -> str:
        return f"{printable(query)}: error: {printable(error)}\n"


class _TextLocations(WrittenLocations):
    """What stands behind a query."""

    places_need_files = True

    def string(self, text: str) -> str:
        return printable(text)

    def several(self, texts: Sequence[str]) -> Iterable[str]:
        return texts if "".join(texts).isprintable() else map(printable, texts)

    def before(self, reason: Reason) -> str:  # noqa: ARG002 - it is written behind the innermost frame
        return ": "

    def beginnings(self, functions: Pieces, linkage_names: Pieces, files: Pieces, start_lines: U64) -> Pieces:  # noqa: ARG002 - text has none
        names = np.where(functions != b"", functions, np.where(linkage_names != b"", linkage_names, b"(unnamed)"))
        return np.where(files != b"", side_by_side(names, b" at ", files, b":"), names)

    def positions(self, lines: U64, columns: U64) -> Pieces:
        found, known = decimals((lines,), (b"",)), columns != 0
        found[known] = decimals((lines[known], columns[known]), (b":", b""))
        return found

    def ending(self, reason: Reason, inlined: bool | None) -> str:  # noqa: ARG002 - it stands in front of the next frame
        return f"{reason_text(reason)}\n"

    def around_caller(self, inlined: bool) -> tuple[str, str]:  # noqa: ARG002 - it always is, or the last
        return "  (inlined by) ", "\n"

    def end(self) -> str:
        return ""

    def no_frames(self, kernel: str | None) -> str:
        return printable(no_frames_text(kernel))
