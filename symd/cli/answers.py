"""Answers to queries as JSON objects and as text in the manner of addr2line."""

from __future__ import annotations

from typing import Any

from symd.cli.output import printable
from symd.model.answers import Answer, Candidate, Frame, Reason

UNANSWERED = frozenset({Reason.UNKNOWN_KERNEL, Reason.UNKNOWN_MODULE})
"""Reasons that say: what you name does not exist."""


def answer_json(query: str, answer: Answer) -> dict[str, Any]:
    """One answer; ``candidates`` is there only when the reason is AMBIGUOUS."""
    fields = {
        "query": query,
        "object": answer.path,
        "kernel": answer.kernel,
        "section": answer.section,
        "section_offset": answer.section_offset,
        "address": answer.address,
        "reason": answer.reason.name,
        "frames": [frame_json(frame) for frame in answer.frames],
    }
    if answer.reason is Reason.AMBIGUOUS:
        fields["candidates"] = [candidate_json(candidate) for candidate in answer.candidates]
    return fields


def frame_json(frame: Frame) -> dict[str, Any]:
    return {
        "function": frame.function,
        "linkage_name": frame.linkage_name,
        "file": frame.file,
        "line": frame.line,
        "column": frame.column,
        "inlined": frame.inlined,
    }


def candidate_json(candidate: Candidate) -> dict[str, Any]:
    return {
        "object": candidate.path,
        "kernel": candidate.kernel,
        "section": candidate.section,
        "section_index": candidate.section_index,
        "section_offset": candidate.section_offset,
    }


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
