"""What an AMDGPU code object says of its kernels: the notes ("AMD" records of version 2 with YAML metadata, the
"AMDGPU" msgpack map since version 3), and what the hardware reads before a kernel starts (``amd_kernel_code_t`` in
front of the code of version 2, later the 64-byte descriptor at symbol ``K.kd``).

Damaged notes cost a warning and their metadata, never the code object.

Source: LLVM's AMDGPU usage guide, "Note Records", "Code Object Metadata", "Kernel Descriptor" and "amd_kernel_code_t".
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from functools import cache

from symd.errors import Malformed
from symd.formats.elf import Elf, Note
from symd.formats.elf.constants import (
    NT_AMD_HSA_CODE_OBJECT_VERSION,
    NT_AMD_HSA_ISA_NAME,
    NT_AMD_HSA_ISA_VERSION,
    NT_AMD_HSA_METADATA,
    NT_AMDGPU_METADATA,
    NT_GNU_BUILD_ID,
)
from symd.model.light_typing import Any

_KERNEL_FACTS = {
    "vgprs": (".vgpr_count", "NumVGPRs"),
    "sgprs": (".sgpr_count", "NumSGPRs"),
    "agprs": (".agpr_count", ""),
    "vgpr_spills": (".vgpr_spill_count", "NumSpilledVGPRs"),
    "sgpr_spills": (".sgpr_spill_count", "NumSpilledSGPRs"),
    "shared_memory": (".group_segment_fixed_size", "GroupSegmentFixedSize"),
    "scratch": (".private_segment_fixed_size", "PrivateSegmentFixedSize"),
    "kernarg_size": (".kernarg_segment_size", "KernargSegmentSize"),
    "simd_width": (".wavefront_size", "WavefrontSize"),
    "max_workgroup_size": (".max_flat_workgroup_size", "MaxFlatWorkGroupSize"),
    "language": (".language", "Language"),
}
"""Fact name to the key of the msgpack map and of the version 2 YAML."""
_ARGUMENT_FACTS = {
    "name": (".name", "Name"),
    "type": (".type_name", "TypeName"),
    "offset": (".offset", "Offset"),
    "size": (".size", "Size"),
    "kind": (".value_kind", "ValueKind"),
    "address_space": (".address_space", "AddrSpaceQual"),
    "access": (".access", "AccQual"),
}
_SCALARS = (int, str)
_METADATA = "metadata note"
_SEARCHED_NAMES = 16
"""Up to this many names are found in the note's bytes in less time than the metadata takes to read."""
_KERNEL_TABLES, _ARGUMENT_TABLES = (
    tuple([(name, keys[dialect]) for name, keys in table.items()] for dialect in (0, 1))
    for table in (_KERNEL_FACTS, _ARGUMENT_FACTS)
)


class Metadata:
    """What the notes say. ``kernels`` maps the kernel's symbol name (without ``.kd``) to its facts, mostly one
    dictionary for all of which the same is said, which nobody changes; ``isa`` is major, minor and stepping of a
    version 2 object; ``target`` is the full name (``amdgcn-amd-amdhsa--gfx90a``); ``build_id`` are the hexadecimal
    digits of the build ID note, "" where there is none."""

    def __init__(self) -> None:
        self.build_id = ""
        self.target: str | None = None
        self.isa: tuple[int, int, int] | None = None
        self.version: tuple[int, int] | None = None
        self.kernels: dict[str, dict[str, Any]] = {}
        self.warnings: list[str] = []


class Notes:
    """The notes of one image, read when ``metadata`` is first asked for."""

    def __init__(self, image: Elf) -> None:
        self._image = image
        self._known: Metadata | None = None

    @property
    def metadata(self) -> Metadata:
        if self._known is None:  # a cached_property takes a lock, and a microsecond
            self._known = metadata(self._image)
        return self._known

    def may_name(self, symbols: Collection[str]) -> bool:
        """Whether the metadata could name one of ``symbols`` a kernel: False is certain. A msgpack string is in the
        note as it is, so that a few names are found quicker than the metadata is read."""
        try:
            notes = [note for _, note in self._image.notes() if note.type in (NT_AMDGPU_METADATA, NT_AMD_HSA_METADATA)]
        except Malformed:
            return True
        names = [name.encode() for name in symbols]
        return (
            len(names) > _SEARCHED_NAMES
            or any(note.type == NT_AMD_HSA_METADATA for note in notes)
            or any(name in note.data for note in notes for name in names)
        )


def metadata(elf: Elf) -> Metadata:
    """Read every note of the image."""
    result = Metadata()
    try:
        for _, note in elf.notes():
            _take(note, result)
    except Malformed as error:
        result.warnings.append(f"notes: {error}")
    return result


def _take(note: Note, result: Metadata) -> None:
    if note.owner == "AMDGPU" and note.type == NT_AMDGPU_METADATA:
        _take_msgpack(note.data, result)
    elif note.owner == "GNU" and note.type == NT_GNU_BUILD_ID:
        result.build_id = result.build_id or note.data.hex()
    elif note.owner == "AMD" and note.type == NT_AMD_HSA_METADATA:
        _take_yaml(note.data, result)
    elif note.owner == "AMD" and note.type == NT_AMD_HSA_ISA_VERSION and len(note.data) >= 16:
        result.isa = struct.unpack_from("<4xIII", note.data)
    elif note.owner == "AMD" and note.type == NT_AMD_HSA_ISA_NAME:
        result.target = note.data.rstrip(b"\0").decode("utf-8", "replace")
    elif note.owner == "AMD" and note.type == NT_AMD_HSA_CODE_OBJECT_VERSION and len(note.data) >= 8:
        result.version = struct.unpack_from("<II", note.data)


