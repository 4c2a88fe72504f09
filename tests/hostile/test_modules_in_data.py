"""Host programs whose data looks like SPIR-V, as the fuzzer made it."""

from __future__ import annotations

import struct

from symd.config import Limits
from symd.formats.budget import Budget
from symd.formats.containers.file_part import part_of
from symd.formats.containers.images_in_data import modules_in
from tests.formats.containers.khronos.test_modules_in_data import (
    CAPABILITY,
    FUNCTION,
    FUNCTION_END,
    HEADER,
    ext_inst,
    ext_inst_import,
)

EXT_INST = 12


def sizes(data: bytes) -> list[int]:
    """Bytes of the modules that are found."""
    found = modules_in(part_of(data), ".rodata", Budget(Limits()))
    return [extent.stop - extent.start for extent in found.extents]


def test_an_instruction_too_short_to_name_its_set_is_no_part_of_a_module() -> None:
    """What stands behind it was taken for the set's number."""
    module = HEADER + CAPABILITY + ext_inst_import(7, b"NonSemantic.ClspvReflection.5") + FUNCTION + FUNCTION_END
    assert sizes(module + ext_inst(7)) == [len(module) + 20]
    for words in range(1, 5):
        short = struct.pack("<I", words << 16 | EXT_INST) + struct.pack("<4I", 1, 8, 7, 1)
        assert sizes(module + short) == [len(module)]


def test_an_import_ends_where_it_says_and_its_name_with_it() -> None:
    """The name was looked for in what stands behind a short one, here an instruction that begins so."""
    name = b"NonSemantic."
    longer = name.ljust(4 * int.from_bytes(name[2:4], "little"), b"\0")
    module = HEADER + CAPABILITY + struct.pack("<2I", 2 << 16 | 11, 7) + longer + FUNCTION + FUNCTION_END
    assert sizes(module + ext_inst(7)) == [len(module)]
