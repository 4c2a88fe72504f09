"""Folded stacks, as flame graph tools read them: one line for each distinct stack, root first, with the sum of its
values.

Frames are written as ``symd.profiles.samples`` writes them."""

from __future__ import annotations

from symd.profiles.profile_format import Exported, ProfileBudget, weighed_columns
from symd.profiles.samples import SampledProfile, Value, frame_text, shown_frames

NAME = "folded"


def export(profile: SampledProfile, spending: ProfileBudget) -> Exported:
    """The sum of the values where they have one unit, such as stall reasons, else the value type alone that is shown
    first: a line has room for one value. Stacks whose values are 0 are left out."""
    texts = [_address_text(profile, number) for number in range(len(profile.addresses))]
    stacks: dict[tuple[int, ...], Value] = {}
    columns = weighed_columns(profile)
    for sample in profile.samples:
        stacks[sample.stack] = stacks.get(sample.stack, 0) + sum(sample.values[at] for at in columns)
    sums: dict[str, Value] = {}
    for stack, value in stacks.items():
        if value:
            line = ";".join(texts[number] for number in reversed(stack)) or "(no stack)"
            spending.written(len(line))
            sums[line] = sums.get(line, 0) + value
    lines = [f"{line} {_number(value)}\n" for line, value in sums.items() if value]
    notes = list(_left_out(profile))
    return Exported("".join(lines).encode("utf-8", "backslashreplace"), tuple(notes))


def _address_text(profile: SampledProfile, number: int) -> str:
    """Frames root first; a name that the profile gives without a place stays as it is."""
    address = profile.addresses[number]
    plain = [frame for frame in address.frames if frame.file is None and not frame.inlined]
    if not address.frames or (len(plain) == len(address.frames) == 1):
        return " ".join((shown_frames(address)[0].function or address.label).replace(";", ",").split())
    return ";".join(frame_text(frame) for frame in reversed(address.frames))


def _number(value: Value) -> str:
    return str(int(value)) if isinstance(value, int) or value.is_integer() else f"{value:.9f}".rstrip("0")


def _left_out(profile: SampledProfile) -> list[str]:
    columns = weighed_columns(profile)
    written = [profile.value_types[at].name for at in columns]
    left = [one.name for at, one in enumerate(profile.value_types) if at not in columns]
    notes = []
    if left:
        notes.append(f"folded stacks have one value: {written[0]}, not {', '.join(left)} (--value chooses another)")
    elif len(written) > 1:
        notes.append(f"folded stacks have one value: the sum of {', '.join(written)} (--value chooses one of them)")
    if any(sample.time is not None for sample in profile.samples):
        notes.append("folded stacks have no times")
    return notes
