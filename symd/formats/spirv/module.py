"""A SPIR-V module as a code object: its facts, entry points and functions, where the body of each lies, and which of
llvm-spirv's two functions of a kernel holds its code.

Source: SPIR-V 1.6, "Physical Layout of a SPIR-V Module and Instruction", "Function Instructions" and "Mode-Setting
Instructions" (OpEntryPoint).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import compress, pairwise

from symd.errors import HashMismatch, Malformed, NoDebugData, SymdError
from symd.formats.budget import Budget
from symd.formats.spirv import Debug, DebugInstruction, DebugSet, Decoration, Opcode, Words, parse, text
from symd.formats.spirv.kernels import KernelFacts
from symd.model.code import NO_FACTS, CodeKind, CodeObject, DebugScheme, Function, ImageBytes, Kernel, Section
from symd.model.identities import ObjectPath
from symd.model.light_typing import Any, NamedTuple
from symd.model.texts import counted, plural

_GENERATORS = {
    6: "Khronos LLVM/SPIR-V Translator",
    7: "Khronos SPIR-V Tools Assembler",
    8: "Khronos Glslang Reference Front End",
    13: "Google Shaderc over Glslang",
    14: "Google spiregg",
    17: "Khronos SPIR-V Tools Linker",
    40: "NVIDIA Slang Compiler",
    41: "Zig Software Foundation Zig Compiler",
    43: "LLVM SPIR-V Backend",
}
_LANGUAGES = (
    "unknown", "ESSL", "GLSL", "OpenCL C", "OpenCL C++", "HLSL", "C++ for OpenCL", "SYCL", "HERO C", "NZSL", "WGSL", "Slang", "Zig",
    "Rust",
)  # fmt: skip

_PROGBITS, _LOADED, _CODE = 1, 0x2, 0x4
"""SHT_PROGBITS, SHF_ALLOC and SHF_EXECINSTR: nothing of ELF's reader is needed besides."""
_WORD_BYTES = 4
"""Each word is a step: an instruction that says nothing has one."""
_FUNCTION_STEPS = 8
"""What a function takes besides."""
_SEPARATE = ".debug.spv"
"""The section in which a code object has that module."""
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
_SAY_NOTHING = (Debug.InfoNone, Debug.BuildIdentifier)
_DESCRIBING = (
    Opcode.Source,
    Opcode.SourceContinued,
    Opcode.Name,
    Opcode.MemberName,
    Opcode.String,
    Opcode.Line,
    Opcode.NoLine,
    Opcode.ModuleProcessed,
)


