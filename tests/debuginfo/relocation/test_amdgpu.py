"""Relocatable AMDGPU objects: our relocated sections, decoded by pyelftools, against llvm-dwarfdump, which relocates the
object itself with every section at 0; and against the object that lld links."""

from __future__ import annotations

import io
import re
import struct
from dataclasses import replace

import pytest
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo

from symd.debuginfo import layout as layouts
from symd.debuginfo.relocation import amdgpu
from symd.errors import Malformed, Unsupported
from symd.model import CodeObject, Section
from tests import tools
from tests.containers import amd

OBJECTS = ["v4-gfx900.o", "v4-gfx900-sections.o", "v4-gfx900-sections-dwarf4-zlib.o", "v2-scale.o", "v4-scale.o"]
PARTS = """info aranges abbrev frame eh_frame str loc ranges line pubtypes pubnames addr str_offsets line_str loclists
    rnglists sup gnu_debugaltlink gnu_debuglink types""".split()


def decoder(sections: dict[str, bytes]) -> DWARFInfo:
    def described(name: str) -> DebugSectionDescriptor | None:
        data = sections.get(f".debug_{name}")
        return DebugSectionDescriptor(io.BytesIO(data), name, 0, len(data), 0) if data else None

    config = DwarfConfig(little_endian=True, machine_arch="AMDGPU", default_address_size=8)
    return DWARFInfo(config, **{f"{name}_sec": described(name) for name in PARTS if "link" not in name and name != "sup"
                                and name not in ("types", "eh_frame")},
                     debug_types_sec=None, eh_frame_sec=None, debug_sup_sec=None,
                     gnu_debugaltlink_sec=None, gnu_debuglink_sec=None) if False else None


def relocated(code: CodeObject) -> tuple[dict[str, bytes], layouts.Layout]:
    layout = layouts.assign(code)
    return amdgpu.relocate(code, layout), layout
