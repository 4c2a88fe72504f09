"""The facts of a cubin and its kernels: registers, memory, barriers, parameters, and the attributes of its .nv.info
sections, by name where the name is known.

Sections that belong to a function (.nv.info.F, .nv.shared.F, .nv.constantN.F) name its text section in sh_info; that
number is the key, because names repeat in linked images. An attribute's record is u8 format, u8 id, then one u16:
nothing (1, NVAL), a byte (2, BVAL), a value (3, HVAL) or the count of bytes that follow (4, SVAL).

Source: names and numbers that cuobjdump 13.1 prints for each id.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache

from symd.core import records
from symd.errors import Malformed
from symd.formats import elf
from symd.formats.elf.constants import ELFABIVERSION_CUDA_V2, SHT_CUDA_COMPAT, SHT_CUDA_INFO
from symd.formats.lazy import PackedRecords
from symd.model.code import Section
from symd.model.light_typing import Any, NamedTuple

NVAL, BVAL, HVAL, SVAL = 1, 2, 3, 4
MAX_THREADS, REQNTID, FRAME_SIZE, MIN_STACK_SIZE, KPARAM_INFO = 0x05, 0x10, 0x11, 0x12, 0x17
CBANK_PARAM_SIZE, MAX_STACK_SIZE, REGCOUNT, SAM_REGION_STACK_SIZE = 0x19, 0x23, 0x2F, 0x3B
KPARAM_INFO_V2, NUM_BARRIERS = 0x45, 0x4C

OF_SYMBOL = frozenset({FRAME_SIZE, MIN_STACK_SIZE, MAX_STACK_SIZE, REGCOUNT, SAM_REGION_STACK_SIZE})
"""The ids of records whose value is (symbol number, number): a statement about that function, wherever the record
stands."""
_OF_SYMBOL = bytes(number in OF_SYMBOL for number in range(256))
_NOT_OF_SYMBOL = bytes(number not in OF_SYMBOL for number in range(256))
_IN_FACTS = {MAX_THREADS, REQNTID, KPARAM_INFO, CBANK_PARAM_SIZE, KPARAM_INFO_V2, NUM_BARRIERS}
_SAID = bytes(number in OF_SYMBOL | _IN_FACTS for number in range(256))
_KEPT, _KEPT_SIZE = 1 << 12, 1 << 10
"""What so many different kernels say in records of so many bytes at most is kept: a library has the same parameters
again and again, for each target and type of number. Those of cuSPARSE, 68,163 kernels, say 1,311 different things."""

NAMES: Mapping[int, str] = {
    0x00: "ERROR",
    0x01: "PAD",
    0x02: "IMAGE_SLOT",
    0x03: "JUMPTABLE_RELOCS",
    0x04: "CTAIDZ_USED",
    0x05: "MAX_THREADS",
    0x06: "IMAGE_OFFSET",
    0x07: "IMAGE_SIZE",
    0x08: "TEXTURE_NORMALIZED",
    0x09: "SAMPLER_INIT",
    0x0A: "PARAM_CBANK",
    0x0B: "SMEM_PARAM_OFFSETS",
    0x0C: "CBANK_PARAM_OFFSETS",
    0x0D: "SYNC_STACK",
    0x0E: "TEXID_SAMPID_MAP",
    0x0F: "EXTERNS",
    0x10: "REQNTID",
    0x11: "FRAME_SIZE",
    0x12: "MIN_STACK_SIZE",
    0x13: "SAMPLER_FORCE_UNNORMALIZED",
    0x14: "BINDLESS_IMAGE_OFFSETS",
    0x15: "BINDLESS_TEXTURE_BANK",
    0x16: "BINDLESS_SURFACE_BANK",
    0x17: "KPARAM_INFO",
    0x18: "SMEM_PARAM_SIZE",
    0x19: "CBANK_PARAM_SIZE",
    0x1A: "QUERY_NUMATTRIB",
    0x1B: "MAXREG_COUNT",
    0x1C: "EXIT_INSTR_OFFSETS",
    0x1D: "S2RCTAID_INSTR_OFFSETS",
    0x1E: "CRS_STACK_SIZE",
    0x1F: "NEED_CNP_WRAPPER",
    0x20: "NEED_CNP_PATCH",
    0x21: "EXPLICIT_CACHING",
    0x22: "ISTYPEP_USED",
    0x23: "MAX_STACK_SIZE",
    0x24: "SUQ_USED",
    0x25: "LD_CACHEMOD_INSTR_OFFSETS",
    0x26: "LOAD_CACHE_REQUEST",
    0x27: "ATOM_SYS_INSTR_OFFSETS",
    0x28: "COOP_GROUP_INSTR_OFFSETS",
    0x29: "COOP_GROUP_MASK_REGIDS",
    0x2A: "SW1850030_WAR",
    0x2B: "WMMA_USED",
    0x2C: "HAS_PRE_V10_OBJECT",
    0x2D: "ATOMF16_EMUL_INSTR_OFFSETS",
    0x2E: "ATOM16_EMUL_INSTR_REG_MAP",
    0x2F: "REGCOUNT",
    0x30: "SW2393858_WAR",
    0x31: "INT_WARP_WIDE_INSTR_OFFSETS",
    0x32: "SHARED_SCRATCH",
    0x33: "STATISTICS",
    0x34: "INDIRECT_BRANCH_TARGETS",
    0x35: "SW2861232_WAR",
    0x36: "SW_WAR",
    0x37: "CUDA_API_VERSION",
    0x38: "NUM_MBARRIERS",
    0x39: "MBARRIER_INSTR_OFFSETS",
    0x3A: "COROUTINE_RESUME_ID_OFFSETS",
    0x3B: "SAM_REGION_STACK_SIZE",
    0x3C: "PER_REG_TARGET_PERF_STATS",
    0x3D: "CTA_PER_CLUSTER",
    0x3E: "EXPLICIT_CLUSTER",
    0x3F: "MAX_CLUSTER_RANK",
    0x40: "INSTR_REG_MAP",
    0x41: "RESERVED_SMEM_USED",
    0x42: "RESERVED_SMEM_0_SIZE",
    0x43: "UCODE_SECTION_DATA",
    0x44: "UNUSED_LOAD_BYTE_OFFSET",
    0x45: "KPARAM_INFO_V2",
    0x46: "SYSCALL_OFFSETS",
    0x47: "SW_WAR_MEMBAR_SYS_INSTR_OFFSETS",
    0x48: "GRAPHICS_GLOBAL_CBANK",
    0x49: "SHADER_TYPE",
    0x4A: "VRC_CTA_INIT_COUNT",
    0x4B: "TOOLS_PATCH_FUNC",
    0x4C: "NUM_BARRIERS",
    0x4D: "TEXMODE_INDEPENDENT",
    0x4E: "PERF_STATISTICS",
    0x4F: "AT_ENTRY_FRAGMENTS",
    0x50: "SPARSE_MMA_MASK",
    0x51: "TCGEN05_1CTA_USED",
    0x52: "TCGEN05_2CTA_USED",
    0x53: "GEN_ERRBAR_AT_EXIT",
    0x54: "REG_RECONFIG",
    0x55: "ANNOTATIONS",
    0x57: "STACK_CANARY_TRAP_OFFSETS",
    0x58: "STUB_FUNCTION_KIND",
    0x59: "LOCAL_CTA_ASYNC_STORE_OFFSETS",
    0x5A: "MERCURY_FINALIZER_OPTIONS",
    0x5B: "BLOCKS_ARE_CLUSTERS",
    0x5C: "SANITIZE",
    0x5D: "SYSCALLS_FALLBACK",
    0x5E: "CUDA_REQ",
    0x5F: "MERCURY_ISA_VERSION",
    0x61: "RTCORE_ENTRY",
}
COMPATIBILITY_NAMES: Mapping[int, str] = {
    0x02: "ISA_CLASS",
    0x03: "INST_TENSORMAP_V1",
    0x05: "INST_TCGEN05_MMA",
    0x06: "ENABLE_OPPORTUNISTIC_FINALIZATION",
    0x07: "MERCURY_ISA_MAJOR_MINOR_VERSION",
    0x09: "CUDA_ACCELERATOR_TARGET",
    0x0B: "CAN_FASTPATH_FINALIZE",
}
"""Names of the attributes in the .nv.compat section, by id; its records have the layout of .nv.info's."""


