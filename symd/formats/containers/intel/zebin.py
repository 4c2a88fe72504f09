"""Intel's zebin: the relocatable ELF that newer compilers write (one text section a kernel), and the debug zebin that
drivers return after loading it.

The kernels' facts are in its YAML (.ze_info), reduced to those that a user asks for; unknown keys are passed over.

Sources: ZEBinary ELF layout of intel/intel-graphics-compiler (documentation/visa and zebin), and binaries of ocloc
22.43 and 26.27, which differ from it: e_type 1, e_machine 205, kernel relocations in .rel.text.KERNEL.
ZEInfo of the same repository, versions 1.20 to 1.73.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import cached_property, partial

from symd.errors import Malformed, SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.intel import FUNCTIONS_ONLY, configured_product, core_name, product_name
from symd.formats.elf.constants import (
    EM_AMDGPU,
    EM_CUDA,
    EM_INTELGT,
    ET_EXEC,
    ET_ZEBIN_DYN,
    ET_ZEBIN_REL,
    NT_INTELGT_GFXCORE_FAMILY,
    NT_INTELGT_PRODUCT_CONFIG,
    NT_INTELGT_PRODUCT_FAMILY,
    NT_INTELGT_TARGET_METADATA,
    NT_INTELGT_VISA_ABI_VERSION,
    NT_INTELGT_ZEBIN_VERSION,
    SHT_ZEBIN_GTPIN_INFO,
    SHT_ZEBIN_SPIRV,
    SHT_ZEBIN_VISAASM,
    SHT_ZEBIN_ZEINFO,
    STT_FUNC,
)
from symd.formats.elf.contents import debug_scheme, notes_in
from symd.formats.lazy import LazyMapping, LazySequence
from symd.model.code import CodeObject, Function, Kernel, RelocationScheme, Section, Vendor
from symd.model.light_typing import Any

NAME = "zebin"
DEBUG_NAME = "debug-zebin"
_COMPATIBILITY = {
    NT_INTELGT_PRODUCT_FAMILY: "product_family",
    NT_INTELGT_GFXCORE_FAMILY: "core_family",
    NT_INTELGT_TARGET_METADATA: "target_metadata",
    NT_INTELGT_VISA_ABI_VERSION: "visa_abi",
    NT_INTELGT_PRODUCT_CONFIG: "product_config",
}
"""Fact names of the notes that hold one u32."""


def claims(data: bytes) -> bool:
    """Machine EM_INTELGT, or one of the types of the layout document (0xff11 to 0xff13), where the machine is a
    product."""
    kind = elf.kind(data)
    if kind is None or kind.machine in (EM_CUDA, EM_AMDGPU):  # whose types are their own, below and above 0xff00 too
        return False
    return kind.machine == EM_INTELGT or ET_ZEBIN_REL <= kind.type <= ET_ZEBIN_DYN


def read(element: Element, budget: Budget) -> Contents:
    """One code object; kernels are the text sections, with the facts that .ze_info has of them."""
    image = elf.parse(element.data, budget, "zebin")
    notes: list[str] = []
    facts = _module_facts(image)
    described = _Described(image)
    entries = _entries(image)
    texts = [section for section in image.sections if section.executable and section.name.startswith(".text.")]
    names = {name: name.removeprefix(".text.") for name in {section.name for section in texts}}
    functions = _functions(image, notes)
    ends = _ends(functions)
    code = CodeObject(
        path=element.path,
        bias=element.bias,
        stored=element.stored,
        format=DEBUG_NAME if image.header.type == ET_EXEC and image.header.machine == EM_INTELGT else NAME,
        target=element.target or _target(image, facts),
        data=element.data,
        sections=image.sections,
        kernels=tuple(
            _kernel(names[section.name], section, ends.get(section.index, section.size), described, entries)
            for section in texts
            if section.name != f".text.{FUNCTIONS_ONLY}"
        ),
        functions=tuple(functions),
        vendor=Vendor.INTEL,
        relocation=RelocationScheme.ZEBIN,
        linked=False,
        debug=debug_scheme(image.sections),
        facts=facts,
        warnings=LazySequence(lambda: (*described.warnings, *notes)),
    )
    embedded = tuple(
        Element("spirv", section.data) for section in image.sections if section.type == SHT_ZEBIN_SPIRV and section.data
    )
    return Contents(embedded, code_object=code, format=code.format)


def _ends(functions: list[Function]) -> dict[int, int]:
    """Section number to where its last function ends."""
    ends: dict[int, int] = {}
    for function in functions:
        end = function.offset + function.size
        ends[function.section_index] = max(ends.get(function.section_index, 0), end)
    return ends


def _kernel(name: str, text: Section, end: int, described: _Described, entries: dict[int, int]) -> Kernel:
    """A kernel's text is its section, with the functions after it, up to ``end``; what no FUNC symbol covers is
    padding. The first section of a name takes what is ``described``. ``name`` is one string for all sections of it."""
    own = {"entry": entries[text.index]} if text.index in entries else {}
    return Kernel(name, text.index, 0, min(end, text.size), described.facts(name, own))


def _entries(image: elf.Elf) -> dict[int, int]:
    """Section number to the offset of its ``_entry`` symbol: where the code after the payload prologue begins."""
    table = image.by_name.get(".symtab")
    if table is None:
        return {}
    texts = {section.index: section for section in image.sections if section.executable}
    found = {}
    for symbol in image.symbols(table):
        text = texts.get(symbol.section)
        if symbol.name == "_entry" and text is not None:
            offset = symbol.value - (text.address if image.header.type == ET_EXEC else 0)
            if 0 <= offset < text.size:
                found[text.index] = offset
    return found


def _functions(image: elf.Elf, notes: list[str]) -> list[Function]:
    """FUNC symbols with a size. ``_entry`` only marks where a kernel's prologue ends and would split it."""
    table = image.by_name.get(".symtab")
    if table is None:
        return []
    addresses = {section.index: section.address for section in image.sections if section.executable}
    result = []
    for symbol in image.symbols(table):
        if symbol.type != STT_FUNC or symbol.name in {"", "_entry"} or symbol.section not in addresses:
            continue
        offset = symbol.value - addresses[symbol.section] if image.header.type == ET_EXEC else symbol.value
        if offset < 0:
            notes.append(f"symbol {symbol.name} lies before its section; left out")
            continue
        result.append(Function(symbol.name, symbol.section, offset, symbol.size))
    return result


