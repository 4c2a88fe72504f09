"""Location expressions against expectations worked out by hand. Each case says where its value comes from: a section of
the DWARF 5 standard, or what the compiler that writes the operation means by it."""

from __future__ import annotations

import random

import pytest

from symd.debuginfo.dwarf.forms import Widths
from symd.debuginfo.variables.lanes import OperandNames, evaluate
from symd.debuginfo.variables.location_records import Description, describe
from symd.debuginfo.variables.machine import ExpressionContext
from symd.debuginfo.variables.registers import RegisterName, address_space, register_name
from symd.debuginfo.variables.types import Reading
from symd.model.code import Vendor
from tests.builders.leb128 import sleb, uleb

INTEL, AMD, NVIDIA, OTHER = Vendor.INTEL, Vendor.AMD, Vendor.NVIDIA, Vendor.NONE
WIDTHS = Widths(8, 4, 4)


def described(
    expression: bytes,
    vendor: Vendor = OTHER,
    lanes: int | None = None,
    reading: Reading = Reading("", None),  # noqa: B008 - a value
    frame_base: bytes | None = None,
    called: dict[int, bytes] | None = None,
) -> Description | None:
    """What an expression says. Entry n of .debug_addr is 0x1000 * n, up to 9."""
    context = ExpressionContext(
        vendor,
        WIDTHS,
        unit=0x40,
        address=lambda index: 0x1000 * index if index < 10 else None,
        frame_base=lambda: frame_base,
        called=(called or {}).get,
        name_of={0x99: "other"}.get,
    )
    names = OperandNames(
        lambda number: RegisterName(register_name(vendor, number)),
        lambda space: address_space(vendor, space),
        reading,
    )
    return describe(evaluate(expression, context, lanes), names)


def where(expression: bytes, *arguments, **named) -> str | None:
    """The text for an expression."""
    found = described(expression, *arguments, **named)
    return None if found is None else found.text


LANE, SELECT, REGVAL = b"\xed", b"\xec", b"\xfe"
FOUR_BYTES_A_LANE = (
    # lane >> 3, + 45, its register; (lane & 7) * 32, 32 bits of it from there; that is the value
    LANE + b"\x33\x25\x23" + uleb(45) + b"\xeb" + LANE + b"\x37\x1a\x08\x20\x1e" + b"\x08\x20" + SELECT + b"\x9f"
)

HALVES = (
    b"\xed\x40\x2a\x28\x12\x00"
    b"\xed\x33\x25\x23\x15\xeb\xed\x37\x1a\x08\x20\x1e\x08\x20\xec\x2f\x11\x00"
    b"\xed\x40\x1c\x33\x25\x23\x1a\xeb\xed\x37\x1a\x08\x20\x1e\x08\x20\xec\x9f"
)

