"""SPIR-V modules, in either byte order: one code object whose only section is the module itself, because an address is
the byte offset of an instruction.

Source: SPIR-V 1.6, "Physical Layout of a SPIR-V Module and Instruction"."""

from __future__ import annotations

from types import ModuleType

from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.model.code import CodeObject

NAME = "spirv"
MAGICS = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")


def claims(data: bytes) -> bool:
    """The first word is the magic number, in either byte order."""
    return data[:4] in MAGICS


def read(element: Element, budget: Budget) -> Contents:
    """The module as one code object. Raises Malformed where it does not split into instructions to its end."""
    code = _module().code_object(element.data, budget, element.name, outline=element.outline)
    return Contents(code_object=code._replace(path=element.path, bias=element.bias, stored=element.stored))


def with_debug(code: CodeObject, debug: bytes) -> CodeObject:
    """What ``spirv.module.with_debug`` makes of them."""
    joined: CodeObject = _module().with_debug(code, debug)
    return joined


def _module() -> ModuleType:
    from symd.formats.spirv import module  # noqa: PLC0415 - 4 ms: the grammar's tables are slow to import

    return module