_RECORD = struct.Struct("<BBH").unpack_from
"""Format, id and a short value, or the size of the value that follows."""


class NvInfoAttribute(NamedTuple):
    """One record. ``name`` is "0x.." for an id without a known name. ``value`` is None (NVAL), a number (BVAL, HVAL),
    or SVAL's little-endian u32 words; its bytes in hexadecimal where they are no whole words."""

    id: int
    name: str
    value: int | tuple[int, ...] | str | None

    def words(self, count: int) -> tuple[int, ...]:
        """The words of an SVAL when there are at least ``count``; otherwise none."""
        return self.value if isinstance(self.value, tuple) and len(self.value) >= count else ()


def read(data: bytes, where: str, names: Mapping[int, str] = NAMES) -> list[NvInfoAttribute]:
    """The records of a section, in order. Raises Malformed."""
    starts, end = records.starts(data)
    _check_end(data, end, where)
    result = []
    for at in starts:
        kind, number, short = _RECORD(data, at)
        value = _stored(data, at + 4, short) if kind == SVAL else _SHORT[kind](short)
        result.append(NvInfoAttribute(number, names.get(number) or f"{number:#04x}", value))
    return result


def _check_end(data: bytes, at: int, where: str) -> None:
    """Raises Malformed where a section does not end at byte ``at``, because the record that begins there cannot be
    read."""
    if at == len(data):
        return
    if at + 4 > len(data):
        raise Malformed(f"ends inside the record at byte {at}", where=where)
    kind, number, short = _RECORD(data, at)
    if kind == SVAL:
        raise Malformed(f"attribute {number:#04x} at byte {at} of {short} bytes ends past it", where=where)
    raise Malformed(f"attribute format {kind} is not known (1 to 4 are)", where=f"{where}: byte {at}")


