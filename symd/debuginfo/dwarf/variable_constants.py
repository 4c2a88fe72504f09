"""The numbers of DWARF that only descriptions of variables use: operations of location expressions, location lists,
base types and languages.

Sources: DWARF 5, chapter 7 ("Data Representation"), and https://dwarfstd.org/languages.html for languages named since;
binutils' dwarf2.def for DW_*_GNU_*; LLVM's Dwarf.def for DW_OP_LLVM_*; IGC's DIE.hpp and its emitter
(DwarfCompileUnit.cpp) for DW_OP_INTEL_*.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Op(IntEnum):
    """Operations of location expressions (7.7.1). DW_OP_lit0, DW_OP_reg0 and DW_OP_breg0 are the first of 32 each."""

    DW_OP_addr = 0x03
    DW_OP_deref = 0x06
    DW_OP_const1u = 0x08
    DW_OP_const1s = 0x09
    DW_OP_const2u = 0x0A
    DW_OP_const2s = 0x0B
    DW_OP_const4u = 0x0C
    DW_OP_const4s = 0x0D
    DW_OP_const8u = 0x0E
    DW_OP_const8s = 0x0F
    DW_OP_constu = 0x10
    DW_OP_consts = 0x11
    DW_OP_dup = 0x12
    DW_OP_drop = 0x13
    DW_OP_over = 0x14
    DW_OP_pick = 0x15
    DW_OP_swap = 0x16
    DW_OP_rot = 0x17
    DW_OP_xderef = 0x18
    DW_OP_abs = 0x19
    DW_OP_and = 0x1A
    DW_OP_div = 0x1B
    DW_OP_minus = 0x1C
    DW_OP_mod = 0x1D
    DW_OP_mul = 0x1E
    DW_OP_neg = 0x1F
    DW_OP_not = 0x20
    DW_OP_or = 0x21
    DW_OP_plus = 0x22
    DW_OP_plus_uconst = 0x23
    DW_OP_shl = 0x24
    DW_OP_shr = 0x25
    DW_OP_shra = 0x26
    DW_OP_xor = 0x27
    DW_OP_bra = 0x28
    DW_OP_eq = 0x29
    DW_OP_ge = 0x2A
    DW_OP_gt = 0x2B
    DW_OP_le = 0x2C
    DW_OP_lt = 0x2D
    DW_OP_ne = 0x2E
    DW_OP_skip = 0x2F
    DW_OP_lit0 = 0x30
    DW_OP_reg0 = 0x50
    DW_OP_breg0 = 0x70
    DW_OP_regx = 0x90
    DW_OP_fbreg = 0x91
    DW_OP_bregx = 0x92
    DW_OP_piece = 0x93
    DW_OP_deref_size = 0x94
    DW_OP_xderef_size = 0x95
    DW_OP_nop = 0x96
    DW_OP_push_object_address = 0x97
    DW_OP_call2 = 0x98
    DW_OP_call4 = 0x99
    DW_OP_call_ref = 0x9A
    DW_OP_form_tls_address = 0x9B
    DW_OP_call_frame_cfa = 0x9C
    DW_OP_bit_piece = 0x9D
    DW_OP_implicit_value = 0x9E
    DW_OP_stack_value = 0x9F
    DW_OP_implicit_pointer = 0xA0
    DW_OP_addrx = 0xA1
    DW_OP_constx = 0xA2
    DW_OP_entry_value = 0xA3
    DW_OP_const_type = 0xA4
    DW_OP_regval_type = 0xA5
    DW_OP_deref_type = 0xA6
    DW_OP_xderef_type = 0xA7
    DW_OP_convert = 0xA8
    DW_OP_reinterpret = 0xA9
    DW_OP_GNU_push_tls_address = 0xE0
    DW_OP_LLVM_user = 0xE9
    DW_OP_INTEL_regs = 0xEB
    DW_OP_INTEL_push_bit_piece_stack = 0xEC
    DW_OP_INTEL_push_simd_lane = 0xED
    DW_OP_INTEL_piece_stack = 0xEE
    DW_OP_INTEL_bit_piece_stack = 0xEF
    DW_OP_GNU_uninit = 0xF0
    DW_OP_GNU_encoded_addr = 0xF1
    DW_OP_GNU_implicit_pointer = 0xF2
    DW_OP_GNU_entry_value = 0xF3
    DW_OP_GNU_const_type = 0xF4
    DW_OP_GNU_regval_type = 0xF5
    DW_OP_GNU_deref_type = 0xF6
    DW_OP_GNU_convert = 0xF7
    DW_OP_GNU_reinterpret = 0xF9
    DW_OP_GNU_parameter_ref = 0xFA
    DW_OP_GNU_addr_index = 0xFB
    DW_OP_GNU_const_index = 0xFC
    DW_OP_GNU_variable_value = 0xFD
    DW_OP_INTEL_regval_bits = 0xFE


class LlvmOp(IntEnum):
    """Operations whose number follows DW_OP_LLVM_user."""

    DW_OP_LLVM_nop = 0x01
    DW_OP_LLVM_form_aspace_address = 0x02
    DW_OP_LLVM_push_lane = 0x03
    DW_OP_LLVM_offset = 0x04
    DW_OP_LLVM_offset_uconst = 0x05
    DW_OP_LLVM_bit_offset = 0x06
    DW_OP_LLVM_call_frame_entry_reg = 0x07
    DW_OP_LLVM_undefined = 0x08
    DW_OP_LLVM_aspace_bregx = 0x09
    DW_OP_LLVM_piece_end = 0x0A
    DW_OP_LLVM_extend = 0x0B
    DW_OP_LLVM_select_bit_piece = 0x0C


ROCM_5_OPERATIONS: Mapping[int, LlvmOp] = {
    0xE1: LlvmOp.DW_OP_LLVM_form_aspace_address,
    0xE2: LlvmOp.DW_OP_LLVM_push_lane,
    0xE3: LlvmOp.DW_OP_LLVM_offset,
    0xE4: LlvmOp.DW_OP_LLVM_offset_uconst,
    0xE5: LlvmOp.DW_OP_LLVM_bit_offset,
    0xE6: LlvmOp.DW_OP_LLVM_call_frame_entry_reg,
    0xE7: LlvmOp.DW_OP_LLVM_undefined,
    0xE8: LlvmOp.DW_OP_LLVM_aspace_bregx,
    0xEA: LlvmOp.DW_OP_LLVM_piece_end,
    0xEC: LlvmOp.DW_OP_LLVM_select_bit_piece,
}
"""The numbers that ROCm's compilers before version 6 gave these operations, without DW_OP_LLVM_user before them."""


