"""Small modules that are opened well and cost much to read: what each expands to, or multiplies, is read only by a certain
question."""

from __future__ import annotations

import random
import struct
import zlib

from symd.formats.elf.constants import SHF_COMPRESSED
from tests.builders.elf import AX, Section, build_elf
from tests.builders.leb128 import uleb

EM_AMDGPU = 224
MIB = 1 << 20


def line_table(directory: bytes, files: int) -> bytes:
    """A line table of DWARF 5 with one directory and so many files of a one-letter name in it, and one row."""
    content = bytes((1, 1, 1, 251, 14, 13)) + bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
    content += b"\x01\x01\x08" + uleb(1) + directory + b"\0"
    content += b"\x02\x01\x08\x02\x0b" + uleb(files) + b"f\0\0" * files
    rest = b"\x05\x00\x08\x00" + len(content).to_bytes(4, "little") + content
    rest += b"\0\x09\x02" + bytes(8) + b"\x01" + b"\x02\x08" + b"\0\x01\x01"  # address 0, a row, 8 bytes on, the end
    return len(rest).to_bytes(4, "little") + rest


def compressed(name: str, content: bytes) -> Section:
    """A section that is stored with zlib (SHF_COMPRESSED)."""
    return Section(
        name, flags=SHF_COMPRESSED, data=struct.pack("<IIQQ", 1, 0, len(content), 1) + zlib.compress(content, 9)
    )


def image(*sections: Section) -> bytes:
    """An AMD code object with one text section and these."""
    return build_elf(machine=EM_AMDGPU, type=1, sections=[Section(".text", flags=AX, data=bytes(64)), *sections])


def noise(size: int) -> bytes:
    """Bytes that do not compress and are never NUL: with them a section stays below ``EXPANSION_RATIO``."""
    return random.Random(size).randbytes(size).replace(b"\0", b"n")


def directories_times_files() -> bytes:
    """60 KB whose file paths, once joined, are 300 GB: 15 MB of one directory, in 20,000 files."""
    directory = b"/" + noise(40_000) + b"d" * (15 * MIB)
    return image(compressed(".debug_line", line_table(directory, 20_000)))


def expanding_strings() -> bytes:
    """300 KB of which everything that looks at debug data expands 25 MB."""
    return image(
        compressed(".debug_line", line_table(b"/d", 1)), compressed(".debug_str", noise(270_000) + bytes(25 * MIB))
    )
