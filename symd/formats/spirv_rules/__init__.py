"""The rules of the Level Zero SPIR-V guide, one function a rule: whether a driver would take a SPIR-V module, for a
device described by what its driver reports. Debug operands are never judged: drivers skip them by word count.
"""

from __future__ import annotations

from collections.abc import Mapping

from symd.formats.spirv.words import HEADER_WORDS, claims, split
from symd.formats.spirv_rules import declared, instructions, kernels
from symd.formats.spirv_rules.declared import Rule
from symd.formats.spirv_rules.device import Device
from symd.formats.spirv_rules.module import CheckedModule, CheckReport, RuleFinding, Violation

__all__ = ("RULES", "CheckReport", "Device", "Violation", "check")

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
"""All rules, by name, in the order in which they are asked. Adding one is one function and one line here."""


def check(data: bytes, device: Device | None = None) -> CheckReport:
    """Ask every rule about a module; what is no SPIR-V at all breaks the rule "header". Never raises for bad bytes."""
    if not claims(data):
        return _no_header(0, "the first word is not the magic number 0x07230203")
    if len(data) < HEADER_WORDS * 4:
        return _no_header(len(data), f"the module ends inside its header of {HEADER_WORDS * 4} bytes")
    module = CheckedModule(split(data))
    found = [
        _place(name, finding, module) for name, rule in RULES.items() for finding in rule(module, device or Device())
    ]
    return CheckReport(tuple(sorted(found, key=lambda violation: violation.offset)))


def _no_header(offset: int, message: str) -> CheckReport:
    return CheckReport((Violation("header", "error", offset, message),))


def _place(rule: str, finding: RuleFinding, module: CheckedModule) -> Violation:
    """The instruction number as a byte offset: -1 is the header, one past the last the end of what could be read."""
    words = module.words
    offset = 0 if finding.number < 0 else words.offset(finding.number)
    if rule == "header" and words.problem and finding.number == len(words):
        offset = words.problem_at
    return Violation(rule, finding.severity, offset, finding.message, finding.accepted)
