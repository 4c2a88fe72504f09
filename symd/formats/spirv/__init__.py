"""SPIR-V modules. Here are the numbers of the grammar that symd reads, by the specification's names (``Opcode.TypeInt``
is OpTypeInt), with the extended instruction sets for debug data: their instructions by number, and the operand layout
of each set; a number without a name here stays a number. And the word stream: header, instructions as columns, strings,
constants, debug instructions. Instructions are told apart by their word counts alone; operands are looked at by who
needs them. Nothing in the package knows a container.

The debug sets share the numbers up to 35. OpenCL.DebugInfo.100 and its forerunners ("DebugInfo", which names files by
OpString and has no DebugSource, and the translator's "SPIRV.debug") write numbers such as lines as literals;
NonSemantic.Shader.DebugInfo writes ids of constants, as non-semantic sets must, and has instructions of its own above
100. Its version 200, which DPC++ 2026 writes, has the column of an inlined call too.

Sources: SPIR-V 1.6, "Physical Layout of a SPIR-V Module and Instruction", "Binary Form" and section 3, and the
registered extensions that the names end in; the specifications of OpenCL.DebugInfo.100 and
NonSemantic.Shader.DebugInfo.100; SPIRV-LLVM-Translator for version 200.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cached_property
from struct import pack

from symd.core import spirv as core
from symd.errors import Malformed
from symd.model.light_typing import NamedTuple
from symd.model.texts import counted

MAGIC = 0x07230203


class Opcode(IntEnum):
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


HEADER_WORDS = 5
_NOTHING: array[int] = array("I")


class Words:
    """A module as columns. ``words`` (u32) are in host order whatever the file's; an instruction is its number in the
    equally long columns ``start`` (word index), ``opcode`` and ``count`` (words, the first included). ``problem`` tells
    why the split ended early ("" when it did not) and ``problem_at`` is that byte offset."""

    def __init__(self, words: array[int], *, swapped: bool, rest: int) -> None:
        """``rest`` is how many bytes of another word there are."""
        self.words, self.swapped = words, swapped
        self.start, self.opcode, self.count, stop = core.split(words, HEADER_WORDS)
        self.columns = words, self.start, self.opcode, self.count
        """The instructions as the core takes them: words, and where each begins and how long it is."""
        self.end = (self.start[-1] + self.count[-1]) * 4 if self.start else HEADER_WORDS * 4
        """The byte offset after the last whole instruction."""
        self.problem, self.problem_at = "", 0
        if stop < len(words):
            self.problem, self.problem_at = _why(words[stop] >> 16, len(words) - stop), 4 * stop
        elif rest:
            self.problem, self.problem_at = f"the file ends with {counted(rest, 'byte')} of a word", 4 * len(words)

    @property
    def version(self) -> tuple[int, int]:
        word = self.words[1]
        return (word >> 16) & 0xFF, (word >> 8) & 0xFF

    @property
    def generator(self) -> int:
        return self.words[2]

    def __len__(self) -> int:
        return len(self.start)

    def offset(self, number: int) -> int:
        """The instruction's byte offset; the end of the module for the number after the last."""
        return self.start[number] * 4 if number < len(self.start) else self.end

    def operands(self, number: int) -> list[int]:
        start = self.start[number]
        return self.words[start + 1 : start + self.count[number]].tolist()

    def where(self, *opcodes: int) -> list[int]:
        """The numbers of all instructions with one of these opcodes, ascending."""
        found = [number for opcode in set(opcodes) for number in self._numbers_of(opcode)]
        return found if len(opcodes) == 1 else sorted(found)

    def _numbers_of(self, opcode: int) -> array[int]:
        order, first = self._by_opcode
        return order[first[opcode] : first[opcode + 1]] if opcode + 1 < len(first) else _NOTHING

    @cached_property
    def _by_opcode(self) -> tuple[array[int], array[int]]:
        return core.by_opcode(self.opcode)

    def each(self, *opcodes: int) -> Iterator[tuple[int, list[int]]]:
        """(number, operands) of all instructions with one of these opcodes."""
        return ((number, self.operands(number)) for number in self.where(*opcodes))

    @cached_property
    def imports(self) -> dict[int, str]:
        """Names of the extended instruction sets by id."""
        return {ops[0]: text(ops[1:])[0] for _, ops in self.each(Opcode.ExtInstImport) if ops}

    @cached_property
    def strings(self) -> dict[int, str]:
        """OpString contents by id."""
        return {ops[0]: text(ops[1:])[0] for _, ops in self.each(Opcode.String) if ops}

    @cached_property
    def names(self) -> dict[int, str]:
        """OpName contents by target id; the first name of an id stays."""
        found: dict[int, str] = {}
        for _, ops in self.each(Opcode.Name):
            if len(ops) > 1:
                found.setdefault(ops[0], text(ops[1:])[0])
        return found

    @cached_property
    def constants(self) -> dict[int, int]:
        """The low word of every OpConstant, by id: the literal of a debug operand, a scope, a size."""
        return {ops[1]: ops[2] for _, ops in self.each(Opcode.Constant) if len(ops) > 2}

    @cached_property
    def debug_sets(self) -> dict[int, DebugSet]:
        """The imported debug sets that are read, by id."""
        return {number: DEBUG_SETS[name] for number, name in self.imports.items() if name in DEBUG_SETS}

    @property
    def unknown_debug_sets(self) -> list[str]:
        """Names of imported debug sets that are not read."""
        return [name for name in self.imports.values() if is_unknown(name)]

    def debug_instructions(self, *opcodes: int) -> Iterator[DebugInstruction]:
        """The OpExtInst of a debug set with one of these instruction numbers (all without), in order."""
        for number in self.debug_numbers(*opcodes):
            ops = self.operands(number)
            yield DebugInstruction(number, ops[1], ops[3], tuple(ops[4:]), self.debug_sets[ops[2]])

    def debug_numbers(self, *opcodes: int) -> array[int]:
        """The numbers of the instructions that ``debug_instructions`` gives."""
        if not self.debug_sets:
            return _NOTHING
        table = bytearray(max(opcodes, default=-1) + 1)
        for opcode in opcodes:
            table[opcode] = 1
        return core.of_sets(
            self.words, self.start, self.count, self._numbers_of(Opcode.ExtInst), self.debug_sets, bytes(table)
        )