INTEL_CASES = [
    # DW_OP_reg24, DW_OP_bit_piece 32 192: GRF n is 16 + n (the compiler's register numbers), 2.6.1.2 for the piece
    (b"\x68\x9d\x20\xc0\x01", 16, "r8[192:224]"),
    # 45 - 16 = r29; eight lanes of 32 bits fill one 256-bit register and go on in the next
    (FOUR_BYTES_A_LANE, 16, "r29[0:32] per lane"),
    (FOUR_BYTES_A_LANE, 8, "r29[0:32] per lane"),
    # regval_bits: 64 bits from bit 128 of register 143, r127; + 16 + 8 * lane + 64; not a value, so an address
    (b"\x08\x8f\x08\x80\xfe\x40\x23\x10\xed\x38\x1e\x22\x23\x40", 8, "memory at r127[128:192] + 80 + 8*lane"),
    # the older compiler for the same: DW_OP_regx 141, offset 128, size 64, push_bit_piece_stack
    (b"\x90\x8d\x01\x08\x80\x08\x40\xec\x23\x10\xed\x34\x1e\x22\x23\x00", 8, "memory at r125[128:192] + 16 + 4*lane"),
    # one number for all lanes: register 24, bit 128, 32 bits
    (b"\x48\x08\x80\xfe\x20\x9f", 32, "r8[128:160]"),
    # lane >= 16 ? register 26 + (lane - 16) / 8 : register 21 + lane / 8: r5 and r6, then r10
    # and r11; the branch over the second half ends at the stack_value of both
    (
        HALVES,
        32,
        "lanes 0-15: r5[0:32] per lane; lanes 16-31: r10[0:32] per lane",
    ),
    # 16 bits of each lane's 32; the masks 0xffff and 0xffffffff take nothing away from 16 bits
    (
        b"\xed\x33\x25\x23\x11\xed\x37\x1a\x08\x20\x1e\xfe\x10\x0a\xff\xff\x1a\x0c\xff\xff\xff\xff\x1a\x9f",
        16,
        "r1[0:16] per lane, 32 bits apart",
    ),
    # a mask that does take bits away stays
    (b"\x48\x30\xfe\x20\x0a\xff\x0f\x1a\x9f", 16, "r8[0:32] & 4095"),
    # stack_value in the middle marks a value, and the value goes on: - 1
    (b"\xed\x33\x25\x23\x1e\xed\x37\x1a\x08\x20\x1e\xfe\x20\x9f\x10\x01\x1c\x9f", 16, "r14[0:32] - 1 per lane"),
    # one value for each element of a vector, without DW_OP_piece between them
    (
        b"\xed\x33\x25\x23\x20\xed\x37\x1a\x08\x20\x1e\xfe\x20\x9f\xed\x33\x25\x23\x22\xed\x37\x1a\x08\x20\x1e\xfe\x20\x9f",
        16,
        "r16[0:32], r18[0:32] per lane",
    ),
    # without a mark 64 bits are an address, 128 cannot be one
    (b"\xed\x32\x25\x23\x1f\xeb\xed\x33\x1a\x08\x40\x1e\x08\x40\xec", 8, "memory at r15[0:64] per lane"),
    (b"\x48\x30\xfe\x80", 8, "r8[0:128]"),
    # 0xee and 0xef are DW_OP_piece and DW_OP_bit_piece with their operands on the stack (bytes; offset, then size)
    (b"\x65\x34\xee\x66\x34\xee", 8, "r5[0:32], r6[0:32]"),
    (b"\x65\x38\x40\xef", 8, "r5[8:24]"),
    # DW_OP_regx, DW_OP_deref_size 4: the register's low 4 bytes
    (b"\x90\x4e\x94\x04\x0a\xff\xff\x1a\x0e" + (10 << 56).to_bytes(8, "little") + b"\x22\x9f", 8,
     "(r62[0:32] & 65535) + 0xa00000000000000"),
    # two registers that move with the lane: r5's 64 bits + a 32-bit part of r36
    (b"\x45\x08\x40\xfe\x40\x10\x34\x30\xfe\x20\x22\x23\x80\x01\xed\x38\x1e\x22", 8,
     "memory at r5[64:128] + r36[0:32] + 128 + 8*lane"),
    # a whole register each lane
    (b"\x23\x00", 8, "unreadable: an operation finds too few operands"),
    (b"\xed\x23\x30\xeb", 8, "r32 per lane, a register each"),
    # registers that are no GRF
    (b"\x90\x90\x02", 8, "a0"),
    (b"\x90\xa0\x02", 8, "f0"),
    (b"\x90\xb0\x02", 8, "acc0"),
    (b"\x90\xcf\x02", 8, "mme0"),
    (b"\x90\xde\x02", 8, "r256"),
    (b"\x50", 8, "ip"),
    # breg 6 pushes the scratch base
    (b"\x76\x08", 8, "memory at scratch base + 8"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "lanes", "expected"), INTEL_CASES, ids=lambda value: value if isinstance(value, str) else None
)
def test_intel(expression: bytes, lanes: int, expected: str) -> None:
    assert where(expression, INTEL, lanes) == expected


def test_a_width_that_is_not_known_counts_as_32_lanes() -> None:
    assert where(HALVES, INTEL, None) == where(HALVES, INTEL, 32)


def test_a_branch_that_the_compiler_misses_by_a_byte_is_followed_and_said() -> None:
    """Found in kernels with two-element vectors: the branch for lanes below 16 ends inside the last DW_OP_bit_piece, on
    its operand 0, which is no operation."""
    expression = bytes.fromhex(
        "ed 40 2a 28 13 00 ed 33 25 23 2d ed 37 1a 08 20 1e fe 20 9d 20 00 2f 12 00"
        "ed 40 1c 33 25 23 2f ed 37 1a 08 20 1e fe 20 9f 9d 20 00"
    )
    assert where(expression, INTEL, 32) == (
        "lanes 0-15: 4 bytes of memory at r29[0:32], unknown operation 0x00 per lane; lanes 16-31: r31[0:32] per lane"
    )


