"""Samples of folded stacks: a line is a stack, root first, with one value. There are neither times nor units."""

from __future__ import annotations

import re

from symd.errors import Malformed
from symd.model.answers import Frame
from symd.profiles import json_text
from symd.profiles.folded import FILE_OFFSET, INLINED
from symd.profiles.profile_budget import ProfileBudget
from symd.profiles.sampled.places import frame_of_text
from symd.profiles.samples import AddressTable, Sample, SampledAddress, SampledModule, SampledProfile, Value, ValueType

MOST_DIGITS = 18
"""The most digits of a count, so that it has 64 bits."""
_LINE = re.compile(r"([^\r\n]*?)[ \t]+([0-9]+(?:\.[0-9]+)?)[ \t]*\r?$", re.MULTILINE)
_ADDRESS = re.compile(r"\[?[^;\[\]]+\+0x([0-9a-fA-F]{1,16})\]?")
_IN_FILE = re.compile(r"([^;\[]+)" + re.escape(FILE_OFFSET) + r"0x([0-9a-fA-F]{1,16})\)")


def read(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """Every line that has a stack and a count. Frames that follow one another, the later ones marked as inlined, are one
    address."""
    found = SampledProfile((ValueType("samples", "count"),))
    addresses = AddressTable(found.addresses)
    modules: dict[SampledModule, int] = {}
    for line in json_text.decode(data).split("\n"):
        matched = _LINE.fullmatch(line)
        if not matched:
            continue
        stack, count = matched.groups()
        parts = [part for part in stack.split(";") if part]
        spending.read(1 + len(parts))
        if len(count) > MOST_DIGITS:
            raise Malformed(f"a count has {len(count)} digits", where=json_text.WHERE)
        value: Value = float(count) if "." in count else int(count)
        numbers = [addresses.number(one) for one in _addresses(parts, modules)]
        found.samples.append(Sample(tuple(reversed(numbers)), (value,)))
    found.modules = list(modules)
    found.notes.append("folded stacks have no times of samples")
    return found


def _addresses(parts: list[str], modules: dict[SampledModule, int]) -> list[SampledAddress]:
    """The addresses of one stack, root first; ``modules`` takes a mapping of one byte for each that is told by its place in a file."""
    found: list[SampledAddress] = []
    for part in parts:
        frame = frame_of_text(part)
        if frame is not None and frame.inlined and found and found[-1].frames:
            found[-1] = found[-1]._replace(frames=(frame, *found[-1].frames))
        elif frame is not None:
            found.append(SampledAddress(part, (frame._replace(inlined=False),)))
        elif in_file := _IN_FILE.fullmatch(part):
            place = int(in_file[2], 16)
            mapped = SampledModule(in_file[1], start=place, limit=place + 1, offset=place)
            found.append(SampledAddress(part, (), place, modules.setdefault(mapped, len(modules))))
        else:
            at = _ADDRESS.fullmatch(part)
            plain = Frame(part.removesuffix(INLINED), None, None, 0, 0, inlined=False)
            found.append(SampledAddress(part, () if at else (plain,), int(at[1], 16) if at else None))
    return found
