"""Answers to address queries: the answer, its frames, its candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symd.model.answers import Answer, Candidate, Frame, Reason
from symd.model.json import to_ascii_json


def answer_json(query: str, answer: Answer) -> dict[str, Any]:
    """One answer; ``query`` is the text that was asked. ``candidates`` is there only for AMBIGUOUS and UNKNOWN_KERNEL, and
    for OUTSIDE_TEXT where the query names no section that there is."""
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
    if answer.candidates or answer.reason in (Reason.AMBIGUOUS, Reason.UNKNOWN_KERNEL):
        fields["candidates"] = [candidate_json(candidate) for candidate in answer.candidates]
    return fields


def unreadable_query_json(query: str, error: str) -> dict[str, Any]:
    """What stands in the place of an answer where the query is none."""
    return {"query": query, "error": error}


def unanswered_json(query: str, answer: Answer) -> dict[str, Any]:
    """Why a question about the variables at an address has no answer, and what else the address may mean."""
    candidates = [candidate_json(candidate) for candidate in answer.candidates]
    return {"query": query, "reason": answer.reason.name, "candidates": candidates}


def frame_json(frame: Frame) -> dict[str, Any]:
    """One frame; of several the innermost comes first. ``start_line`` is there only where it is known."""
    return {
        "function": frame.function,
        "linkage_name": frame.linkage_name,
        **({"start_line": frame.start_line} if frame.start_line else {}),
        "file": frame.file,
        "line": frame.line,
        "column": frame.column,
        "inlined": frame.inlined,
    }


def frames_text(frames: Sequence[Frame]) -> str:
    """The list of frames, innermost first, as finished text in pure ASCII, so that it may be put into any text."""
    return to_ascii_json([frame_json(frame) for frame in frames])


def candidate_json(candidate: Candidate) -> dict[str, Any]:
    """One place that a query may mean."""
    return {
        "object": candidate.path,
        "kernel": candidate.kernel,
        "section": candidate.section,
        "section_index": candidate.section_index,
        "section_offset": candidate.section_offset,
        "function": candidate.function,
    }