def _take_msgpack(data: bytes, result: Metadata) -> None:
    try:
        found = _note_reader().read(data)
    except Malformed as error:
        result.warnings.append(str(error))
        return
    if found is None:
        result.warnings.append(f"{_METADATA}: the msgpack value is not a map")
        return
    for symbol, facts in found.get("amdhsa.kernels", ()):
        if isinstance(symbol, str):
            result.kernels[symbol.removesuffix(".kd")] = facts
    target = found.get("amdhsa.target")
    result.target = target if isinstance(target, str) else result.target
    version = found.get("amdhsa.version")
    if isinstance(version, list) and len(version) == 2 and all(isinstance(part, int) for part in version):
        result.version = (version[0], version[1])


@cache
def _note_reader() -> Any:
    """What reads the msgpack notes of this process: the code objects of a library say the same of their kernels."""
    from symd.formats.containers.amd import msgpack  # noqa: PLC0415 - 9 of the 30 ms of one question, which needs no facts

    def facts(kernel: Mapping[Any, Any], arguments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {**_kernel_facts(kernel, 0), "arguments": arguments}

    return msgpack.NoteReader(facts, lambda value: _arguments(value, 0), _METADATA)


def _take_yaml(data: bytes, result: Metadata) -> None:
    from symd.formats.containers import bounded_yaml  # noqa: PLC0415 - 14 ms: YAML is in old objects only

    text = data.split(b"\0")[0].decode("utf-8", "replace")
    try:
        tree = bounded_yaml.load(text)
    except Malformed as error:
        result.warnings.append(f"{_METADATA}: {error}")
        return
    if not isinstance(tree, dict):
        result.warnings.append(f"{_METADATA}: the YAML document is not a map")
        return
    for kernel in _maps(tree.get("Kernels")):
        facts = {**_kernel_facts(kernel, 1), "arguments": _arguments(kernel.get("Args"), 1)}
        symbol = kernel.get("SymbolName") or kernel.get("Name")
        if isinstance(symbol, str):
            result.kernels[symbol.removesuffix("@kd")] = facts


def _kernel_facts(kernel: Mapping[Any, Any], dialect: int) -> dict[str, Any]:
    """All but the arguments."""
    properties = kernel.get("CodeProps") if dialect else kernel
    values = {**kernel, **properties} if dialect and isinstance(properties, dict) else kernel
    facts = _picked(values, _KERNEL_TABLES[dialect])
    if "vgprs" in facts:
        facts["registers"] = facts["vgprs"]
    required = values.get(".reqd_workgroup_size")
    if isinstance(required, list) and all(isinstance(part, int) for part in required[:3]):
        facts["required_workgroup_size"] = required[:3]
    return facts


def _arguments(value: object, dialect: int) -> list[dict[str, Any]]:
    return [_picked(argument, _ARGUMENT_TABLES[dialect]) for argument in _maps(value)]


def _picked(values: Mapping[Any, Any], table: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The numbers and texts under the keys of ``table``, by fact name. An object of 4,000 kernels may come here as
    often."""
    get = values.get
    return {name: value for name, key in table if isinstance(value := get(key), _SCALARS)}


def _maps(value: object) -> list[Mapping[Any, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


DESCRIPTOR_SIZE = 64
CODE_SIZE = 256
_ENTRY = struct.Struct("<16xq")
_RESOURCES = struct.Struct("<IIIH")
_CODE = struct.Struct("<IIHHHHq")
_CODE_RESOURCES = struct.Struct("<IIIQIHH")


def entry(data: bytes) -> int | None:
    """How many bytes from a ``.kd``'s own start its kernel begins; None when fewer than 64 bytes are there."""
    return None if len(data) < DESCRIPTOR_SIZE else _ENTRY.unpack_from(data)[0]


def resources(data: bytes, at: int) -> bytes:
    """The bytes of the ``.kd`` at byte ``at`` of which ``kernel_descriptor`` is made; most kernels of an object have
    the same."""
    return data[at : at + 12] + data[at + 56 : at + 58] if len(data) >= at + DESCRIPTOR_SIZE else b""


def kernel_descriptor(data: bytes) -> dict[str, Any]:
    """The kernel's resources by the ``resources`` of its ``.kd``, JSON-ready, sizes in bytes; {} where it has none.

    Register counts are not decoded here: the descriptor holds them rounded up to an allocation granule that depends on
    the processor, while the metadata note has them exactly.
    """
    if not data:
        return {}
    group, private, kernarg, properties = _RESOURCES.unpack(data)
    return {
        "shared_memory": group,
        "scratch": private,
        "kernarg_size": kernarg,
        "simd_width": 32 if properties & 0x400 else 64,
        "dynamic_stack": bool(properties & 0x800),
    }


def kernel_code(data: bytes) -> dict[str, Any]:
    """The kernel's resources by an ``amd_kernel_code_t``, JSON-ready, sizes in bytes; ``entry_offset`` is the number
    of bytes from its start to the first instruction. {} when fewer than 256 bytes are there or the version is not 1."""
    if len(data) < CODE_SIZE:
        return {}
    major, _, machine, isa_major, isa_minor, isa_stepping, start = _CODE.unpack_from(data)
    if major != 1 or machine != 1:
        return {}
    private, group, _, kernarg, _, sgprs, vgprs = _CODE_RESOURCES.unpack_from(data, 60)
    return {
        "registers": vgprs,
        "vgprs": vgprs,
        "sgprs": sgprs,
        "shared_memory": group,
        "scratch": private,
        "kernarg_size": kernarg,
        "simd_width": 1 << min(data[103], 16),
        "isa": f"{isa_major}.{isa_minor}.{isa_stepping}",
        "entry_offset": start,
    }
