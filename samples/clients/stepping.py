"""Where a step ends, by what symd's answers say of their ranges: the row of the line table, each function's bytes, those of each inlined call. No line
table is read. Without a device nobody knows which branches are taken, so that steps go on in the order of the code; with one, the same ranges say
where a debugger lets the program stop next.
"""

from __future__ import annotations

from collections.abc import Sequence

from symd.api import Symbolizer
from symd.errors import NotFound
from symd.model.addresses import BySection, SectionOffset, SectionRange
from symd.model.answers import Answer
from symd.model.line_tables import Around, ListingPart


def place_of(answer: Answer) -> BySection:
    """The place of an answer as a query that only it can mean, in its code object."""
    return BySection(answer.section_index or 0, answer.section_offset or SectionOffset(0))


def code_of(answer: Answer, level: int) -> tuple[SectionRange, ...]:
    """The bytes of a frame's function; frames are counted from the outermost."""
    frames = answer.ranges.frames if answer.ranges else ()
    return frames[-1 - level].code if level < len(frames) else ()


def holding(ranges: Sequence[SectionRange], offset: int) -> SectionRange | None:
    """The range that an offset is in."""
    return next((each for each in ranges if each.start <= offset < each.end), None)


class Stepping:
    """Steps from a stop, whose answer has ranges. Each gives the next stop's answer, or None where the function ends."""

    def __init__(self, symd: Symbolizer, digest: str, stop: Answer) -> None:
        self._symd, self._digest, self._stop = symd, digest, stop
        self._level = len(stop.frames) - 1

    def over(self, granularity: str) -> Answer | None:
        """To the next statement, line or instruction of the innermost frame, past what is inlined into it: past a whole
        call, also where it is the first of its line."""
        return self._step(granularity, into=False)

    def into(self, granularity: str) -> Answer | None:
        """The same, but into what is inlined."""
        return self._step(granularity, into=True)

    def out(self) -> Answer | None:
        """Behind the inlined call that the innermost frame is. What calls a function is known to a device alone."""
        here = holding(code_of(self._stop, self._level), self._stop.section_offset or 0)
        found = self._at(here.end) if here is not None and self._level > 0 else None
        while found is not None and not found.frames[0].line:
            found = self._behind(found)
        return found

    def _step(self, granularity: str, *, into: bool) -> Answer | None:
        own = code_of(self._stop, self._level)
        if granularity == "instruction" or not own:
            return self._next_instruction(self._stop)
        start, found = self._position(self._stop, granularity), self._behind(self._stop)
        while found is not None:
            inner = holding(code_of(found, self._level + 1), found.section_offset or 0)
            is_left = holding(own, found.section_offset or 0) is None
            if inner is not None and not is_left and not into:
                found = self._at(inner.end)
            elif not found.frames[0].line:
                found = self._behind(found)
            elif is_left or inner is not None or self._position(found, granularity) != start:
                return found
            else:
                found = self._behind(found)
        return None

    def _position(self, answer: Answer, granularity: str) -> tuple[str | None, int, int]:
        """Where the frame that is stepped through stands; a line is one whatever its columns."""
        frame = answer.frames[-1 - self._level]
        return frame.file, frame.line, frame.column if granularity == "statement" else 0

    def _behind(self, answer: Answer) -> Answer | None:
        """What is behind the row; where none covers the place, behind the instruction."""
        row = answer.ranges.row if answer.ranges else None
        return self._next_instruction(answer) if row is None else self._at(row.end)

    def _at(self, offset: int) -> Answer | None:
        """The answer at an offset of the section; None where the function of the stop does not reach there."""
        if holding(code_of(self._stop, 0), offset) is None:
            return None
        place = BySection(self._stop.section_index or 0, SectionOffset(offset))
        found = self._symd.symbolize_one(self._digest, place, self._stop.path, with_ranges=True)
        return found if found.frames else None

    def _next_instruction(self, answer: Answer) -> Answer | None:
        try:
            (listing,) = self._symd.listing(self._digest, ListingPart(answer.path, Around(place_of(answer), 0, 1)))
        except NotFound:
            return None
        return self._at(listing.answers[1].section_offset or 0) if len(listing) > 1 else None
