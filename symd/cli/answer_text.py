"""Answers to queries as text in the manner of addr2line."""

from __future__ import annotations

from symd.cli.output import printable
from symd.model.answers import Answer, Candidate, Frame, Reason

UNANSWERED = frozenset({Reason.UNKNOWN_KERNEL, Reason.UNKNOWN_MODULE})
"""Reasons that say: what you name does not exist."""


def answer_text(query: str, answer: Answer) -> str:
    """``query: frame``, callers of inlined code indented below, and the reason wherever it is not EXACT."""
    reason = "" if answer.reason is Reason.EXACT else f" [{answer.reason.name}]"
    head = f"{query}: "
    if not answer.frames:
        lines = [f"{head}{_nothing(answer)}{reason}"]
    else:
        lines = [f"{head}{_frame(answer.frames[0])}{reason}"]
        lines += [f"  (inlined by) {_frame(frame)}" for frame in answer.frames[1:]]
    lines += [f"  could be {_candidate(candidate)}" for candidate in answer.candidates]
    return "".join(f"{printable(line)}\n" for line in lines)


def _nothing(answer: Answer) -> str:
    return f"in {answer.kernel}" if answer.kernel else "no answer"


def _frame(frame: Frame) -> str:
    name = frame.function or frame.linkage_name or "(unnamed)"
    if frame.file is None:
        return name
    place = f"{frame.file}:{frame.line}"
    return f"{name} at {place}:{frame.column}" if frame.column else f"{name} at {place}"


def _candidate(candidate: Candidate) -> str:
    section = candidate.section or f"#{candidate.section_index}"
    place = f"({section})+{candidate.section_offset:#x}"
    kernel = f" in {candidate.kernel}" if candidate.kernel else ""
    return f"{place}{kernel} of {candidate.path}" if candidate.path else f"{place}{kernel}"
