"""The canonical frame address of NVIDIA's code: the variables of a debug build that live in local memory count from it.

Source: ptxas' own call frame information: register numbers are those of ``.nv_debug_info_reg_sass``, the kind in the upper eight bits."""

from __future__ import annotations

from collections.abc import Sequence

from symd.debuginfo import layout
from symd.debuginfo.dwarf.call_frames import CallFrames, FrameAddress
from symd.debuginfo.relocation import SCHEMES
from symd.errors import Malformed
from symd.model.code import CodeObject, Vendor

_GENERAL, _KIND_SHIFT = 5, 24
"""The kind of general registers, R0 to R254."""


def frame_addresses(code: CodeObject, places: Sequence[tuple[int, int]]) -> tuple[tuple[int, int] | None, ...]:
    """The canonical frame address at each (section, offset): the number of a general register and the bytes that are
    added to its content; None where call frame information does not say it. Raises Malformed, Unsupported where the
    object cannot be relocated."""
    if code.vendor is not Vendor.NVIDIA:
        return (None,) * len(places)
    linear = layout.assign(code)
    data = SCHEMES[code.relocation](code, linear).get(".debug_frame", b"")
    frames = CallFrames(data, address_size=code.address_bits // 8)
    bases = [linear.base_of(section) for section, _ in places]
    return tuple(
        _register(frames, base + offset) if base is not None else None
        for base, (_, offset) in zip(bases, places, strict=True)
    )


def _register(frames: CallFrames, address: int) -> tuple[int, int] | None:
    try:
        row = frames.at(address)
    except Malformed:
        return None
    cfa = row.cfa if row is not None else None
    return None if cfa is None else _of_general(cfa)


def _of_general(cfa: FrameAddress) -> tuple[int, int] | None:
    if cfa.expression is not None or cfa.register >> _KIND_SHIFT != _GENERAL:
        return None
    return cfa.register & (1 << _KIND_SHIFT) - 1, cfa.offset