class Lle(IntEnum):
    """Kinds of entries of location lists (7.7.3)."""

    DW_LLE_end_of_list = 0x00
    DW_LLE_base_addressx = 0x01
    DW_LLE_startx_endx = 0x02
    DW_LLE_startx_length = 0x03
    DW_LLE_offset_pair = 0x04
    DW_LLE_default_location = 0x05
    DW_LLE_base_address = 0x06
    DW_LLE_start_end = 0x07
    DW_LLE_start_length = 0x08
    DW_LLE_GNU_view_pair = 0x09


class GnuLle(IntEnum):
    """Kinds of entries of location lists in ``.debug_loc.dwo`` (GCC's wiki, "DebugFission")."""

    DW_LLE_GNU_end_of_list_entry = 0x00
    DW_LLE_GNU_base_address_selection_entry = 0x01
    DW_LLE_GNU_start_end_entry = 0x02
    DW_LLE_GNU_start_length_entry = 0x03
    DW_LLE_GNU_offset_pair_entry = 0x04


class Ate(IntEnum):
    """How a base type's bits are read (7.8)."""

    DW_ATE_address = 0x01
    DW_ATE_boolean = 0x02
    DW_ATE_complex_float = 0x03
    DW_ATE_float = 0x04
    DW_ATE_signed = 0x05
    DW_ATE_signed_char = 0x06
    DW_ATE_unsigned = 0x07
    DW_ATE_unsigned_char = 0x08
    DW_ATE_imaginary_float = 0x09
    DW_ATE_packed_decimal = 0x0A
    DW_ATE_numeric_string = 0x0B
    DW_ATE_edited = 0x0C
    DW_ATE_signed_fixed = 0x0D
    DW_ATE_unsigned_fixed = 0x0E
    DW_ATE_decimal_float = 0x0F
    DW_ATE_UTF = 0x10
    DW_ATE_UCS = 0x11
    DW_ATE_ASCII = 0x12


class Lang(IntEnum):
    """Source languages whose arrays begin at 1 (7.12). The list of languages named since gives DW_LANG_Fortran18,
    DW_LANG_Ada2005 and DW_LANG_Ada2012 a default lower bound of 0, and so does LLVM."""

    DW_LANG_Ada83 = 0x03
    DW_LANG_Cobol74 = 0x05
    DW_LANG_Cobol85 = 0x06
    DW_LANG_Fortran77 = 0x07
    DW_LANG_Fortran90 = 0x08
    DW_LANG_Pascal83 = 0x09
    DW_LANG_Modula2 = 0x0A
    DW_LANG_Ada95 = 0x0D
    DW_LANG_Fortran95 = 0x0E
    DW_LANG_PLI = 0x0F
    DW_LANG_Modula3 = 0x17
    DW_LANG_Julia = 0x1F
    DW_LANG_Fortran03 = 0x22
    DW_LANG_Fortran08 = 0x23


NAMED_LANGUAGES = frozenset(range(0x01, 0x38)) - {0x29}
"""The numbers of all source languages that have a name, up to DW_LANG_OpenCL_CPP."""
