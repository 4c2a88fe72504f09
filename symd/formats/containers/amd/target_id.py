"""Which processor an AMDGPU code object is for: e_flags, or the ISA note of a version 2 object, as a target ID.

Source: LLVM's AMDGPU usage guide, "ELF Code Object" (e_flags) and "Target ID"."""

from __future__ import annotations

from symd.formats.elf.constants import (
    EF_AMDGPU_FEATURE_SRAMECC_V3,
    EF_AMDGPU_FEATURE_SRAMECC_V4,
    EF_AMDGPU_FEATURE_XNACK_V3,
    EF_AMDGPU_FEATURE_XNACK_V4,
    EF_AMDGPU_GENERIC_VERSION_OFFSET,
    EF_AMDGPU_MACH,
)

_MACHINES = {
    "600": 0x20, "601": 0x21, "602": 0x3A, "700": 0x22, "701": 0x23, "702": 0x24, "703": 0x25, "704": 0x26,
    "705": 0x3B, "801": 0x28, "802": 0x29, "803": 0x2A, "805": 0x3C, "810": 0x2B, "900": 0x2C, "902": 0x2D,
    "904": 0x2E, "906": 0x2F, "908": 0x30, "909": 0x31, "90a": 0x3F, "90c": 0x32, "940": 0x40, "941": 0x4B,
    "942": 0x4C, "950": 0x4F, "1010": 0x33, "1011": 0x34, "1012": 0x35, "1013": 0x42, "1030": 0x36, "1031": 0x37,
    "1032": 0x38, "1033": 0x39, "1034": 0x3E, "1035": 0x3D, "1036": 0x45, "1100": 0x41, "1101": 0x46, "1102": 0x47,
    "1103": 0x44, "1150": 0x43, "1151": 0x4A, "1152": 0x55, "1153": 0x58, "1200": 0x48, "1201": 0x4E, "1250": 0x49,
    "1251": 0x5A, "9-generic": 0x51, "10-1-generic": 0x52, "10-3-generic": 0x53, "11-generic": 0x54,
    "12-generic": 0x59, "9-4-generic": 0x5F,
}  # fmt: skip
MACHINES: dict[int, str] = {number: f"gfx{name}" for name, number in _MACHINES.items()}
"""EF_AMDGPU_MACH (the low byte of e_flags) to processor name."""

_SETTINGS = ("", "", "-", "+")
_XNACK_STEPPINGS = {"gfx901": "gfx900", "gfx903": "gfx902", "gfx905": "gfx904", "gfx907": "gfx906"}


def target_of_flags(flags: int, version: int) -> str | None:
    """The target ID that e_flags say for code object ``version`` (2 to 6): ``gfx90a:sramecc+:xnack-``.

    Versions 2 and 3 have one bit a feature, which cannot tell "off" from "not supported": only what is on is named.
    None when the processor number is 0 or not known.
    """
    name = MACHINES.get(flags & EF_AMDGPU_MACH)
    if name is None:
        return None
    if version < 4:
        sramecc, xnack = (
            "+" if flags & EF_AMDGPU_FEATURE_SRAMECC_V3 else "",
            "+" if flags & EF_AMDGPU_FEATURE_XNACK_V3 else "",
        )
    else:
        sramecc, xnack = _setting(flags, EF_AMDGPU_FEATURE_SRAMECC_V4), _setting(flags, EF_AMDGPU_FEATURE_XNACK_V4)
    return name + (f":sramecc{sramecc}" if sramecc else "") + (f":xnack{xnack}" if xnack else "")


def _setting(flags: int, mask: int) -> str:
    """The two bits of ``mask``: the feature is not supported, may be either, is off, is on."""
    return _SETTINGS[(flags & mask) // (mask & -mask)]


def generic_version(flags: int, version: int) -> int | None:
    """Bits 24 to 31 of a version 6 object: the version of a generic processor's definition. None when it has none."""
    return (flags >> EF_AMDGPU_GENERIC_VERSION_OFFSET) or None if version >= 6 else None


def target_of_isa(major: int, minor: int, stepping: int) -> str:
    """The target ID of a version 2 ISA note. gfx901, 903, 905 and 907 were the names of gfx900 ... with XNACK on."""
    name = f"gfx{major}{minor:x}{stepping:x}"
    plain = _XNACK_STEPPINGS.get(name)
    return f"{plain}:xnack+" if plain else name


def target_of_name(name: str) -> str | None:
    """The target ID at the end of ``amdgcn-amd-amdhsa--gfx90a:xnack+`` or of a bundle entry's ID; None without one."""
    import re  # noqa: PLC0415 - slow to import, and few objects have one

    found = re.search(r"gfx[0-9a-z-]+(:[a-z]+[+-])*$", name)
    return found.group() if found else None
