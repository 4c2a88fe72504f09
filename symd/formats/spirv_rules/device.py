"""The device that a module is checked for: what its Level Zero driver reports of it, or for Intel's products what the
drivers report when they simulate them, and which SPIR-V versions they were seen to build.

The structures are ze_device_module_properties_t and ze_float_atomic_ext_properties_t (zeDeviceGetModuleProperties), and
ze_device_image_properties_t (zeDeviceGetImageProperties), whose limits are 0 where there are no images.

Products were asked of drivers 1.3.24595 (22.43), which reports SPIR-V 1.2, builds up to 1.4 and ends its process on
more, and 1.15.39122 (26.27), which reports 1.5 and builds 1.6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from symd.errors import InvalidInput

FLAGS = ("GLOBAL_LOAD_STORE", "GLOBAL_ADD", "GLOBAL_MIN_MAX", "LOCAL_LOAD_STORE", "LOCAL_ADD", "LOCAL_MIN_MAX")
"""The flags of ze_device_fp_atomic_ext_flags_t, by bit, without their common prefix."""

_SWITCHES = ("images", "fp16_module", "fp64_module", "int64_atomics")
_WIDTHS = ("fp16", "fp32", "fp64")
_HINT = "write for example --device images=false,fp32=GLOBAL_ADD+LOCAL_ADD,spirv_max=1.4"


@dataclass(frozen=True, slots=True)
class Device:
    """What a device supports, as far as rules about a module depend on it. ``fp16``, ``fp32`` and ``fp64`` are sets
    of FLAGS; ``spirv_max`` is the highest SPIR-V version (major, minor) that the driver builds; ``driver`` its
    generation and ``reads_sets`` the instruction sets that it can read, where they are known: its process ends on
    others."""

    images: bool = True
    fp16_module: bool = True
    fp64_module: bool = True
    int64_atomics: bool = True
    fp16: frozenset[str] = frozenset()
    fp32: frozenset[str] = frozenset()
    fp64: frozenset[str] = frozenset()
    spirv_max: tuple[int, int] = (1, 4)
    driver: str = ""
    reads_sets: frozenset[str] | None = None

    def atomics(self, width: int) -> frozenset[str]:
        """The floating-point atomic flags for a width in bits; empty for a width without any."""
        return {16: self.fp16, 32: self.fp32, 64: self.fp64}.get(width, frozenset())

    @classmethod
    def parse(cls, text: str, known: Mapping[str, Device] = MappingProxyType({})) -> Device:
        """``KEY=VALUE`` pairs parted by commas; what is not named keeps its default, or is as the ``known`` device has
        it whose name comes first. Raises InvalidInput."""
        pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
        device = known.get(pieces[0]) if pieces else None
        properties: dict[str, Any] = {}
        for item in pieces if device is None else pieces[1:]:
            key, equals, value = item.partition("=")
            if not equals:
                names = f"; or begin with one of {', '.join(sorted(known))}" if known else ""
                raise InvalidInput(f"{item!r} is not KEY=VALUE", where="--device", hint=f"{_HINT}{names}")
            properties[key.strip()] = _value(key.strip(), value.strip())
        return replace(device or cls(), **properties)


def _value(key: str, value: str) -> bool | frozenset[str] | tuple[int, int]:
    if key in _SWITCHES:
        return _switch(key, value)
    if key in _WIDTHS:
        return _flags(key, value)
    if key == "spirv_max":
        return _version(value)
    known = ", ".join((*_SWITCHES, *_WIDTHS, "spirv_max"))
    raise InvalidInput(f"{key!r} is not a property; known are {known}", where="--device", hint=_HINT)


def _switch(key: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise InvalidInput(f"{key} is true or false, not {value!r}", where="--device", hint=_HINT)
    return value.lower() == "true"


def _flags(key: str, value: str) -> frozenset[str]:
    names = frozenset(name.strip().upper() for name in value.split("+") if name.strip())
    unknown = sorted(names.difference(FLAGS))
    if unknown:
        known = ", ".join(FLAGS)
        raise InvalidInput(f"{key}: {unknown[0]!r} is not a flag; known are {known}", where="--device", hint=_HINT)
    return names


def _version(value: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})", value)
    if match is None:
        raise InvalidInput(f"spirv_max is MAJOR.MINOR, not {value!r}", where="--device", hint=_HINT)
    return int(match[1]), int(match[2])


_GLOBAL = frozenset({"GLOBAL_LOAD_STORE", "GLOBAL_ADD", "GLOBAL_MIN_MAX"})
_OLDER_SETS = frozenset({"OpenCL.std", "SPIRV.debug", "OpenCL.DebugInfo.100"})
_NEWER_SETS = _OLDER_SETS | {"NonSemantic.Shader.DebugInfo.100", "NonSemantic.Shader.DebugInfo.200"}

_OLDER = Device(spirv_max=(1, 4), driver="22.43", reads_sets=_OLDER_SETS)
_NEWER = Device(
    fp16=frozenset(FLAGS) - {"GLOBAL_ADD", "LOCAL_ADD"},
    fp32=frozenset(FLAGS),
    fp64=frozenset(FLAGS),
    spirv_max=(1, 6),
    driver="26.27",
    reads_sets=_NEWER_SETS,
)
_NEWER_WITHOUT_DOUBLE = ("tgllp", "dg2", "dg1", "adl-s")
_BY_GENERATION: Mapping[str, Mapping[str, Device]] = {
    "22.43": {
        "skl": _OLDER,
        "tgllp": replace(_OLDER, fp64_module=False),
        "dg2": replace(_OLDER, fp64_module=False, fp32=frozenset({"GLOBAL_ADD"})),
        "pvc": replace(_OLDER, images=False, fp16=_GLOBAL, fp32=_GLOBAL, fp64=_GLOBAL),
    },
    "26.27": {
        **{name: replace(_NEWER, fp64_module=False) for name in _NEWER_WITHOUT_DOUBLE},
        **dict.fromkeys(("bmg", "ptl", "lnl", "mtl"), _NEWER),
        "pvc": replace(_NEWER, images=False),
    },
}

PRODUCTS: Mapping[str, Device] = {
    **{
        name: device
        for products in (_BY_GENERATION["26.27"], _BY_GENERATION["22.43"])
        for name, device in products.items()
    },
    **{f"{driver}:{name}": device for driver, products in _BY_GENERATION.items() for name, device in products.items()},
}
"""The devices that drivers can simulate, by "PRODUCT", for the older driver generation where both have it, and by
"GENERATION:PRODUCT"."""
