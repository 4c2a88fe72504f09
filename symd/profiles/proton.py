"""Profiles of Proton, Triton's profiler: hatchet's JSON, a tree of frames with metrics.

Source: triton-lang/triton at 07056fb0, third_party/proton/csrc/lib/Data/TreeData.cpp and csrc/include/Utility/String.h. A list: the tree,
then an object of devices. A node has ``frame`` {name, type}, ``metrics`` (the node's own, those of its children not among them) and
``children``. Proton looks PC samples up by itself, in CUPTI or in ROCm's decoder, and keeps no address: frames are called
``file:line@function``, kernels by their names. So there is nothing to look up; ``symd profile --to`` writes the tree for other viewers."""

from __future__ import annotations

import re

from symd.model.answers import Frame
from symd.profiles import json_text
from symd.profiles.format import Options, Symbolized, Tally
from symd.profiles.json_text import JsonCursor
from symd.profiles.resolver import Resolver
from symd.profiles.spending import Spending

NAME = "proton"
_HEAD = re.compile(rb'\s*\[\s*\{\s*"(?:children|frame|metrics)"\s*:')
_NAMED = re.compile(rb'"frame"\s*:\s*\{')
_PLACED = re.compile(r"(.+):([0-9]{1,18})@(.*)", re.DOTALL)


def claims(data: bytes) -> bool:
    """A list of objects whose first members are a node's, of which one names a frame."""
    return bool(_HEAD.match(data[:4096]) and _NAMED.search(data[: 1 << 20]))


def frame_of_name(name: str) -> Frame:
    """The frame that a node's name says."""
    found = _PLACED.fullmatch(name)
    if not found:
        return Frame(name, None, None, 0, 0, inlined=False)
    return Frame(found[3] or None, None, found[1], int(found[2]), 0, inlined=False)


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:  # noqa: ARG001 - there is nothing to look up
    """The profile as it is; the report counts the frames that have lines. Raises Malformed."""
    text = json_text.decode(data)
    Spending(options.limits, len(data)).read_json(text, 0, len(text))
    JsonCursor(text).value()
    tally = Tally(already=len(_NAMED.findall(data)))
    return Symbolized(
        data, tally.report(NAME, "frames", ("Proton keeps no addresses: its frames stay as it found them",))
    )