STANDARD_CASES = [
    # 2.6.1.1.2 memory and 2.6.1.1.3 registers; 2.5.1.1 literals
    (b"\x03" + (0x400).to_bytes(8, "little"), "memory at 0x400"),
    (b"\xa1\x02", "memory at 0x2000"),
    (b"\xa1\x0a", "memory at address #10, which is not there"),
    (b"\x53", "reg3"),
    (b"\x90\xc8\x01", "reg200"),
    # 2.5.1.2 register values: breg3 - 8, bregx 200 + 300
    (b"\x73\x78", "memory at reg3 - 8"),
    (b"\x92\xc8\x01" + sleb(300), "memory at reg200 + 300"),
    # 2.6.1.1.4 implicit: a value instead of a place
    (b"\x3f\x9f", "constant 15"),
    (b"\x11" + sleb(-2) + b"\x9f", "constant -2"),
    (b"\x09\xff\x9f", "constant -1"),
    (b"\x0d\x00\x00\x00\x80\x9f", "constant -2147483648"),
    (b"\x9e\x02\x34\x12", "constant 4660"),
    (b"\x73\x00\x9f", "reg3"),
    # 2.6.1.1.1 empty: nowhere
    (b"", None),
    # 2.6.1.2 pieces: one in a register, one nowhere, one in memory
    (b"\x53\x93\x04\x93\x04\x75\x10\x93\x04", "reg3[0:32], 4 bytes optimized out, 4 bytes of memory at reg5 + 16"),
    (b"\x35\x9f\x93\x04\x9e\x04\x07\x00\x00\x00\x93\x04", "4 bytes of constant 5, 4 bytes of constant 7"),
    (b"\x53\x9d\x0c\x04", "reg3[4:16]"),
    (b"\x75\x00\x9d\x0c\x04", "bits 4:16 of memory at reg5"),
    # 2.5.1.3 stack: dup, over, pick, swap, rot
    (b"\x32\x12\x1e\x9f", "constant 4"),
    (b"\x32\x33\x14\x1c\x9f", "constant 1"),
    (b"\x32\x33\x34\x15\x02\x9f", "constant 2"),
    (b"\x32\x35\x16\x1c\x9f", "constant 3"),
    (b"\x31\x32\x34\x17\x9f", "constant 2"),
    # 2.5.1.4 arithmetic wraps at the address size; division and shra are signed, mod is not
    (b"\x30\x31\x1c\x9f", "constant -1"),
    (b"\x11\x79\x32\x1b\x9f", "constant -3"),
    (b"\x37\x33\x1d\x9f", "constant 1"),
    (b"\x11\x78\x31\x26\x9f", "constant -4"),
    (b"\x35\x1f\x19\x9f", "constant 5"),
    (b"\x30\x20\x9f", "constant -1"),
    (b"\x73\x00\x34\x24\x9f", "reg3 << 4"),
    (b"\x31\x30\x1b\x9f", "1 / 0"),
    # 2.5.1.5 control flow: a branch taken over the 9, one not taken
    (b"\x31\x28\x02\x00\x39\x9f\x37\x9f", "constant 7"),
    (b"\x30\x28\x02\x00\x39\x9f", "constant 9"),
    (b"\x32\x33\x2d\x9f", "constant 1"),
    (b"\x11\x7f\x30\x2b\x9f", "constant 0"),
    # 2.5.1.3 dereferences stay what they are: nothing is read here
    (b"\x73\x08\x06", "memory at *(reg3 + 8)"),
    (b"\x73\x08\x94\x04\x9f", "*(reg3 + 8):4"),
    # 2.5.1.6 calls; 0x40 is where the unit begins
    (b"\x98\x10\x00\x9f", "constant 6"),
    (b"\x9c", "memory at CFA"),
    (b"\x97\x23\x04", "memory at object address + 4"),
    # 2.5.1.7: the value at entry
    (b"\xa3\x01\x53\x9f", "entry value of reg3"),
    (b"\xf3\x01\x53\x9f", "entry value of reg3"),
    # 2.6.1.1.4: a pointer that was optimised away into what it points to
    (b"\xa0\x99\x00\x00\x00\x04", "pointer to other + 4"),
    # 2.5.1.1 typed constant: type, size, bytes
    (b"\xa4\x20\x04\x2a\x00\x00\x00\x9f", "constant 42"),
    (b"\xa5\x03\x20\xa8\x20\x9f", "converted reg3"),
    (b"\x96\x33\x9f", "constant 3"),
]


