"""Readers of files as targets: ELF, the formats of containers and code objects, what they embed, slim and join."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from symd.config import Limits
from symd.core import records
from symd.debuginfo.separate_files import joined, slim
from symd.formats import containers, elf
from symd.formats.budget import Budget
from symd.formats.containers import bounded_yaml, host_elf, uri
from symd.formats.containers.amd import msgpack as amd_msgpack
from symd.formats.containers.file_part import part_of
from symd.formats.containers.format import Element, Format
from symd.formats.containers.images_in_data import FoundModules, modules_in
from symd.formats.containers.intel import zebin
from symd.formats.containers.nvidia import cubin_facts
from symd.formats.elf.constants import SHT_DYNSYM, SHT_SYMTAB
from symd.formats.spirv import Opcode, split
from symd.model.addresses import parse_query
from symd.model.breakpoints import parse_source_line
from symd.model.code import CodeObject
from symd.query.function_spellings import ways_to_read, words_in
from tests.core.uncompiled import uncompiled
from tests.fuzz import bundle, seeds, vulkan
from tests.fuzz.elf_sections import section_of
from tests.fuzz.mutations import Change
from tests.fuzz.target import Refused, Target, fitting

LIMITS = Limits()
_any_section = section_of()
_VERSIONS = {0x10000 + (minor << 8) for minor in range(7)}
"""SPIR-V 1.0 to 1.6."""


def read_elf(data: bytes) -> None:
    """Header, sections, segments, symbols, notes."""
    with fitting():
        image = elf.parse(data, Budget(LIMITS))
        for table in image.sections:
            if table.type in (SHT_SYMTAB, SHT_DYNSYM):
                image.symbols(table)
        list(image.notes())


def reader_of(form: Format) -> Target:
    """One format's reader, with all facts that it gives, however late."""

    def read(data: bytes) -> None:
        if not form.claims(data):
            raise Refused
        with fitting():
            contents = form.read(Element("", data), Budget(LIMITS))
            dict(contents.facts)
            if contents.code_object is not None:
                describe(contents.code_object)

    return Target(read, seeds.of_format(form), section_of())


def describe(code: CodeObject) -> None:
    """Everything that a summary says of a code object."""
    dict(code.facts)
    list(code.warnings)
    for kernel in code.kernels:
        dict(kernel.facts)


def unpack(data: bytes) -> None:
    """Containers inside containers."""
    with fitting():
        for code in containers.unpack(data, LIMITS).objects:
            describe(code)


def read_modules_in_data(data: bytes) -> None:
    """The modules of a section: in order, each whole, and by itself what it is among the others."""
    with fitting():
        found = modules_in(part_of(data), ".rodata", Budget(LIMITS))
        assert len(found.extents) + found.headers_alone == sum(_begins_module(data, at) for at in _magics(data))
        end = 0
        for extent in found.extents:
            module = data[extent]
            assert end <= extent.start < extent.stop <= len(data), (extent, end)
            assert modules_in(part_of(module), "", Budget(LIMITS)) == FoundModules((slice(0, len(module)),), 0), extent
            words = split(module)
            assert not words.problem, (extent, words)
            assert int(words.opcode[-1]) in (Opcode.FunctionEnd, Opcode.ExtInst), (extent, words)
            end = extent.stop


def _magics(content: bytes) -> Iterator[int]:
    at = content.find(vulkan.MAGIC)
    while at >= 0:
        yield at
        at = content.find(vulkan.MAGIC, at + 1)


def _begins_module(content: bytes, at: int) -> bool:
    if len(content) < at + 24:
        return False
    _, version, _, bound, schema, first = struct.unpack_from("<6I", content, at)
    return version in _VERSIONS and bound != 0 and schema == 0 and first == 2 << 16 | Opcode.Capability


def read_yaml(data: bytes) -> None:
    with fitting():
        bounded_yaml.load(data.decode("utf-8", "replace"))


def read_ze_info(data: bytes) -> None:
    with fitting():
        zebin.kernel_facts(data)


def read_amd_metadata(data: bytes) -> None:
    with fitting():
        amd_msgpack.NoteReader(lambda *_: 0, lambda _: (), "note").read(data)


_UNCOMPILED_RECORDS = uncompiled("records")
_SOME_IDS = bytes(number % 3 == 0 for number in range(256))


