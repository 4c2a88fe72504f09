"""Rules about image types and image instructions.

Source: Level Zero SPIR-V guide, "Image-Related Data Types" and "Validation Rules"."""

from __future__ import annotations

from collections.abc import Iterator

from symd.formats.spirv.capabilities import Dim, ImageOperands, dim_name
from symd.formats.spirv.grammar import Op
from symd.formats.spirv_rules.device import Device
from symd.formats.spirv_rules.module import CheckedModule
from symd.formats.spirv_rules.report import RuleFinding

_DIM_DEPTH_ARRAYED = frozenset(((0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1), (2, 0, 0), (5, 0, 0)))


def image_dim_table(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, (_, _, dim, depth, arrayed, *_) in module.each(Op.TypeImage):
        if (dim, depth, arrayed) not in _DIM_DEPTH_ARRAYED:
            name = dim_name(dim)
            yield RuleFinding(number, f"an image of Dim {name}, Depth {depth}, Arrayed {arrayed} is not in the table")


def image_sampled_type(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.TypeImage):
        kind = module.types.get(ops[1])
        if kind is not None and kind.opcode != Op.TypeVoid:
            yield RuleFinding(number, f"an image's Sampled Type is {kind}, not OpTypeVoid")


def image_arrayed(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.TypeImage):
        if ops[4] != 0 and (ops[2] not in (Dim.Dim1D, Dim.Dim2D) or ops[4] != 1):
            yield RuleFinding(number, f"an image of Dim {dim_name(ops[2])} has Arrayed {ops[4]}; only 1D and 2D have 1")


def image_ms(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.TypeImage):
        if ops[5] != 0:
            yield RuleFinding(number, f"an image has MS {ops[5]}, not 0")


def image_sampled(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.TypeImage):
        if ops[6] != 0:
            yield RuleFinding(number, f"an image has Sampled {ops[6]}, not 0")


def image_format(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.TypeImage):
        if ops[7] != 0:
            yield RuleFinding(number, f"an image has Image Format {ops[7]}, not Unknown")


def image_access_qualifier(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.TypeImage):
        if len(ops) < 9:
            yield RuleFinding(number, "an image type has no Access Qualifier")


def image_write_operands(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.ImageWrite):
        if len(ops) > 3:
            yield RuleFinding(number, f"OpImageWrite has Image Operands 0x{ops[3]:x}; it may have none")


def image_constoffset(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.ImageRead, Op.ImageSampleExplicitLod):
        if len(ops) > 4 and ops[4] & ImageOperands.ConstOffset:
            name = "OpImageRead" if module.opcode(number) == Op.ImageRead else "OpImageSampleExplicitLod"
            yield RuleFinding(number, f"{name} has the Image Operand ConstOffset")
