"""A listing as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from symd.cli.answers import frame_json
from symd.cli.output import to_json
from symd.model.answers import Answer, Reason
from symd.model.listings import Listing
from symd.model.sources import SourceText


def instruction_lines(listing: Listing, sources: Mapping[str, SourceText]) -> Iterator[str]:
    """One object an instruction; one for the whole where there are none."""
    if listing.problem:
        yield to_json({"object": listing.path, "target": listing.target, "problem": listing.problem}) + "\n"
        return
    texts = {file: source.text.splitlines() for file, source in sources.items() if source.text is not None}
    tails: dict[int, str] = {}
    answers = listing.answers
    for number, (location, size, text) in enumerate(
        zip(answers.location.tolist(), listing.size.tolist(), listing.text, strict=True)
    ):
        answer = answers[number]
        if location not in tails:
            tails[location] = _tail(answer, texts)
        yield f'{_head(answer)}, "size": {size}, "text": {to_json(text)}, {tails[location]}}}\n'


def _head(answer: Answer) -> str:
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


def _tail(answer: Answer, texts: Mapping[str, list[str]]) -> str:
    """What all instructions of one location share."""
    frame = answer.frames[0] if answer.frames else None
    lines = texts.get(frame.file or "", []) if frame and answer.reason is Reason.EXACT else []
    source = lines[frame.line - 1] if frame and 0 < frame.line <= len(lines) else None
    shared = {
        "reason": answer.reason.name,
        "frames": [frame_json(each) for each in answer.frames],
        "source": source,
    }
    return to_json(shared).removeprefix("{").removesuffix("}")