class DebugInstruction(NamedTuple):
    """``number`` counts instructions; ``operands`` follow the instruction number; ``layout`` is the version of its
    set."""

    number: int
    id: int
    opcode: int
    operands: tuple[int, ...]
    layout: DebugSet


def claims(data: bytes) -> bool:
    """Whether the first word is SPIR-V's magic number in either byte order."""
    return len(data) >= 4 and MAGIC in (int.from_bytes(data[:4], "little"), int.from_bytes(data[:4], "big"))


def split(data: bytes) -> Words:
    """Split a module into instructions as far as that is possible, and say in ``problem`` where it is not. Raises
    Malformed only without a whole header."""
    if not claims(data):
        raise Malformed("is not a SPIR-V module: the first word is not 0x07230203 in either byte order")
    if len(data) < HEADER_WORDS * 4:
        raise Malformed(f"the file ends inside the SPIR-V header, at byte {len(data)}")
    swapped = int.from_bytes(data[:4], "big") == MAGIC
    rest = len(data) % 4
    words = array("I")
    words.frombytes(memoryview(data)[: len(data) - rest])
    if swapped == (sys.byteorder == "little"):
        words.byteswap()
    return Words(words, swapped=swapped, rest=rest)


def parse(data: bytes) -> Words:
    """Split a module; raises Malformed, naming the byte offset, where it does not split to its end."""
    module = split(data)
    if module.problem:
        raise Malformed(f"at byte {module.problem_at}: {module.problem}", hint="the file is damaged or was cut off")
    return module


def _why(size: int, left: int) -> str:
    """Why an instruction of so many words is none where so many are left."""
    if not size:
        return "an instruction has word count 0"
    return f"an instruction of {counted(size, 'word')} ends {counted(size - left, 'word')} past the file"


def text(operands: list[int]) -> tuple[str, int]:
    """A literal string and the number of operands it takes: UTF-8, NUL-terminated, lowest byte first in each word."""
    data = pack(f"<{len(operands)}I", *operands)
    end = data.find(b"\0")
    if end < 0:
        return data.decode("utf-8", "replace"), len(operands)
    return data[:end].decode("utf-8", "replace"), end // 4 + 1


def by_value_parameters(words: Words) -> frozenset[int]:
    """Ids of parameters that clang passes by value through a private pointer (OpDecorate FuncParamAttr ByVal)."""
    meant = [Decoration.FuncParamAttr, FunctionParameterAttribute.ByVal]
    return frozenset(ops[0] for _, ops in words.each(Opcode.Decorate) if ops[1:3] == meant)
