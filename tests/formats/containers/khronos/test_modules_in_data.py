"""SPIR-V modules among the data of host programs, in images made of modules that other tools wrote."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import LimitExceeded, SymdError, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers import host_elf, images_in_data, unpack
from symd.formats.containers.file_part import part_of
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.images_in_data import FoundModules, modules_in
from tests.builders.elf import ALLOC, AX, WRITE, Section, build_elf
from tests.builders.hostile import flips

BIN = Path(__file__).parents[4] / "samples" / "spirv" / "bin"
MODULES = [path.read_bytes() for path in sorted(BIN.glob("*.spv")) if "big-endian" not in path.name]
CAPABILITY = struct.pack("<2I", 2 << 16 | 17, 1)
HEADER = struct.pack("<5I", 0x07230203, 0x00010300, 0, 9, 0)
FUNCTION = struct.pack("<5I", 5 << 16 | 54, 1, 2, 0, 3)
FUNCTION_END = struct.pack("<I", 1 << 16 | 56)
NO_LINE = struct.pack("<I", 1 << 16 | 317)
WHOLE = HEADER + CAPABILITY + FUNCTION + FUNCTION_END


def program(*sections: Section, machine: int = 62) -> bytes:
    return build_elf(machine=machine, sections=list(sections))


def data_of(content: bytes, name: str = ".rodata") -> Section:
    return Section(name, flags=ALLOC, address=0x2000, data=content, align=32)


def found(content: bytes, limits: Limits | None = None) -> FoundModules:
    return modules_in(part_of(content), ".rodata", Budget(limits or Limits()))


def read(data: bytes, name: str = "") -> Contents:
    return host_elf.read(Element(name, data), Budget(Limits()))


def refused(data: bytes) -> None:
    with pytest.raises(Unsupported, match="carries no device code"):
        read(data)


def ext_inst_import(number: int, name: bytes) -> bytes:
    text = name + bytes(4 - len(name) % 4)
    return struct.pack("<2I", (2 + len(text) // 4) << 16 | 11, number) + text


def ext_inst(instruction_set: int) -> bytes:
    return struct.pack("<5I", 5 << 16 | 12, 1, 8, instruction_set, 1)


@pytest.mark.parametrize("between", [b"", bytes(4), bytes(29), b"some text of the program\0"])
def test_modules_are_cut_out_whole_whatever_lies_between_them(between: bytes) -> None:
    unpacked = unpack(program(data_of(between + between.join(MODULES) + between)))
    assert [code.data for code in unpacked.objects] == MODULES
    assert not unpacked.notes


def test_they_are_named_after_their_section_and_numbered() -> None:
    data = program(data_of(MODULES[0] * 2), Section(".data", flags=ALLOC | WRITE, address=0x9000, data=MODULES[1]))
    assert [code.path for code in unpack(data).objects] == [".rodata", ".rodata#2", ".data"]


def test_kernels_are_those_of_the_module_alone() -> None:
    alone = unpack(MODULES[0]).objects[0]
    (inside,) = unpack(program(data_of(bytes(64) + MODULES[0] + b"\1" * 64))).objects
    assert [kernel.name for kernel in inside.kernels] == [kernel.name for kernel in alone.kernels]
    assert inside.debug == alone.debug


@pytest.mark.parametrize("cut", [20, 24, 28, 400])
def test_a_truncated_module_costs_a_note_and_the_next_one_is_read(cut: int) -> None:
    content = read(program(data_of(MODULES[0][:cut] + MODULES[1])))
    assert [element.data for element in content.elements] == [MODULES[1]]
    assert len(content.notes) == (cut >= 24)
    assert all("SPIR-V headers in .rodata that begin no whole module: 1" in note for note in content.notes)


@pytest.mark.parametrize("cut", [4, 20, 24, 400])
def test_a_program_of_truncated_modules_has_no_device_code(cut: int) -> None:
    refused(program(data_of(MODULES[0][:cut] * 3)))


@pytest.mark.parametrize(
    "header",
    [
        (0x07230203, 0x00010700, 0, 9, 0),
        (0x07230203, 0x00020000, 0, 9, 0),
        (0x07230203, 0x00010301, 0, 9, 0),
        (0x07230203, 0x01010300, 0, 9, 0),
        (0x07230203, 0x00010300, 0, 0, 0),
        (0x07230203, 0x00010300, 0, 9, 1),
    ],
)
def test_what_only_has_the_magic_number_is_no_module(header: tuple[int, ...]) -> None:
    assert found(WHOLE).extents == (slice(0, len(WHOLE)),)
    assert not found(struct.pack("<5I", *header) + WHOLE[20:]).extents


def test_the_first_instruction_is_a_capability() -> None:
    assert not found(HEADER + FUNCTION + FUNCTION_END).extents


def test_a_module_without_functions_has_no_end() -> None:
    assert found(HEADER + CAPABILITY * 100) == FoundModules((), 1)
    assert found(HEADER + CAPABILITY + FUNCTION_END) == FoundModules((), 1)


def test_lines_behind_the_last_function_belong_to_nobody() -> None:
    assert found(WHOLE + NO_LINE * 2 + bytes(8)).extents == (slice(0, len(WHOLE)),)
    more = WHOLE + NO_LINE + FUNCTION + FUNCTION_END
    assert found(more + NO_LINE).extents == (slice(0, len(more)),)


def test_non_semantic_instructions_may_follow_the_last_function() -> None:
    """As those of clspv's reflection do."""
    sets = ext_inst_import(7, b"NonSemantic.ClspvReflection.5") + ext_inst_import(6, b"GLSL.std.450")
    module = HEADER + CAPABILITY + sets + FUNCTION + FUNCTION_END
    behind = module + ext_inst(7) * 2
    assert found(behind + ext_inst(6)).extents == (slice(0, len(behind)),)
    assert found(module + ext_inst(6)).extents == (slice(0, len(module)),)


