"""For each rule a module that keeps it and one that breaks it, the instruction that does, and what spirv-val 2023.1 says
of the broken one: the rules of OpenCL 2.2 are not those of Level Zero, and it does not look at everything."""

from __future__ import annotations

from dataclasses import dataclass, field

from symd.formats.spirv_rules import Device
from tests.formats.spirv_rules.assembly import module

FINDS, MISSES, OTHERWISE = "finds", "misses", "otherwise"
"""OTHERWISE: spirv-val refuses both modules, for a reason of its own."""

POINTERS = """\
%pg32 = OpTypePointer CrossWorkgroup %u32
%pl32 = OpTypePointer Workgroup %u32
%pgf = OpTypePointer CrossWorkgroup %f32
"""
FLOATS = Device(fp32=frozenset(("GLOBAL_ADD", "GLOBAL_MIN_MAX", "GLOBAL_LOAD_STORE")))


@dataclass(frozen=True)
class Case:
    """``breach`` is a pattern for the instruction that breaks the rule, the last that matches it; ``also`` names rules broken by the same."""

    rule: str
    kept: str
    broken: str
    breach: str
    val: str
    name: str = ""
    device: Device = field(default_factory=Device)
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}-{self.name}" if self.name else self.rule


def image(description: str, **more: str) -> str:
    """A module with one image type: sampled type, dim, depth, arrayed, MS, sampled, format, access."""
    capabilities = "ImageBasic Image1D Sampled1D ImageBuffer SampledBuffer ImageReadWrite " + more.pop("needs", "")
    return module(capabilities=capabilities, types=f"%img = OpTypeImage {description}\n{more.pop('types', '')}", **more)


def atomic(line: str, pointer: str = "%pg32", **more: str) -> str:
    return module(types=POINTERS + more.pop("types", ""), arguments=pointer, body=line, **more)


def subgroup(capability: str, line: str, *, arguments: str = "", types: str = "", needs: str = "") -> str:
    return module(
        capabilities=f"{needs} {capability}",
        extensions="SPV_INTEL_subgroups",
        types=POINTERS + types,
        arguments=arguments,
        body=line,
    )


SHUFFLE, BUFFER, IMAGE = "SubgroupShuffleINTEL", "SubgroupBufferBlockIOINTEL", "SubgroupImageBlockIOINTEL"
PLAIN_2D = "%void 2D 0 0 0 0 Unknown"
KEPT_2D = image(f"{PLAIN_2D} ReadOnly")
COORDINATES = "%v2 = OpTypeVector %u32 2\n%at = OpConstantNull %v2\n%texel = OpTypeVector %f32 4\n%white = OpConstantNull %texel\n"
HELPER = """\
%first = OpFunction %void None %fn
%l1 = OpLabel
%r1 = OpFunctionCall %void %second
OpReturn
OpFunctionEnd
%second = OpFunction %void None %fn
%l2 = OpLabel
{call}
OpReturn
OpFunctionEnd
"""
FLOAT_TYPES = "%f16 = OpTypeFloat 16\n%pgh = OpTypePointer CrossWorkgroup %f16\n"
ADD, MIN_MAX = "SPV_EXT_shader_atomic_float_add", "SPV_EXT_shader_atomic_float_min_max"
FADD = "%x = OpAtomicFAddEXT %f32 %a0 %c1 %c0 %f1"
FMIN = "%x = OpAtomicFMinEXT %f32 %a0 %c1 %c0 %f1"
EXCHANGE = "%x = OpAtomicExchange %f32 %a0 %c1 %c0 %f1"

