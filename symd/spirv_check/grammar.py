"""The numbers of the SPIR-V grammar that the rules speak of.

Source: SPIR-V 1.6, section 3, and the registered extensions named in the Level Zero SPIR-V guide."""

from __future__ import annotations

from symd.spirv.words import Op

# Execution model, addressing model, memory model (3.3, 3.4, 3.5)
KERNEL, PHYSICAL64, OPENCL = 6, 2, 2

STORAGE = {
    0: "UniformConstant",
    1: "Input",
    2: "Uniform",
    3: "Output",
    4: "Workgroup",
    5: "CrossWorkgroup",
    6: "Private",
    7: "Function",
    8: "Generic",
    9: "PushConstant",
    10: "AtomicCounter",
    11: "Image",
    12: "StorageBuffer",
}
UNIFORM_CONSTANT, WORKGROUP, CROSS_WORKGROUP, FUNCTION, GENERIC = 0, 4, 5, 7, 8

SCOPES = {
    0: "CrossDevice",
    1: "Device",
    2: "Workgroup",
    3: "Subgroup",
    4: "Invocation",
    5: "QueueFamily",
    6: "ShaderCallKHR",
}
SCOPE_WORKGROUP, SCOPE_SUBGROUP = 2, 3

DIMS = {0: "1D", 1: "2D", 2: "3D", 3: "Cube", 4: "Rect", 5: "Buffer", 6: "SubpassData"}
CONST_OFFSET = 0x8
"""Image operand (3.14)."""

IMAGE_SAMPLE_EXPLICIT_LOD, IMAGE_READ, IMAGE_WRITE = 88, 98, 99
CONTROL_BARRIER, MEMORY_BARRIER, MEMORY_NAMED_BARRIER = 224, 225, 329
ATOMIC_LOAD, ATOMIC_STORE, ATOMIC_EXCHANGE = 227, 228, 229
ATOMIC_INTEGER = tuple(range(230, 243))
"""OpAtomicCompareExchange .. OpAtomicXor."""
ATOMIC_FLAG_TEST_AND_SET, ATOMIC_FLAG_CLEAR = 318, 319
ATOMIC_FMIN, ATOMIC_FMAX, ATOMIC_FADD = 5614, 5615, 6035
ATOMICS = (
    *range(ATOMIC_LOAD, 243),
    ATOMIC_FLAG_TEST_AND_SET,
    ATOMIC_FLAG_CLEAR,
    ATOMIC_FMIN,
    ATOMIC_FMAX,
    ATOMIC_FADD,
)
GROUP_ASYNC_COPY, GROUP_WAIT_EVENTS = 259, 260
SHUFFLES = (5571, 5572, 5573, 5574)
BLOCK_READ, BLOCK_WRITE, IMAGE_BLOCK_READ, IMAGE_BLOCK_WRITE = 5575, 5576, 5577, 5578

EXECUTION_SCOPE: dict[int, int] = {
    CONTROL_BARRIER: 0,
    **dict.fromkeys(range(261, 272), 2),  # OpGroupAll .. OpGroupSMax
    **dict.fromkeys((285, 286), 2),  # OpGroupReserve*PipePackets
    **dict.fromkeys((287, 288), 0),  # OpGroupCommit*Pipe
    **dict.fromkeys(range(333, 367), 2),  # OpGroupNonUniform*
    4431: 2,  # OpGroupNonUniformRotateKHR
    **dict.fromkeys(range(5000, 5008), 2),  # OpGroup*NonUniformAMD
    **dict.fromkeys((6142, 6143), 0),  # OpControlBarrier{Arrive,Wait}INTEL
    **dict.fromkeys(range(6401, 6409), 2),  # OpGroup*KHR
}
"""Which operand is the scope of execution, result type and result counted; the two that only take Workgroup apart."""

