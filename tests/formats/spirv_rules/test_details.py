"""Corners of the rules that one kept and one broken module do not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.formats.spirv import Opcode, parse
from symd.formats.spirv_rules import Device, check
from symd.formats.spirv_rules.module import PRODUCTS
from tests.formats.spirv_rules.assembly import assemble, judged, module
from tests.formats.spirv_rules.cases import ADD, FLOAT_TYPES, MIN_MAX, POINTERS, SHUFFLE, atomic, image, subgroup

BY_VALUE = module(
    decorations="OpDecorate %a0 FuncParamAttr ByVal",
    types="%s = OpTypeStruct %u32\n%ps = OpTypePointer Function %s",
    arguments="%ps",
)
DOUBLE = module(capabilities="Float64", types="%f64 = OpTypeFloat 64", arguments="%f64")
IRREDUCIBLE = module(
    types="%yes = OpConstantTrue %bool",
    body="""\
OpBranchConditional %yes %left %right
%left = OpLabel
OpBranch %right
%right = OpLabel
OpBranchConditional %yes %left %out
%out = OpLabel""",
)


def rules(text: str, device: Device | None = None) -> list[str]:
    return [violation.rule for violation in check(assemble(text), device).violations]


@pytest.mark.parametrize("text", [BY_VALUE, DOUBLE], ids=["a struct by value", "a double"])
def test_what_drivers_take_in_practice_is_an_error_that_only_strict_refuses(text: str) -> None:
    report = check(assemble(text))
    assert [violation.accepted_in_practice for violation in report.violations] == [True]
    assert not report.valid
    assert not report.refused()
    assert report.refused(strict=True)


def test_a_private_pointer_that_is_no_struct_by_value_is_not_accepted() -> None:
    text = module(types="%p = OpTypePointer Function %u32", arguments="%p")
    assert check(assemble(text)).refused()


def test_a_double_is_not_accepted_by_a_device_without_doubles() -> None:
    assert check(assemble(DOUBLE), Device(fp64_module=False)).refused()


def test_what_is_only_unsupported_is_valid() -> None:
    report = check(assemble(module(capabilities="Pipes", imports='%s = OpExtInstImport "GLSL.std.450"')))
    assert [violation.severity for violation in report.violations] == ["unsupported", "unsupported"]
    assert report.valid
    assert not report.refused(strict=True)


def test_irreducible_control_flow_is_never_an_error() -> None:
    data = assemble(IRREDUCIBLE)
    assert judged(data) == ""
    assert check(data).violations == ()


NON_SEMANTIC = ["NonSemantic.Shader.DebugInfo.100", "NonSemantic.Shader.DebugInfo.200", "NonSemantic.ClspvReflection.1"]


def importing(name: str) -> bytes:
    return assemble(module(extensions="SPV_KHR_non_semantic_info", imports=f'%set = OpExtInstImport "{name}"'))


def test_a_debug_set_that_every_driver_reads_is_passed_over() -> None:
    for device in (Device(), *PRODUCTS.values()):
        assert check(importing("OpenCL.DebugInfo.100"), device).violations == ()


@pytest.mark.parametrize("name", NON_SEMANTIC)
def test_a_set_that_a_driver_dies_of_is_said(name: str) -> None:
    """Tried with both: 22.43 ends its process on each of them, 26.27 on the last one."""
    data = importing(name)
    (known,) = check(data).violations
    assert (known.rule, known.severity, "22.43" in known.message) == ("ext-inst-set", "unsupported", True)
    assert check(data).valid
    assert not check(data, PRODUCTS["dg2"]).valid
    assert not check(data, PRODUCTS["22.43:skl"]).valid
    assert check(data, PRODUCTS["26.27:bmg"]).valid == ("DebugInfo" in name)


def test_a_module_that_is_cut_off_between_instructions_is_no_module() -> None:
    data = (Path(__file__).parents[3] / "samples" / "spirv" / "bin" / "inline.O2.ocl-100.spv").read_bytes()
    words = parse(data)
    entry, *_ = words.where(Opcode.EntryPoint)
    ends = words.where(Opcode.FunctionEnd)
    assert ends[-1] == len(words) - 1
    valid = [number for number in range(entry + 1, len(words)) if check(data[: words.offset(number)]).valid]
    assert set(valid) <= {end + 1 for end in ends}
    assert "cut off" in check(data[: words.offset(entry + 1)]).violations[-1].message


@pytest.mark.parametrize(
    ("pointer", "flags", "taken"),
    [
        ("CrossWorkgroup", {"GLOBAL_ADD"}, True),
        ("CrossWorkgroup", {"LOCAL_ADD"}, False),
        ("CrossWorkgroup", {"GLOBAL_MIN_MAX"}, False),
        ("Workgroup", {"LOCAL_ADD"}, True),
        ("Workgroup", {"GLOBAL_ADD"}, False),
        ("Generic", {"GLOBAL_ADD", "LOCAL_ADD"}, True),
        ("Generic", {"GLOBAL_ADD"}, False),
        ("Function", {"GLOBAL_ADD", "LOCAL_ADD"}, False),
    ],
)
@pytest.mark.parametrize("width", [16, 32, 64])
def test_a_float_is_added_where_the_width_and_the_storage_class_allow(
    width: int, pointer: str, flags: set[str], taken: bool
) -> None:
    kind = {16: "%h", 32: "%f32", 64: "%d"}[width]
    declared = {16: "%h = OpTypeFloat 16\n", 32: "", 64: "%d = OpTypeFloat 64\n"}[width]
    needs = {16: "Float16", 32: "", 64: "Float64"}[width]
    text = module(
        capabilities=f"{needs} GenericPointer AtomicFloat{width}AddEXT",
        extensions="SPV_EXT_shader_atomic_float16_add" if width == 16 else ADD,
        types=f"{declared}%pp = OpTypePointer {pointer} {kind}\n%p = OpConstantNull %pp\n%one = OpConstantNull {kind}\n",
        body=f"%x = OpAtomicFAddEXT {kind} %p %c1 %c0 %one",
    )
    device = Device.parse(f"fp{width}={'+'.join(sorted(flags))}")
    assert ("fp-atomic-add" not in rules(text, device)) == taken


@pytest.mark.parametrize("extension", ["", ADD])
@pytest.mark.parametrize("capability", ["", "AtomicFloat32AddEXT"])
def test_a_float_add_needs_its_extension_and_its_capability(extension: str, capability: str) -> None:
    text = atomic("%x = OpAtomicFAddEXT %f32 %a0 %c1 %c0 %f1", "%pgf", capabilities=capability, extensions=extension)
    found = rules(text, Device.parse("fp32=GLOBAL_ADD"))
    assert found == ["fp-atomic-add"] * ((not extension) + (not capability))


def test_a_float_maximum_is_judged_like_a_minimum() -> None:
    line = "%x = OpAtomicFMaxEXT %f32 %a0 %c1 %c0 %f1"
    text = atomic(line, "%pgf", capabilities="AtomicFloat32MinMaxEXT", extensions=MIN_MAX)
    assert "fp-atomic-minmax" in rules(text)
    assert rules(text, Device.parse("fp32=GLOBAL_MIN_MAX")) == []


@pytest.mark.parametrize("line", ["%x = OpAtomicLoad %f16 %a0 %c1 %c0", "OpAtomicStore %a0 %c1 %c0 %h1"])
def test_a_half_is_loaded_and_stored_with_the_flag_for_halves(line: str) -> None:
    text = atomic(line, "%pgh", types=FLOAT_TYPES + "%h1 = OpConstant %f16 1\n", capabilities="Float16")
    assert rules(text, Device.parse("fp32=GLOBAL_LOAD_STORE")) == ["fp-atomic-loadstore"]
    assert rules(text, Device.parse("fp16=GLOBAL_LOAD_STORE")) == []


def test_comparing_and_exchanging_a_float_is_no_load_or_store() -> None:
    text = atomic("%x = OpAtomicCompareExchange %f32 %a0 %c1 %c0 %c0 %f1 %f1", "%pgf")
    assert rules(text, Device.parse("fp32=GLOBAL_LOAD_STORE")) == ["atomic-type"]


def test_atomic_flags_are_no_breach() -> None:
    assert rules(atomic("%x = OpAtomicFlagTestAndSet %bool %a0 %c1 %c0\nOpAtomicFlagClear %a0 %c1 %c0")) == []


@pytest.mark.parametrize(
    ("declared", "device", "taken"),
    [("Float16", "", True), ("Float16", "fp16_module=false", False), ("", "", False)],
)
def test_a_half_is_shuffled_where_it_is_declared_and_supported(declared: str, device: str, taken: bool) -> None:
    text = subgroup(
        SHUFFLE,
        "%x = OpSubgroupShuffleXorINTEL %f16 %h1 %c1",
        types="%f16 = OpTypeFloat 16\n%h1 = OpConstantNull %f16",
        needs=declared,
    )
    assert ("subgroup-shuffle-type" not in rules(text, Device.parse(device))) == taken


@pytest.mark.parametrize(("count", "taken"), [(2, True), (3, False), (4, True), (8, True), (16, True)])
def test_vectors_are_shuffled_by_their_count(count: int, taken: bool) -> None:
    text = subgroup(
        SHUFFLE,
        "%x = OpSubgroupShuffleDownINTEL %v %n %n %c1",
        types=f"%v = OpTypeVector %u32 {count}\n%n = OpConstantNull %v",
        needs="Vector16",
    )
    assert (rules(text) == []) == taken


def test_a_scope_that_is_specialised_is_not_judged() -> None:
    text = module(types="%s = OpSpecConstant %u32 1", body="OpControlBarrier %s %c2 %c0")
    assert rules(text) == []


def test_recursion_that_no_kernel_reaches_is_allowed() -> None:
    loop = "%f = OpFunction %void None %fn\n%l = OpLabel\n%r = OpFunctionCall %void %f\nOpReturn\nOpFunctionEnd"
    assert rules(module(functions=loop)) == []
    assert rules(module(functions=loop, body="%q = OpFunctionCall %void %f")) == ["no-recursion"]


def test_a_function_that_is_called_twice_is_no_circle() -> None:
    leaf = "%f = OpFunction %void None %fn\n%l = OpLabel\nOpReturn\nOpFunctionEnd"
    assert rules(module(functions=leaf, body="%p = OpFunctionCall %void %f\n%q = OpFunctionCall %void %f")) == []


def test_events_and_sampled_images_are_not_held_against_a_module() -> None:
    text = image(
        "%void 2D 0 0 0 0 Unknown ReadOnly", types="%si = OpTypeSampledImage %img\n%ev = OpTypeEvent", arguments="%img"
    )
    assert rules(text) == []


def test_pointers_in_structs_and_samplers_are_kernel_arguments() -> None:
    text = module(
        types=POINTERS + "%smp = OpTypeSampler\n%s = OpTypeStruct %pg32 %f32",
        arguments="%s %smp",
        capabilities="ImageBasic",
    )
    assert rules(text) == []