@pytest.mark.parametrize(
    ("expression", "expected"), STANDARD_CASES, ids=lambda value: value if isinstance(value, str) else None
)
def test_standard(expression: bytes, expected: str | None) -> None:
    assert where(expression, called={0x50: b"\x36"}) == expected


AMD_CASES = [
    # Register Identifier table of LLVM's AMDGPU guide: SGPR0 is 32, SGPR64 1088, wave64's VGPR0 2560, wave32's 1536
    (b"\x90" + uleb(33), "s1"),
    (b"\x90" + uleb(1088), "s64"),
    (b"\x90" + uleb(2560) + b"\x93\x04\x90" + uleb(2561) + b"\x93\x04", "v0[0:32], v1[0:32]"),
    (b"\x90" + uleb(1538), "v2"),
    (b"\x90" + uleb(3075), "a3"),
    # Clang's way to say "in address space 1" of a stack variable: fbreg 8, lit1, swap, xderef; the frame base is s33
    (b"\x91\x08\x31\x16\x18", "private memory at s33 + 8"),
    # and, since version 22, of a global variable, which no private memory has: 1 is any memory there
    (b"\x03" + (0x40).to_bytes(8, "little") + b"\x31\x16\x18", "memory at 0x40"),
    (b"\x11\x00\x31\x16\x18", "private memory at 0x0"),
    # LLVM's newer numbers: 5 is private, 3 is local
    (b"\x92" + uleb(2560) + b"\x00\x35\x16\x18\x93\x04", "4 bytes of private memory at v0"),
    (b"\x03" + (0x40).to_bytes(8, "little") + b"\x33\x16\x18", "local memory at 0x40"),
    (b"\x30\x35\x16\x18\x9f", "*(private 0)"),
    (b"\x30\x08\x63\x16\x18", "address space 99 memory at 0x0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "expected"), AMD_CASES, ids=lambda value: value if isinstance(value, str) else None
)
def test_amd(expression: bytes, expected: str) -> None:
    assert where(expression, AMD, frame_base=b"\x90" + uleb(32 + 33)) == expected


S33, V1 = b"\x90" + uleb(32 + 33), b"\x90" + uleb(2561)
LANE_OF_V1 = V1 + b"\xe9\x03\x34\x1e\xe9\x04"  # lane, 4, mul, offset
HETEROGENEOUS_CASES = [
    # LLVM's DWARF Extensions For Heterogeneous Debugging: form_aspace_address pops the space and the address
    (S33 + b"\x94\x04\x36\x25\x38\x22\x35\xe9\x02", "private memory at (s33[0:32] >> 6) + 8"),
    (b"\x08\x40\x33\xe9\x02", "local memory at 0x40"),
    (b"\x08\x40\x30\xe9\x02", "memory at 0x40"),  # space 0 is the default one
    # aspace_bregx: register and offset are operands, the space is on the stack
    (b"\x35\xe9\x09" + uleb(32 + 33) + sleb(-16), "private memory at s33 - 16"),
    # offset_uconst and offset go on from a place; deref reads what is there
    (b"\x08\x40\x33\xe9\x02\xe9\x05\x10", "local memory at 0x50"),
    (b"\x08\x40\x33\xe9\x02\x09\xf0\xe9\x04", "local memory at 0x30"),
    (b"\x08\x40\x33\xe9\x02\x94\x04\x9f", "*(local 64):4"),
    (b"\x08\x40\x33\xe9\x02\x06\x9f", "*(local 64):8"),
    (b"\x08\x40\x30\xe9\x02\x23\x08", "memory at 0x48"),  # as a number, where the space is the default one
    # push_lane: 4 bytes for each lane of a vector register
    (LANE_OF_V1, "v1[0:32] per lane"),
    (V1 + b"\xe9\x05\x04", "v1[32:64]"),
    (V1 + b"\x40\xe9\x06", "v1[16:32]"),
    (V1 + b"\x93\x04\x08\x40\x33\xe9\x02\x93\x04\xe9\x0a", "v1[0:32], 4 bytes of local memory at 0x40"),
    (b"\xe9\x08", "optimized out"),
    (b"\xe9\x08\x93\x04", "4 bytes optimized out"),
    (b"\xe9\x07" + uleb(32 + 33) + b"\x9f", "entry value of s33"),
    (b"\xe9\x01\x31\x9f", "constant 1"),
    # what is no number is not computed with; what has no meaning here is said
    (b"\x08\x40\x33\xe9\x02\x31\x22", "computes with a place"),
    (b"\xe9\x08\x06", "what is nowhere has no content"),
    (V1 + b"\x93\x04\xe9\x0a\x31\x22", "v1[0:32], computes with a place of several pieces"),
    (V1 + S33 + b"\xe9\x04", "depends on a register's content"),
    (V1 + b"\x09\xff\xe9\x04", "begins before its register"),
    (b"\x31\x32\xe9\x06", "counts bits in something that is not a register"),
    (b"\xe9\x70", "unknown operation 0xe9 0x70"),
    (b"\xe9\x0b\x20\x02", "DW_OP_LLVM_extend is not followed"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "expected"), HETEROGENEOUS_CASES, ids=lambda value: value if isinstance(value, str) else None
)
def test_places_of_address_spaces_and_lanes(expression: bytes, expected: str) -> None:
    assert where(expression, AMD, 64) == expected


def test_the_frame_may_be_a_place_of_an_address_space() -> None:
    frame = S33 + b"\x35\xe9\x02"
    assert where(b"\x91\x08", AMD, frame_base=frame) == "private memory at s33 + 8"
    assert where(b"\xa3" + uleb(len(frame)) + frame + b"\x9f", AMD) == "computes with a place"


@pytest.mark.parametrize(
    ("old", "today"),
    [
        (S33 + b"\x35\xe1", S33 + b"\x35\xe9\x02"),
        (V1 + b"\xe2\x34\x1e\xe3", LANE_OF_V1),
        (V1 + b"\xe4\x04", V1 + b"\xe9\x05\x04"),
        (V1 + b"\x40\xe5", V1 + b"\x40\xe9\x06"),
        (b"\xe6" + uleb(32 + 33) + b"\x9f", b"\xe9\x07" + uleb(32 + 33) + b"\x9f"),
        (b"\xe7", b"\xe9\x08"),
        (b"\x35\xe8" + uleb(32 + 33) + b"\x00", b"\x35\xe9\x09" + uleb(32 + 33) + b"\x00"),
        (V1 + b"\x93\x04\xea", V1 + b"\x93\x04\xe9\x0a"),
    ],
)
def test_older_compilers_of_rocm_have_operations_of_their_own(old: bytes, today: bytes) -> None:
    found = where(today, AMD, 64)
    assert where(old, AMD, 64) == found
    assert "unknown" not in (found or "unknown")
    assert "unknown operation" in (where(old, OTHER) or "")


NVIDIA_CASES = [
    # the number of DW_OP_regx is the ASCII of the PTX register's name, first letter highest
    (b"\x90" + uleb(int.from_bytes(b"%rd4", "big")), "%rd4"),
    (b"\x90" + uleb(int.from_bytes(b"%f1", "big")), "%f1"),
    # what spells no register is a number
    (b"\x90\x05", "reg5"),
    # the frame base is DW_OP_call_frame_cfa; the compiler pads with DW_OP_nop
    (b"\x91" + sleb(-256) + b"\x96" * 6 + b"\x23\x00", "memory at CFA - 256"),
]


@pytest.mark.parametrize(
    ("expression", "expected"), NVIDIA_CASES, ids=lambda value: value if isinstance(value, str) else None
)
def test_nvidia(expression: bytes, expected: str) -> None:
    assert where(expression, NVIDIA, frame_base=b"\x9c") == expected


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (Reading("signed", 4), "constant -1082130432"),
        (Reading("unsigned", 4), "constant 3212836864"),
        (Reading("float", 4), "constant -1.0"),
        (Reading("address", 8), "constant 0xbf800000"),
        (Reading("bytes", 4), "constant bytes 00 00 80 bf"),
        (Reading("boolean", 1), "constant false"),
    ],
)
def test_a_constant_is_read_by_the_type_of_its_variable(reading: Reading, expected: str) -> None:
    """0xbf800000 is -1.0 in IEEE 754 single precision."""
    assert where(b"\x9e\x08\x00\x00\x80\xbf\x00\x00\x00\x00", reading=reading) == expected


