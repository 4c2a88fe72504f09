"""Rules about the functions that entry points name: what they return, what they take, whom they call.

Source: Level Zero SPIR-V guide, "Kernel Return Types", "Kernel Arguments" and "Validation Rules" (recursion)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from symd.formats.spirv.grammar import Op, StorageClass, name_of
from symd.formats.spirv_rules.device import Device
from symd.formats.spirv_rules.module import CheckedModule, RuleFinding, Type

_PARAMETERS = (
    Op.TypeInt,
    Op.TypeFloat,
    Op.TypeStruct,
    Op.TypeVector,
    Op.TypePointer,
    Op.TypeSampler,
    Op.TypeImage,
)
_MEMBERS = (Op.TypeInt, Op.TypeFloat, Op.TypeStruct, Op.TypeVector, Op.TypePointer)


def kernel_return_void(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for body in module.entry_functions:
        kind = module.types.get(module.words.operands(body.first)[0])
        if kind is not None and kind.opcode != Op.TypeVoid:
            yield RuleFinding(body.first, f"a kernel returns {kind}, not OpTypeVoid")


def _parameters(module: CheckedModule) -> Iterator[tuple[int, int, Type]]:
    """(instruction number, id, type) of every kernel argument."""
    at = {ops[1]: number for number, ops in module.each(Op.FunctionParameter)}
    for body in module.entry_functions:
        for number, kind in body.parameters:
            if kind in module.types:
                yield at[number], number, module.types[kind]


def kernel_param_type(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, _, kind in _parameters(module):
        if kind.opcode not in _PARAMETERS:
            yield RuleFinding(
                number, f"a kernel argument of {kind}; allowed are Int, Float, Struct, Vector, Pointer, Sampler, Image"
            )


def kernel_param_float_width(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    """64 bits are forbidden by the text and taken by every driver whose device has doubles."""
    for number, _, kind in _parameters(module):
        if kind.opcode == Op.TypeFloat and kind.operands[0] not in (16, 32):
            accepted = kind.operands[0] == 64 and device.fp64_module
            message = f"a kernel argument is a float of {kind.operands[0]} bits; supported are 16 and 32"
            yield RuleFinding(number, message, accepted=accepted)


def kernel_param_struct_member(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    known: dict[int, list[Type]] = {}
    for number, _, kind in _parameters(module):
        if kind.opcode == Op.TypeStruct:
            if kind.id not in known:
                known[kind.id] = _wrong_members(module, kind)
            for member in known[kind.id]:
                message = f"a kernel argument's struct has a member of {member}"
                yield RuleFinding(number, f"{message}; supported are Int, Float, Struct, Vector, Pointer")


def _wrong_members(module: CheckedModule, struct: Type) -> list[Type]:
    """Members that are none of the allowed types, structs inside structs too; each type once."""
    wrong, waiting, seen = [], [struct], {struct.id}
    while waiting:
        for number in waiting.pop().operands:
            member = module.types.get(number)
            if member is None or number in seen:
                continue
            seen.add(number)
            if member.opcode == Op.TypeStruct:
                waiting.append(member)
            elif member.opcode not in _MEMBERS:
                wrong.append(member)
    return wrong


def kernel_param_pointer_class(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    """clang passes a struct by value as a Function pointer decorated ByVal, and drivers take it."""
    del device
    for number, value, kind in _parameters(module):
        if kind.opcode != Op.TypePointer or kind.operands[0] in (
            StorageClass.CrossWorkgroup,
            StorageClass.Workgroup,
            StorageClass.UniformConstant,
        ):
            continue
        name = name_of(StorageClass, kind.operands[0])
        by_value = kind.operands[0] == StorageClass.Function and value in module.by_value
        message = f"a kernel argument points to {name}; supported are CrossWorkgroup, Workgroup and UniformConstant"
        yield RuleFinding(number, message + (" (a struct by value)" if by_value else ""), accepted=by_value)


def no_recursion(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    """Depth first over the static call graph; a call to a function that is still open closes a circle."""
    del device
    calls = _calls(module)
    done: set[int] = set()
    for root in module.entry_functions:
        for number, callee in _circles(calls, root.id, done):
            name = module.functions[callee].name if callee in module.functions else ""
            yield RuleFinding(
                number, f"a call of %{callee} {name}".rstrip() + " closes a circle in a kernel's call graph"
            )


def _calls(module: CheckedModule) -> dict[int, list[tuple[int, int]]]:
    """(instruction number, callee) by caller."""
    order = sorted(module.functions.values(), key=lambda body: body.first)
    firsts = [body.first for body in order]
    found: dict[int, list[tuple[int, int]]] = {}
    for number, ops in module.each(Op.FunctionCall):
        at = bisect_right(firsts, number) - 1
        if at >= 0 and number <= order[at].last:
            found.setdefault(order[at].id, []).append((number, ops[2]))
    return found


def _circles(calls: dict[int, list[tuple[int, int]]], root: int, done: set[int]) -> Iterator[tuple[int, int]]:
    """Calls that lead back; ``done`` collects the functions that need no second visit."""
    if root in done:
        return
    opened = {root}
    path = [(root, iter(calls.get(root, ())))]
    while path:
        caller, rest = path[-1]
        number, callee = next(rest, (-1, -1))
        if number < 0:
            path.pop()
            opened.discard(caller)
            done.add(caller)
        elif callee in opened:
            yield number, callee
        elif callee not in done:
            opened.add(callee)
            path.append((callee, iter(calls.get(callee, ()))))
