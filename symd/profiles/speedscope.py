"""speedscope's own format: one table of frames, and a sampled profile for each value type and task.

Source: jlfwong/speedscope, file-format-schema.json and src/lib/file-format-spec.ts at 1.25.0. ``frames``: name, file,
line, col. A sampled profile: type, name, unit (none, nanoseconds, microseconds, milliseconds, seconds, bytes),
startValue, endValue, samples (lists of frame numbers, outermost first) and weights, one for each sample."""

from __future__ import annotations

import json
from typing import Any

from symd.model.answers import Frame
from symd.profiles.profile_format import (
    Exported,
    ProfileBudget,
    columns_with_values,
    series_name,
)
from symd.profiles.samples import SampledProfile, ValueType, shown_frames, shown_name

NAME = "speedscope"
SCHEMA = "https://www.speedscope.app/file-format-schema.json"
UNITS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"} | {
    name: name for name in ("nanoseconds", "microseconds", "milliseconds", "seconds", "bytes")
}
WRITTEN_A_FRAME = 8
"""Letters that one frame of one stack takes, about."""


def export(profile: SampledProfile, spending: ProfileBudget) -> Exported:
    """Every value type that is not all 0. Frames keep file, line and column."""
    frames: dict[tuple[str, str | None, int, int], int] = {}
    addresses = [
        [frames.setdefault(_cells(frame), len(frames)) for frame in reversed(shown_frames(address))]
        for address in profile.addresses
    ]
    stacks: dict[tuple[int, ...], list[int]] = {}
    for sample in profile.samples:
        if sample.stack not in stacks:
            stacks[sample.stack] = [at for number in reversed(sample.stack) for at in addresses[number]]
        spending.written(WRITTEN_A_FRAME * len(stacks[sample.stack]))
    several = len(profile.tasks) > 1
    profiles = [
        (column, found)
        for column in columns_with_values(profile)
        for task in range(len(profile.tasks))
        if (found := _sampled(profile, column, task, stacks, several=several))
    ]
    active = next((at for at, (column, _) in enumerate(profiles) if column == profile.default), 0)
    document = {
        "$schema": SCHEMA,
        "exporter": "symd",
        "name": "symd",
        "activeProfileIndex": active,
        "shared": {"frames": [_frame(*cells) for cells in frames]},
        "profiles": [one for _, one in profiles] or [_empty(profile.value_types[profile.default])],
    }
    notes = ("speedscope has no timestamps",) if any(one.time is not None for one in profile.samples) else ()
    return Exported(json.dumps(document, ensure_ascii=True).encode(), notes)


def _cells(frame: Frame) -> tuple[str, str | None, int, int]:
    return shown_name(frame), frame.file, frame.line, frame.column


def _frame(name: str, file: str | None, line: int, column: int) -> dict[str, Any]:
    fields = {"name": name, "file": file, "line": line, "col": column}
    return {name: value for name, value in fields.items() if value}


def _sampled(
    profile: SampledProfile, column: int, task: int, stacks: dict[tuple[int, ...], list[int]], *, several: bool
) -> dict[str, Any] | None:
    mine = [sample for sample in profile.samples if sample.task == task and sample.values[column]]
    if not mine:
        return None
    kind = profile.value_types[column]
    return _empty(kind) | {
        "name": series_name(kind, profile.tasks[task], several=several),
        "endValue": sum(sample.values[column] for sample in mine),
        "samples": [stacks[sample.stack] for sample in mine],
        "weights": [sample.values[column] for sample in mine],
    }


def _empty(kind: ValueType) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": kind.name,
        "unit": UNITS.get(kind.unit.lower(), "none"),
        "startValue": 0,
        "endValue": 0,
        "samples": [],
        "weights": [],
    }
