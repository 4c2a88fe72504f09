"""Numbers of SPIR-V's grammar that only rules about a module speak of (capabilities, scopes, image properties), where
instructions have the operands that the rules ask for, and groups of opcodes that they treat alike. Source: SPIR-V 1.6,
section 3, and the registered extensions that the names end in or that the Level Zero SPIR-V guide names."""

from __future__ import annotations

from enum import IntEnum, IntFlag

from symd.formats.spirv import Opcode, name_of

Capability = IntEnum(
    "Capability",
    {
        "Matrix": 0, "Shader": 1, "Addresses": 4, "Linkage": 5, "Kernel": 6, "Vector16": 7, "Float16Buffer": 8,
        "Float16": 9, "Float64": 10, "Int64": 11, "Int64Atomics": 12, "ImageBasic": 13, "ImageReadWrite": 14,
        "ImageMipmap": 15, "Pipes": 17, "Groups": 18, "DeviceEnqueue": 19, "LiteralSampler": 20, "AtomicStorage": 21,
        "Int16": 22, "ImageGatherExtended": 25, "StorageImageMultisample": 27, "ImageCubeArray": 34, "ImageRect": 36,
        "SampledRect": 37, "GenericPointer": 38, "Int8": 39, "Sampled1D": 43, "Image1D": 44, "SampledCubeArray": 45,
        "SampledBuffer": 46, "ImageBuffer": 47, "ImageMSArray": 48, "StorageImageExtendedFormats": 49, "ImageQuery": 50,
        "StorageImageReadWithoutFormat": 55, "StorageImageWriteWithoutFormat": 56, "SubgroupDispatch": 58,
        "NamedBarrier": 59, "PipeStorage": 60, "GroupNonUniform": 61, "GroupNonUniformVote": 62,
        "GroupNonUniformArithmetic": 63, "GroupNonUniformBallot": 64, "GroupNonUniformShuffle": 65,
        "GroupNonUniformShuffleRelative": 66, "GroupNonUniformClustered": 67, "GroupNonUniformQuad": 68,
        "UniformDecoration": 71, "TileImageColorReadAccessEXT": 4166, "TileImageDepthReadAccessEXT": 4167,
        "Float8EXT": 4212, "Float8CooperativeMatrixEXT": 4213, "Float6EXT": 4228, "Float4EXT": 4229,
        "Float8UnsignedE8M0EXT": 4230, "MXInt8EXT": 4231, "BitcastExtractEXT": 4232, "SubgroupBallotKHR": 4423,
        "SubgroupVoteKHR": 4431, "StorageBuffer16BitAccess": 4433, "UniformAndStorageBuffer16BitAccess": 4434,
        "DeviceGroup": 4437, "VariablePointersStorageBuffer": 4441, "VariablePointers": 4442, "AtomicStorageOps": 4445,
        "StorageBuffer8BitAccess": 4448, "UniformAndStorageBuffer8BitAccess": 4449, "DenormPreserve": 4464,
        "DenormFlushToZero": 4465, "SignedZeroInfNanPreserve": 4466, "RoundingModeRTE": 4467, "RoundingModeRTZ": 4468,
        "UntypedPointersKHR": 4473, "Int64ImageEXT": 5016, "Int4TypeINTEL": 5112, "Int4CooperativeMatrixINTEL": 5114,
        "BFloat16TypeKHR": 5116, "BFloat16DotProductKHR": 5117, "BFloat16CooperativeMatrixKHR": 5118,
        "ConstantDataKHR": 5146, "PoisonFreezeKHR": 5156, "GroupNonUniformPartitionedEXT": 5297,
        "VulkanMemoryModelDeviceScope": 5346, "PhysicalStorageBufferAddresses": 5347,
        "CooperativeMatrixConversionsEXT": 5429, "CooperativeMatrixReductionsEXT": 5430,
        "CooperativeMatrixPerElementOperationsEXT": 5432, "CooperativeMatrixGetCoordinateEXT": 5438,
        "SubgroupShuffleINTEL": 5568, "SubgroupBufferBlockIOINTEL": 5569, "SubgroupImageBlockIOINTEL": 5570,
        "SubgroupImageMediaBlockIOINTEL": 5579, "RoundToInfinityINTEL": 5582, "FloatingPointModeINTEL": 5583,
        "IntegerFunctions2INTEL": 5584, "FunctionPointersINTEL": 5603, "IndirectReferencesINTEL": 5604,
        "AsmINTEL": 5606, "AtomicFloat32MinMaxEXT": 5612, "AtomicFloat64MinMaxEXT": 5613,
        "AtomicFloat16MinMaxEXT": 5616, "VectorComputeINTEL": 5617, "VectorAnyINTEL": 5619, "ExpectAssumeKHR": 5629,
        "SubgroupAvcMotionEstimationINTEL": 5696, "SubgroupAvcMotionEstimationIntraINTEL": 5697,
        "SubgroupAvcMotionEstimationChromaINTEL": 5698, "VariableLengthArrayINTEL": 5817,
        "FunctionFloatControlINTEL": 5821, "FPGAMemoryAttributesALTERA": 5824, "FPFastMathModeINTEL": 5837,
        "ArbitraryPrecisionIntegersALTERA": 5844, "ArbitraryPrecisionFloatingPointALTERA": 5845,
        "UnstructuredLoopControlsINTEL": 5886, "FPGALoopControlsALTERA": 5888, "KernelAttributesINTEL": 5892,
        "FPGAKernelAttributesINTEL": 5897, "FPGAMemoryAccessesALTERA": 5898, "FPGAClusterAttributesALTERA": 5904,
        "LoopFuseALTERA": 5906, "FPGADSPControlALTERA": 5908, "MemoryAccessAliasingINTEL": 5910,
        "FPGAInvocationPipeliningAttributesALTERA": 5916, "FPGABufferLocationALTERA": 5920,
        "ArbitraryPrecisionFixedPointALTERA": 5922, "USMStorageClassesALTERA": 5935,
        "RuntimeAlignedAttributeALTERA": 5939, "IOPipesALTERA": 5943, "BlockingPipesALTERA": 5945,
        "FPGARegALTERA": 5948, "DotProductInputAll": 6016, "DotProductInput4x8Bit": 6017,
        "DotProductInput4x8BitPacked": 6018, "DotProduct": 6019, "CooperativeMatrixKHR": 6022,
        "ReplicatedCompositesEXT": 6024, "BitInstructions": 6025, "GroupNonUniformRotateKHR": 6026,
        "FloatControls2": 6029, "FMAKHR": 6030, "AtomicFloat32AddEXT": 6033, "AtomicFloat64AddEXT": 6034,
        "LongCompositesINTEL": 6089, "OptNoneINTEL": 6094, "AtomicFloat16AddEXT": 6095, "DebugInfoModuleINTEL": 6114,
        "BFloat16ConversionINTEL": 6115, "SplitBarrierEXT": 6141, "ArithmeticFenceEXT": 6144,
        "FPGAClusterAttributesV2ALTERA": 6150, "FPGAKernelAttributesv2INTEL": 6161, "TaskSequenceALTERA": 6162,
        "FPMaxErrorINTEL": 6169, "FPGALatencyControlALTERA": 6171, "FPGAArgumentInterfacesALTERA": 6174,
        "GlobalVariableHostAccessINTEL": 6187, "GlobalVariableFPGADecorationsALTERA": 6189,
        "SubgroupBufferPrefetchINTEL": 6220, "Subgroup2DBlockIOINTEL": 6228, "Subgroup2DBlockTransformINTEL": 6229,
        "Subgroup2DBlockTransposeINTEL": 6230, "SubgroupMatrixMultiplyAccumulateINTEL": 6236,
        "TernaryBitwiseFunctionINTEL": 6241, "UntypedVariableLengthArrayINTEL": 6243, "SpecConditionalINTEL": 6245,
        "FunctionVariantsINTEL": 6246, "PredicatedIOINTEL": 6257, "RoundedDivideSqrtINTEL": 6265,
        "GroupUniformArithmeticKHR": 6400, "TensorFloat32RoundingINTEL": 6425, "MaskedGatherScatterINTEL": 6427,
        "CacheControlsINTEL": 6441, "RegisterLimitsINTEL": 6460, "BindlessImagesINTEL": 6528,
    },
)  # fmt: skip
"""3.31, and those of extensions; those that graphics alone have stay numbers."""


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
    """The name of a dimensionality as the specification writes it: 1D, Cube (SPIR-V 1.6, 3.8)."""
    return name_of(Dim, number).removeprefix("Dim")