def code_object(data: bytes, budget: Budget, name: str = "", *, outline: bool = False) -> CodeObject:
    """An ``outline`` has no facts of kernels. Raises Malformed where the module does not split into instructions to its
    end, and LimitExceeded."""
    budget.spend(len(data) // _WORD_BYTES, name or "SPIR-V")
    try:
        parsed = SpirvModule(parse(data))
        budget.spend(_FUNCTION_STEPS * len(parsed.words.where(Opcode.Function)), name or "SPIR-V")
    except SymdError as error:
        raise error.prefix_where(name) if name else error from None
    words, functions, points = parsed.words, parsed.functions, parsed.entries
    _refuse_cut_off(words, points)
    major, minor = words.version
    whole = Section(0, "", _PROGBITS, _LOADED | _CODE, 0, len(data), ImageBytes(data), end=len(data))
    return CodeObject(
        path=ObjectPath(""),
        format="spirv",
        target=f"spirv{major}.{minor}",
        data=data,
        sections=(whole,),
        kernels=_kernels(points, _kernel_facts(words, budget) if not outline else _no_facts),
        functions=_functions(functions, points),
        kind=CodeKind.SPIRV,
        debug=DebugScheme.SPIRV if _has_lines(words) else DebugScheme.NONE,
        facts=_facts(words),
        warnings=_warnings(words),
        parsed=parsed,
    )


def parsed_module(code: CodeObject) -> SpirvModule:
    """The module behind a code object, split anew only where its reader did not keep it. Raises Malformed."""
    return code.parsed if isinstance(code.parsed, SpirvModule) else SpirvModule(parse(code.data))


class DebugWords(NamedTuple):
    """What the debug data of a code object is decoded from, as plain values."""

    columns: tuple[array[int], array[int], array[int], array[int]]
    """The module's instructions, as ``Words`` has them."""
    end: int
    """The byte offset after the last of them."""
    functions: Mapping[int, Body]
    sets: Mapping[int, DebugSet]
    strings: Mapping[int, str]
    constants: Mapping[int, int]
    """Empty where no set refers to constants."""
    described: Sequence[DebugInstruction]
    """The debug instructions that describe files, functions and scopes."""
    sources: Sequence[tuple[str, list[str]]]
    """The files that OpSource has texts of, each with the pieces of one."""
    moved: tuple[array[int], array[int]] | None
    """Where the module was joined with the code object: the byte offsets (u64) of the instructions of its functions,
    and those of the same in the code object; behind the last its end."""


_DESCRIBED = (
    Debug.TypeTemplate, Debug.Function, Debug.LexicalBlock, Debug.LexicalBlockDiscriminator, Debug.InlinedAt,
    Debug.Source, Debug.FunctionDefinition, Debug.SourceContinued,
)  # fmt: skip


def debug_words(code: CodeObject) -> DebugWords:
    """What the debug data of a code object is decoded from: its own module, or the one that it was joined with. Raises
    Malformed."""
    own, section = parsed_module(code), code.section(_SEPARATE)
    module = own if section is None else SpirvModule(parse(section.data))
    words = module.words
    return DebugWords(
        columns=words.columns,
        end=words.end,
        functions=module.functions,
        sets=words.debug_sets,
        strings=words.strings,
        constants=words.constants if any(each.numbers_are_ids for each in words.debug_sets.values()) else {},
        described=[*words.debug_instructions(*_DESCRIBED)],
        sources=_sources(words),
        moved=None if section is None else (_code_offsets(words), _code_offsets(own.words)),
    )


def _sources(words: Words) -> list[tuple[str, list[str]]]:
    """OpSource: language, version, file, text; each OpSourceContinued after it goes on."""
    found: list[tuple[str, list[str]]] = []
    pieces: list[str] = []
    for number, ops in words.each(Opcode.Source, Opcode.SourceContinued):
        if words.opcode[number] == Opcode.SourceContinued:
            pieces.append(text(ops)[0])
        elif len(ops) > 3:
            pieces = [text(ops[3:])[0]]
            found.append((words.strings.get(ops[2], ""), pieces))
        else:
            pieces = []
    return [(file, parts) for file, parts in found if file]


def _code_offsets(words: Words) -> array[int]:
    """The byte offsets (u64) of the instructions of all functions, and of their end."""
    numbers = code_numbers(words)
    return array("Q", map(words.offset, (*numbers, *(number + 1 for number in numbers[-1:]))))


def with_debug(code: CodeObject, data: bytes) -> CodeObject:
    """The code object joined with the module ``data``, which has the same code and its debug data. Raises HashMismatch
    where it has other code, NoDebugData, Malformed."""
    check_same_code(code.data, data)
    section = Section(1, _SEPARATE, _PROGBITS, 0, 0, len(data), data)
    return code._replace(sections=(*code.sections, section), debug=DebugScheme.SPIRV)


def check_same_code(data: bytes, debug: bytes) -> None:
    """Raises HashMismatch where the module ``debug`` has other code than ``data``, NoDebugData where it has no debug
    data, Malformed."""
    words, other = parse(data), parse(debug)
    if not _has_lines(other):
        raise NoDebugData("the SPIR-V module has no debug data")
    if _code(words) != _code(other) or not _declarations(words) <= _declarations(other):
        hint = "give the file that was written with this module"
        raise HashMismatch("the debug data belongs to another SPIR-V module: the code differs", hint=hint)


def code_numbers(words: Words) -> array[int]:
    """The instructions (u32) of all functions but those that describe."""
    begin = min(words.where(Opcode.Function), default=len(words))
    kept = bytearray(b"\1") * len(words)
    for number in (*words.where(Opcode.Line, Opcode.NoLine), *words.debug_numbers()):
        kept[number] = 0
    return array("I", compress(range(begin, len(words)), memoryview(kept)[begin:]))


def _code(words: Words) -> bytes:
    """The words of several bodies, end to end."""
    stream, start, count = memoryview(words.words), words.start, words.count
    return b"".join(stream[start[number] : start[number] + count[number]] for number in code_numbers(words))


def _declarations(words: Words) -> set[tuple[int, ...]]:
    """What is in front of the functions and does not describe."""
    debug = {*words.debug_numbers()}
    numbers = range(min(words.where(Opcode.Function), default=len(words)))
    kept = (number for number in numbers if number not in debug and words.opcode[number] not in _DESCRIBING)
    return {(words.opcode[number], *words.operands(number)) for number in kept}


def _build_identifier(words: Words) -> str | None:
    """The identifier that a module shares with the one that has its debug data, where it is hexadecimal."""
    for item in words.debug_instructions(Debug.BuildIdentifier):
        text = words.strings.get(item.operands[0], "") if item.operands else ""
        if item.layout.numbers_are_ids and 0 < len(text) <= 128 and not len(text) % 2 and _HEXADECIMAL.issuperset(text):
            return text.lower()
    return None


def _warnings(words: Words) -> tuple[str, ...]:
    return tuple(
        f"the debug instructions of {name} are left out: this version is not known, and is not read as another"
        for name in words.unknown_debug_sets
    )


def _kernel_facts(words: Words, budget: Budget) -> Callable[[EntryPoint], Mapping[str, Any]]:
    return KernelFacts(words, budget).of


def _no_facts(_: EntryPoint) -> Mapping[str, Any]:
    return NO_FACTS


def _kernels(points: list[EntryPoint], facts: Callable[[EntryPoint], Mapping[str, Any]]) -> tuple[Kernel, ...]:
    return tuple(
        Kernel(entry.name, 0, entry.body.offset, entry.body.end - entry.body.offset, facts(entry))
        for entry in points
        if entry.body is not None
    )


def _functions(functions: dict[int, Body], points: list[EntryPoint]) -> tuple[Function, ...]:
    """Functions with code and a name; an entry point's own function is called as the entry point where it has none."""
    entry_names = {entry.id: entry.name for entry in reversed(points)}
    named = ((body.name or entry_names.get(body.id, ""), body) for body in functions.values() if not body.declared)
    return tuple(Function(name, 0, body.offset, body.end - body.offset) for name, body in named if name)


def _has_lines(words: Words) -> bool:
    return bool(words.where(Opcode.Line)) or any(item.opcode not in _SAY_NOTHING for item in words.debug_instructions())


def _facts(words: Words) -> dict[str, Any]:
    tool, version = words.generator >> 16, words.generator & 0xFFFF
    facts: dict[str, Any] = {
        "generator": f"{_GENERATORS.get(tool, f'tool {tool}')} {version}",
        "byte_order": "foreign" if words.swapped else "host",
        "instruction_sets": list(words.imports.values()),
    }
    build_id = _build_identifier(words)
    if build_id is not None:
        facts["build_id"] = build_id
    sources = [ops[0] for _, ops in words.each(Opcode.Source) if ops]
    if sources:
        facts["source_language"] = _LANGUAGES[sources[0]] if sources[0] < len(_LANGUAGES) else str(sources[0])
    return facts


def _refuse_cut_off(words: Words, points: list[EntryPoint]) -> None:
    """A stream of whole instructions is still no module when its end is missing (SPIR-V 1.6, 2.4, logical layout)."""
    begun, ended = len(words.where(Opcode.Function)), len(words.where(Opcode.FunctionEnd))
    lost = next((entry for entry in points if entry.body is None), None)
    if not words.where(Opcode.MemoryModel):
        raise Malformed("has no OpMemoryModel; the module is cut off or incomplete", where="SPIR-V")
    if lost is not None:
        what = f"entry point {lost.name} names function %{lost.id}, which is not in the module"
        raise Malformed(f"{what}; the module is cut off or incomplete", where="SPIR-V")
    if begun != ended:
        raise Malformed(
            f"{counted(begun, 'function')}, of which {ended} {plural(ended, 'ends', 'end')}; the module is cut off",
            where="SPIR-V",
        )


class Body(NamedTuple):
    """An OpFunction .. OpFunctionEnd: instruction numbers ``[first, last]``, byte range ``[offset, end)``. ``name`` is
    the linkage name, else the OpName, else ""; a ``declared`` function has no block."""

    id: int
    type: int
    first: int
    last: int
    offset: int
    end: int
    name: str
    parameters: tuple[tuple[int, int], ...]
    """(id, type id) each."""
    declared: bool


class EntryPoint(NamedTuple):
    """An OpEntryPoint. ``body`` holds the code: the function it names, or the one that this function merely calls;
    ``wrapper`` is the former where they differ."""

    model: int
    id: int
    name: str
    number: int
    body: Body | None
    wrapper: Body | None


class SpirvModule:
    """A module split into instructions, with what several rooms ask of it, found once: its functions by id and its
    entry points, each in module order."""

    def __init__(self, words: Words) -> None:
        self.words = words

    @cached_property
    def functions(self) -> dict[int, Body]:
        return bodies(self.words)

    @cached_property
    def entries(self) -> list[EntryPoint]:
        return entry_points(self.words, self.functions)


def bodies(words: Words) -> dict[int, Body]:
    """Every function by id, in module order. One without OpFunctionEnd ends where the next begins."""
    starts, ends, labels = words.where(Opcode.Function), words.where(Opcode.FunctionEnd), words.where(Opcode.Label)
    linkage = _linkage_names(words)
    parameters = words.where(Opcode.FunctionParameter)
    found = {}
    for first, following in pairwise([*starts, len(words)]):
        ops = words.operands(first)
        if len(ops) < 4:
            continue
        at = bisect_left(ends, first)
        last = ends[at] if at < len(ends) and ends[at] < following else following - 1
        inside = parameters[bisect_left(parameters, first) : bisect_left(parameters, last)]
        pairs = tuple((p[1], p[0]) for p in map(words.operands, inside) if len(p) >= 2)
        label = bisect_left(labels, first)
        declared = not (label < len(labels) and labels[label] < last)
        name = linkage.get(ops[1]) or words.names.get(ops[1], "")
        found[ops[1]] = Body(
            ops[1], ops[3], first, last, words.offset(first), words.offset(last + 1), name, pairs, declared
        )
    return found


def _linkage_names(words: Words) -> dict[int, str]:
    """Exported and imported names by function id (OpDecorate LinkageAttributes)."""
    return {
        ops[0]: text(ops[2:])[0]
        for _, ops in words.each(Opcode.Decorate)
        if len(ops) > 2 and ops[1] == Decoration.LinkageAttributes
    }


def entry_points(words: Words, functions: dict[int, Body]) -> list[EntryPoint]:
    """Every OpEntryPoint, in order."""
    calls = words.where(Opcode.FunctionCall)
    found = []
    for number, ops in words.each(Opcode.EntryPoint):
        if len(ops) < 3:
            continue
        name = text(ops[2:])[0]
        named = functions.get(ops[1])
        called = _only_call(words, calls, functions, named) if named is not None and not named.name else None
        wraps = called is not None and called.name == name and not called.declared
        body, wrapper = (called, named) if wraps else (named, None)
        found.append(EntryPoint(ops[0], ops[1], name, number, body, wrapper))
    return found


def _only_call(words: Words, calls: list[int], functions: dict[int, Body], caller: Body) -> Body | None:
    """The function that ``caller`` calls, when it calls exactly one."""
    inside = calls[bisect_left(calls, caller.first) : bisect_left(calls, caller.last)]
    if len(inside) != 1:
        return None
    ops = words.operands(inside[0])
    return functions.get(ops[2]) if len(ops) > 2 else None
