"""GPU core dumps: the dump itself, and each of its stacks."""

from __future__ import annotations

from typing import Any

from symd.model.cores import CoreDump, CoreFrame, CoreImage, CoreStack, CoreValue, CoreWave
from symd.model.json.answers import frame_json


def core_json(dump: CoreDump) -> dict[str, Any]:
    """Everything but the stacks."""
    return {
        "record": "core",
        "format": dump.format,
        "facts": dict(dump.facts),
        "devices": [each._asdict() for each in dump.devices],
        "images": [_image_json(image) for image in dump.images],
        "stacks": len(dump.stacks),
        "notes": list(dump.notes),
    }


def _image_json(image: CoreImage) -> dict[str, Any]:
    return {
        "name": image.name,
        "target": image.target,
        "text": [list(pair) for pair in image.text],
        "bias": image.bias,
        "object": image.path,
        "answered_by": image.answered_by,
        "answered_object": image.answered_path if image.answered_by is not None else None,
        "notes": list(image.notes),
    }


def stack_json(stack: CoreStack) -> dict[str, Any]:
    """One stack; frames are innermost first, those of ``frames`` within each too. Lanes are lists of numbers."""
    return {
        "record": "stack",
        "device": stack.device,
        "grid": stack.grid,
        "kernel": stack.kernel,
        "fault": None if stack.fault is None else stack.fault._asdict(),
        "active": stack.active,
        "pc": stack.pc,
        "error_pc": stack.error_pc,
        "calls": [_call_json(frame) for frame in stack.frames],
        "waves": [_wave_json(wave) for wave in stack.waves],
        "variables": [_value_json(value) for value in stack.values],
        "notes": list(stack.notes),
    }


def _call_json(frame: CoreFrame) -> dict[str, Any]:
    place = frame.place
    return {
        "kind": frame.kind,
        "address": frame.address,
        "image": None if place is None else place.image,
        "symbol": None if place is None else place.function or None,
        "offset": None if place is None else place.function_offset,
        "reason": frame.reason.name,
        "frames": [frame_json(each) for each in frame.frames],
    }


def _wave_json(wave: CoreWave) -> dict[str, Any]:
    return {
        "unit": wave.unit,
        "wave": wave.wave,
        "block": None if wave.block is None else list(wave.block),
        "thread": None if wave.thread is None else list(wave.thread),
        "lanes": lane_numbers(wave.lanes),
    }


def lane_numbers(mask: int) -> list[int]:
    """The bits that are set, lowest first."""
    return [lane for lane in range(mask.bit_length()) if mask >> lane & 1]


def _value_json(value: CoreValue) -> dict[str, Any]:
    return {
        "name": value.name or None,
        "type": value.type,
        "function": value.function,
        "inlined": value.inlined,
        "location": value.location,
        "lanes": list(value.lanes),
        "values": list(value.values),
    }
