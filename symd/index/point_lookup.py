"""One position answered from the columns of an index, number by number and without NumPy.

Where questions come one at a time the processor's caches hold nothing of an index or of the code that reads it, so what
counts is how little of both an answer touches; and questions come again and again from the same few ranges."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import Any

from symd.index.derived import NO_DEBUG_DATA, DerivedColumns
from symd.index.schema import Columns
from symd.index.starts import GROUP
from symd.model.answers import Frame, Reason
from symd.model.debug_info import BODY
from symd.model.reasons import KNOWN

RangeAnswer = tuple[Reason, str | None, tuple[Frame, ...]]
"""(reason, kernel, frames): what all positions of a range have in common."""
AnswerPage = tuple[Any, ...]
"""(None, number of the page, a byte for each of its slots, then answers). The byte of a slot is 0 where its answer is not kept; else the
three parts of its ``RangeAnswer`` stand in the page itself, from ENTRIES times the byte on. So a page of many slots takes two objects."""
ENTRIES = 3

KEPT_ANSWERS = 256
"""Of so many ranges an index keeps the answers, and so many pages of them."""
ANSWER_BYTES = 1000
"""About what a kept answer takes at most, with a page of its own."""
LEAST_KEPT_TEXT = 16_000
"""Characters that kept answers may have together, where ANSWER_BYTES for each of as few as there are ranges come to fewer."""
ANSWER_PAGE_SHIFT = 8
"""An answer page has 1 << ANSWER_PAGE_SHIFT slots: another one than ``packing.PAGE_SHIFT``, of ranges."""
LAST_IN_PAGE = (1 << ANSWER_PAGE_SHIFT) - 1
_WORD_SHIFT = 6
"""A word of ``start_bits`` has a bit for each of 1 << _WORD_SHIFT slots."""
_SLOTS = 1 << _WORD_SHIFT
_LAST_IN_WORD = _SLOTS - 1
_MOST_IN_PAGE = ENTRIES << 8
"""Entries of a page that bytes can say."""
NO_PAGE: AnswerPage = (None, -1, bytes(1 << ANSWER_PAGE_SHIFT))
"""A page that no slot is in."""
SHARED_NAMES, SHARED_NAME_LENGTH = 4096, 200
"""So many names, of so many characters at most, are shared by modules: uploads bring names without end."""
_REASONS = {int(reason): reason for reason in KNOWN}


def shared_name(text: str | None) -> str | None:
    """One object for all modules that have it: sections and kernels of many are called alike, and what others ask for is in the processor's
    caches. Not ``sys.intern``, which from Python 3.12 on never gives a name back."""
    return _first_equal(text) if text and len(text) <= SHARED_NAME_LENGTH else text


@lru_cache(SHARED_NAMES)
def _first_equal(text: str) -> str:
    """The one that was given first of those that are equal, as long as it is kept."""
    return text


class PointLookup:
    """The ranges of an index as single questions read them. Safe to use from several threads.

    ``columns`` are those of an index file that is whole; numbers in it may still contradict each other, which ends as
    an IndexError.

    Answers are kept by range, and found by slot: a slot has 1 << ``shift`` bytes, and no range begins inside one. ``pages`` has those
    pages, by number, of which something was asked for; in a page stands the answer of each slot, as far as it is kept. All slots that a range has in
    a page get its answer at once."""

    __slots__ = (
        "_derived", "_frame_file", "_frame_kernel", "_frame_owner", "_kept", "_kept_text", "_last_slot", "_most_text", "_owner_column", "_owner_file",
        "_owner_inlined", "_owner_line", "_owner_linkage_name", "_owner_name", "_owner_parent", "_owner_start_line", "_start_base", "_start_bits",
        "_start_rank", "_start_sorted", "_string_data", "_string_ends", "pages", "shift",
    )  # fmt: skip

    def __init__(self, columns: Columns, derived: DerivedColumns) -> None:
        numbers = columns.numbers
        self._start_bits, self._start_rank = numbers(Columns.start_bits), numbers(Columns.start_rank)
        self._start_base, self._start_sorted = numbers(Columns.start_base), numbers(Columns.start_sorted)
        self.shift = numbers(Columns.start_shift)[0]
        self._last_slot = len(self._start_bits) * 64 - 1
        self._derived = derived
        self._frame_owner, self._frame_kernel = numbers(Columns.frame_owner), numbers(Columns.frame_kernel)
        self._frame_file = numbers(Columns.frame_file)
        self._owner_name, self._owner_linkage_name = numbers(Columns.owner_name), numbers(Columns.owner_linkage_name)
        self._owner_inlined, self._owner_parent = numbers(Columns.owner_inlined), numbers(Columns.owner_parent)
        self._owner_file, self._owner_line = numbers(Columns.owner_file), numbers(Columns.owner_line)
        self._owner_column, self._owner_start_line = numbers(Columns.owner_column), numbers(Columns.owner_start_line)
        self._string_ends, text = numbers(Columns.string_ends), numbers(Columns.string_data)
        self._string_data = text if text.contiguous else memoryview(text.tobytes())
        self.pages: dict[int, AnswerPage] = {}
        self._kept: dict[int, RangeAnswer] = {}
        self._kept_text = 0
        self._most_text = max(min(numbers(Columns.range_count)[0], KEPT_ANSWERS) * ANSWER_BYTES, LEAST_KEPT_TEXT)

    def at(self, position: int) -> RangeAnswer:
        """What holds at a text position; positions before the first start belong to range 0."""
        found: RangeAnswer = self.at_slot(position >> self.shift)[0]
        return found

    def at_slot(self, slot: int) -> tuple[RangeAnswer, AnswerPage]:
        """(what holds in a slot, the page that says so: who asks again looks there first)."""
        page = self.pages.get(slot >> ANSWER_PAGE_SHIFT, NO_PAGE)
        entry = page[2][slot & LAST_IN_PAGE] * ENTRIES
        return (page[entry : entry + ENTRIES], page) if entry else self._found(slot)

    def _found(self, slot: int) -> tuple[RangeAnswer, AnswerPage]:
        """The same of a slot whose answer is not kept: it is from now on, unless its texts alone are too long for that."""
        number, first, stop = self._range_in_page(slot)
        answer = self._kept.get(number) or self._answer(number)
        length = _text_length(answer)
        if length > self._most_text:
            return answer, NO_PAGE
        is_full = number not in self._kept and self._kept_text + length > self._most_text
        if is_full or max(len(self._kept), len(self.pages)) >= KEPT_ANSWERS:
            self._forget()
        if number not in self._kept:
            self._kept[number] = answer
            self._kept_text += length
        at = slot >> ANSWER_PAGE_SHIFT
        page = self.pages.get(at)
        if page is None or len(page) == _MOST_IN_PAGE:
            page = (None, at, NO_PAGE[2])
        slots = page[2][:first] + bytes((len(page) // ENTRIES,)) * (stop - first) + page[2][stop:]
        page = self.pages[at] = (None, at, slots, *page[ENTRIES:], *answer)
        return answer, page

    def _forget(self) -> None:
        self._kept.clear()
        self.pages.clear()
        self._kept_text = 0

    def _range_in_page(self, slot: int) -> tuple[int, int, int]:
        """(the number of the range that a slot is in, its first slot in the page, the one after its last there)."""
        number, first, stop = self._range(slot)
        begin, word = slot & ~LAST_IN_PAGE, slot & LAST_IN_PAGE & ~_LAST_IN_WORD
        first, stop = word + first, word + stop
        while first > 0 and not first & _LAST_IN_WORD:
            before, at, _ = self._range(begin + first - 1)
            if before != number:
                break
            first += at - _SLOTS
        while stop <= LAST_IN_PAGE and not stop & _LAST_IN_WORD:
            after, at, end = self._range(begin + stop)
            if after != number or at:
                break
            stop += end
        return number, first, stop

    def _range(self, slot: int) -> tuple[int, int, int]:
        """(the number of the range that a slot is in, its first slot in the word, the one after its last there)."""
        begin, at = slot >> _WORD_SHIFT << _WORD_SHIFT, slot & _LAST_IN_WORD
        if self._last_slot < 0:
            starts = self._start_sorted
            after = bisect_right(starts, (slot + 1 << self.shift) - 1)
            first = max((starts[after - 1] >> self.shift) - begin, 0) if after > 1 else 0
            stop = (starts[after] >> self.shift) - begin if after < len(starts) else _SLOTS
            return max(after - 1, 0), first, min(stop, _SLOTS)
        if slot > self._last_slot:
            return self._range(self._last_slot)[0], 0, _SLOTS
        bits, word = self._start_bits[slot >> _WORD_SHIFT], slot >> _WORD_SHIFT
        below, above = bits & ((2 << at) - 1), bits >> at + 1
        number = self._start_base[word >> GROUP] + self._start_rank[word] + below.bit_count() - 1
        first, stop = max(below.bit_length() - 1, 0), at + (above & -above).bit_length() if above else _SLOTS
        return max(number, 0), first, stop

    def _answer(self, number: int) -> RangeAnswer:
        """What holds in a range: its kernel, and the frame of its owner with those that it is inlined into."""
        frame, line, column, number = self._derived.ranges.one(number)
        reason = _REASONS[number]
        kernel, owner, file = self._frame_kernel[frame], self._told(self._frame_owner[frame]), self._frame_file[frame]
        function = self._owner_name[owner] if owner or reason not in NO_DEBUG_DATA else kernel
        text = self._text
        kernel_name = shared_name(text(kernel))
        if not (function or file):
            return reason, kernel_name, ()
        frames = []
        while True:
            inlined, linkage_name = bool(self._owner_inlined[owner]), self._owner_linkage_name[owner]
            start_line = self._owner_start_line[owner]
            frames.append(Frame(text(function), text(linkage_name), text(file), line, column, inlined, start_line))
            around = self._told(self._owner_parent[owner]) if inlined else 0
            if not around:
                return reason, kernel_name, tuple(frames)
            file, line, column = self._owner_file[owner], self._owner_line[owner], self._owner_column[owner]
            owner, function = around, self._owner_name[around]

    def _told(self, owner: int) -> int:
        """An owner, or its parent where that is told in its place."""
        if self._owner_inlined[owner] == BODY and self._derived.has_bodies:
            return self._owner_parent[owner]
        return owner

    def _text(self, number: int) -> str | None:
        if not number:
            return None
        first, end = self._string_ends[number - 1], self._string_ends[number]
        return str(self._string_data[first:end], "utf-8", "replace") or None


def _text_length(answer: RangeAnswer) -> int:
    _, kernel, frames = answer
    return len(kernel or "") + sum(len(text or "") for frame in frames for text in frame[:3])
