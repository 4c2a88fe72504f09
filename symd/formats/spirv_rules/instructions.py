"""Rules about instructions: atomic ones, those of floating-point extensions included, those with a scope of execution
or of memory, and those of SPV_INTEL_subgroups. A scope that is no plain constant is not judged. Source: Level Zero
SPIR-V guide, "Validation Rules", "Floating-Point Atomics" and "SPV_INTEL_subgroups"."""

from __future__ import annotations

from collections.abc import Iterator

from symd.formats.spirv import Opcode, StorageClass, name_of
from symd.formats.spirv_rules.grammar import (
    ATOMIC_INTEGER,
    ATOMICS,
    EXECUTION_SCOPE,
    MEMORY_SCOPE,
    POINTER,
    SHUFFLES,
    Capability,
    Dim,
    Scope,
    dim_name,
)
from symd.formats.spirv_rules.module import CheckedModule, Device, RuleFinding, Type

_MOVES = (Opcode.AtomicLoad, Opcode.AtomicStore, Opcode.AtomicExchange)
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
    if module.opcode(number) == Opcode.AtomicStore:
        return module.type_of(ops[3])
    return module.types.get(ops[0])


def atomic_type(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    """Floats that are loaded, stored or exchanged are fp-atomic-loadstore's business."""
    allowed = (32, 64) if device.int64_atomics else (32,)
    for number, ops in module.each(*_MOVES, *ATOMIC_INTEGER):
        kind = _value_type(module, number, ops)
        if kind is None or (kind.opcode == Opcode.TypeFloat and module.opcode(number) in _MOVES):
            continue
        if kind.opcode != Opcode.TypeInt or kind.operands[0] not in allowed:
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
        if kind is not None and kind.opcode == Opcode.TypeFloat:
            lack = _lacking_flag(module, device, number, ops, kind, "LOAD_STORE")
            if lack:
                yield RuleFinding(number, f"an atomic load, store or exchange of {kind}: {lack}")


def fp_atomic_add(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    return _float_atomics(module, device, (Opcode.AtomicFAddEXT,), "ADD", _ADD)


def fp_atomic_minmax(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    return _float_atomics(module, device, (Opcode.AtomicFMinEXT, Opcode.AtomicFMaxEXT), "MIN_MAX", _MIN_MAX)


def _float_atomics(
    module: CheckedModule, device: Device, opcodes: tuple[int, ...], flag: str, needs: dict[int, tuple[str, Capability]]
) -> Iterator[RuleFinding]:
    """Each such instruction needs the extension, the width's capability and the device's flag for the pointer's
    class."""
    for number, ops in module.each(*opcodes):
        kind = _value_type(module, number, ops)
        if kind is None:
            continue
        if kind.opcode != Opcode.TypeFloat or kind.operands[0] not in needs:
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


def _scopes(module: CheckedModule, operand: dict[int, int]) -> Iterator[tuple[int, int]]:
    """(instruction number, scope) of every instruction that has one, where it is a constant."""
    for number, ops in module.each(*operand):
        at = operand[module.opcode(number)]
        scope = module.constant(ops[at]) if at < len(ops) else None
        if scope is not None:
            yield number, scope


def group_async_scope(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, scope in _scopes(module, {Opcode.GroupAsyncCopy: 2, Opcode.GroupWaitEvents: 0}):
        if scope != Scope.Workgroup:
            name = "OpGroupAsyncCopy" if module.opcode(number) == Opcode.GroupAsyncCopy else "OpGroupWaitEvents"
            yield RuleFinding(number, f"{name} has execution scope {name_of(Scope, scope)}, not Workgroup")


def exec_scope(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, scope in _scopes(module, EXECUTION_SCOPE):
        if scope not in (Scope.Workgroup, Scope.Subgroup):
            yield RuleFinding(
                number, f"the execution scope is {name_of(Scope, scope)}; supported are Workgroup and Subgroup"
            )


def memory_scope(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, scope in _scopes(module, MEMORY_SCOPE):
        if scope > Scope.Invocation:
            allowed = "CrossDevice, Device, Workgroup, Subgroup and Invocation"
            yield RuleFinding(number, f"the memory scope is {name_of(Scope, scope)}; supported are {allowed}")


def subgroup_shuffle_type(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    for number, ops in module.each(*SHUFFLES):
        kind = module.types.get(ops[0])
        if kind is not None and not _can_shuffle(module, device, kind):
            yield RuleFinding(number, f"a shuffle of {_spell(module, kind)} is not among the supported types")


def _can_shuffle(module: CheckedModule, device: Device, kind: Type) -> bool:
    base, count = module.component(kind)
    if base is None or base.opcode not in (Opcode.TypeInt, Opcode.TypeFloat):
        return False
    width, scalar = base.operands[0], kind.opcode != Opcode.TypeVector
    if base.opcode == Opcode.TypeInt:
        return not base.operands[1] and ((width in (16, 32) and count in (1, 2, 4, 8, 16)) or (width == 64 and scalar))
    if width == 32:
        return count in (1, 2, 4, 8, 16)
    declared = {16: Capability.Float16 in module.capabilities, 64: Capability.Float64 in module.capabilities}
    supported = {16: device.fp16_module, 64: device.fp64_module}
    return scalar and declared.get(width, False) and supported.get(width, False)


def subgroup_block_type(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(
        Opcode.SubgroupBlockReadINTEL,
        Opcode.SubgroupImageBlockReadINTEL,
        Opcode.SubgroupBlockWriteINTEL,
        Opcode.SubgroupImageBlockWriteINTEL,
    ):
        opcode = module.opcode(number)
        reads = opcode in (Opcode.SubgroupBlockReadINTEL, Opcode.SubgroupImageBlockReadINTEL)
        kind = (
            module.types.get(ops[0])
            if reads
            else module.type_of(ops[1 if opcode == Opcode.SubgroupBlockWriteINTEL else 2])
        )
        if kind is not None and not _can_move(module, kind):
            message = f"a block {'read' if reads else 'write'} of {_spell(module, kind)}"
            yield RuleFinding(number, f"{message}; supported are 1, 2, 4 or 8 integers of 16 or 32 bits")


def _can_move(module: CheckedModule, kind: Type) -> bool:
    base, count = module.component(kind)
    if base is None or base.opcode != Opcode.TypeInt:
        return False
    return base.operands[0] in (16, 32) and not base.operands[1] and count in (1, 2, 4, 8)


def subgroup_block_pointer_class(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Opcode.SubgroupBlockReadINTEL, Opcode.SubgroupBlockWriteINTEL):
        storage = module.pointer_class(ops[2] if module.opcode(number) == Opcode.SubgroupBlockReadINTEL else ops[0])
        if storage not in (None, StorageClass.CrossWorkgroup):
            name = name_of(StorageClass, storage) if storage is not None else ""
            yield RuleFinding(number, f"a block instruction's pointer is to {name}, not CrossWorkgroup")


def _image_operands(module: CheckedModule) -> Iterator[tuple[int, int, int]]:
    """(instruction number, image, coordinate) of the image block instructions."""
    for number, ops in module.each(Opcode.SubgroupImageBlockReadINTEL, Opcode.SubgroupImageBlockWriteINTEL):
        at = 2 if module.opcode(number) == Opcode.SubgroupImageBlockReadINTEL else 0
        yield number, ops[at], ops[at + 1]


def subgroup_image_kind(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, image, _ in _image_operands(module):
        kind = module.type_of(image)
        if kind is None or kind.opcode != Opcode.TypeImage:
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
        right = base is not None and base.opcode == Opcode.TypeInt and base.operands == (32, 0) and count == 2
        if kind is not None and not right:
            yield RuleFinding(
                number, f"an image block instruction's coordinate is {_spell(module, kind)}, not two 32-bit integers"
            )


def _spell(module: CheckedModule, kind: Type) -> str:
    base, count = module.component(kind)
    return f"{count} x {base}" if count > 1 else str(kind)