class _Described:
    """What .ze_info says of kernels, which is YAML, and read when somebody first looks."""

    def __init__(self, image: elf.Elf) -> None:
        self._section = next((section for section in image.sections if section.type == SHT_ZEBIN_ZEINFO), None)
        self._described: set[str] = set()

    def facts(self, name: str, own: dict[str, Any]) -> Mapping[str, Any]:
        """The facts of a kernel, and its ``own``. Who asks for a name again has these alone."""
        if self._section is None or name in self._described:
            return own
        self._described.add(name)
        return LazyMapping(partial(self._of, name, own))

    def _of(self, name: str, own: dict[str, Any]) -> dict[str, Any]:
        return {**self._read[0].get(name, {}), **own}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why it could not be read."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
        if self._section is None:
            return {}, ()
        try:
            return kernel_facts(self._section.data), ()
        except SymdError as error:
            return {}, (f"kernels are not described: {error}",)


def _module_facts(image: elf.Elf) -> dict[str, Any]:
    facts: dict[str, Any] = {"e_machine": image.header.machine, "e_flags": image.header.flags}
    facts |= _flags(image.header.flags) if image.header.flags else {}
    facts |= _compatibility(image)
    options = image.by_name.get(".misc.buildOptions")
    if options is not None:
        facts["build_options"] = options.data.rstrip(b"\0").decode("utf-8", "replace")
    extra = {"gtpin_info": SHT_ZEBIN_GTPIN_INFO, "visaasm": SHT_ZEBIN_VISAASM, "spirv": SHT_ZEBIN_SPIRV}
    return facts | {key: True for key, kind in extra.items() if any(s.type == kind for s in image.sections)}


def _flags(flags: int) -> dict[str, Any]:
    """TargetFlags of the layout document."""
    return {
        "generator_flags": flags & 0xFF,
        "min_revision": flags >> 8 & 0x1F,
        "validate_revision": bool(flags >> 13 & 1),
        "disable_extended_validation": bool(flags >> 14 & 1),
        "machine_is_core": bool(flags >> 15 & 1),
        "max_revision": flags >> 16 & 0x1F,
        "generator": {0: "unregistered", 1: "IGC"}.get(flags >> 21 & 7, flags >> 21 & 7),
    }


