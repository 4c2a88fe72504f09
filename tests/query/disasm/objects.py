"""Code objects for tests of disassemblers: from sample files, and made by hand."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile

from symd.formats import containers
from symd.model.code import CodeKind, CodeObject, Function, Kernel, Section, Vendor

SAMPLES = Path(__file__).parents[3] / "samples"
TEXT = 0x6  # SHF_ALLOC | SHF_EXECINSTR


def objects(path: Path) -> list[CodeObject]:
    """The machine code of a sample file."""
    return [code for code in containers.unpack(path.read_bytes()).objects if code.kind is CodeKind.MACHINE]


def texts(image: bytes) -> dict[str, bytes]:
    """The text sections of an ELF image by name, as pyelftools finds them."""
    sections = ELFFile(BytesIO(image)).iter_sections()
    return {each.name: each.data() for each in sections if each["sh_flags"] & 4 and each["sh_size"]}


def made(
    data: bytes,
    *,
    vendor: Vendor = Vendor.INTEL,
    target: str | None = "dg2",
    kernels: tuple[Kernel, ...] = (),
    functions: tuple[Function, ...] = (),
    path: str = "",
) -> CodeObject:
    """One text section, number 1, that holds ``data``."""
    section = Section(1, ".text.k", 1, TEXT, 0, len(data), data)
    return CodeObject(path, "made", target, b"", (section,), kernels, functions, vendor=vendor)
