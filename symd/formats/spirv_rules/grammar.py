"""Where instructions have the operands that the rules ask for, and groups of opcodes that they treat alike.

Source: SPIR-V 1.6, section 3, and the registered extensions named in the Level Zero SPIR-V guide."""

from __future__ import annotations

from symd.formats.spirv.grammar import Op

ATOMIC_INTEGER = tuple(range(Op.AtomicCompareExchange, Op.AtomicXor + 1))
"""OpAtomicCompareExchange .. OpAtomicXor."""
ATOMICS = (
    *range(Op.AtomicLoad, Op.AtomicXor + 1),
    Op.AtomicFlagTestAndSet,
    Op.AtomicFlagClear,
    Op.AtomicFMinEXT,
    Op.AtomicFMaxEXT,
    Op.AtomicFAddEXT,
)
SHUFFLES = (
    Op.SubgroupShuffleINTEL,
    Op.SubgroupShuffleDownINTEL,
    Op.SubgroupShuffleUpINTEL,
    Op.SubgroupShuffleXorINTEL,
)

EXECUTION_SCOPE: dict[int, int] = {
    Op.ControlBarrier: 0,
    **dict.fromkeys(range(261, 272), 2),  # OpGroupAll .. OpGroupSMax
    **dict.fromkeys((285, 286), 2),  # OpGroupReserve*PipePackets
    **dict.fromkeys((287, 288), 0),  # OpGroupCommit*Pipe
    **dict.fromkeys(range(333, 367), 2),  # OpGroupNonUniform*
    4431: 2,  # OpGroupNonUniformRotateKHR
    **dict.fromkeys(range(5000, 5008), 2),  # OpGroup*NonUniformAMD
    **dict.fromkeys((Op.ControlBarrierArriveINTEL, Op.ControlBarrierWaitINTEL), 0),
    **dict.fromkeys(range(6401, 6409), 2),  # OpGroup*KHR
}
"""Which operand is the scope of execution, result type and result counted; the two that only take Workgroup apart."""

MEMORY_SCOPE: dict[int, int] = {
    Op.ControlBarrier: 1,
    Op.MemoryBarrier: 0,
    Op.MemoryNamedBarrier: 1,
    **dict.fromkeys(ATOMICS, 3),
    Op.AtomicStore: 1,
    Op.AtomicFlagClear: 1,
    **dict.fromkeys((Op.ControlBarrierArriveINTEL, Op.ControlBarrierWaitINTEL), 1),
}
"""Which operand is the scope of memory."""

POINTER: dict[int, int] = {**dict.fromkeys(ATOMICS, 2), Op.AtomicStore: 0, Op.AtomicFlagClear: 0}
"""Which operand of an atomic instruction is its pointer."""

LEAST_OPERANDS: dict[int, int] = {
    Op.Extension: 1,
    Op.ExtInstImport: 2,
    Op.MemoryModel: 2,
    Op.EntryPoint: 3,
    Op.ExecutionMode: 2,
    Op.Capability: 1,
    Op.TypeInt: 3,
    Op.TypeFloat: 2,
    Op.TypeVector: 3,
    Op.TypeImage: 8,
    Op.TypeStruct: 1,
    Op.TypePointer: 3,
    Op.TypeFunction: 2,
    Op.Constant: 3,
    Op.Function: 4,
    Op.FunctionParameter: 2,
    Op.FunctionCall: 3,
    Op.Decorate: 2,
    Op.ImageSampleExplicitLod: 5,
    Op.ImageRead: 4,
    Op.ImageWrite: 3,
    Op.ControlBarrier: 3,
    Op.MemoryBarrier: 2,
    Op.MemoryNamedBarrier: 3,
    **dict.fromkeys(ATOMICS, 5),
    Op.AtomicStore: 4,
    Op.AtomicFlagClear: 3,
    Op.GroupAsyncCopy: 8,
    Op.GroupWaitEvents: 3,
    **dict.fromkeys(SHUFFLES, 4),
    Op.SubgroupBlockReadINTEL: 3,
    Op.SubgroupBlockWriteINTEL: 2,
    Op.SubgroupImageBlockReadINTEL: 4,
    Op.SubgroupImageBlockWriteINTEL: 3,
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