def _compatibility(image: elf.Elf) -> dict[str, Any]:
    """The notes of owner IntelGT; other note sections of these files are not in note format."""
    section = image.by_name.get(".note.intelgt.compat")
    if section is None:
        return {}
    facts: dict[str, Any] = {}
    for note in notes_in(section.data, section.name):
        if note.owner == "IntelGT" and note.type in _COMPATIBILITY and len(note.data) == 4:
            facts[_COMPATIBILITY[note.type]] = struct.unpack("<I", note.data)[0]
        elif note.owner == "IntelGT" and note.type == NT_INTELGT_ZEBIN_VERSION:
            facts["zebin_version"] = note.data.rstrip(b"\0").decode("utf-8", "replace")
    return facts


def _target(image: elf.Elf, facts: dict[str, Any]) -> str | None:
    product = product_name(facts.get("product_family", 0)) or configured_product(facts.get("product_config", 0))
    product = product or core_name(facts.get("core_family", 0))
    if product or image.header.machine == EM_INTELGT:
        return product
    return core_name(image.header.machine) if image.header.flags >> 15 & 1 else product_name(image.header.machine)


_SIZE_LIMIT = 64 << 20
_ENVIRONMENT = {
    "simd_size": "simd_width",
    "grf_count": "registers",
    "slm_size": "shared_memory",
    "barrier_count": "barriers",
    "eu_thread_count": "eu_threads",
    "required_sub_group_size": "required_sub_group_size",
    "has_global_atomics": "global_atomics",
}


def kernel_facts(data: bytes) -> dict[str, dict[str, Any]]:
    """Kernel name to its facts: simd_width, registers, shared_memory, barriers, scratch, arguments, ..."""
    document = _load(data)
    arguments = {str(entry.get("name")): _arguments(entry) for entry in _mappings(document.get("kernels_misc_info"))}
    version, result = _version(document), {}
    for entry in _mappings(document.get("kernels")):
        name = str(entry.get("name"))
        result[name] = _facts(entry, version) | ({"arguments": arguments[name]} if arguments.get(name) else {})
    return result


def _load(data: bytes) -> Mapping[str, Any]:
    from symd.formats.containers import bounded_yaml  # noqa: PLC0415 - 14 ms, 27 of the 30 of one question, which needs no facts

    if len(data) > _SIZE_LIMIT:
        raise Malformed(f".ze_info of {len(data)} bytes is larger than {_SIZE_LIMIT}", where=".ze_info")
    try:
        document = bounded_yaml.load(data.rstrip(b"\0").decode("utf-8", "replace"))
    except Malformed as error:
        raise error.prefix_where(".ze_info") from error
    if not isinstance(document, Mapping):
        raise Malformed("is not a YAML mapping", where=".ze_info")
    return document


_SPILLS_SINCE = (1, 39)
"""The version of .ze_info that has ``spill_size``, which is 0 where it is left out (IGC's version.md and zeinfo.md)."""


def _version(document: Mapping[str, Any]) -> tuple[int, ...]:
    """The version that .ze_info states; () where it states none."""
    major, _, minor = str(document.get("version", "")).partition(".")
    is_stated = all(part.isascii() and part.isdecimal() and len(part) < 10 for part in (major, minor))
    return (int(major), int(minor)) if is_stated else ()


def _facts(kernel: Mapping[str, Any], version: tuple[int, ...]) -> dict[str, Any]:
    environment = kernel.get("execution_env")
    environment = environment if isinstance(environment, Mapping) else {}
    facts: dict[str, Any] = {
        name: environment[key] for key, name in _ENVIRONMENT.items() if isinstance(environment.get(key), int | bool)
    }
    scratch = sum(_integer(entry.get("size")) for entry in _mappings(kernel.get("per_thread_memory_buffers")))
    if scratch:
        facts["scratch"] = scratch
    if version >= _SPILLS_SINCE:
        facts["spill_size"] = _integer(environment.get("spill_size"))
    return facts


def _arguments(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": str(argument.get("name", "")),
            "type": str(argument.get("type_name", "")).partition(";")[0],
            "address_space": str(argument.get("address_qualifier", "")).removeprefix("__"),
        }
        for argument in _mappings(entry.get("args_info"))
    ]


def _mappings(value: Any) -> Iterable[Mapping[str, Any]]:
    return (entry for entry in value if isinstance(entry, Mapping)) if isinstance(value, list) else ()


def _integer(value: Any) -> int:
    return value if isinstance(value, int) else 0
