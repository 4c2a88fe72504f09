"""NVIDIA's images written here byte by byte: where its assembler left a row out of the line table, and where the PTX that it read could not tell of inlined calls."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import symd
from symd.config import Limits
from symd.debuginfo.one_address import answer_at
from symd.formats.containers import unpack
from symd.model.answers import Answer, Reason
from tests.builders.elf import AX, Relocation, Section, Symbol, build_elf
from tests.builders.leb128 import sleb, uleb

SIZE = 0x60
HEADER = bytes([1, 1, 251, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1]) + b"\0k.cu\0\0\0\0one.h\0\0\0\0\0"
START, COPY, END = b"\0\x09\2" + bytes(8), b"\1", b"\0\1\1"


def line(delta: int) -> bytes:
    return b"\3" + sleb(delta)


def file(number: int) -> bytes:
    return b"\4" + uleb(number)


def call(row: int) -> bytes:
    """What follows was inlined at a row of this number and is of ``f``, or is not inlined (0)."""
    body = b"\x90" + uleb(row) + uleb(0)
    return b"\0" + uleb(len(body)) + body


PC = b"\2\x10"
"""The next instruction."""


def image(*program: bytes, ptx: bytes = b"") -> bytes:
    """A cubin for sm_80 of one kernel, ``k``. ``ptx`` is as ptxas keeps it: lines that end in a zero byte."""
    table = struct.pack("<HI", 2, len(HEADER) + 4) + HEADER + bytes(4) + b"".join(program)
    relocation = Relocation(14 + len(HEADER) + 3, "k", 2)
    texts = [Section(".nv_debug_ptx_txt", data=ptx)] if ptx else []
    return build_elf(
        machine=190, type=2, osabi=0x33, abiversion=7, flags=0x500550, version=0x78,
        sections=[
            Section(".text.k", flags=AX, data=bytes(SIZE)),
            Section(".debug_line", data=struct.pack("<I", len(table)) + table),
            Section(".debug_str", data=b"f\0"),
            *texts,
        ],
        symbols=[Symbol("k", size=SIZE, section=".text.k", other=0x10)],
        relocations={".debug_line": [relocation]},
        rela=False,
    )  # fmt: skip


def places(answer: Answer) -> list[tuple[str, str | None, int]]:
    return [(frame.function or "", frame.file, frame.line) for frame in answer.frames]


def answered(data: bytes, folder: Path, *, as_written: bool = False) -> list[Answer]:
    """The answers at every instruction."""
    path = folder / "k.cubin"
    path.write_bytes(data)
    with symd.open(path) as module:
        return [module.symbolize(f"k+{at:#x}", as_written=as_written) for at in range(0, SIZE, 16)]


def alone(data: bytes, number: int) -> tuple[Reason, list[tuple[str | None, str | None, int]]]:
    """The answer at the instruction of this number, without an index."""
    (code,) = unpack(data).objects
    section = next(each.index for each in code.sections if each.name == ".text.k")
    reason, frames = answer_at(code, section, 16 * number, Limits())
    return Reason(reason), [(name, file, line) for name, _, file, line, _ in frames]


OF_K = (START, line(19), COPY)
"""Row 1: line 20 of k.cu, in ``k``."""
IN_F = (call(1), file(2), line(-15), PC, COPY)
"""Row 2: line 5 of one.h, in ``f``."""


def test_a_row_that_is_left_out_has_its_own_file_and_what_is_written_is_the_row_before(tmp_path: Path) -> None:
    """ptxas leaves out the row of line 8 of one.h behind that of line 8 of k.cu: it compares lines."""
    data = image(
        *OF_K, *IN_F, call(0), file(1), line(3), PC, COPY, file(2), call(1), PC, call(0), file(1), line(1), PC, COPY, PC, END
    )  # fmt: skip
    assert [(each.reason, places(each)) for each in answered(data, tmp_path)[:5]] == [
        (Reason.EXACT, [("k", "k.cu", 20)]),
        (Reason.EXACT, [("f", "one.h", 5), ("k", "k.cu", 20)]),
        (Reason.EXACT, [("k", "k.cu", 8)]),
        (Reason.INFERRED, [("f", "one.h", 8), ("k", "k.cu", 20)]),
        (Reason.EXACT, [("k", "k.cu", 9)]),
    ]
    written = answered(data, tmp_path, as_written=True)
    assert {each.reason for each in written[:5]} == {Reason.EXACT}
    assert places(written[3]) == places(written[2]) == [("k", "k.cu", 8)]


def test_a_row_that_is_left_out_with_another_file_alone_is_inferred(tmp_path: Path) -> None:
    data = image(*OF_K, *IN_F, file(1), call(1), PC, line(1), PC, COPY, PC, END)
    _, written, inferred, *_ = answered(data, tmp_path)
    assert (written.reason, places(written)) == (Reason.EXACT, [("f", "one.h", 5), ("k", "k.cu", 20)])
    assert (inferred.reason, places(inferred)) == (Reason.INFERRED, [("f", "k.cu", 5), ("k", "k.cu", 20)])
    assert places(answered(data, tmp_path, as_written=True)[2]) == places(written)


def test_the_only_call_may_be_of_a_row_that_is_left_out(tmp_path: Path) -> None:
    data = image(*OF_K, file(2), call(1), PC, call(0), file(1), line(1), PC, COPY, PC, END)
    inferred = answered(data, tmp_path)[1]
    assert (inferred.reason, places(inferred)) == (Reason.INFERRED, [("f", "one.h", 20), ("k", "k.cu", 20)])
    assert alone(data, 1) == (Reason.INFERRED, places(inferred))
    assert places(answered(data, tmp_path, as_written=True)[1]) == [("k", "k.cu", 20)]


def test_before_the_first_row_of_the_table_nothing_is_written(tmp_path: Path) -> None:
    """And nobody knows where a call stands that is in no row before."""
    data = image(START, line(4), call(1), PC, call(0), line(1), PC, COPY, PC, END)
    left_out, first = answered(data, tmp_path)[1:3]
    assert left_out.reason is Reason.CONTRADICTORY
    assert places(first) == [("k", "k.cu", 6)]
    written = answered(data, tmp_path, as_written=True)[1]
    assert (written.reason, [each.line for each in written.frames]) == (Reason.NO_LINE, [0])


NVIDIA, LLVM = b"\0" * 8, b"\0" * 4
"""The comments in front, of which the ends of lines are left."""
LABEL, NEW_LABEL = b"Lfunc_begin0:\0", b"$L__func_begin0:\0"


@pytest.mark.parametrize(
    ("ptx", "tells_calls"),
    [
        (NVIDIA + b".version 9.0\0.target sm_80\0", True),
        (NVIDIA + b".version 7.2\0.target sm_80\0" + LABEL, True),
        (NVIDIA + b".version 7.1\0.target sm_80\0", False),
        (NVIDIA + b".version 6.5\0.target sm_80\0" + LABEL, False),
        (LLVM + b".version 8.4\0.target sm_80\0" + NEW_LABEL, False),
        (LLVM + b".version 7.2\0.target sm_80\0" + LABEL, False),
        (LLVM + b".version 7.0\0.target sm_80\0" + LABEL + b"\0.section\t.debug_info\0", False),
        (LLVM + b".version 9.4\0.target sm_80\0" + NEW_LABEL + b"\0.section\t.debug_info\0", True),
        (b".version\0", True),
    ],
)
def test_where_the_ptx_cannot_tell_of_inlined_calls_the_function_is_inferred(
    ptx: bytes, tells_calls: bool, tmp_path: Path
) -> None:
    """``k`` begins on line 20. NVIDIA's compilers tell inlined calls from PTX 7.2 on (toolkit 11.2, which labels where functions begin as LLVM does)."""
    data = image(*OF_K, line(-10), PC, COPY, line(12), PC, COPY, PC, END, ptx=ptx)
    found = answered(data, tmp_path)[:3]
    assert [places(each) for each in found] == [[("k", "k.cu", number)] for number in (20, 10, 22)]
    told = [Reason.EXACT] * 3 if tells_calls else [Reason.INFERRED, Reason.CONTRADICTORY, Reason.INFERRED]
    assert [each.reason for each in found] == told
    assert {each.reason for each in answered(data, tmp_path, as_written=True)[:3]} == {Reason.EXACT}
    assert [alone(data, number) for number in range(3)] == [(each.reason, places(each)) for each in found]
