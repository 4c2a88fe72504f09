"""The worked example of docs/index-format.md is what a build of it gives."""

from __future__ import annotations

import numpy as np

from symd.index import Index, build
from symd.index.builder import DecodedObject
from symd.index.format import decompress
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.model.code import CodeObject, DebugScheme, Kernel, Section
from symd.model.debug_info import NO_PARENT, DebugInfo, LineRows, RowFlag, Scopes
from symd.model.summaries import ModuleSummary
from tests.query.asked import symbolize_one


def u32(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def example() -> Index:
    """vadd, 0x40 bytes; helper is inlined at 0x10..0x20, called on line 10."""
    offset = np.array([0, 0x10, 0x20, 0x40], np.uint64)
    flags = np.array([1, 1, 1, RowFlag.END_SEQUENCE], np.uint8)
    rows = LineRows(u32(1, 1, 1, 1), offset, u32(1, 1, 1, 1), u32(8, 3, 9, 9), u32(0, 0, 0, 0), flags)
    scopes = Scopes(
        parent=u32(NO_PARENT, 0),
        name=u32(1, 2),
        linkage_name=u32(0, 0),
        inlined=np.array([0, 1], np.uint8),
        call_file=u32(0, 1),
        call_line=u32(0, 10),
        call_column=u32(0, 0),
        range_scope=u32(0, 1),
        range_section=u32(1, 1),
        range_offset=np.array([0, 0x10], np.uint64),
        range_end=np.array([0x40, 0x20], np.uint64),
    )
    text = Section(1, ".text", 1, 6, 0, 0x40, bytes(0x40))
    code = CodeObject("", "test", None, b"", (text,), (Kernel("vadd", 1, 0, 0x40),), (), debug=DebugScheme.DWARF_5)
    debug = DebugInfo(rows, scopes, ("", "vadd.cl"), ("", "vadd", "helper"))
    return Index(build([DecodedObject(code, debug)], ModuleSummary("0" * 64, 0, "test")))


def test_the_columns_are_those_of_the_page() -> None:
    index = example()
    columns = index.columns
    assert columns.start_sorted.tolist() == [0, 0x10, 0x20] or (
        columns.start_shift.tolist() == [4] and columns.start_bits.tolist() == [0b111]
    )
    assert columns.range_count.tolist() == [3]
    assert columns.page_width.tolist() == [1, 1, 1]
    assert columns.page_frame.tolist() == [0]
    page = decompress(columns.page_data)
    assert page == bytes([0b111, 0, 1, 0xFF, 1, 1, 2, 0, 0, 0, *[Reason.EXACT] * 3])
    assert columns.page_end.tolist() == [len(columns.page_data)]
    assert columns.frame_owner.tolist() == [1, 2]
    assert columns.frame_line.tolist() == [7, 2]
    assert columns.owner_parent.tolist() == [0, 0, 1]
    assert columns.owner_line.tolist() == [0, 0, 10]
    assert index.locations.line.tolist()[15:] == [10, 8, 3, 9]
    assert index.derived.first_range == 16


def test_the_address_has_the_frames_of_the_page() -> None:
    answer = symbolize_one(example(), ByKernel("vadd", KernelOffset(0x18)))
    assert [(frame.function, frame.line, frame.inlined) for frame in answer.frames] == [
        ("helper", 3, True),
        ("vadd", 10, False),
    ]