PLAIN = module()
DECLARED = (
    Case("exec-model", PLAIN, module(capabilities="Shader", entry='GLCompute %kernel "kernel"'), "OpEntryPoint", FINDS, also=("capability",)),
    Case("addressing-model", PLAIN, module(model="Physical32 OpenCL"), "OpMemoryModel", MISSES, "32-bit"),
    Case("addressing-model", PLAIN, module(model="Logical OpenCL"), "OpMemoryModel", FINDS, "logical"),
    Case("memory-model", PLAIN, module(model="Physical64 Simple", capabilities="Shader"), "OpMemoryModel", FINDS, also=("capability",)),
    Case("capability", PLAIN, module(capabilities="Shader"), "OpCapability Shader", FINDS, "shader"),
    Case("capability", module(capabilities="Float64"), module(capabilities="Float64"), "OpCapability Float64", MISSES, "doubles", Device(fp64_module=False)),
    Case("capability", module(capabilities="ImageBasic"), module(capabilities="ImageBasic"), "OpCapability ImageBasic", MISSES, "images", Device(images=False)),
    Case("capability", module(capabilities="Int64Atomics"), module(capabilities="Int64Atomics"), "OpCapability Int64Atomics", OTHERWISE, "atomics", Device(int64_atomics=False)),
    Case("ext-inst-set", module(imports='%std = OpExtInstImport "OpenCL.std"'), module(imports='%std = OpExtInstImport "GLSL.std.450"'), "OpExtInstImport", MISSES),
    Case("subgroups-extension", module(capabilities=SHUFFLE, extensions="SPV_INTEL_subgroups"), module(capabilities=SHUFFLE), f"OpCapability {SHUFFLE}", FINDS, also=("capability",)),
)  # fmt: skip
TYPES = (
    Case("int-width", PLAIN, module(types="%odd = OpTypeInt 24 0"), "OpTypeInt 24 0", FINDS),
    Case("int-signedness", PLAIN, module(types="%odd = OpTypeInt 32 1"), "OpTypeInt 32 1", FINDS, "32 bits"),
    Case("int-signedness", PLAIN, module(types="%odd = OpTypeInt 16 1"), "OpTypeInt 16 1", MISSES, "16 bits"),
    Case("float-width", PLAIN, module(types="%odd = OpTypeFloat 48"), "OpTypeFloat 48", FINDS),
    Case("vector-count", module(capabilities="Vector16", types="%v = OpTypeVector %u32 16"), module(types="%v = OpTypeVector %u32 5"), "OpTypeVector", FINDS),
)  # fmt: skip
KERNELS = (
    Case("kernel-return-void", PLAIN, module(returns="%u32", last="OpReturnValue %c1"), "OpFunction %", FINDS),
    Case("kernel-param-type", module(arguments="%u32"), module(types="%arr = OpTypeArray %u32 %c4", arguments="%arr"), "OpFunctionParameter", MISSES, "array"),
    Case("kernel-param-type", module(arguments="%f32"), module(arguments="%bool"), "OpFunctionParameter", MISSES, "bool"),
    Case("kernel-param-float-width", module(arguments="%f32"), module(capabilities="Float64", types="%f64 = OpTypeFloat 64", arguments="%f64"), "OpFunctionParameter", MISSES),
    Case("kernel-param-struct-member", module(types="%in = OpTypeStruct %f32\n%s = OpTypeStruct %u32 %in", arguments="%s"), module(types="%arr = OpTypeArray %u32 %c4\n%in = OpTypeStruct %arr\n%s = OpTypeStruct %u32 %in", arguments="%s"), "OpFunctionParameter", MISSES),
    Case("kernel-param-pointer-class", module(types=POINTERS, arguments="%pl32"), module(types="%pp = OpTypePointer Function %u32", arguments="%pp"), "OpFunctionParameter", MISSES, "private"),
    Case("kernel-param-pointer-class", module(types="%pc = OpTypePointer UniformConstant %u32", arguments="%pc"), module(capabilities="GenericPointer", types="%pp = OpTypePointer Generic %u32", arguments="%pp"), "OpFunctionParameter", MISSES, "generic"),
    Case("no-recursion", module(body="%r0 = OpFunctionCall %void %first", functions=HELPER.format(call="")), module(body="%r0 = OpFunctionCall %void %first", functions=HELPER.format(call="%r2 = OpFunctionCall %void %first")), "OpFunctionCall", MISSES),
)  # fmt: skip
IMAGES = (
    Case("image-dim-table", KEPT_2D, image("%void 3D 1 0 0 0 Unknown ReadOnly"), "OpTypeImage", MISSES, "3D depth"),
    Case("image-dim-table", image("%void 2D 1 1 0 0 Unknown ReadOnly"), image("%void Cube 0 0 0 0 Unknown ReadOnly", needs="Shader"), "OpTypeImage", FINDS, "cube", also=("capability",)),
    Case("image-sampled-type", KEPT_2D, image("%f32 2D 0 0 0 0 Unknown ReadOnly"), "OpTypeImage", FINDS),
    Case("image-sampled", KEPT_2D, image("%void 2D 0 0 0 1 Unknown ReadOnly"), "OpTypeImage", FINDS),
    Case("image-ms", KEPT_2D, image("%void 2D 0 0 1 0 Unknown ReadOnly"), "OpTypeImage", FINDS),
    Case("image-arrayed", image("%void 1D 0 1 0 0 Unknown ReadOnly"), image("%void 3D 0 1 0 0 Unknown ReadOnly"), "OpTypeImage", FINDS, also=("image-dim-table",)),
    Case("image-format", KEPT_2D, image("%void 2D 0 0 0 0 Rgba8 ReadOnly"), "OpTypeImage", FINDS),
    Case("image-access-qualifier", KEPT_2D, image(PLAIN_2D), "OpTypeImage", FINDS),
    Case("image-write-operands", image(f"{PLAIN_2D} WriteOnly", types=COORDINATES, arguments="%img", body="OpImageWrite %a0 %at %white"), image(f"{PLAIN_2D} WriteOnly", types=COORDINATES, arguments="%img", body="OpImageWrite %a0 %at %white Lod %c0", needs="Shader ImageMipmap"), "OpImageWrite", FINDS, also=("capability",)),
    Case("image-constoffset", image(f"{PLAIN_2D} ReadOnly", types=COORDINATES, arguments="%img", body="%x = OpImageRead %texel %a0 %at"), image(f"{PLAIN_2D} ReadOnly", types=COORDINATES, arguments="%img", body="%x = OpImageRead %texel %a0 %at ConstOffset %at"), "OpImageRead", FINDS),
)  # fmt: skip
ATOMICS = (
    Case("atomic-type", atomic("%x = OpAtomicIAdd %u32 %a0 %c1 %c0 %c1"), atomic("%x = OpAtomicIAdd %u16 %a0 %c1 %c0 %s1", "%pg16", types="%pg16 = OpTypePointer CrossWorkgroup %u16\n%s1 = OpConstant %u16 1\n"), "OpAtomicIAdd", MISSES, "16 bits"),
    Case("atomic-type", atomic("%x = OpAtomicLoad %u64 %a0 %c1 %c0", "%pg64", types="%pg64 = OpTypePointer CrossWorkgroup %u64\n", capabilities="Int64Atomics"), atomic("OpAtomicStore %a0 %c1 %c0 %c64", "%pg64", types="%pg64 = OpTypePointer CrossWorkgroup %u64\n", capabilities="Int64Atomics"), "OpAtomicStore", OTHERWISE, "64 bits", Device(int64_atomics=False), also=("capability",)),
    Case("atomic-pointer-class", atomic("%x = OpAtomicIIncrement %u32 %a0 %c1 %c0", "%pl32"), module(types="%pu = OpTypePointer UniformConstant %u32", arguments="%pu", body="%x = OpAtomicIIncrement %u32 %a0 %c1 %c0"), "OpAtomicIIncrement", FINDS),
    Case("fp-atomic-loadstore", atomic(EXCHANGE, "%pgf"), atomic(EXCHANGE, "%pgf"), "OpAtomicExchange", MISSES),
    Case("fp-atomic-add", atomic(FADD, "%pgf", capabilities="AtomicFloat32AddEXT", extensions=ADD), atomic(FADD, "%pgf", capabilities="AtomicFloat32AddEXT", extensions=ADD), "OpAtomicFAddEXT", MISSES, also=("capability",)),
    Case("fp-atomic-minmax", atomic(FMIN, "%pgf", capabilities="AtomicFloat32MinMaxEXT", extensions=MIN_MAX), atomic(FMIN, "%pgf", capabilities="AtomicFloat32MinMaxEXT", extensions=MIN_MAX), "OpAtomicFMinEXT", MISSES, also=("capability",)),
)  # fmt: skip
EVENTS = "%event = OpTypeEvent\n%none = OpConstantNull %event\n%pev = OpTypePointer Function %event\n"
COPY = "%x = OpGroupAsyncCopy %event {} %a0 %a1 %c64 %c64 %none"
SCOPES = (
    Case("group-async-scope", module(types=POINTERS + EVENTS, arguments="%pl32 %pg32", body=COPY.format("%c2")), module(types=POINTERS + EVENTS, arguments="%pl32 %pg32", body=COPY.format("%c3")), "OpGroupAsyncCopy", MISSES),
    Case("exec-scope", module(body="OpControlBarrier %c3 %c2 %c0"), module(body="OpControlBarrier %c1 %c2 %c0"), "OpControlBarrier", MISSES),
    Case("exec-scope", module(capabilities="Groups", types="%t = OpConstantTrue %bool", body="%x = OpGroupAll %bool %c2 %t"), module(capabilities="Groups", types="%t = OpConstantTrue %bool", body="%x = OpGroupAll %bool %c4 %t"), "OpGroupAll", MISSES, "group"),
    Case("memory-scope", module(body="OpMemoryBarrier %c0 %c0"), module(body="OpMemoryBarrier %c5 %c0"), "OpMemoryBarrier", FINDS),
)  # fmt: skip
IMAGE_TYPE = "%img = OpTypeImage %void {} 0 0 0 0 Unknown ReadOnly\n%v2 = OpTypeVector {} 2\n%at = OpConstantNull %v2\n"
SUBGROUPS = (
    Case("subgroup-shuffle-type", subgroup(SHUFFLE, "%x = OpSubgroupShuffleINTEL %f32 %f1 %c1"), subgroup(SHUFFLE, "%x = OpSubgroupShuffleINTEL %u8 %b1 %c1", types="%b1 = OpConstant %u8 1"), "OpSubgroupShuffleINTEL", MISSES, "char"),
    Case("subgroup-shuffle-type", subgroup(SHUFFLE, "%x = OpSubgroupShuffleINTEL %u64 %c64 %c1"), subgroup(SHUFFLE, "%x = OpSubgroupShuffleINTEL %l2 %n2 %c1", types="%l2 = OpTypeVector %u64 2\n%n2 = OpConstantNull %l2"), "OpSubgroupShuffleINTEL", MISSES, "long vector"),
    Case("subgroup-block-type", subgroup(BUFFER, "%x = OpSubgroupBlockReadINTEL %u32 %a0", arguments="%pg32"), subgroup(BUFFER, "%x = OpSubgroupBlockReadINTEL %u64 %a0", arguments="%pg32"), "OpSubgroupBlockReadINTEL", MISSES),
    Case("subgroup-block-pointer-class", subgroup(BUFFER, "OpSubgroupBlockWriteINTEL %a0 %c1", arguments="%pg32"), subgroup(BUFFER, "OpSubgroupBlockWriteINTEL %a0 %c1", arguments="%pl32"), "OpSubgroupBlockWriteINTEL", MISSES),
    Case("subgroup-image-kind", subgroup(IMAGE, "%x = OpSubgroupImageBlockReadINTEL %u32 %a0 %at", arguments="%img", types=IMAGE_TYPE.format("2D", "%u32"), needs="ImageBasic"), subgroup(IMAGE, "%x = OpSubgroupImageBlockReadINTEL %u32 %a0 %at", arguments="%img", types=IMAGE_TYPE.format("3D", "%u32"), needs="ImageBasic"), "OpSubgroupImageBlockReadINTEL", MISSES),
    Case("subgroup-image-coord", subgroup(IMAGE, "OpSubgroupImageBlockWriteINTEL %a0 %at %c1", arguments="%img", types=IMAGE_TYPE.format("2D", "%u32"), needs="ImageBasic"), subgroup(IMAGE, "OpSubgroupImageBlockWriteINTEL %a0 %at %c1", arguments="%img", types=IMAGE_TYPE.format("2D", "%u64"), needs="ImageBasic"), "OpSubgroupImageBlockWriteINTEL", MISSES),
)  # fmt: skip

CASES = (*DECLARED, *TYPES, *KERNELS, *IMAGES, *ATOMICS, *SCOPES, *SUBGROUPS)
