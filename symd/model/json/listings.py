"""Listings: one instruction a line, as finished text, because a module has very many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from symd.model.answers import Answer
from symd.model.json import to_json
from symd.model.json.answers import frame_json
from symd.model.listings import Listing
from symd.model.reasons import LINED
from symd.model.sources import SourceText


def instruction_lines(listing: Listing, sources: Mapping[str, SourceText]) -> Iterator[str]:
    """One line of JSON an instruction, in the order of the code; a single line with ``problem`` where there are none.
    ``sources`` are the texts of source files, by the name that the debug data gives them."""
    if listing.problem:
        yield to_json({"object": listing.path, "target": listing.target, "problem": listing.problem}) + "\n"
        return
    texts = {file: source.text.splitlines() for file, source in sources.items() if source.text is not None}
    endings: dict[int, str] = {}
    answers = listing.answers
    for number, (location, size, text) in enumerate(
        zip(answers.location.tolist(), listing.size.tolist(), listing.text, strict=True)
    ):
        answer = answers[number]
        if location not in endings:
            endings[location] = _of_location(answer, texts)
        yield f'{_of_address(answer)}, "size": {size}, "text": {to_json(text)}, {endings[location]}}}\n'


def _of_address(answer: Answer) -> str:
    """The members that tell instructions apart, without the closing brace."""
    fields = {
        "object": answer.path,
        "kernel": answer.kernel,
        "function": answer.frames[-1].function if answer.frames else None,
        "section": answer.section,
        "section_index": answer.section_index,
        "section_offset": answer.section_offset,
        "address": answer.address,
    }
    return to_json(fields).removesuffix("}")


def _of_location(answer: Answer, texts: Mapping[str, list[str]]) -> str:
    """The members that all instructions of one location share, without braces."""
    frame = answer.frames[0] if answer.frames else None
    lines = texts.get(frame.file or "", []) if frame and answer.reason in LINED else []
    source = lines[frame.line - 1] if frame and 0 < frame.line <= len(lines) else None
    shared = {
        "reason": answer.reason.name,
        "frames": [frame_json(each) for each in answer.frames],
        "source": source,
    }
    return to_json(shared).removeprefix("{").removesuffix("}")
