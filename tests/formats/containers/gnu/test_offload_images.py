"""Programs that GCC compiled for GPUs: tables as mkoffload writes them, stated by hand, and what must not be taken for one."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import LimitExceeded, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers import host_elf, unpack
from symd.formats.containers.format import Contents, Element
from tests.builders.elf import Section, build_elf

SAMPLES = Path(__file__).parents[4] / "samples"
CODE = (SAMPLES / "amdgpu/bin/v4-gfx900.co").read_bytes()
OTHER = (SAMPLES / "amdgpu/bin/v4-gfx900-nodebug.co").read_bytes()
PTX = b"// BEGIN PREAMBLE\n\t.version\t6.0\n\t.target\tsm_35\n\t.address_size 64\n.visible .entry main$_omp_fn$0 (.param.u64 %arg)\n{\n}\n"
X86_64, AARCH64, ET_DYN = 62, 183, 3
RELATIVE = {X86_64: 8, AARCH64: 1027}
ALLOC, WRITE = 2, 1
DATA_AT, TABLES_AT = 0x4000, 0x9000_0000


class Program:
    """Data, words that stand in tables, and pointers among these to places of the data."""

    def __init__(self) -> None:
        self.data = bytearray(32)
        self.words: list[int] = []
        self.pointers: dict[int, int] = {}

    def place(self, content: bytes) -> int:
        """The address of the content."""
        self.data += bytes(-len(self.data) % 32)
        self.data += content
        return DATA_AT + len(self.data) - len(content)

    def point(self, address: int) -> None:
        self.pointers[len(self.words)] = address
        self.words.append(address)

    def with_code(self, content: bytes, size: int | None = None) -> Program:
        self.words.append(len(content) if size is None else size)
        self.point(self.place(content))
        return self

    def with_ptx(self, content: bytes, size: int | None = None) -> Program:
        self.point(self.place(content + b"\0"))
        self.words.append(len(content) + 1 if size is None else size)
        return self

    def built(self, machine: int = X86_64, *, relocated: bool = False, marked: bool = True) -> bytes:
        words = [0 if relocated and at in self.pointers else word for at, word in enumerate(self.words)]
        rows = [(TABLES_AT + 8 * at, RELATIVE[machine], to) for at, to in self.pointers.items()]
        sections = [
            Section(".data", flags=ALLOC | WRITE, address=DATA_AT, data=bytes(self.data), align=32),
            Section(
                ".data.rel.ro", flags=ALLOC | WRITE, address=TABLES_AT, data=struct.pack(f"<{len(words)}Q", *words)
            ),
            Section(
                ".gnu.offload_funcs" if marked else ".other", flags=ALLOC | WRITE, address=0x8000_0000, data=bytes(8)
            ),
        ]
        if relocated:
            packed = b"".join(struct.pack("<QQq", *row) for row in rows)
            sections.append(Section(".rela.dyn", type=4, flags=ALLOC, address=0x1000, data=packed, entsize=24))
        return build_elf(machine=machine, type=ET_DYN, sections=sections)


def contents(data: bytes, limits: Limits | None = None) -> Contents:
    return host_elf.read(Element("", data), Budget(limits or Limits()))


def digests(data: bytes) -> list[str]:
    return [hashlib.sha256(element.data).hexdigest() for element in contents(data).elements]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("machine", [X86_64, AARCH64])
@pytest.mark.parametrize("relocated", [False, True])
def test_the_code_object_of_a_program_is_found_by_its_table(machine: int, relocated: bool) -> None:
    data = Program().with_code(CODE).built(machine, relocated=relocated)
    assert digests(data) == [digest(CODE)]
    assert [code.target for code in unpack(data).objects] == ["gfx900"]


def test_several_code_objects_and_ptx_texts_are_all_found() -> None:
    program = Program().with_ptx(PTX).with_code(CODE).with_ptx(PTX.replace(b"35", b"70")).with_code(OTHER)
    found = contents(program.built(relocated=True))
    assert [digest(element.data) for element in found.elements] == [digest(CODE), digest(OTHER)]
    assert found.notes == ("left out: 2 PTX texts of GCC (sm_35, sm_70), without machine code",)
    assert found.facts["ptx"] == [
        {"target": target, "size": len(PTX), "kernels": ("main$_omp_fn$0",)} for target in ("sm_35", "sm_70")
    ]


def test_programs_of_ptx_alone_are_opened_and_say_so() -> None:
    opened = unpack(Program().with_ptx(PTX).built())
    assert (opened.format, opened.objects) == ("host-elf", ())
    assert "1 PTX text of GCC (sm_35)" in opened.notes[0]


@pytest.mark.parametrize("size", [0, 63, len(CODE) + 1 << 20, (1 << 64) - 1])
def test_sizes_that_nothing_stands_behind_are_no_images(size: int) -> None:
    program = Program().with_ptx(PTX).with_code(CODE, size)
    assert len(contents(program.built()).elements) == (size == 63)


def test_what_only_looks_like_an_image_is_none() -> None:
    program = Program().with_code(b"\x7fELF" + bytes(60)).with_ptx(b"// BEGIN of something else\n")
    program.with_code(CODE.replace(b"\xe0\x00", b"\x3e\x00", 1)).with_ptx(PTX, 40)
    with pytest.raises(Unsupported, match="no device code"):
        contents(program.built())


def test_code_that_no_table_names_is_left_alone() -> None:
    unnamed = Program()
    unnamed.place(CODE)
    unnamed.words.append(0)
    with pytest.raises(Unsupported, match="no device code"):
        contents(unnamed.built())


def test_code_of_other_programs_has_their_sections_name() -> None:
    (element,) = contents(Program().with_code(CODE).built(marked=False)).elements
    assert (element.data, element.name[0]) == (CODE, ".")


@pytest.mark.parametrize("others", [(".gnu.offload_funcs",), ()])
def test_objects_that_are_not_linked_say_what_is_missing(others: tuple[str, ...]) -> None:
    """Functions that are declared for a GPU, and called from none of the object's regions, are in no table."""
    sections = [Section(name, data=bytes(16)) for name in (".gnu.offload_lto_main.1", *others)]
    found = contents(build_elf(machine=X86_64, sections=sections))
    assert (found.elements, len(found.notes)) == ((), 1)
    assert "linking makes code of it" in found.notes[0]


def test_images_in_images_and_many_tables_are_bounded() -> None:
    """Each of 20,000 words names the same text, which would be gone through each time."""
    program = Program().with_ptx(PTX * 2000)
    start = program.words[0]
    for at in range(20_000):
        program.point(start)
        program.words.append(len(PTX) * 2000 - at % 100)
    found = contents(program.built())
    assert len(found.facts["ptx"]) == 1
    lots = Program()
    for _ in range(50):
        lots.with_ptx(PTX)
    with pytest.raises(LimitExceeded, match="object_count"):
        contents(lots.built(), Limits(object_count=10))