ATOMIC_INTEGER = tuple(range(Opcode.AtomicCompareExchange, Opcode.AtomicXor + 1))
"""OpAtomicCompareExchange .. OpAtomicXor."""
ATOMICS = (
    *range(Opcode.AtomicLoad, Opcode.AtomicXor + 1),
    Opcode.AtomicFlagTestAndSet,
    Opcode.AtomicFlagClear,
    Opcode.AtomicFMinEXT,
    Opcode.AtomicFMaxEXT,
    Opcode.AtomicFAddEXT,
)
SHUFFLES = (
    Opcode.SubgroupShuffleINTEL,
    Opcode.SubgroupShuffleDownINTEL,
    Opcode.SubgroupShuffleUpINTEL,
    Opcode.SubgroupShuffleXorINTEL,
)

EXECUTION_SCOPE: dict[int, int] = {
    Opcode.ControlBarrier: 0,
    **dict.fromkeys(range(261, 272), 2),  # OpGroupAll .. OpGroupSMax
    **dict.fromkeys((285, 286), 2),  # OpGroupReserve*PipePackets
    **dict.fromkeys((287, 288), 0),  # OpGroupCommit*Pipe
    **dict.fromkeys(range(333, 367), 2),  # OpGroupNonUniform*
    4431: 2,  # OpGroupNonUniformRotateKHR
    **dict.fromkeys(range(5000, 5008), 2),  # OpGroup*NonUniformAMD
    **dict.fromkeys((Opcode.ControlBarrierArriveINTEL, Opcode.ControlBarrierWaitINTEL), 0),
    **dict.fromkeys(range(6401, 6409), 2),  # OpGroup*KHR
}
"""Which operand is the scope of execution, result type and result counted; the two that only take Workgroup apart."""

