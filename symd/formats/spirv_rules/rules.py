"""All rules, by name, in the order in which they are asked. Adding one is one function and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from symd.formats.spirv_rules import atomics, declared, images, kernels, scopes, subgroups, types
from symd.formats.spirv_rules.device import Device
from symd.formats.spirv_rules.module import CheckedModule
from symd.formats.spirv_rules.report import RuleFinding

Rule = Callable[[CheckedModule, Device], Iterator[RuleFinding]]

RULES: Mapping[str, Rule] = {
    "header": declared.header,
    "spirv-version": declared.spirv_version,
    "exec-model": declared.exec_model,
    "addressing-model": declared.addressing_model,
    "memory-model": declared.memory_model,
    "int-width": types.int_width,
    "float-width": types.float_width,
    "vector-count": types.vector_count,
    "int-signedness": types.int_signedness,
    "kernel-return-void": kernels.kernel_return_void,
    "kernel-param-type": kernels.kernel_param_type,
    "kernel-param-float-width": kernels.kernel_param_float_width,
    "kernel-param-struct-member": kernels.kernel_param_struct_member,
    "kernel-param-pointer-class": kernels.kernel_param_pointer_class,
    "image-dim-table": images.image_dim_table,
    "image-sampled-type": images.image_sampled_type,
    "image-sampled": images.image_sampled,
    "image-ms": images.image_ms,
    "image-arrayed": images.image_arrayed,
    "image-format": images.image_format,
    "image-access-qualifier": images.image_access_qualifier,
    "image-write-operands": images.image_write_operands,
    "image-constoffset": images.image_constoffset,
    "atomic-type": atomics.atomic_type,
    "atomic-pointer-class": atomics.atomic_pointer_class,
    "fp-atomic-loadstore": atomics.fp_atomic_loadstore,
    "fp-atomic-add": atomics.fp_atomic_add,
    "fp-atomic-minmax": atomics.fp_atomic_minmax,
    "no-recursion": kernels.no_recursion,
    "group-async-scope": scopes.group_async_scope,
    "exec-scope": scopes.exec_scope,
    "memory-scope": scopes.memory_scope,
    "subgroups-extension": declared.subgroups_extension,
    "subgroup-shuffle-type": subgroups.subgroup_shuffle_type,
    "subgroup-block-type": subgroups.subgroup_block_type,
    "subgroup-block-pointer-class": subgroups.subgroup_block_pointer_class,
    "subgroup-image-kind": subgroups.subgroup_image_kind,
    "subgroup-image-coord": subgroups.subgroup_image_coord,
    "capability": declared.capability,
    "ext-inst-set": declared.ext_inst_set,
    "control-flow": declared.control_flow,
}
