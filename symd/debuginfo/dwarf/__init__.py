"""DWARF line tables and scopes decoded in bulk: pure functions from whole debug sections to NumPy columns.

The sections come relocated and decompressed, as one value (``sections``); nothing in the package knows ELF.
``columns.read_lines`` and ``columns.read_scopes`` each do their whole work in one call; ``units.read_units`` reads what
both need and may be passed to both. ``units.units_for_addresses`` chooses the units that some addresses need.
One answer about one address reads ``lines`` and ``units`` without NumPy.

Here are the numbers that line tables, units and DIE trees are made of, under their own names: searching for
``DW_AT_low_pc`` finds it, and everybody who reads it. Forms are listed in full; of tags, attributes and what
line tables are made of those that are named outside the core. What only descriptions of variables use is in
``variable_constants``, which a process that answers one address never imports. They are plain integers: enumerations of
them take a tenth of the time of one answer to make, and a quarter of a microsecond to look a member up.

Sources: DWARF 5, chapter 7 ("Data Representation"); https://gcc.gnu.org/wiki/DebugFission and binutils' dwarf2.def for
DW_*_GNU_*; IGC's DIE.hpp for DW_AT_INTEL_*; LLVM's Dwarf.def for the others."""

from __future__ import annotations


class Tag:
    """Kinds of DIEs (7.5.3)."""

    DW_TAG_array_type = 0x01
    DW_TAG_class_type = 0x02
    DW_TAG_enumeration_type = 0x04
    DW_TAG_formal_parameter = 0x05
    DW_TAG_lexical_block = 0x0B
    DW_TAG_member = 0x0D
    DW_TAG_pointer_type = 0x0F
    DW_TAG_reference_type = 0x10
    DW_TAG_compile_unit = 0x11
    DW_TAG_string_type = 0x12
    DW_TAG_structure_type = 0x13
    DW_TAG_subroutine_type = 0x15
    DW_TAG_typedef = 0x16
    DW_TAG_union_type = 0x17
    DW_TAG_unspecified_parameters = 0x18
    DW_TAG_variant = 0x19
    DW_TAG_inheritance = 0x1C
    DW_TAG_inlined_subroutine = 0x1D
    DW_TAG_ptr_to_member_type = 0x1F
    DW_TAG_set_type = 0x20
    DW_TAG_subrange_type = 0x21
    DW_TAG_with_stmt = 0x22
    DW_TAG_base_type = 0x24
    DW_TAG_catch_block = 0x25
    DW_TAG_const_type = 0x26
    DW_TAG_enumerator = 0x28
    DW_TAG_file_type = 0x29
    DW_TAG_packed_type = 0x2D
    DW_TAG_subprogram = 0x2E
    DW_TAG_template_type_parameter = 0x2F
    DW_TAG_template_value_parameter = 0x30
    DW_TAG_try_block = 0x32
    DW_TAG_variant_part = 0x33
    DW_TAG_variable = 0x34
    DW_TAG_volatile_type = 0x35
    DW_TAG_restrict_type = 0x37
    DW_TAG_interface_type = 0x38
    DW_TAG_namespace = 0x39
    DW_TAG_unspecified_type = 0x3B
    DW_TAG_partial_unit = 0x3C
    DW_TAG_shared_type = 0x40
    DW_TAG_type_unit = 0x41
    DW_TAG_rvalue_reference_type = 0x42
    DW_TAG_coarray_type = 0x44
    DW_TAG_dynamic_type = 0x46
    DW_TAG_atomic_type = 0x47
    DW_TAG_skeleton_unit = 0x4A
    DW_TAG_immutable_type = 0x4B
    DW_TAG_GNU_template_parameter_pack = 0x4107


