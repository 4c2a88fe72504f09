"""Questions on standard input for those who answer in the words of other tools: what can be read without waiting is answered together, and of
lines that come again the answer is made once, as profilers ask for few addresses many times."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

from symd.cli.output import write_raw
from symd.cli.question_lines import arriving_pieces, line_text
from symd.engine.files.gc_control import gc_paused

_KEPT_LINES = 1 << 17
"""Lines whose answers are kept."""
_KEPT_CHARACTERS = 1 << 26
"""Characters of such lines and their answers, about."""
_LONGEST_KEPT = 1 << 12
"""Bytes of a line that is kept: an address behind a path is no longer, and what is longer does not come again."""
_WRITTEN_AT_ONCE = 1 << 11
"""Answers that are put together before they are written: their text fits the processor's caches."""

AnswerEach = Callable[[Sequence[str]], Sequence[str | None]]
"""The answers to different lines, in their order; None for one that somebody else is asked each time it comes."""
AskAnew = Callable[[str], str]
"""Asks somebody else."""


def _nobody(line: str) -> str:
    raise AssertionError(line)


class RepeatedLines:
    """Answers lines. ``ask_anew`` is called for those to which ``answer_each`` gives no answer of its own."""

    def __init__(self, answer_each: AnswerEach, ask_anew: AskAnew = _nobody) -> None:
        self._answer_each = answer_each
        self._ask_anew = ask_anew
        self._known: dict[bytes, str | None] = {}
        self._characters = 0
        """Of the lines and the answers in ``_known``."""
        self._long: list[bytes] = []
        """Lines in ``_known`` that are not kept for another piece."""
        self._others = False
        """Whether there was a line that somebody else is asked."""

    def follow(self, handle: int) -> None:
        """Answer the lines that come from ``handle``, and flush before waiting for more. Raises LimitExceeded for a line that is too long."""
        for lines in arriving_pieces(handle):
            with gc_paused():
                self._write(lines)
            sys.stdout.flush()

    def _write(self, lines: Sequence[bytes]) -> None:
        """All are answered before the first is written, so that a tool that is missing is missed before it."""
        lines = lines[:]  # of a long text, whose lines are made when they are looked at: each is looked at twice
        found = self.answers(lines)
        for start in range(0, len(found), _WRITTEN_AT_ONCE):
            write_raw("".join(found[start : start + _WRITTEN_AT_ONCE]))

    def answers(self, lines: Sequence[bytes]) -> list[str]:
        """The answer to each line."""
        self._learn(lines)
        found = list(self._again(lines)) if self._others else [self._known[line] or "" for line in lines]
        self._forget()
        return found

    def _again(self, lines: Sequence[bytes]) -> Iterator[str]:
        for line in lines:
            answer = self._known[line]
            yield self._ask_anew(line_text(line)) if answer is None else answer

    def _learn(self, lines: Sequence[bytes]) -> None:
        new = [line for line in dict.fromkeys(lines) if line not in self._known]
        if not new:
            return
        answered = self._answer_each([line_text(line) for line in new])
        self._known.update(zip(new, answered, strict=True))
        self._characters += sum(map(len, new)) + sum(len(answer) for answer in answered if answer)
        self._long += [line for line in new if len(line) > _LONGEST_KEPT]
        self._others = self._others or None in answered

    def _forget(self) -> None:
        """What need not be kept, or is too much."""
        for line in self._long:
            answer = self._known.pop(line)
            self._characters -= len(line) + len(answer or "")
        self._long.clear()
        if len(self._known) > _KEPT_LINES or self._characters > _KEPT_CHARACTERS:
            self._known.clear()
            self._characters = 0
