"""Answers to queries as lines of text, in the manner of addr2line, and what is said of a place behind the end of the
kernel that it counts from.

Many answers share a location; its text is made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Protocol

import numpy as np

from symd.cli.output import printable
from symd.model.addresses import ByKernel, KernelOffset, Query
from symd.model.answers import Answer, Answers, Candidate, Reason
from symd.model.columns import U64
from symd.model.rendered_answers import Column, Names, Pieces, WrittenLocations, decimals, side_by_side
from symd.model.summaries import KernelSummary

if TYPE_CHECKING:
    from symd.engine.files.added_module import OpenModule

UNANSWERED = frozenset({Reason.UNKNOWN_KERNEL, Reason.UNKNOWN_MODULE})
"""Reasons that say: what you name does not exist."""
PRINTED_SECTIONS = 16
"""Sections that are printed where a query names one that does not exist."""


def names_nothing(answer: Answer) -> bool:
    """Whether something that the query names does not exist."""
    return answer.reason in UNANSWERED or _lacks_section(answer)


def _lacks_section(answer: Answer) -> bool:
    return answer.reason is Reason.OUTSIDE_TEXT and bool(answer.candidates)


def answer_text(query: str, answer: Answer) -> str:
    """``query: frame``, callers of inlined code indented below, and the reason wherever it is not EXACT."""
    reason = reason_text(answer.reason)
    head = f"{query}: "
    if _lacks_section(answer):
        return printable(f"{head}{_no_section(query, answer.candidates)}{reason}") + "\n"
    if not answer.frames:
        lines = [f"{head}{no_frames_text(answer.kernel)}{reason}"]
    else:
        lines = [f"{head}{answer.frames[0]}{reason}"]
        lines += [f"  (inlined by) {frame}" for frame in answer.frames[1:]]
    lines += [_alternative(candidate) for candidate in answer.candidates]
    if answer.reason is Reason.AMBIGUOUS and answer.candidates:
        lines.append(f"  ask again with {_choice(answer.candidates)}")
    return "".join(f"{printable(line)}\n" for line in lines)


def reason_text(reason: Reason) -> str:
    """What is behind the innermost frame."""
    return "" if reason is Reason.EXACT else f" [{reason.name}]"


def no_frames_text(kernel: str | None) -> str:
    """What is in the place of frames."""
    return f"in {kernel}" if kernel else "no answer"


def _no_section(query: str, candidates: Sequence[Candidate]) -> str:
    """``query`` is (SECTION)+OFFSET, or what a tool writes instead."""
    name = query.removeprefix("(").rpartition(")")[0]
    there = list(dict.fromkeys(each.section or f"#{each.section_index}" for each in candidates))
    shown = ", ".join(there[:PRINTED_SECTIONS]) + (", ..." if len(there) > PRINTED_SECTIONS else "")
    return f"no section {name!r} with code; there {'are' if len(there) > 1 else 'is'} {shown}"


def _alternative(candidate: Candidate) -> str:
    return f"  did you mean {candidate.function}" if candidate.function else f"  could be {_candidate(candidate)}"


def _choice(candidates: Sequence[Candidate]) -> str:
    """What tells the candidates apart, for the first of them: its code object, its section, or both."""
    first, *others = candidates
    same_object = [other for other in others if other.path == first.path]
    by_path = f"--object {quote(first.path)}" if len(same_object) < len(others) else ""
    if not same_object:
        return f"{by_path} for the first"
    named = first.section is not None and all(other.section != first.section for other in same_object)
    section = first.section if named else f"#{first.section_index}"
    place = quote(f"({section})+{first.section_offset:#x}")
    return f"{by_path} {place} for the first".lstrip()


def _candidate(candidate: Candidate) -> str:
    section = candidate.section or f"#{candidate.section_index}"
    place = f"({section})+{candidate.section_offset:#x}"
    kernel = f" in {candidate.kernel}" if candidate.kernel else ""
    return f"{place}{kernel} of {candidate.path}" if candidate.path else f"{place}{kernel}"


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
    """Writes answers as lines in the manner of addr2line. Functions are called by what ``names`` says of their
    linkage names."""

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
    """What is behind a query."""

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

    def ending(self, reason: Reason, inlined: bool | None) -> str:  # noqa: ARG002 - it is in front of the next frame
        return f"{reason_text(reason)}\n"

    def around_caller(self, inlined: bool) -> tuple[str, str]:  # noqa: ARG002 - it always is, or the last
        return "  (inlined by) ", "\n"

    def end(self) -> str:
        return ""

    def no_frames(self, kernel: str | None) -> str:
        return printable(no_frames_text(kernel))


def place_note(module: OpenModule, query: Query, answer: Answer, path: str | None) -> str:
    """``elsewhere_note`` of a place in a module; "" for other places."""
    if not isinstance(query, ByKernel) or not may_be_elsewhere(query, answer):
        return ""
    begin = module.symbolizer.symbolize_one(module.digest, ByKernel(query.kernel, KernelOffset(0)), path)
    objects = (each for each in module.summary().objects if each.path == answer.path)
    return elsewhere_note(query, answer, begin, [kernel for each in objects for kernel in each.kernels])


def may_be_elsewhere(query: Query, answer: Answer) -> bool:
    """Whether the place of a query by a kernel's name may lie behind the kernel's end, in other code or in none."""
    is_in_text = answer.section_offset is not None and answer.reason is not Reason.OUTSIDE_TEXT
    return isinstance(query, ByKernel) and query.offset > 0 and is_in_text and _code_of(answer) != query.kernel


def elsewhere_note(query: ByKernel, answer: Answer, begin: Answer, kernels: Sequence[KernelSummary]) -> str:
    """Say that a place lies behind the end of the kernel or function that it counts from, and where; "" where it does
    not. ``begin`` is the answer for the first byte."""
    own, other = _code_of(begin), _code_of(answer)
    sizes = {each.size for each in kernels if each.name in (own, query.kernel)}
    if own == other or begin.section_index != answer.section_index or (sizes and query.offset < max(sizes)):
        return ""
    size = f"{query.kernel} has {max(sizes)} bytes: " if sizes else ""
    if not other and not size:
        return ""
    where = f"in {other}" if other else "past its end, in no function's code"
    return f"{size}{query} lies {where}"


def _code_of(answer: Answer) -> str:
    """The kernel or the function in whose code a place lies; "" for none."""
    outermost = answer.frames[-1] if answer.frames else None
    return answer.kernel or (outermost and (outermost.linkage_name or outermost.function)) or ""
