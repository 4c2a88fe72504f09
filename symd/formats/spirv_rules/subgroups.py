"""Rules about the instructions of SPV_INTEL_subgroups.

Source: Level Zero SPIR-V guide, "SPV_INTEL_subgroups"."""

from __future__ import annotations

from collections.abc import Iterator

from symd.formats.spirv.capabilities import Capability, Dim, dim_name
from symd.formats.spirv.grammar import Op, StorageClass, name_of
from symd.formats.spirv_rules.device import Device
from symd.formats.spirv_rules.grammar import SHUFFLES
from symd.formats.spirv_rules.module import CheckedModule, Type
from symd.formats.spirv_rules.report import RuleFinding


def subgroup_shuffle_type(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    for number, ops in module.each(*SHUFFLES):
        kind = module.types.get(ops[0])
        if kind is not None and not _can_shuffle(module, device, kind):
            yield RuleFinding(number, f"a shuffle of {_spell(module, kind)} is not among the supported types")


def _can_shuffle(module: CheckedModule, device: Device, kind: Type) -> bool:
    base, count = module.component(kind)
    if base is None or base.opcode not in (Op.TypeInt, Op.TypeFloat):
        return False
    width, scalar = base.operands[0], kind.opcode != Op.TypeVector
    if base.opcode == Op.TypeInt:
        return not base.operands[1] and ((width in (16, 32) and count in (1, 2, 4, 8, 16)) or (width == 64 and scalar))
    if width == 32:
        return count in (1, 2, 4, 8, 16)
    declared = {16: Capability.Float16 in module.capabilities, 64: Capability.Float64 in module.capabilities}
    supported = {16: device.fp16_module, 64: device.fp64_module}
    return scalar and declared.get(width, False) and supported.get(width, False)


def subgroup_block_type(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(
        Op.SubgroupBlockReadINTEL,
        Op.SubgroupImageBlockReadINTEL,
        Op.SubgroupBlockWriteINTEL,
        Op.SubgroupImageBlockWriteINTEL,
    ):
        opcode = module.opcode(number)
        reads = opcode in (Op.SubgroupBlockReadINTEL, Op.SubgroupImageBlockReadINTEL)
        kind = (
            module.types.get(ops[0]) if reads else module.type_of(ops[1 if opcode == Op.SubgroupBlockWriteINTEL else 2])
        )
        if kind is not None and not _can_move(module, kind):
            message = f"a block {'read' if reads else 'write'} of {_spell(module, kind)}"
            yield RuleFinding(number, f"{message}; supported are 1, 2, 4 or 8 integers of 16 or 32 bits")


def _can_move(module: CheckedModule, kind: Type) -> bool:
    base, count = module.component(kind)
    if base is None or base.opcode != Op.TypeInt:
        return False
    return base.operands[0] in (16, 32) and not base.operands[1] and count in (1, 2, 4, 8)


def subgroup_block_pointer_class(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.SubgroupBlockReadINTEL, Op.SubgroupBlockWriteINTEL):
        storage = module.pointer_class(ops[2] if module.opcode(number) == Op.SubgroupBlockReadINTEL else ops[0])
        if storage not in (None, StorageClass.CrossWorkgroup):
            name = name_of(StorageClass, storage) if storage is not None else ""
            yield RuleFinding(number, f"a block instruction's pointer is to {name}, not CrossWorkgroup")


def _image_operands(module: CheckedModule) -> Iterator[tuple[int, int, int]]:
    """(instruction number, image, coordinate) of the image block instructions."""
    for number, ops in module.each(Op.SubgroupImageBlockReadINTEL, Op.SubgroupImageBlockWriteINTEL):
        at = 2 if module.opcode(number) == Op.SubgroupImageBlockReadINTEL else 0
        yield number, ops[at], ops[at + 1]


def subgroup_image_kind(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, image, _ in _image_operands(module):
        kind = module.type_of(image)
        if kind is None or kind.opcode != Op.TypeImage:
            continue
        _, dim, depth, arrayed, samples, *_ = kind.operands
        if (dim, depth, arrayed, samples) != (Dim.Dim2D, 0, 0, 0):
            found = f"Dim {dim_name(dim)}, Depth {depth}, Arrayed {arrayed}, MS {samples}"
            yield RuleFinding(number, f"an image block instruction's image has {found}; it must be 2D, 0, 0, 0")


def subgroup_image_coord(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, _, coordinate in _image_operands(module):
        kind = module.type_of(coordinate)
        base, count = module.component(kind)
        right = base is not None and base.opcode == Op.TypeInt and base.operands == (32, 0) and count == 2
        if kind is not None and not right:
            yield RuleFinding(
                number, f"an image block instruction's coordinate is {_spell(module, kind)}, not two 32-bit integers"
            )


def _spell(module: CheckedModule, kind: Type) -> str:
    base, count = module.component(kind)
    return f"{count} x {base}" if count > 1 else str(kind)
