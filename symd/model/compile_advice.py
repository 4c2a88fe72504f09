"""What to do where code objects have no debug data: by who made them, with which options, and what is embedded beside
them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from symd.model.code import SEPARATE_SUFFIX, CodeKind
from symd.model.summaries import ObjectSummary

_NO_DEBUG = "none"
_NVIDIA = "compile with -lineinfo for lines, or -G for lines and variables without optimization (nvcc, ptxas, NVRTC)"
_AMD = "compile with -g, or with -gline-tables-only for lines alone (hipcc, clang)"
_INTEL = "compile with -g (OpenCL: in the build options; DPC++: -g -fdebug-info-for-profiling), or with -gline-tables-only for lines alone"
_BY_GENERATOR = (
    ("LLVM SPIR-V Backend", "clang -g"),
    ("Khronos LLVM/SPIR-V Translator", "clang -g"),
    ("Khronos Glslang", "glslang -gVS"),
    ("Google Shaderc", "glslc -g"),
    ("Google spiregg", "dxc -fspv-debug=vulkan-with-source"),
    ("NVIDIA Slang", "slangc -g2"),
    ("Zig", "zig -ODebug"),
)
"""What the names of SPIR-V's generators begin with, and how each is told to write debug data."""
_ANY_GENERATOR = "clang -g, glslang -gVS, slangc -g2, dxc -fspv-debug=vulkan-with-source"
_BACKEND = re.compile(r"LLVM SPIR-V Backend (\d+)")
_LAST_WITHOUT_LINES = 22
"""The release of LLVM up to which its own back end writes no positions."""
_WITHOUT_LINES = (
    f"LLVM's own SPIR-V back end writes no line up to release {_LAST_WITHOUT_LINES}, with -g or without: compile with clang -g"
    " -fno-integrated-objemitter, which takes llvm-spirv"
)
_DEBUG_SET = "DebugInfo"


def compile_advice(objects: Sequence[ObjectSummary], path: str | None = None) -> tuple[str, ...]:
    """What to do about those of a module's code objects that have none, or about the one at ``path``: clauses without a
    capital."""
    chosen = [each for each in objects if path in (None, each.path)]
    without = [each for each in chosen if each.debug == _NO_DEBUG] or chosen
    asked = [each for each in without if not each.is_compiler_input] or without
    return tuple(dict.fromkeys(clause for each in asked for clause in _clauses(each, objects)))


def _clauses(item: ObjectSummary, objects: Sequence[ObjectSummary]) -> Iterator[str]:
    target = item.target or ""
    apart = _debug_file(item)
    if apart:
        yield f"its debug data is in {apart}: put it beside FILE, or name it with --debug"
    elif item.kind is CodeKind.SPIRV:
        yield _for_spirv(item)
    elif target.startswith(("sm_", "gfx")):
        yield _NVIDIA if target.startswith("sm_") else _AMD
    else:
        yield from _for_intel(item, _inputs(item, objects))


def _debug_file(item: ObjectSummary) -> str:
    """The file that it says has its debug data."""
    if item.kind is CodeKind.SPIRV:
        build_id = item.facts.get("build_id", "") if item.debug == _NO_DEBUG else ""
        return f"{build_id}{SEPARATE_SUFFIX}" if build_id else ""
    return str(item.facts.get("debug_link", ""))


def _inputs(item: ObjectSummary, objects: Sequence[ObjectSummary]) -> list[ObjectSummary]:
    """The SPIR-V that a code object carries."""
    inside = f"{item.path}/" if item.path else ""
    return [each for each in objects if each.is_compiler_input and each.path.startswith(inside)]


def _for_intel(item: ObjectSummary, inputs: Sequence[ObjectSummary]) -> Iterator[str]:
    lined = next((each for each in inputs if each.debug != _NO_DEBUG), None)
    if lined is not None:
        yield f"the SPIR-V inside has lines: --object {lined.path}"
    if not _asked_for_debug_data(item):
        yield _INTEL
    elif lined is None and inputs:
        yield from (_for_spirv(each) for each in inputs)
    elif lined is not None and not any(_DEBUG_SET in name for name in _sets(lined)):
        yield (
            "the compiler was given -g, and takes lines from OpenCL.DebugInfo.100 or NonSemantic.Shader.DebugInfo alone: make SPIR-V with one of these,"
            " in the place of OpLine"
        )
    else:
        yield "the compiler was given -g and wrote none"


def _asked_for_debug_data(item: ObjectSummary) -> bool:
    options = str(item.facts.get("build_options", "")).split()
    return any(each == "-g" or each.startswith(("-gline", "-gdwarf", "-g2", "-g3")) for each in options)


def _sets(item: ObjectSummary) -> Sequence[str]:
    sets = item.facts.get("instruction_sets", ())
    return [str(each) for each in sets] if isinstance(sets, list | tuple) else []


def _for_spirv(item: ObjectSummary) -> str:
    generator = str(item.facts.get("generator", ""))
    backend = _BACKEND.match(generator)
    if backend is not None and int(backend[1]) <= _LAST_WITHOUT_LINES:
        return _WITHOUT_LINES
    known = next((how for name, how in _BY_GENERATOR if generator.startswith(name)), _ANY_GENERATOR)
    return f"compile the SPIR-V with debug data: {known}"