def read_nv_info(data: bytes) -> None:
    """The core's readers say the same as their source."""
    with fitting():
        assert records.starts(data) == _UNCOMPILED_RECORDS.starts(data)
        for name in ("chosen", "numbers_by_symbol"):
            compiled, plain = (getattr(one, name) for one in (records, _UNCOMPILED_RECORDS))
            assert compiled(data, _SOME_IDS) == plain(data, _SOME_IDS)
        packed = cubin_facts.PackedAttributes(data, ".nv.info")
        assert len(packed) == len(packed.value())
        cubin_facts.by_symbol([packed])


def read_written(data: bytes) -> None:
    """Text that somebody typed: a query, a source line, a URI, a name of a function."""
    text = data.decode("utf-8", "surrogateescape")
    words_in(text)
    tuple(ways_to_read(text, symbolic=True))
    refused = 0
    for read in (parse_query, parse_source_line, uri.parse_uri):
        try:
            with fitting():
                read(text)
        except Refused:
            refused += 1
    if refused == 3:
        raise Refused


def slim_and_join(data: bytes) -> None:
    """Debug data taken off, and put back."""
    with fitting():
        done = slim(data, Budget(LIMITS))
        elf.parse(done.data, Budget(LIMITS))
        if done.debug:
            joined(done.data, done.debug, Budget(LIMITS))


def join_two(data: bytes) -> None:
    """Two images that need not belong together."""
    slimmed, debug = bundle.unpack(data, 2)
    with fitting({"FAILED_PRECONDITION"}):
        elf.parse(joined(slimmed, debug, Budget(LIMITS)), Budget(LIMITS))


@cache
def _amd() -> list[bytes]:
    return seeds.spread(data for data in seeds.images() if data[18:20] == b"\xe0\0")


@cache
def _split() -> list[bytes]:
    found = []
    for data in _amd():
        try:
            with fitting():
                done = slim(data, Budget(LIMITS))
        except Refused:
            continue
        found += [bundle.pack([done.data, done.debug])] if done.debug else []
    return found


def _sections(prefix: str, largest: int = seeds.LARGEST) -> list[bytes]:
    """The contents of sections of the samples."""
    parsed = (elf.parse(data, Budget(LIMITS)) for data in seeds.images())
    return seeds.spread(
        (each.data for image in parsed for each in image.sections if each.name.startswith(prefix) and each.data),
        largest=largest,
    )


@cache
def _ze_infos() -> list[bytes]:
    return _sections(".ze_info")


@cache
def _nv_infos() -> list[bytes]:
    return _sections(".nv.info")


@cache
def _metadata() -> list[bytes]:
    notes = [note for data in _amd() for _, note in elf.parse(data, Budget(LIMITS)).notes()]
    return seeds.spread(note.data for note in notes if len(note.data) > 32)


@cache
def _hosts() -> list[bytes]:
    return [*seeds.of_format(host_elf)(), *vulkan.programs()]


def _host_changed(dice: random.Random, data: bytes, change: Change) -> bytes:
    return (vulkan.mutate if vulkan.holds(data) else _any_section)(dice, data, change)


_WRITTEN = (
    b"0x1000",
    b"vadd+0x1b0",
    b".text.vadd:0x10",
    b"(a+b)+16",
    b"kernel.cl:12",
    b"/src/a b.cl:12:3",
    b"file:///tmp/lib.so#offset=4096&size=512",
    b"memory://1234#offset=0x10&size=20",
    b"_ZN3foo3barILi3EEEvPKcRT_",
    b"_ZTSZZ4mainENKUlRN4sycl7handlerEE_clES2_E3addEUlvE_",
)

TARGETS: Mapping[str, Target] = {
    "elf": Target(read_elf, seeds.images, section_of()),
    **{f"containers.{form.__name__.rpartition('.')[2]}": reader_of(form) for form in containers.FORMATS},  # type: ignore[attr-defined] # a module
    "containers.unpack": Target(unpack, seeds.files, section_of()),
    "containers.host_elf": replace(reader_of(host_elf), seeds=_hosts, mutate=_host_changed),
    "modules_in_data": Target(read_modules_in_data, vulkan.sections, vulkan.mutate_section),
    "yaml": Target(read_yaml, _ze_infos),
    "ze_info": Target(read_ze_info, _ze_infos),
    "amd_metadata": Target(read_amd_metadata, _metadata),
    "nv_info": Target(read_nv_info, _nv_infos),
    "written": Target(read_written, lambda: _WRITTEN, largest=4096),
    "slim": Target(slim_and_join, _amd, section_of()),
    "join": Target(join_two, _split, bundle.part_of(2)),
}