MEMORY_SCOPE: dict[int, int] = {
    CONTROL_BARRIER: 1,
    MEMORY_BARRIER: 0,
    MEMORY_NAMED_BARRIER: 1,
    **dict.fromkeys(ATOMICS, 3),
    ATOMIC_STORE: 1,
    ATOMIC_FLAG_CLEAR: 1,
    **dict.fromkeys((6142, 6143), 1),
}
"""Which operand is the scope of memory."""

POINTER: dict[int, int] = {**dict.fromkeys(ATOMICS, 2), ATOMIC_STORE: 0, ATOMIC_FLAG_CLEAR: 0}
"""Which operand of an atomic instruction is its pointer."""

LEAST_OPERANDS: dict[int, int] = {
    Op.EXTENSION: 1,
    Op.EXT_INST_IMPORT: 2,
    Op.MEMORY_MODEL: 2,
    Op.ENTRY_POINT: 3,
    Op.EXECUTION_MODE: 2,
    Op.CAPABILITY: 1,
    Op.TYPE_INT: 3,
    Op.TYPE_FLOAT: 2,
    Op.TYPE_VECTOR: 3,
    Op.TYPE_IMAGE: 8,
    Op.TYPE_STRUCT: 1,
    Op.TYPE_POINTER: 3,
    Op.TYPE_FUNCTION: 2,
    Op.CONSTANT: 3,
    Op.FUNCTION: 4,
    Op.FUNCTION_PARAMETER: 2,
    Op.FUNCTION_CALL: 3,
    Op.DECORATE: 2,
    IMAGE_SAMPLE_EXPLICIT_LOD: 5,
    IMAGE_READ: 4,
    IMAGE_WRITE: 3,
    CONTROL_BARRIER: 3,
    MEMORY_BARRIER: 2,
    MEMORY_NAMED_BARRIER: 3,
    **dict.fromkeys(ATOMICS, 5),
    ATOMIC_STORE: 4,
    ATOMIC_FLAG_CLEAR: 3,
    GROUP_ASYNC_COPY: 8,
    GROUP_WAIT_EVENTS: 3,
    **dict.fromkeys(SHUFFLES, 4),
    BLOCK_READ: 3,
    BLOCK_WRITE: 2,
    IMAGE_BLOCK_READ: 4,
    IMAGE_BLOCK_WRITE: 3,
}
"""Operands that an instruction cannot do without; debug instructions are deliberately not among them."""

CAPABILITIES = {
    0: "Matrix",
    1: "Shader",
    4: "Addresses",
    5: "Linkage",
    6: "Kernel",
    7: "Vector16",
    8: "Float16Buffer",
    9: "Float16",
    10: "Float64",
    11: "Int64",
    12: "Int64Atomics",
    13: "ImageBasic",
    14: "ImageReadWrite",
    15: "ImageMipmap",
    17: "Pipes",
    18: "Groups",
    19: "DeviceEnqueue",
    20: "LiteralSampler",
    22: "Int16",
    38: "GenericPointer",
    39: "Int8",
    43: "Sampled1D",
    44: "Image1D",
    46: "SampledBuffer",
    47: "ImageBuffer",
    50: "ImageQuery",
    58: "SubgroupDispatch",
    59: "NamedBarrier",
    60: "PipeStorage",
    61: "GroupNonUniform",
    5568: "SubgroupShuffleINTEL",
    5569: "SubgroupBufferBlockIOINTEL",
    5570: "SubgroupImageBlockIOINTEL",
    5612: "AtomicFloat32MinMaxEXT",
    5613: "AtomicFloat64MinMaxEXT",
    5616: "AtomicFloat16MinMaxEXT",
    6033: "AtomicFloat32AddEXT",
    6034: "AtomicFloat64AddEXT",
    6094: "OptNoneINTEL",
    6095: "AtomicFloat16AddEXT",
}
"""Names of the capabilities that the rules or their messages know; others are named by number."""
FLOAT16, FLOAT64 = 9, 10

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
