"""Where a variable is, in words and as structure. A place that differs from lane to lane is written once, by the rule
that its numbers follow: the bits of lane 0 and "per lane", or an offset that is a multiple of ``lane``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from symd.debuginfo.variables import lane_template
from symd.debuginfo.variables.expression import LaneLocation
from symd.debuginfo.variables.lane_template import OperandNames
from symd.debuginfo.variables.lane_text import run_text
from symd.debuginfo.variables.lanes import runs
from symd.debuginfo.variables.location_records import location
from symd.model.variables import VariableLocation


class Description(NamedTuple):
    """The same said twice: a sentence, and the structure of ``symd.model.variables``."""

    text: str
    locations: tuple[VariableLocation, ...]


def describe(lane_locations: Sequence[LaneLocation], names: OperandNames) -> Description | None:
    """What the locations of all lanes say, one for all or one for each; None where the variable is nowhere."""
    if not any(lane_location.pieces or lane_location.error for lane_location in lane_locations):
        return None
    templates = [lane_template.of_lane(lane_location, names) for lane_location in lane_locations]
    stretches = runs(templates)
    texts = [run_text(templates[start:end], start, names) for start, end in stretches]
    whole = len(stretches) == 1
    locations = tuple(
        location(lane_locations[start:end], None if whole else (start, end), names) for start, end in stretches
    )
    if whole:
        return Description(texts[0], locations)
    said = (f"{_lanes(*lanes)}: {text}" for lanes, text in zip(stretches, texts, strict=True))
    return Description("; ".join(said), locations)


def _lanes(start: int, end: int) -> str:
    return f"lane {start}" if end == start + 1 else f"lanes {start}-{end - 1}"
