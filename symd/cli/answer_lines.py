"""Many answers as lines of text: what an answer shares with others, its location, is written once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from symd.cli.answer_text import answer_text, no_frames_text, reason_text
from symd.cli.output import printable
from symd.model.answers import Answer, Answers, Frame, Reason
from symd.model.written_locations import Names, WrittenLocations


class AnswerLines(Protocol):
    """How answers are written; a query is the text that was typed."""

    def answers(self, queries: Sequence[str], answers: Answers) -> Iterable[tuple[str, ...]]:
        """The lines of each answer, in pieces; not yet those of ``unusual`` ones."""
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

    def answers(self, queries: Sequence[str], answers: Answers) -> Iterable[tuple[str, ...]]:
        if self._locations is None or self._locations.locations is not answers.locations:
            self._locations = _TextLocations(answers.locations, self._names)
        shown = queries if "".join(queries).isprintable() else map(printable, queries)
        return zip(shown, *self._locations.pieces(answers.location), strict=True)

    def answer(self, query: str, answer: Answer) -> str:
        return answer_text(query, answer)

    def refusal(self, query: str, error: str) -> str:
        return f"{printable(query)}: error: {printable(error)}\n"


class _TextLocations(WrittenLocations):
    """What stands behind a query."""

    def before(self, reason: Reason) -> str:  # noqa: ARG002 - it is written behind the innermost frame
        return ": "

    def beginning(self, frame: Frame) -> tuple[str, bool]:
        name = frame.function or frame.linkage_name or "(unnamed)"
        return printable(name if frame.file is None else f"{name} at {frame.file}:"), frame.file is not None

    def position(self, line: int, column: int) -> str:
        return f"{line}:{column}" if column else str(line)

    def ending(self, reason: Reason, inlined: bool | None) -> str:  # noqa: ARG002 - it stands in front of the next frame
        return f"{reason_text(reason)}\n"

    def caller(self, beginning: str, position: str, inlined: bool) -> str:  # noqa: ARG002 - it always is, or the last
        return f"  (inlined by) {beginning}{position}\n"

    def end(self) -> str:
        return ""

    def no_frames(self, kernel: str | None) -> str:
        return printable(no_frames_text(kernel))
