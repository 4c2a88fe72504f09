"""Capabilities, scopes and image properties: numbers of SPIR-V's grammar that only rules about a module speak of.

Source: SPIR-V 1.6, section 3, and the registered extensions that the names end in."""

from __future__ import annotations

from enum import IntEnum, IntFlag

from symd.spirv.grammar import name_of


class Capability(IntEnum):
    """3.31."""

    Matrix = 0
    Shader = 1
    Addresses = 4
    Linkage = 5
    Kernel = 6
    Vector16 = 7
    Float16Buffer = 8
    Float16 = 9
    Float64 = 10
    Int64 = 11
    Int64Atomics = 12
    ImageBasic = 13
    ImageReadWrite = 14
    ImageMipmap = 15
    Pipes = 17
    Groups = 18
    DeviceEnqueue = 19
    LiteralSampler = 20
    Int16 = 22
    GenericPointer = 38
    Int8 = 39
    Sampled1D = 43
    Image1D = 44
    SampledBuffer = 46
    ImageBuffer = 47
    ImageQuery = 50
    SubgroupDispatch = 58
    NamedBarrier = 59
    PipeStorage = 60
    GroupNonUniform = 61
    SubgroupShuffleINTEL = 5568
    SubgroupBufferBlockIOINTEL = 5569
    SubgroupImageBlockIOINTEL = 5570
    AtomicFloat32MinMaxEXT = 5612
    AtomicFloat64MinMaxEXT = 5613
    AtomicFloat16MinMaxEXT = 5616
    AtomicFloat32AddEXT = 6033
    AtomicFloat64AddEXT = 6034
    OptNoneINTEL = 6094
    AtomicFloat16AddEXT = 6095


class Scope(IntEnum):
    """3.27."""

    CrossDevice = 0
    Device = 1
    Workgroup = 2
    Subgroup = 3
    Invocation = 4
    QueueFamily = 5
    ShaderCallKHR = 6


class Dim(IntEnum):
    """3.8."""

    Dim1D = 0
    Dim2D = 1
    Dim3D = 2
    Cube = 3
    Rect = 4
    Buffer = 5
    SubpassData = 6


class ImageOperands(IntFlag):
    """3.14."""

    ConstOffset = 0x8


def dim_name(number: int) -> str:
    """As the specification writes it: 1D, Cube."""
    return name_of(Dim, number).removeprefix("Dim")
