"""Where a variable is, in words and as structure. A place that differs from lane to lane is written once, by the rule that
its numbers follow: the bits of lane 0 and "per lane", or an offset that is a multiple of ``lane``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from symd.debuginfo.variables import sketch
from symd.debuginfo.variables.expression import Outcome
from symd.debuginfo.variables.lanes import runs
from symd.debuginfo.variables.prose import run_text
from symd.debuginfo.variables.sketch import Words
from symd.debuginfo.variables.structure import location
from symd.model.variables import VariableLocation


class Description(NamedTuple):
    """The same said twice: a sentence, and the structure of ``symd.model.variables``."""

    text: str
    locations: tuple[VariableLocation, ...]


def describe(outcomes: Sequence[Outcome], words: Words) -> Description | None:
    """What the outcomes of all lanes say, one for all or one for each; None where the variable is nowhere."""
    if not any(outcome.pieces or outcome.trouble for outcome in outcomes):
        return None
    sketches = [sketch.of_outcome(outcome, words) for outcome in outcomes]
    stretches = runs(sketches)
    texts = [run_text(sketches[start:end], start, words) for start, end in stretches]
    whole = len(stretches) == 1
    locations = tuple(location(outcomes[start:end], None if whole else (start, end), words) for start, end in stretches)
    if whole:
        return Description(texts[0], locations)
    said = (f"{_lanes(*lanes)}: {text}" for lanes, text in zip(stretches, texts, strict=True))
    return Description("; ".join(said), locations)


def _lanes(start: int, end: int) -> str:
    return f"lane {start}" if end == start + 1 else f"lanes {start}-{end - 1}"
