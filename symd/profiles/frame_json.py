"""Frames as JSON, with the same names as everywhere in symd."""

from __future__ import annotations

import json
from collections.abc import Sequence

from symd.model.answers import Frame


def frames_json(frames: Sequence[Frame]) -> str:
    """A list of objects, innermost frame first. It is pure ASCII, so it may be put into any text."""
    return json.dumps(
        [
            {
                "function": frame.function,
                "linkage_name": frame.linkage_name,
                "file": frame.file,
                "line": frame.line,
                "column": frame.column,
                "inlined": frame.inlined,
            }
            for frame in frames
        ]
    )
