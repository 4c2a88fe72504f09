"""Answers to queries as text in the manner of addr2line."""

from __future__ import annotations

from collections.abc import Sequence

from symd.cli.output import printable
from symd.model.answers import Answer, Candidate, Reason

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
    """What stands behind the innermost frame."""
    return "" if reason is Reason.EXACT else f" [{reason.name}]"


def no_frames_text(kernel: str | None) -> str:
    """What stands in the place of frames."""
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
    from shlex import quote  # noqa: PLC0415 - few answers have candidates

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
