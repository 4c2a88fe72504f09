"""Rules about the scopes of execution and of memory. A scope that is no plain constant is not judged.

Source: Level Zero SPIR-V guide, "Validation Rules"."""

from __future__ import annotations

from collections.abc import Iterator

from symd.spirv_check.device import Device
from symd.spirv_check.grammar import (
    EXECUTION_SCOPE,
    GROUP_ASYNC_COPY,
    GROUP_WAIT_EVENTS,
    MEMORY_SCOPE,
    SCOPE_SUBGROUP,
    SCOPE_WORKGROUP,
    SCOPES,
)
from symd.spirv_check.module import Module
from symd.spirv_check.report import Finding


def _scopes(module: Module, operand: dict[int, int]) -> Iterator[tuple[int, int]]:
    """(instruction number, scope) of every instruction that has one, where it is a constant."""
    for number, ops in module.each(*operand):
        at = operand[module.opcode(number)]
        scope = module.constant(ops[at]) if at < len(ops) else None
        if scope is not None:
            yield number, scope


def group_async_scope(module: Module, device: Device) -> Iterator[Finding]:
    del device
    for number, scope in _scopes(module, {GROUP_ASYNC_COPY: 2, GROUP_WAIT_EVENTS: 0}):
        if scope != SCOPE_WORKGROUP:
            name = "OpGroupAsyncCopy" if module.opcode(number) == GROUP_ASYNC_COPY else "OpGroupWaitEvents"
            yield Finding(number, f"{name} has execution scope {SCOPES.get(scope, scope)}, not Workgroup")


def exec_scope(module: Module, device: Device) -> Iterator[Finding]:
    del device
    for number, scope in _scopes(module, EXECUTION_SCOPE):
        if scope not in (SCOPE_WORKGROUP, SCOPE_SUBGROUP):
            yield Finding(
                number, f"the execution scope is {SCOPES.get(scope, scope)}; supported are Workgroup and Subgroup"
            )


def memory_scope(module: Module, device: Device) -> Iterator[Finding]:
    del device
    for number, scope in _scopes(module, MEMORY_SCOPE):
        if scope > 4:
            allowed = "CrossDevice, Device, Workgroup, Subgroup and Invocation"
            yield Finding(number, f"the memory scope is {SCOPES.get(scope, scope)}; supported are {allowed}")
