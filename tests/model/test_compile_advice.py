"""What is advised where there is no debug data: what its maker can do, and never what was done already."""

from __future__ import annotations

from typing import Any

import pytest

from symd.model.compile_advice import compile_advice
from symd.model.summaries import ObjectSummary

OPEN_CL, DEBUG_SET = ["OpenCL.std"], ["OpenCL.std", "OpenCL.DebugInfo.100"]


def item(path: str, target: str, debug: str = "none", **facts: Any) -> ObjectSummary:
    return ObjectSummary(path, "test", target, 0, "0" * 64, debug, (), facts)


@pytest.mark.parametrize(
    ("generator", "word", "never"),
    [
        ("LLVM SPIR-V Backend 22", "-fno-integrated-objemitter", "glslang"),
        ("LLVM SPIR-V Backend 24", "clang -g", "llvm-spirv"),
        ("Khronos LLVM/SPIR-V Translator 14", "clang -g", "glslang"),
        ("Khronos Glslang Reference Front End 11", "-gVS", "clang"),
        ("Google spiregg 0", "-fspv-debug", "clang"),
        ("NVIDIA Slang Compiler 0", "slangc -g2", "clang"),
        ("Zig Software Foundation Zig Compiler 2176", "zig", "clang"),
        ("tool 99 1", "slangc -g2", "llvm-spirv"),
    ],
)
def test_spirv_is_advised_by_its_generator(generator: str, word: str, never: str) -> None:
    (told,) = compile_advice([item("", "spirv1.4", generator=generator)])
    assert word in told
    assert never not in told


@pytest.mark.parametrize("options", ["-g", "-vc-codegen -g", "-gline-tables-only -O1", "-cl-opt-disable -g -s a.cl"])
def test_nobody_who_compiled_with_g_is_told_to(options: str) -> None:
    backend = item("spirv", "spirv1.4", generator="LLVM SPIR-V Backend 22", instruction_sets=OPEN_CL)
    for inside in ([], [backend], [item("spirv", "spirv1.0", "spirv", instruction_sets=[])]):
        told = compile_advice([item("", "bmg", build_options=options), *inside])
        assert told
        assert not any(each.startswith("compile with -g") for each in told)


def test_lines_of_the_spirv_inside_are_offered_and_what_the_compiler_takes_is_said() -> None:
    alone = [item("", "bmg", build_options="-g"), item("spirv", "spirv1.0", "spirv", instruction_sets=OPEN_CL)]
    first, second = compile_advice(alone)
    assert first.endswith("--object spirv")
    assert "OpenCL.DebugInfo.100" in second
    described = [item("", "bmg"), item("spirv", "spirv1.0", "spirv", instruction_sets=DEBUG_SET)]
    first, second = compile_advice(described)
    assert first.endswith("--object spirv")
    assert second.startswith("compile with -g ")


def test_spirv_of_another_object_is_not_that_inside() -> None:
    objects = [item("a", "bmg"), item("b", "bmg", "dwarf-4"), item("b/spirv", "spirv1.0", "spirv")]
    (told,) = compile_advice(objects)
    assert told.startswith("compile with -g ")


def test_others_are_advised_by_whose_compiler_made_them() -> None:
    told = compile_advice([item("a", "sm_90"), item("b", "gfx900"), item("c", "gfx90a")])
    assert ["-lineinfo" in each for each in told] == [True, False]
    assert compile_advice([item("a", "sm_90"), item("b", "gfx900")], "b") == told[1:]
