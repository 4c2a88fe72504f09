"""The rules of the Level Zero SPIR-V guide, one function a rule: whether a driver would take a SPIR-V module, for a
device described by what its driver reports. Debug operands are never judged: drivers skip them by word count.

Here are the table of all rules and those about the functions that entry points name: what they return, what they take,
whom they call.

Source: Level Zero SPIR-V guide, "Kernel Return Types", "Kernel Arguments" and "Validation Rules" (recursion)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from symd.formats.spirv import HEADER_WORDS, Opcode, StorageClass, claims, name_of, split
from symd.formats.spirv_rules import declared, instructions
from symd.formats.spirv_rules.declared import Rule
from symd.formats.spirv_rules.module import CheckedModule, CheckReport, Device, RuleFinding, Type, Violation

_PARAMETERS = (
    Opcode.TypeInt,
    Opcode.TypeFloat,
    Opcode.TypeStruct,
    Opcode.TypeVector,
    Opcode.TypePointer,
    Opcode.TypeSampler,
    Opcode.TypeImage,
)
_MEMBERS = (Opcode.TypeInt, Opcode.TypeFloat, Opcode.TypeStruct, Opcode.TypeVector, Opcode.TypePointer)


def kernel_return_void(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for body in module.entry_functions:
        kind = module.types.get(module.words.operands(body.first)[0])
        if kind is not None and kind.opcode != Opcode.TypeVoid:
            yield RuleFinding(body.first, f"a kernel returns {kind}, not OpTypeVoid")


def _parameters(module: CheckedModule) -> Iterator[tuple[int, int, Type]]:
    """(instruction number, id, type) of every kernel argument."""
    at = {ops[1]: number for number, ops in module.each(Opcode.FunctionParameter)}
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
        if kind.opcode == Opcode.TypeFloat and kind.operands[0] not in (16, 32):
            accepted = kind.operands[0] == 64 and device.fp64_module
            message = f"a kernel argument is a float of {kind.operands[0]} bits; supported are 16 and 32"
            yield RuleFinding(number, message, accepted=accepted)


def kernel_param_struct_member(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    known: dict[int, list[Type]] = {}
    for number, _, kind in _parameters(module):
        if kind.opcode == Opcode.TypeStruct:
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
            if member.opcode == Opcode.TypeStruct:
                waiting.append(member)
            elif member.opcode not in _MEMBERS:
                wrong.append(member)
    return wrong


def kernel_param_pointer_class(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    """clang passes a struct by value as a Function pointer decorated ByVal, and drivers take it."""
    del device
    for number, value, kind in _parameters(module):
        if kind.opcode != Opcode.TypePointer or kind.operands[0] in (
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
    for number, ops in module.each(Opcode.FunctionCall):
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
    "kernel-return-void": kernel_return_void,
    "kernel-param-type": kernel_param_type,
    "kernel-param-float-width": kernel_param_float_width,
    "kernel-param-struct-member": kernel_param_struct_member,
    "kernel-param-pointer-class": kernel_param_pointer_class,
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
    "no-recursion": no_recursion,
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