PIECES_OF_A_CLAMP = b"\x30\x9f\x93\x04\x0c\x00\x00\x20\x41\x9f\x93\x04"
"""As clang writes Clamp<float>{0, 10}: DW_OP_lit0 and DW_OP_const4u 0x41200000, 10.0 in IEEE 754, four bytes of each."""


@pytest.mark.parametrize(
    ("expression", "reading", "expected"),
    [
        (
            PIECES_OF_A_CLAMP,
            Reading("bytes", 8),
            "4 bytes of constant bytes 00 00 00 00, 4 bytes of constant bytes 00 00 20 41",
        ),
        (b"\x9e\x04\x01\x02\x03\x04\x93\x02", Reading("bytes", 8), "2 bytes of constant bytes 01 02"),
        (b"\x09\xff\x9f\x93\x02", Reading("unsigned", 4), "2 bytes of constant 65535"),
        (b"\x9e\x04\x01\x02\x03\x04\x9d\x08\x08", Reading("bytes", 4), "bits 8:16 of constant bytes 01 02 03 04"),
    ],
)
def test_a_piece_of_a_known_value_has_its_own_bytes_only(expression: bytes, reading: Reading, expected: str) -> None:
    assert where(expression, reading=reading) == expected


@pytest.mark.parametrize("operation", [0x01, 0x02, 0x04, 0x07, 0xE1, 0xEA, 0xFF])
def test_an_unknown_operation_is_shown_by_number(operation: int) -> None:
    assert where(bytes([operation])) == f"unknown operation {operation:#04x}"
    assert where(b"\x53\x93\x04" + bytes([operation])) == f"reg3[0:32], unknown operation {operation:#04x}"


