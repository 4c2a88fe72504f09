"""All rules, by name, in the order in which they are asked. Adding one is one function and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from symd.formats.spirv_rules import declared, instructions, kernels
from symd.formats.spirv_rules.device import Device
from symd.formats.spirv_rules.module import CheckedModule, RuleFinding

Rule = Callable[[CheckedModule, Device], Iterator[RuleFinding]]

RULES: Mapping[str, Rule] = {
    "header": declared.header,
    "spirv-version": declared.spirv_version,
    "exec-model": declared.exec_model,
    "addressing-model": declared.addressing_model,
    "memory-model": declared.memory_model,
    "int-width": declared.int_width,
    "float-width": declared.float_width,
    "vector-count": declared.vector_count,
    "int-signedness": declared.int_signedness,
    "kernel-return-void": kernels.kernel_return_void,
    "kernel-param-type": kernels.kernel_param_type,
    "kernel-param-float-width": kernels.kernel_param_float_width,
    "kernel-param-struct-member": kernels.kernel_param_struct_member,
    "kernel-param-pointer-class": kernels.kernel_param_pointer_class,
    "image-dim-table": declared.image_dim_table,
    "image-sampled-type": declared.image_sampled_type,
    "image-sampled": declared.image_sampled,
    "image-ms": declared.image_ms,
    "image-arrayed": declared.image_arrayed,
    "image-format": declared.image_format,
    "image-access-qualifier": declared.image_access_qualifier,
    "image-write-operands": declared.image_write_operands,
    "image-constoffset": declared.image_constoffset,
    "atomic-type": instructions.atomic_type,
    "atomic-pointer-class": instructions.atomic_pointer_class,
    "fp-atomic-loadstore": instructions.fp_atomic_loadstore,
    "fp-atomic-add": instructions.fp_atomic_add,
    "fp-atomic-minmax": instructions.fp_atomic_minmax,
    "no-recursion": kernels.no_recursion,
    "group-async-scope": instructions.group_async_scope,
    "exec-scope": instructions.exec_scope,
    "memory-scope": instructions.memory_scope,
    "subgroups-extension": declared.subgroups_extension,
    "subgroup-shuffle-type": instructions.subgroup_shuffle_type,
    "subgroup-block-type": instructions.subgroup_block_type,
    "subgroup-block-pointer-class": instructions.subgroup_block_pointer_class,
    "subgroup-image-kind": instructions.subgroup_image_kind,
    "subgroup-image-coord": instructions.subgroup_image_coord,
    "capability": declared.capability,
    "ext-inst-set": declared.ext_inst_set,
    "control-flow": declared.control_flow,
}
