"""Small SPIR-V modules as text, with room for what a rule is about, and the tools that assemble, judge and list them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests import tools

TEMPLATE = """\
OpCapability Addresses
OpCapability Kernel
OpCapability Linkage
OpCapability Int8
OpCapability Int16
OpCapability Int64
OpCapability Float16Buffer
{capabilities}
{extensions}
{imports}
OpMemoryModel {model}
OpEntryPoint {entry}
{decorations}
%void = OpTypeVoid
%bool = OpTypeBool
%u8 = OpTypeInt 8 0
%u16 = OpTypeInt 16 0
%u32 = OpTypeInt 32 0
%u64 = OpTypeInt 64 0
%f32 = OpTypeFloat 32
%c0 = OpConstant %u32 0
%c1 = OpConstant %u32 1
%c2 = OpConstant %u32 2
%c3 = OpConstant %u32 3
%c4 = OpConstant %u32 4
%c5 = OpConstant %u32 5
%c6 = OpConstant %u32 6
%c16 = OpConstant %u32 16
%c64 = OpConstant %u64 64
%f1 = OpConstant %f32 1
{types}
%fn = OpTypeFunction {returns} {parameters}
%kernel = OpFunction {returns} None %fn
{arguments}
%entry = OpLabel
{body}
{last}
OpFunctionEnd
{functions}
"""


def module(
    *,
    capabilities: str = "",
    extensions: str = "",
    imports: str = "",
    model: str = "Physical64 OpenCL",
    entry: str = 'Kernel %kernel "kernel"',
    decorations: str = "",
    types: str = "",
    arguments: str = "",
    body: str = "",
    returns: str = "%void",
    last: str = "OpReturn",
    functions: str = "",
) -> str:
    """A module with one kernel. ``capabilities`` are names; ``extensions`` too; ``arguments`` are types, which become
    %a0, %a1, ...; the other parts are assembly text."""
    kinds = arguments.split()
    return TEMPLATE.format(
        capabilities="\n".join(f"OpCapability {name}" for name in capabilities.split()),
        extensions="\n".join(f'OpExtension "{name}"' for name in extensions.split()),
        imports=imports,
        model=model,
        entry=entry,
        decorations=decorations,
        types=types,
        parameters=" ".join(kinds),
        arguments="\n".join(f"%a{at} = OpFunctionParameter {kind}" for at, kind in enumerate(kinds)),
        body=body,
        returns=returns,
        last=last,
        functions=functions,
    )


def assemble(text: str, version: str = "spv1.2") -> bytes:
    """The module that ``text`` means, unjudged: spirv-as takes what is grammatical."""
    command = [tools.require("spirv-as"), "--preserve-numeric-ids", "--target-env", version, "-o", "-", "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def judged(data: bytes, environment: str = "opencl2.2") -> str:
    """What spirv-val has against a module; "" when it takes it."""
    command = [tools.require("spirv-val"), "--target-env", environment, "-"]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode() if done.returncode else ""


def offset_of(data: bytes, instruction: str, folder: Path) -> int:
    """The byte offset of the last instruction whose text, as spirv-dis writes it, matches a pattern."""
    path = folder / "module.spv"
    path.write_bytes(data)
    listing = tools.output(tools.require("spirv-dis"), "--offsets", "--no-color", "--raw-id", path)
    hits = [line for line in listing.splitlines() if re.search(instruction, line)]
    assert hits, f"{instruction} matches nothing of:\n{listing}"
    return int(hits[-1].rsplit("; ", 1)[1], 16)
