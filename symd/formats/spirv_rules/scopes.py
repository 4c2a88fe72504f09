"""Rules about the scopes of execution and of memory. A scope that is no plain constant is not judged.

Source: Level Zero SPIR-V guide, "Validation Rules"."""

from __future__ import annotations

from collections.abc import Iterator

from symd.formats.spirv.capabilities import Scope
from symd.formats.spirv.grammar import Op, name_of
from symd.formats.spirv_rules.device import Device
from symd.formats.spirv_rules.grammar import EXECUTION_SCOPE, MEMORY_SCOPE
from symd.formats.spirv_rules.module import CheckedModule
from symd.formats.spirv_rules.report import RuleFinding


def _scopes(module: CheckedModule, operand: dict[int, int]) -> Iterator[tuple[int, int]]:
    """(instruction number, scope) of every instruction that has one, where it is a constant."""
    for number, ops in module.each(*operand):
        at = operand[module.opcode(number)]
        scope = module.constant(ops[at]) if at < len(ops) else None
        if scope is not None:
            yield number, scope


def group_async_scope(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, scope in _scopes(module, {Op.GroupAsyncCopy: 2, Op.GroupWaitEvents: 0}):
        if scope != Scope.Workgroup:
            name = "OpGroupAsyncCopy" if module.opcode(number) == Op.GroupAsyncCopy else "OpGroupWaitEvents"
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