_SHORT: Mapping[int, Callable[[int], int | None]] = {
    NVAL: lambda _: None,
    BVAL: lambda short: short & 0xFF,
    HVAL: lambda short: short,
}


def _stored(data: bytes, at: int, size: int) -> tuple[int, ...] | str:
    return data[at : at + size].hex() if size % 4 else _words(size // 4)(data, at)


@cache
def _words(count: int) -> Callable[[bytes, int], tuple[int, ...]]:
    """Reads so many; there are as many functions as a u16 can count."""
    return struct.Struct(f"<{count}I").unpack_from


def parameters(attributes: Iterable[NvInfoAttribute]) -> list[dict[str, Any]]:
    """The kernel's parameters by ordinal: offset and size in bytes, and the memory they are passed in."""
    found = []
    for attribute in attributes:
        words = attribute.words(3)
        if words and attribute.id == KPARAM_INFO:
            place = {"offset": words[1] >> 16, "size": words[2] >> 18}
            found.append(
                {"ordinal": words[1] & 0xFFFF, **place, "space": "shared" if words[2] & 0x20000 else "constant"}
            )
        elif words and attribute.id == KPARAM_INFO_V2:
            place = {"offset": words[1] >> 16, "size": words[2] & 0xFFFF}
            found.append({"ordinal": words[1] & 0xFFFF, **place, "space": "constant"})
    return sorted(found, key=lambda parameter: parameter["ordinal"])


class OfKernel(NamedTuple):
    """What the records in a kernel's own section say that has a name in its facts; None where they do not say it.
    Kernels share the lists."""

    barriers: int | None
    max_threads: list[int] | None
    required_threads: list[int] | None
    parameter_bytes: int | None
    arguments: list[dict[str, Any]]


class PackedAttributes(PackedRecords):
    """The records of a section as they are in it: of most kernels nobody wants to see more than how many there are.
    ``said`` has those of them that say what ``OfKernel`` and ``by_symbol`` tell."""

    __slots__ = ("_data", "_names", "_of_kernel", "_where", "said")

    def __init__(self, data: bytes, where: str, names: Mapping[int, str] = NAMES) -> None:
        """Raises Malformed."""
        self.said, count, end = records.chosen(data, _SAID)
        _check_end(data, end, where)
        super().__init__(count)
        self._data, self._where, self._names = data, where, names
        self._of_kernel: OfKernel | None = None

    def value(self) -> list[dict[str, Any]]:
        """JSON-ready records, in order: id, name, value."""
        return as_facts(read(self._data, self._where, self._names))

    def of_image(self) -> list[dict[str, Any]]:
        """The records without those about functions."""
        others, _, _ = records.chosen(self._data, _NOT_OF_SYMBOL)
        return as_facts(read(others, self._where, self._names))

    @property
    def of_kernel(self) -> OfKernel:
        known = self._of_kernel
        if known is None:
            read = _of_kernel if len(self.said) <= _KEPT_SIZE else _of_kernel.__wrapped__
            known = self._of_kernel = read(self.said)
        return known


@lru_cache(_KEPT)
def _of_kernel(said: bytes) -> OfKernel:
    attributes = read(said, "")
    return OfKernel(
        _number(attributes, NUM_BARRIERS),
        _words_of(attributes, MAX_THREADS),
        _words_of(attributes, REQNTID),
        _number(attributes, CBANK_PARAM_SIZE),
        parameters(attributes),
    )


def _number(attributes: list[NvInfoAttribute], number: int) -> int | None:
    return next((one.value for one in attributes if one.id == number and isinstance(one.value, int)), None)


def _words_of(attributes: list[NvInfoAttribute], number: int) -> list[int] | None:
    return next((list(one.words(1)) for one in attributes if one.id == number and one.words(1)), None)


def by_symbol(sections: Iterable[PackedAttributes]) -> dict[int, dict[int, int]]:
    """What records about functions (OF_SYMBOL) say, by symbol number: {id: number}; of several the last."""
    return records.numbers_by_symbol(b"".join(one.said for one in sections), _OF_SYMBOL)


def as_facts(attributes: Iterable[NvInfoAttribute]) -> list[dict[str, Any]]:
    """JSON-ready records, in order: id, name, value."""
    return [
        {"id": one.id, "name": one.name, "value": list(one.value) if isinstance(one.value, tuple) else one.value}
        for one in attributes
    ]


CUDA_ACCELERATOR_TARGET = 0x09
_SIZES_OF_SYMBOL = {
    "registers": REGCOUNT,
    "frame_size": FRAME_SIZE,
    "min_stack_size": MIN_STACK_SIZE,
    "max_stack_size": MAX_STACK_SIZE,
}
NOT_KNOWN = 0xFFFFFFFF
"""The stack size of a kernel of which ptxas cannot tell it, because functions call themselves."""


_GLOBAL = (".nv.global", ".nv.global.init")
_NO_ATTRIBUTES = PackedAttributes(b"", "")
_BANK = re.compile(r"\.nv\.constant(\d+)")


class CubinFacts:
    """What one image says, each part read when somebody first looks at it. In an image without ``kernels`` nobody asks
    what functions say of themselves. A section that is damaged becomes one of the ``warnings`` and is left out."""

    def __init__(self, image: elf.Elf, *, kernels: bool) -> None:
        self._image, self._has_kernels = image, kernels
        self._damage: dict[int, str] = {}

    @property
    def accelerated(self) -> bool:
        """Whether .nv.compat asks for an architecture-specific target."""
        return any(one["id"] == CUDA_ACCELERATOR_TARGET and one["value"] == 1 for one in self._compatibility)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is left out, in the order of the sections."""
        self._common, self._own, self._compatibility  # noqa: B018 - whoever reads these finds out
        return tuple(text for _, text in sorted(self._damage.items()))

    @property
    def of_image(self) -> dict[str, Any]:
        """Facts of the whole image."""
        return {
            "constant_banks": self._memory.common_banks,
            "global_memory": self._memory.of_globals,
            "attributes": [one for each in self._common for one in each.of_image()],
            "compatibility": self._compatibility,
        }

    def of_kernel(self, text: Section, symbol: int) -> dict[str, Any]:
        """What is said of the kernel in this text section that has this symbol number; what the image does not say is
        absent. Its attributes are ``PackedAttributes``."""
        number, memory = text.index, self._memory
        attributes = self._own.get(number, _NO_ATTRIBUTES)
        barriers, max_threads, required_threads, parameter_bytes, arguments = attributes.of_kernel
        if barriers is None:
            barriers = 0 if self._image.header.abi_version >= ELFABIVERSION_CUDA_V2 else text.flags >> 20 & 0x7F
        facts: dict[str, Any] = {
            "registers": text.info >> 24,
            "shared_memory": memory.shared.get(number, 0),
            "local_memory": memory.local.get(number, 0),
            "constant_banks": dict(sorted(memory.banks.get(number, {}).items())),
            "barriers": barriers,
        }
        if max_threads is not None:
            facts["max_threads"] = max_threads
        if required_threads is not None:
            facts["required_threads"] = required_threads
        if parameter_bytes is not None:
            facts["parameter_bytes"] = parameter_bytes
        facts["arguments"], facts["attributes"] = arguments, attributes
        sizes = self._sizes.get(symbol)
        if sizes:
            facts |= _of_symbol(sizes)
        return facts

    def records_of(self, text: Section) -> int:
        """How many arguments and attributes kernels in this text section have."""
        attributes = self._own.get(text.index, _NO_ATTRIBUTES)
        return len(attributes) + len(attributes.of_kernel.arguments)

    @cached_property
    def _own(self) -> dict[int, PackedAttributes]:
        """For each text section number, the records of its functions' own .nv.info."""
        sections = self._info_sections(own=True) if self._has_kernels else ()
        return {section.info: self._attributes(section) for section in sections}

    @cached_property
    def _common(self) -> list[PackedAttributes]:
        """The records of .nv.info, which is about all functions."""
        return [self._attributes(each) for each in self._info_sections(own=False)]

    def _info_sections(self, *, own: bool) -> Iterator[Section]:
        found = self._image.of_type(SHT_CUDA_INFO)
        return (section for section in found if section.name.startswith(".nv.info.") is own)

    @cached_property
    def _compatibility(self) -> list[dict[str, Any]]:
        sections = self._image.of_type(SHT_CUDA_COMPAT)
        return [one for each in sections for one in self._attributes(each, COMPATIBILITY_NAMES).value()]

    def _attributes(self, section: Section, names: Mapping[int, str] = NAMES) -> PackedAttributes:
        try:
            return PackedAttributes(section.data, section.name, names)
        except Malformed as error:
            self._damage[section.index] = f"{error}; its attributes are left out"
            return _NO_ATTRIBUTES

    @cached_property
    def _sizes(self) -> dict[int, dict[int, int]]:
        """{attribute id: number} by symbol number."""
        return by_symbol([*self._common, *self._own.values()])

    @cached_property
    def _memory(self) -> _Memory:
        return _memory(self._image)


def _of_symbol(sizes: Mapping[int, int]) -> dict[str, int]:
    """The facts of a function of which records say so much."""
    known = {
        name: sizes[number] for name, number in _SIZES_OF_SYMBOL.items() if sizes.get(number, NOT_KNOWN) != NOT_KNOWN
    }
    if sizes.get(MIN_STACK_SIZE) == NOT_KNOWN:
        known["dynamic_stack"] = True
    return known


class _Memory(NamedTuple):
    """Bytes of sections beside the code: of shared and local memory and of each constant bank, whose number is text, by
    text section number, and of constant banks and global memory of the whole image."""

    shared: dict[int, int]
    local: dict[int, int]
    banks: dict[int, dict[str, int]]
    common_banks: dict[str, int]
    of_globals: int


def _memory(image: elf.Elf) -> _Memory:
    shared: dict[int, int] = {}
    local: dict[int, int] = {}
    banks: defaultdict[int, dict[str, int]] = defaultdict(dict)
    common: dict[str, int] = {}
    of_globals = 0
    for section in image.sections:
        name = section.name
        if section.type == SHT_CUDA_INFO:
            continue
        if name.startswith(".nv.constant"):
            found = _BANK.match(name)
            if found:
                (banks[section.info] if section.info else common)[found[1]] = section.size
        elif name.startswith(".nv.shared."):
            shared[section.info] = section.size
        elif name.startswith(".nv.local."):
            local[section.info] = section.size
        elif name in _GLOBAL:
            of_globals += section.size
    shared.pop(0, None)
    local.pop(0, None)
    return _Memory(shared, local, banks, common, of_globals)