class At:
    """Attributes of DIEs (7.5.4)."""

    DW_AT_location = 0x02
    DW_AT_name = 0x03
    DW_AT_byte_size = 0x0B
    DW_AT_bit_offset = 0x0C
    DW_AT_bit_size = 0x0D
    DW_AT_stmt_list = 0x10
    DW_AT_low_pc = 0x11
    DW_AT_high_pc = 0x12
    DW_AT_language = 0x13
    DW_AT_discr_value = 0x16
    DW_AT_string_length = 0x19
    DW_AT_comp_dir = 0x1B
    DW_AT_const_value = 0x1C
    DW_AT_containing_type = 0x1D
    DW_AT_lower_bound = 0x22
    DW_AT_upper_bound = 0x2F
    DW_AT_abstract_origin = 0x31
    DW_AT_address_class = 0x33
    DW_AT_artificial = 0x34
    DW_AT_count = 0x37
    DW_AT_data_member_location = 0x38
    DW_AT_decl_file = 0x3A
    DW_AT_decl_line = 0x3B
    DW_AT_declaration = 0x3C
    DW_AT_encoding = 0x3E
    DW_AT_external = 0x3F
    DW_AT_frame_base = 0x40
    DW_AT_specification = 0x47
    DW_AT_type = 0x49
    DW_AT_ranges = 0x55
    DW_AT_call_column = 0x57
    DW_AT_call_file = 0x58
    DW_AT_call_line = 0x59
    DW_AT_data_bit_offset = 0x6B
    DW_AT_linkage_name = 0x6E
    DW_AT_str_offsets_base = 0x72
    DW_AT_addr_base = 0x73
    DW_AT_rnglists_base = 0x74
    DW_AT_dwo_name = 0x76
    DW_AT_reference = 0x77
    DW_AT_rvalue_reference = 0x78
    DW_AT_loclists_base = 0x8C
    DW_AT_MIPS_linkage_name = 0x2007
    DW_AT_GNU_vector = 0x2107
    DW_AT_GNU_dwo_name = 0x2130
    DW_AT_GNU_dwo_id = 0x2131
    DW_AT_GNU_ranges_base = 0x2132
    DW_AT_GNU_addr_base = 0x2133
    DW_AT_INTEL_simd_width = 0x2400


class Form:
    """How the value of an attribute, or of a column of a file table, is written (7.5.6)."""

    DW_FORM_addr = 0x01
    DW_FORM_block2 = 0x03
    DW_FORM_block4 = 0x04
    DW_FORM_data2 = 0x05
    DW_FORM_data4 = 0x06
    DW_FORM_data8 = 0x07
    DW_FORM_string = 0x08
    DW_FORM_block = 0x09
    DW_FORM_block1 = 0x0A
    DW_FORM_data1 = 0x0B
    DW_FORM_flag = 0x0C
    DW_FORM_sdata = 0x0D
    DW_FORM_strp = 0x0E
    DW_FORM_udata = 0x0F
    DW_FORM_ref_addr = 0x10
    DW_FORM_ref1 = 0x11
    DW_FORM_ref2 = 0x12
    DW_FORM_ref4 = 0x13
    DW_FORM_ref8 = 0x14
    DW_FORM_ref_udata = 0x15
    DW_FORM_indirect = 0x16
    DW_FORM_sec_offset = 0x17
    DW_FORM_exprloc = 0x18
    DW_FORM_flag_present = 0x19
    DW_FORM_strx = 0x1A
    DW_FORM_addrx = 0x1B
    DW_FORM_ref_sup4 = 0x1C
    DW_FORM_strp_sup = 0x1D
    DW_FORM_data16 = 0x1E
    DW_FORM_line_strp = 0x1F
    DW_FORM_ref_sig8 = 0x20
    DW_FORM_implicit_const = 0x21
    DW_FORM_loclistx = 0x22
    DW_FORM_rnglistx = 0x23
    DW_FORM_ref_sup8 = 0x24
    DW_FORM_strx1 = 0x25
    DW_FORM_strx2 = 0x26
    DW_FORM_strx3 = 0x27
    DW_FORM_strx4 = 0x28
    DW_FORM_addrx1 = 0x29
    DW_FORM_addrx2 = 0x2A
    DW_FORM_addrx3 = 0x2B
    DW_FORM_addrx4 = 0x2C
    DW_FORM_GNU_addr_index = 0x1F01
    DW_FORM_GNU_str_index = 0x1F02
    DW_FORM_GNU_ref_alt = 0x1F20
    DW_FORM_GNU_strp_alt = 0x1F21
    DW_FORM_LLVM_addrx_offset = 0x2001
    """An index as DW_FORM_addrx, and a 32-bit offset from that address."""


class Lnct:
    """Columns of a line table's directories and files (7.22)."""

    DW_LNCT_LLVM_source = 0x2001
