"""The numbers of SPIR-V's grammar that symd reads, under the specification's names (``Op.TypeInt`` is OpTypeInt), and
the extended instruction sets for debug data: their instructions by number, and the operand layout of each set. A number
without a name here stays a number.

The debug sets share the numbers up to 35. OpenCL.DebugInfo.100 and its forerunners ("DebugInfo", which names files by
OpString and has no DebugSource, and the translator's "SPIRV.debug") write numbers such as lines as literals;
NonSemantic.Shader.DebugInfo writes ids of constants, as non-semantic sets must, and has instructions of its own above
100. Its version 200, which DPC++ 2026 writes, has the column of an inlined call too.

Sources: SPIR-V 1.6, section 3, and the registered extensions that the names end in; the specifications of
OpenCL.DebugInfo.100 and NonSemantic.Shader.DebugInfo.100; SPIRV-LLVM-Translator for version 200.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from symd.model.light_typing import NamedTuple

MAGIC = 0x07230203


class Op(IntEnum):
    """Opcodes ("Instructions" in the specification), without their "Op"."""

    SourceContinued = 2
    Source = 3
    Name = 5
    MemberName = 6
    String = 7
    Line = 8
    Extension = 10
    ExtInstImport = 11
    ExtInst = 12
    MemoryModel = 14
    EntryPoint = 15
    ExecutionMode = 16
    Capability = 17
    TypeVoid = 19
    TypeBool = 20
    TypeInt = 21
    TypeFloat = 22
    TypeVector = 23
    TypeMatrix = 24
    TypeImage = 25
    TypeSampler = 26
    TypeSampledImage = 27
    TypeArray = 28
    TypeRuntimeArray = 29
    TypeStruct = 30
    TypeOpaque = 31
    TypePointer = 32
    TypeFunction = 33
    TypeEvent = 34
    TypeDeviceEvent = 35
    TypeReserveId = 36
    TypeQueue = 37
    TypePipe = 38
    Constant = 43
    SpecConstant = 50
    Function = 54
    FunctionParameter = 55
    FunctionEnd = 56
    FunctionCall = 57
    Decorate = 71
    ImageSampleExplicitLod = 88
    ImageRead = 98
    ImageWrite = 99
    ControlBarrier = 224
    MemoryBarrier = 225
    AtomicLoad = 227
    AtomicStore = 228
    AtomicExchange = 229
    AtomicCompareExchange = 230
    AtomicXor = 242
    Label = 248
    Branch = 249
    BranchConditional = 250
    Switch = 251
    Kill = 252
    Return = 253
    ReturnValue = 254
    Unreachable = 255
    GroupAsyncCopy = 259
    GroupWaitEvents = 260
    NoLine = 317
    ModuleProcessed = 330
    AtomicFlagTestAndSet = 318
    AtomicFlagClear = 319
    MemoryNamedBarrier = 329
    ExecutionModeId = 331
    TerminateInvocation = 4416
    IgnoreIntersectionKHR = 4448
    TerminateRayKHR = 4449
    EmitMeshTasksEXT = 5294
    SubgroupShuffleINTEL = 5571
    SubgroupShuffleDownINTEL = 5572
    SubgroupShuffleUpINTEL = 5573
    SubgroupShuffleXorINTEL = 5574
    SubgroupBlockReadINTEL = 5575
    SubgroupBlockWriteINTEL = 5576
    SubgroupImageBlockReadINTEL = 5577
    SubgroupImageBlockWriteINTEL = 5578
    AtomicFMinEXT = 5614
    AtomicFMaxEXT = 5615
    AtomicFAddEXT = 6035
    ControlBarrierArriveINTEL = 6142
    ControlBarrierWaitINTEL = 6143


class ExecutionModel(IntEnum):
    """3.3."""

    Vertex = 0
    TessellationControl = 1
    TessellationEvaluation = 2
    Geometry = 3
    Fragment = 4
    GLCompute = 5
    Kernel = 6
    TaskNV = 5267
    MeshNV = 5268
    RayGenerationKHR = 5313
    IntersectionKHR = 5314
    AnyHitKHR = 5315
    ClosestHitKHR = 5316
    MissKHR = 5317
    CallableKHR = 5318
    TaskEXT = 5364
    MeshEXT = 5365


class AddressingModel(IntEnum):
    """3.4."""

    Logical = 0
    Physical32 = 1
    Physical64 = 2


class MemoryModel(IntEnum):
    """3.5."""

    Simple = 0
    GLSL450 = 1
    OpenCL = 2
    Vulkan = 3


class ExecutionMode(IntEnum):
    """3.6, those that kernels have."""

    LocalSize = 17
    LocalSizeHint = 18
    VecTypeHint = 30
    ContractionOff = 31
    SubgroupSize = 35
    SubgroupsPerWorkgroup = 36
    LocalSizeId = 38
    LocalSizeHintId = 39


class StorageClass(IntEnum):
    """3.7."""

    UniformConstant = 0
    Input = 1
    Uniform = 2
    Output = 3
    Workgroup = 4
    CrossWorkgroup = 5
    Private = 6
    Function = 7
    Generic = 8
    PushConstant = 9
    AtomicCounter = 10
    Image = 11
    StorageBuffer = 12


class Decoration(IntEnum):
    """3.20."""

    FuncParamAttr = 38
    LinkageAttributes = 41


class FunctionParameterAttribute(IntEnum):
    """3.19."""

    ByVal = 2


def name_of(kind: type[IntEnum], number: int) -> str:
    """The specification's name of a number; the number itself where it has none here."""
    return kind(number).name if number in kind._value2member_map_ else str(number)


class Debug(IntEnum):
    """Instructions, without their "Debug"."""

    InfoNone = 0
    TypeTemplate = 14
    Function = 20
    LexicalBlock = 21
    LexicalBlockDiscriminator = 22
    Scope = 23
    NoScope = 24
    InlinedAt = 25
    LocalVariable = 26
    Source = 35
    FunctionDefinition = 101
    SourceContinued = 102
    Line = 103
    NoLine = 104
    BuildIdentifier = 105


class DebugSet(NamedTuple):
    """One version of a set. ``numbers_are_ids``: whether numbers among the operands are ids of constants, or literals;
    ``inlined_at_column``: whether DebugInlinedAt has a column between its line and its scope."""

    numbers_are_ids: bool
    inlined_at_column: bool = False


_LITERALS, _IDS = DebugSet(numbers_are_ids=False), DebugSet(numbers_are_ids=True)
DEBUG_SETS: Mapping[str, DebugSet] = {
    "DebugInfo": _LITERALS,
    "SPIRV.debug": _LITERALS,
    "OpenCL.DebugInfo.100": _LITERALS,
    "NonSemantic.Shader.DebugInfo.100": _IDS,
    "NonSemantic.Shader.DebugInfo.200": DebugSet(numbers_are_ids=True, inlined_at_column=True),
}
"""The sets that are read, by the name under which a module imports them."""


def is_unknown(name: str) -> bool:
    """Whether this is a set for debug data that is not read: another one, or a version whose instructions are not
    known, which is never read as another."""
    before, is_one, version = name.rpartition("DebugInfo")
    if name in DEBUG_SETS or not is_one or (before and not before.endswith(".")):
        return False
    return not version or (version.startswith(".") and version[1:].isdecimal())
