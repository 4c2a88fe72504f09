"""Rules about scalar and vector types.

Source: Level Zero SPIR-V guide, "Basic Scalar and Vector Types" and "Validation Rules"."""

from __future__ import annotations

from collections.abc import Iterator

from symd.formats.spirv.grammar import Op
from symd.formats.spirv_rules.device import Device
from symd.formats.spirv_rules.module import CheckedModule
from symd.formats.spirv_rules.report import RuleFinding


def int_width(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.TypeInt):
        if ops[1] not in (8, 16, 32, 64):
            yield RuleFinding(number, f"an integer of {ops[1]} bits; supported are 8, 16, 32 and 64")


def int_signedness(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.TypeInt):
        if ops[2] != 0:
            yield RuleFinding(number, f"a {ops[1]}-bit integer has signedness {ops[2]}, not 0")


def float_width(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.TypeFloat):
        if ops[1] not in (16, 32, 64):
            yield RuleFinding(number, f"a float of {ops[1]} bits; supported are 16, 32 and 64")


def vector_count(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Op.TypeVector):
        if ops[2] not in (2, 3, 4, 8, 16):
            yield RuleFinding(number, f"a vector of {ops[2]} components; supported are 2, 3, 4, 8 and 16")
