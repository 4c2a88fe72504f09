"""Rules about what a module declares: header, version, models, capabilities, instruction sets, control flow, scalar and
vector types, image types, and the instructions of images. Source: Level Zero SPIR-V guide, "Common Properties",
"Required Capabilities", "Basic Scalar and Vector Types", "Image-Related Data Types" and "Validation Rules"."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from symd.formats.spirv import AddressingModel, ExecutionModel, MemoryModel, Opcode, name_of, text
from symd.formats.spirv_rules.grammar import MIN_OPERANDS, Capability, Dim, ImageOperands, dim_name
from symd.formats.spirv_rules.module import CheckedModule, Device, RuleFinding
from symd.model.texts import counted, plural

Rule = Callable[[CheckedModule, Device], Iterator[RuleFinding]]

_ALWAYS = frozenset(
    (
        Capability.Addresses,
        Capability.Linkage,
        Capability.Kernel,
        Capability.Vector16,
        Capability.Float16Buffer,
        Capability.Int64,
        Capability.Groups,
        Capability.Int16,
        Capability.GenericPointer,
        Capability.Int8,
    )
)
_IMAGES = frozenset(
    (
        Capability.ImageBasic,
        Capability.ImageReadWrite,
        Capability.LiteralSampler,
        Capability.Sampled1D,
        Capability.Image1D,
        Capability.SampledBuffer,
        Capability.ImageBuffer,
    )
)
_SUBGROUPS = (
    Capability.SubgroupShuffleINTEL,
    Capability.SubgroupBufferBlockIOINTEL,
    Capability.SubgroupImageBlockIOINTEL,
)
_FLOAT_ADD: dict[int, int] = {
    Capability.AtomicFloat16AddEXT: 16,
    Capability.AtomicFloat32AddEXT: 32,
    Capability.AtomicFloat64AddEXT: 64,
}
_FLOAT_MIN_MAX: dict[int, int] = {
    Capability.AtomicFloat16MinMaxEXT: 16,
    Capability.AtomicFloat32MinMaxEXT: 32,
    Capability.AtomicFloat64MinMaxEXT: 64,
}
_SETS = ("OpenCL.std",)


def header(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    """Host byte order, whole words, and word counts that hold what the opcodes need. (A wrong magic number or a file
    shorter than the header never gets here: ``check`` reports it.)"""
    del device
    words = module.words
    if words.swapped:
        yield RuleFinding(
            -1, "the words are big-endian; a module is read in the host's byte order, which is little-endian"
        )
    for number, ops in words.each(*MIN_OPERANDS):
        least = MIN_OPERANDS[module.opcode(number)]
        if len(ops) < least:
            yield RuleFinding(
                number, f"opcode {module.opcode(number)} has {counted(len(ops), 'operand')} and needs {least}"
            )
    if words.problem:
        yield RuleFinding(len(words), words.problem)
    elif not words.swapped:
        yield from _cut_off(module)


def _cut_off(module: CheckedModule) -> Iterator[RuleFinding]:
    """Whole instructions are still no module when its end is missing (SPIR-V 1.6, 2.4)."""
    words = module.words
    begun, ended = len(words.where(Opcode.Function)), len(words.where(Opcode.FunctionEnd))
    lost = next((entry for entry in module.entries if entry.id not in module.functions), None)
    if begun > ended:
        yield RuleFinding(
            len(words),
            f"the module is cut off: {counted(begun, 'function')}, of which {ended} {plural(ended, 'ends', 'end')}",
        )
    elif lost is not None:
        yield RuleFinding(len(words), f"the module is cut off: it lacks the function of entry point {lost.name!r}")


def spirv_version(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    version, highest = module.words.version, device.spirv_max
    if version > highest:
        yield RuleFinding(
            -1, f"the module is SPIR-V {version[0]}.{version[1]}, the device takes up to {highest[0]}.{highest[1]}"
        )


def exec_model(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for entry in module.entries:
        if entry.model != ExecutionModel.Kernel:
            yield RuleFinding(entry.number, f"entry point {entry.name!r} has execution model {entry.model}, not Kernel")


def addressing_model(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Opcode.MemoryModel):
        if ops[0] != AddressingModel.Physical64:
            found = name_of(AddressingModel, ops[0])
            yield RuleFinding(number, f"the addressing model is {found}, not Physical64")


def memory_model(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    found = list(module.each(Opcode.MemoryModel))
    for number, ops in found:
        if ops[1] != MemoryModel.OpenCL:
            yield RuleFinding(number, f"the memory model is {name_of(MemoryModel, ops[1])}, not OpenCL")
    if not found and not module.words.problem:
        yield RuleFinding(len(module.words), "the module has no OpMemoryModel")


def capability(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    """Outside the guaranteed set is not wrong: a device may take more."""
    for number, declared in module.capabilities.items():
        if not _guaranteed(number, module, device):
            name = name_of(Capability, number)
            yield RuleFinding(declared, f"capability {name} is not one that this device must take", "unsupported")


def _guaranteed(number: int, module: CheckedModule, device: Device) -> bool:
    if number in _SUBGROUPS:
        return "SPV_INTEL_subgroups" in module.extensions
    if number in _FLOAT_ADD:
        return bool(device.atomics(_FLOAT_ADD[number]) & {"GLOBAL_ADD", "LOCAL_ADD"})
    if number in _FLOAT_MIN_MAX:
        return bool(device.atomics(_FLOAT_MIN_MAX[number]) & {"GLOBAL_MIN_MAX", "LOCAL_MIN_MAX"})
    depends: dict[int, bool] = {
        Capability.Float16: device.fp16_module,
        Capability.Float64: device.fp64_module,
        Capability.Int64Atomics: device.int64_atomics,
    }
    return number in _ALWAYS or (number in _IMAGES and device.images) or depends.get(number, False)


def ext_inst_set(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    """OpenCL.std is guaranteed; debug and other non-semantic sets mean nothing to execution, but a driver may end on
    one."""
    for number, ops in module.each(Opcode.ExtInstImport):
        name = text(ops[1:])[0]
        if device.reads_sets is not None and name not in device.reads_sets:
            yield RuleFinding(
                number, f"driver {device.driver} ends its process while it reads instruction set {name!r}"
            )
        elif device.reads_sets is None and name.startswith("NonSemantic."):
            what = f"a driver may end its process while it reads instruction set {name!r}, as 22.43 does"
            yield RuleFinding(number, what, "unsupported")
        elif name not in _SETS and ops[0] not in module.words.debug_sets and not name.startswith("NonSemantic."):
            yield RuleFinding(
                number, f"extended instruction set {name!r} is not one that every device takes", "unsupported"
            )


def subgroups_extension(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    if "SPV_INTEL_subgroups" in module.extensions:
        return
    for number in (each for each in _SUBGROUPS if each in module.capabilities):
        message = f'capability {number.name} needs OpExtension "SPV_INTEL_subgroups"'
        yield RuleFinding(module.capabilities[number], message)


def control_flow(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    """Whether irreducible control flow is legal is left to the implementation: nothing is ever reported."""
    del module, device
    return iter(())


def _among(opcode: Opcode, operand: int, allowed: Collection[int], otherwise: str) -> Rule:
    """The rule that an operand of these instructions has one of some values; ``otherwise`` says it, with the operands
    by number."""

    def rule(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
        del device
        for number, ops in module.each(opcode):
            if ops[operand] not in allowed:
                yield RuleFinding(number, otherwise.format(*ops))

    return rule


int_width = _among(Opcode.TypeInt, 1, (8, 16, 32, 64), "an integer of {1} bits; supported are 8, 16, 32 and 64")
int_signedness = _among(Opcode.TypeInt, 2, (0,), "a {1}-bit integer has signedness {2}, not 0")
float_width = _among(Opcode.TypeFloat, 1, (16, 32, 64), "a float of {1} bits; supported are 16, 32 and 64")
vector_count = _among(
    Opcode.TypeVector, 2, (2, 3, 4, 8, 16), "a vector of {2} components; supported are 2, 3, 4, 8 and 16"
)
image_ms = _among(Opcode.TypeImage, 5, (0,), "an image has MS {5}, not 0")
image_sampled = _among(Opcode.TypeImage, 6, (0,), "an image has Sampled {6}, not 0")
image_format = _among(Opcode.TypeImage, 7, (0,), "an image has Image Format {7}, not Unknown")

_DIM_DEPTH_ARRAYED = frozenset(((0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1), (2, 0, 0), (5, 0, 0)))


def image_dim_table(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, (_, _, dim, depth, arrayed, *_) in module.each(Opcode.TypeImage):
        if (dim, depth, arrayed) not in _DIM_DEPTH_ARRAYED:
            name = dim_name(dim)
            yield RuleFinding(number, f"an image of Dim {name}, Depth {depth}, Arrayed {arrayed} is not in the table")


def image_sampled_type(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Opcode.TypeImage):
        kind = module.types.get(ops[1])
        if kind is not None and kind.opcode != Opcode.TypeVoid:
            yield RuleFinding(number, f"an image's Sampled Type is {kind}, not OpTypeVoid")


def image_arrayed(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Opcode.TypeImage):
        if ops[4] != 0 and (ops[2] not in (Dim.Dim1D, Dim.Dim2D) or ops[4] != 1):
            yield RuleFinding(number, f"an image of Dim {dim_name(ops[2])} has Arrayed {ops[4]}; only 1D and 2D have 1")


def image_access_qualifier(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Opcode.TypeImage):
        if len(ops) < 9:
            yield RuleFinding(number, "an image type has no Access Qualifier")


def image_write_operands(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Opcode.ImageWrite):
        if len(ops) > 3:
            yield RuleFinding(number, f"OpImageWrite has Image Operands 0x{ops[3]:x}; it may have none")


def image_constoffset(module: CheckedModule, device: Device) -> Iterator[RuleFinding]:
    del device
    for number, ops in module.each(Opcode.ImageRead, Opcode.ImageSampleExplicitLod):
        if len(ops) > 4 and ops[4] & ImageOperands.ConstOffset:
            name = "OpImageRead" if module.opcode(number) == Opcode.ImageRead else "OpImageSampleExplicitLod"
            yield RuleFinding(number, f"{name} has the Image Operand ConstOffset")