def test_a_module_may_begin_at_any_byte_and_astride_what_is_searched_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for piece in range(32, 64):
        monkeypatch.setattr(images_in_data, "_READ_CHUNK", piece)
        assert found(bytes(33) + WHOLE + bytes(3) + WHOLE).extents == (slice(33, 85), slice(88, 140))


def test_headers_without_end_pass_the_limit_of_elements() -> None:
    with pytest.raises(LimitExceeded) as caught:
        found((HEADER + CAPABILITY) * 1001, Limits(object_count=1000))
    assert caught.value.metadata["limit"] == "object_count"


def test_no_byte_is_walked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk ends at the next header at the latest: so often as there are headers, a walk over the rest would be quadratic."""
    walked: list[int] = []
    size = images_in_data._size
    monkeypatch.setattr(images_in_data, "_size", lambda data: walked.append(len(data)) or size(data))
    content = (HEADER + CAPABILITY * 3) * 500
    assert found(content) == FoundModules((), 500)
    assert sum(walked) == len(content)


@pytest.mark.parametrize(
    "name", [".nv_fatbin", ".hip_fatbin", ".llvm.offloading", "__CLANG_OFFLOAD_BUNDLE__hip-x", "OFFLOAD_DEVICE_CODE"]
)
def test_a_program_with_a_section_for_device_code_is_read_as_before(name: str) -> None:
    refused(program(Section(name, data=bytes(64)), data_of(MODULES[0])))


def test_code_and_what_is_not_loaded_are_not_searched() -> None:
    refused(program(Section(".text", flags=AX, address=0x1000, data=MODULES[0]), Section(".comment", data=MODULES[0])))


def test_objects_in_an_archive_are_searched_too() -> None:
    assert len(read(program(data_of(MODULES[0])), "member.o").elements) == 1
    assert not read(program(data_of(b"text")), "member.o").elements


def test_a_module_longer_than_what_is_looked_at_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_in_data, "MAX_MODULE_BYTES", len(WHOLE))
    assert found(WHOLE + bytes(64)).extents == (slice(0, len(WHOLE)),)
    monkeypatch.setattr(images_in_data, "MAX_MODULE_BYTES", len(WHOLE) - 4)
    assert found(WHOLE + bytes(64)) == FoundModules((), 1)


@pytest.mark.parametrize("seed", range(4))
def test_changed_bytes_end_in_an_answer_or_a_named_error(seed: int) -> None:
    """``flips`` of the data alone: a changed image around it is the business of other tests."""
    content = bytes(7) + MODULES[seed] + MODULES[seed + 4]
    for changed in flips(content, seed, count=50, bits=40):
        with suppress(SymdError):
            assert all(len(code.data) % 4 == 0 for code in unpack(program(data_of(changed))).objects)
