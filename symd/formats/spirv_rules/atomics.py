"""Rules about atomic instructions, those of floating-point extensions included.

Source: Level Zero SPIR-V guide, "Validation Rules" (atomic instructions) and "Floating-Point Atomics"."""

from __future__ import annotations

from collections.abc import Iterator

from symd.formats.spirv.capabilities import Capability
from symd.formats.spirv.grammar import Op, StorageClass, name_of
from symd.formats.spirv_rules.device import Device
from symd.formats.spirv_rules.grammar import ATOMIC_INTEGER, ATOMICS, POINTER
from symd.formats.spirv_rules.module import CheckedModule, Type
from symd.formats.spirv_rules.report import RuleFinding

_MOVES = (Op.AtomicLoad, Op.AtomicStore, Op.AtomicExchange)
_ADD = {
    16: ("SPV_EXT_shader_atomic_float16_add", Capability.AtomicFloat16AddEXT),
    32: ("SPV_EXT_shader_atomic_float_add", Capability.AtomicFloat32AddEXT),
    64: ("SPV_EXT_shader_atomic_float_add", Capability.AtomicFloat64AddEXT),
}
_MIN_MAX = {
    16: ("SPV_EXT_shader_atomic_float_min_max", Capability.AtomicFloat16MinMaxEXT),
    32: ("SPV_EXT_shader_atomic_float_min_max", Capability.AtomicFloat32MinMaxEXT),
    64: ("SPV_EXT_shader_atomic_float_min_max", Capability.AtomicFloat64MinMaxEXT),
}


def _value_type(module: CheckedModule, number: int, ops: list[int]) -> Type | None:
    """The result type, or the type of the value that OpAtomicStore stores."""
    if module.opcode(number) == Op.AtomicStore:
        return module.type_of(ops[3])
    return module.types.get(ops[0])


def atomic_type(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    """Floats that are loaded, stored or exchanged are fp-atomic-loadstore's business."""
    allowed = (32, 64) if device.int64_atomics else (32,)
    for number, ops in module.each(*_MOVES, *ATOMIC_INTEGER):
        kind = _value_type(module, number, ops)
        if kind is None or (kind.opcode == Op.TypeFloat and module.opcode(number) in _MOVES):
            continue
        if kind.opcode != Op.TypeInt or kind.operands[0] not in allowed:
            widths = " and ".join(str(width) for width in allowed)
            yield RuleFinding(number, f"an atomic instruction works on {kind}; supported are integers of {widths} bits")


def atomic_pointer_class(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(*ATOMICS):
        storage = module.pointer_class(ops[POINTER[module.opcode(number)]])
        if storage not in (
            None,
            StorageClass.Function,
            StorageClass.Workgroup,
            StorageClass.CrossWorkgroup,
            StorageClass.Generic,
        ):
            name = name_of(StorageClass, storage) if storage is not None else ""
            message = f"an atomic instruction's pointer is to {name}"
            yield RuleFinding(number, f"{message}; supported are Function, Workgroup, CrossWorkgroup and Generic")


def fp_atomic_loadstore(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    for number, ops in module.each(*_MOVES):
        kind = _value_type(module, number, ops)
        if kind is not None and kind.opcode == Op.TypeFloat:
            lack = _lacking_flag(module, device, number, ops, kind, "LOAD_STORE")
            if lack:
                yield RuleFinding(number, f"an atomic load, store or exchange of {kind}: {lack}")


def fp_atomic_add(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    return _float_atomics(module, device, (Op.AtomicFAddEXT,), "ADD", _ADD)


def fp_atomic_minmax(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    return _float_atomics(module, device, (Op.AtomicFMinEXT, Op.AtomicFMaxEXT), "MIN_MAX", _MIN_MAX)


def _float_atomics(
    module: CheckedModule, device: Device, opcodes: tuple[int, ...], flag: str, needs: dict[int, tuple[str, Capability]]
) -> Iterator[RuleFinding]:
    """Each such instruction needs the extension, the width's capability and the device's flag for the pointer's class."""
    for number, ops in module.each(*opcodes):
        kind = _value_type(module, number, ops)
        if kind is None:
            continue
        if kind.opcode != Op.TypeFloat or kind.operands[0] not in needs:
            yield RuleFinding(number, f"a floating-point atomic instruction works on {kind}")
            continue
        extension, capability = needs[kind.operands[0]]
        if extension not in module.extensions:
            yield RuleFinding(number, f'an atomic instruction on {kind} needs OpExtension "{extension}"')
        if capability not in module.capabilities:
            yield RuleFinding(number, f"an atomic instruction on {kind} needs capability {capability.name}")
        lack = _lacking_flag(module, device, number, ops, kind, flag)
        if lack:
            yield RuleFinding(number, f"an atomic instruction on {kind}: {lack}")


def _lacking_flag(module: CheckedModule, device: Device, number: int, ops: list[int], kind: Type, flag: str) -> str:
    """What the device does not say of this width and storage class; "" when it says all that is needed."""
    storage = module.pointer_class(ops[POINTER[module.opcode(number)]])
    needed: dict[int, tuple[str, ...]] = {
        StorageClass.CrossWorkgroup: ("GLOBAL",),
        StorageClass.Workgroup: ("LOCAL",),
        StorageClass.Generic: ("GLOBAL", "LOCAL"),
    }
    if storage is None:
        return ""
    if storage not in needed:
        return f"a pointer to {name_of(StorageClass, storage)} is not among the supported classes"
    width = kind.operands[0]
    missing = [f"{place}_{flag}" for place in needed[storage] if f"{place}_{flag}" not in device.atomics(width)]
    return f"the device's fp{width} flags lack {' and '.join(missing)}" if missing else ""