@pytest.mark.parametrize("operation", [0xEB, 0xED, 0xEE, 0xEF, 0xFE])
def test_intels_operations_mean_nothing_in_other_vendors_code(operation: int) -> None:
    assert where(bytes([operation, 0, 0]), AMD) == f"unknown operation {operation:#04x}"


def test_what_is_intels_number_is_another_operation_of_rocm_5() -> None:
    assert where(bytes([0xEC, 0, 0]), AMD) == "DW_OP_LLVM_select_bit_piece is not followed"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (b"\x31\x2f\xfd\xff", "the expression does not come to an end"),
        (b"\x12", "an operation finds too few operands"),
        (b"\x30\x2f\xf0\x7f", "a branch leaves the expression"),
        (b"\x03\x00", "8 bytes are needed and 1 are left"),
        (b"\x10\x80", "a LEB128 number has no end"),
        (b"\x30\x12\x2f\xfc\xff", "the stack overflows"),
        (b"\x93\x04\x2f\xfb\xff", "too many pieces"),
        (b"\x98\x20\x00", "expressions call each other without end"),
    ],
)
def test_nonsense_is_said_to_be_unreadable(expression: bytes, expected: str) -> None:
    found = where(expression, called={0x60: b"\x98\x20\x00"})
    assert found is not None
    assert found.split(", ")[-1] == f"unreadable: {expected}" or found.endswith(f", unreadable: {expected}")


def test_a_branch_on_a_registers_content_cannot_be_followed() -> None:
    assert where(b"\x73\x00\x28\x01\x00\x96\x33") == "depends on a register's content"


def test_a_sum_that_doubles_a_thousand_times_is_cut_short() -> None:
    text = where(b"\x73\x00" + b"\x12\x22" * 200 + b"\x9f")
    assert text is not None
    assert "..." in text
    assert len(text) < 5000


@pytest.mark.parametrize(
    ("divisor", "expected"),
    [
        (63, "lanes 0-61: constant 0; lane 62: constant -1; lane 63: 1 / 0"),
        (64, "lanes 0-62: constant 0; lane 63: constant -1"),
    ],
)
def test_a_lane_count_beyond_sense_is_not_followed(divisor: int, expected: str) -> None:
    """1 / (lane - divisor), of 65535 lanes: lane 64 is not asked for."""
    expression = b"\x31" + LANE + b"\x08" + bytes([divisor]) + b"\x1c\x1b\x9f"
    assert where(expression, INTEL, 65535) == expected


def test_mutated_expressions_are_answered_by_text() -> None:
    """Every byte of every case changed at random, for all vendors: text, never an exception."""
    chance = random.Random(5)
    cases = [
        case[0] for case in (*INTEL_CASES, *STANDARD_CASES, *AMD_CASES, *HETEROGENEOUS_CASES, *NVIDIA_CASES) if case[0]
    ]
    for _ in range(3000):
        mutated = bytearray(chance.choice(cases))
        for _ in range(chance.randint(1, 3)):
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        cut = chance.randint(0, len(mutated))
        for vendor in (INTEL, AMD, OTHER):
            text = where(bytes(mutated[:cut]), vendor, 16, frame_base=b"\x9c")
            assert text is None or (text and len(text) < 100_000)