MEMORY_SCOPE: dict[int, int] = {
    Opcode.ControlBarrier: 1,
    Opcode.MemoryBarrier: 0,
    Opcode.MemoryNamedBarrier: 1,
    **dict.fromkeys(ATOMICS, 3),
    Opcode.AtomicStore: 1,
    Opcode.AtomicFlagClear: 1,
    **dict.fromkeys((Opcode.ControlBarrierArriveINTEL, Opcode.ControlBarrierWaitINTEL), 1),
}
"""Which operand is the scope of memory."""

POINTER: dict[int, int] = {**dict.fromkeys(ATOMICS, 2), Opcode.AtomicStore: 0, Opcode.AtomicFlagClear: 0}
"""Which operand of an atomic instruction is its pointer."""

MIN_OPERANDS: dict[int, int] = {
    Opcode.Extension: 1,
    Opcode.ExtInstImport: 2,
    Opcode.MemoryModel: 2,
    Opcode.EntryPoint: 3,
    Opcode.ExecutionMode: 2,
    Opcode.Capability: 1,
    Opcode.TypeInt: 3,
    Opcode.TypeFloat: 2,
    Opcode.TypeVector: 3,
    Opcode.TypeImage: 8,
    Opcode.TypeStruct: 1,
    Opcode.TypePointer: 3,
    Opcode.TypeFunction: 2,
    Opcode.Constant: 3,
    Opcode.Function: 4,
    Opcode.FunctionParameter: 2,
    Opcode.FunctionCall: 3,
    Opcode.Decorate: 2,
    Opcode.ImageSampleExplicitLod: 5,
    Opcode.ImageRead: 4,
    Opcode.ImageWrite: 3,
    Opcode.ControlBarrier: 3,
    Opcode.MemoryBarrier: 2,
    Opcode.MemoryNamedBarrier: 3,
    **dict.fromkeys(ATOMICS, 5),
    Opcode.AtomicStore: 4,
    Opcode.AtomicFlagClear: 3,
    Opcode.GroupAsyncCopy: 8,
    Opcode.GroupWaitEvents: 3,
    **dict.fromkeys(SHUFFLES, 4),
    Opcode.SubgroupBlockReadINTEL: 3,
    Opcode.SubgroupBlockWriteINTEL: 2,
    Opcode.SubgroupImageBlockReadINTEL: 4,
    Opcode.SubgroupImageBlockWriteINTEL: 3,
}
"""Operands that an instruction cannot do without; debug instructions are deliberately not among them."""

NO_TYPE = frozenset(
    (
        *(0, 2, 3, 4, 5, 6, 7, 8, 10, 11, 14, 15, 16, 17),
        *range(19, 40),  # types
        *(56, 62, 63, 64, 71, 72, 73, 74, 75, 99),
        *(218, 219, 220, 221, 224, 225, 228, 246, 247, 248, 249, 250, 251, 252, 253, 254, 255, 256, 257, 260),
        *(280, 281, 287, 288, 297, 298, 301, 302, 317, 319, 322, 327, 329, 330, 331, 332),
        *(4416, 4445, 4448, 4449, 4472, 4473, 4474, 4475, 4476, 5294, 5341, 5364, 5365, 5380),
        *(5576, 5578, 5581, 5630, 5632, 5633, 5887, 6086, 6090, 6142, 6143),
        *range(5700, 5713),
    )
)
"""Opcodes without a result type. Of opcodes unknown here those whose first operand is a type have one."""
