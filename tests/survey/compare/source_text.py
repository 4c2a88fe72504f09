"""The source of the programs that the survey compiles: lines stand in the functions that frames name, lines of calls name what is
called (`tests.agreement.source_text`). Other packages come without their sources."""

from __future__ import annotations

from itertools import pairwise

from symd.model.answers import Frame, Reason
from tests.agreement.source_text import POSITIONED, SourceText, call_judged, judged
from tests.survey.artefacts import PROGRAMS
from tests.survey.case import Case, Compared

_SUFFIXES = (".cu", ".slang", ".py")


def answers(case: Case) -> Compared:
    """Answers that stand for their lines, of which a text tells; those that are EXACT, or INFERRED, and wrong are differences."""
    texts = {
        path.name: SourceText(path.read_text(), path.suffix) for path in PROGRAMS.iterdir() if path.suffix in _SUFFIXES
    }
    count, wrong = 0, []
    for each in case.asked:
        for query, answer in zip(each.queries, each.answers(), strict=True):
            if Reason[answer["reason"]] not in POSITIONED:
                continue
            frames = [Frame(**frame) for frame in answer["frames"]]
            verdicts = [judged(frame, texts) for frame in frames]
            verdicts += [call_judged(callee, caller, texts) for callee, caller in pairwise(frames)]
            count += any(verdict is not None for verdict in verdicts)
            if False in verdicts:
                said = ", called from ".join(f"{frame.function}:{frame.line}" for frame in frames)
                wrong.append(f"{each.name} {query}: {answer['reason']} and wrong: {said}")
    return Compared("source text: EXACT and INFERRED answers", count, wrong)
