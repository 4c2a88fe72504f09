"""The source lines that a profile's values fall on."""

from __future__ import annotations

from typing import NamedTuple

from symd.profiles.samples import SampledProfile, Value


class HotPlace(NamedTuple):
    """A line of a file, in a function; one line has several where it is inlined, or a template."""

    file: str
    line: int
    function: str


def hot_lines(profile: SampledProfile, column: int, *, callers: bool = False) -> dict[HotPlace | None, Value]:
    """The sum of the values in a column by the place of each sample's leaf: its innermost frame, or (``callers``) the one that all others
    are inlined into. None: those of samples without a line."""
    places = [_place(profile, number, callers=callers) for number in range(len(profile.addresses))]
    totals: dict[HotPlace | None, Value] = {}
    for sample in profile.samples:
        place = places[sample.stack[0]] if sample.stack else None
        totals[place] = totals.get(place, 0) + sample.values[column]
    return totals


def _place(profile: SampledProfile, number: int, *, callers: bool) -> HotPlace | None:
    frames = profile.addresses[number].frames
    if not frames:
        return None
    frame = frames[-1 if callers else 0]
    if frame.file is None or not frame.line:
        return None
    return HotPlace(frame.file, frame.line, frame.function or frame.linkage_name or "(unnamed)")
