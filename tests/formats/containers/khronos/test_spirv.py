"""SPIR-V modules as code objects: kernels, functions and facts against other tools' listings and the sources."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from symd.config import Limits
from symd.debuginfo import reading
from symd.errors import LimitExceeded, Malformed, SymdError
from symd.formats.budget import Budget
from symd.formats.containers import spirv
from symd.formats.containers.format import Element
from symd.formats.spirv import parse, split, text
from symd.model.code import CodeObject, Kernel
from tests import tools
from tests.debuginfo.spirv.spirv_listing import Instruction, by_llvm_spirv, by_spirv_dis

BIN = Path(__file__).parents[4] / "samples" / "spirv" / "bin"
MEMORY_MODEL = struct.pack("<3I", 3 << 16 | 14, 2, 2)
HEADER = struct.pack("<5I", 0x07230203, 0x00010000, 0, 10, 0) + MEMORY_MODEL
FILES = sorted(BIN.glob("*.spv"))


def code_object(data: bytes) -> CodeObject:
    found = spirv.read(Element("", data), Budget(Limits())).code_object
    assert found is not None
    return found


def sample(name: str) -> CodeObject:
    return code_object((BIN / f"{name}.spv").read_bytes())


def kernel(code: CodeObject, name: str) -> Kernel:
    return next(kernel for kernel in code.kernels if kernel.name == name)


def bodies(listing: list[Instruction]) -> list[tuple[str, int, int, bool]]:
    """(result id, offset, end, whether it has blocks) of every function in a listing."""
    found = []
    for at, item in enumerate(listing):
        if item.op == "Function":
            last = next(i for i in range(at, len(listing)) if listing[i].op == "FunctionEnd")
            inside = [one.op for one in listing[at:last]]
            found.append((item.result, item.offset, listing[last].offset + 4, "Label" in inside))
    return found


@pytest.mark.parametrize(("number", "language"), [(2, "GLSL"), (11, "Slang"), (12, "Zig"), (13, "Rust"), (99, "99")])
def test_source_languages_are_those_of_the_registry(number: int, language: str) -> None:
    """OpSource: language, version (SPIR-V unified specification, 3.2)."""
    source = struct.pack("<3I", 3 << 16 | 3, number, 1)
    assert code_object(HEADER + source).facts["source_language"] == language


@pytest.mark.parametrize(
    "name", ["waves.g", "waves.gV", "waves.gVS", "outranked", "inline.O0.ocl-100", "inline.O2.none"]
)
def test_functions_span_what_spirv_dis_lists(name: str) -> None:
    spans = [(start, end - start) for _, start, end, defined in bodies(by_spirv_dis(BIN / f"{name}.spv")) if defined]
    assert [(function.offset, function.size) for function in sample(name).functions] == spans


@pytest.mark.parametrize(
    "name", ["arguments.O2.ocl-100", "methods.O0.ocl-100", "atomics.O2.legacy", "subgroups.O2.ocl-100"]
)
def test_functions_span_what_llvm_spirv_lists(name: str, tmp_path: Path) -> None:
    spans = [
        (start, end - start)
        for _, start, end, defined in bodies(by_llvm_spirv(BIN / f"{name}.spv", tmp_path))
        if defined
    ]
    assert [(function.offset, function.size) for function in sample(name).functions] == spans


def test_a_kernel_of_llvm_spirv_is_its_body_and_its_wrapper_is_told(tmp_path: Path) -> None:
    listing = by_llvm_spirv(BIN / "inline.O2.ocl-100.spv", tmp_path)
    entry = next(item for item in listing if item.op == "EntryPoint")
    spans = {result: (start, end - start) for result, start, end, _ in bodies(listing)}
    call = next(item for item in listing if item.op == "FunctionCall")
    body, wrapper = spans[call.operands[2]], spans[entry.operands[1]]
    code = sample("inline.O2.ocl-100")
    found = kernel(code, "fade")
    assert (found.offset, found.size) == body
    assert found.facts["entry_wrapper"] == {"offset": wrapper[0], "size": wrapper[1]}
    assert [function.name for function in code.functions] == ["weigh", "blend", "fade", "fade"]


def test_a_kernel_of_glslang_is_the_function_that_the_entry_point_names() -> None:
    found = kernel(sample("waves.gVS"), "main")
    assert "entry_wrapper" not in found.facts
    assert found.facts["local_size"] == [64, 1, 1]
    assert found.facts["execution_model"] == "GLCompute"


@pytest.mark.parametrize("name", ["arguments.O2.ocl-100", "arguments.O0.legacy"])
def test_kernel_facts_are_those_of_the_source(name: str) -> None:
    """Names and types as arguments.cl declares them; SPIR-V knows neither unsignedness nor const."""
    code = sample(name)
    assert [one.name for one in code.kernels] == ["scalars", "memory", "images", "byvalue", "precise"]
    facts = {one.name: one.facts for one in code.kernels}
    arguments = {one: [(argument["name"], argument["type"]) for argument in facts[one]["arguments"]] for one in facts}
    assert arguments == {
        "scalars": [
            *(("c", "char"), ("s", "short"), ("i", "int"), ("l", "long"), ("f", "float"), ("v", "float4")),
            ("out", "long*"),
        ],
        "memory": [("out", "int*"), ("shared", "int*"), ("table", "int*")],
        "images": [("from", "image2d"), ("to", "image3d"), ("filter", "sampler")],
        "byvalue": [("p", "struct pair"), ("out", "float*")],
        "precise": [("d", "double"), ("out", "double*")],
    }
    assert [argument["address_space"] for argument in facts["memory"]["arguments"]] == ["global", "local", "constant"]
    assert facts["byvalue"]["arguments"][0]["by_value"] is True
    assert facts["scalars"]["local_size"] == [16, 2, 1]
    assert facts["memory"]["subgroup_size"] == 16
    assert facts["byvalue"]["local_size_hint"] == [8, 8, 1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_only_section_is_the_module(path: Path) -> None:
    data = path.read_bytes()
    code = code_object(data)
    (section,) = code.sections
    assert (section.index, section.name, section.address, section.size) == (0, "", 0, len(data))
    assert section.executable
    assert section.data == code.data == data
    assert code.debug == ("none" if "none" in path.name else "spirv")
    assert code.warnings == ()


@pytest.mark.parametrize("name", ["waves.gVS", "inline.O2.none", "inline.O2.ocl-100"])
def test_the_target_is_the_version_that_spirv_dis_prints(name: str) -> None:
    listing = tools.output(tools.require("spirv-dis"), "--no-color", BIN / f"{name}.spv")
    version = next(line.split()[-1] for line in listing.splitlines() if line.startswith("; Version"))
    assert sample(name).target == f"spirv{version}"


@pytest.mark.parametrize("name", ["waves.gVS", "inline.O2.ocl-100"])
def test_the_byte_order_of_the_words_changes_nothing(name: str) -> None:
    here, there = sample(name), sample(f"{name}.big-endian")
    assert (here.kernels, here.functions, here.target) == (there.kernels, there.functions, there.target)
    assert (here.facts["byte_order"], there.facts["byte_order"]) == ("host", "foreign")


def test_claims_both_byte_orders_and_nothing_else() -> None:
    assert spirv.claims(HEADER)
    assert spirv.claims(bytes(reversed(HEADER[:4])))
    for data in (b"", b"\x03\x02\x23", b"\x7fELF" + HEADER, b"\0" * 64):
        assert not spirv.claims(data)


@pytest.mark.parametrize(
    ("tail", "place"),
    [
        (struct.pack("<I", 0), "byte 32"),
        (struct.pack("<2I", 3 << 16 | 17, 4), "byte 32"),
        (b"\0", "byte 32"),
        (struct.pack("<2I", 2 << 16 | 17, 4) + b"\x11\0\0", "byte 40"),
    ],
    ids=["word count 0", "word count past the end", "no whole word", "no whole word behind an instruction"],
)
def test_what_does_not_split_to_its_end_is_malformed_at_its_offset(tail: bytes, place: str) -> None:
    with pytest.raises(Malformed, match=place):
        code_object(HEADER + tail)


def test_a_header_cut_short_is_malformed() -> None:
    with pytest.raises(Malformed, match="header"):
        code_object(HEADER[:12])


def test_a_module_cut_off_between_two_instructions_is_refused() -> None:
    entry = struct.pack("<4I", 4 << 16 | 15, 6, 7, int.from_bytes(b"gon\0", "little"))
    begun = struct.pack("<5I", 5 << 16 | 54, 2, 3, 0, 4)
    for data, said in (
        (HEADER[:20], "OpMemoryModel"),
        (HEADER + entry, "entry point gon names function %7"),
        (HEADER + begun, "1 function, of which 0 end"),
    ):
        with pytest.raises(Malformed, match=said):
            code_object(data)


def test_a_huge_id_bound_costs_nothing() -> None:
    header = struct.pack("<5I", 0x07230203, 0x00010000, 0, 0xFFFFFFFF, 0) + MEMORY_MODEL
    data = header + struct.pack("<2I", 2 << 16 | 19, 0xFFFFFFFE)
    assert code_object(data).kernels == ()


def test_many_entry_points_of_one_function_share_their_facts() -> None:
    """20,000 entry points of a kernel with 20,000 arguments would have 20 million of them."""
    data = entry_points_of_one_function(20_000)
    with pytest.raises(LimitExceeded) as caught:
        code_object(data)
    assert caught.value.metadata["limit"] == "shared_facts"
    code = code_object(entry_points_of_one_function(500))
    assert len(code.kernels) == 500
    assert len(code.kernels[499].facts["arguments"]) == 500
    assert code.kernels[0].facts["arguments"] is code.kernels[499].facts["arguments"]


def entry_points_of_one_function(number: int) -> bytes:
    """So many entry points, of a function with as many parameters."""
    kind = struct.pack("<4I", 4 << 16 | 21, 1, 32, 0) + struct.pack("<2I", 2 << 16 | 19, 2)
    entries = struct.pack("<4I", 4 << 16 | 15, 6, 3, 0x6B) * number
    parameters = b"".join(struct.pack("<3I", 3 << 16 | 55, 1, 10 + at) for at in range(number))
    function = struct.pack("<5I", 5 << 16 | 54, 2, 3, 0, 4) + parameters + struct.pack("<2I", 2 << 16 | 248, 5)
    return HEADER + entries + kind + function + struct.pack("<2I", 1 << 16 | 253, 1 << 16 | 56)


def test_a_type_that_contains_itself_is_spelled_in_bounded_time() -> None:
    pointer = struct.pack("<4I", 4 << 16 | 32, 1, 5, 1)
    void = struct.pack("<2I", 2 << 16 | 19, 2)
    function = struct.pack("<5I", 5 << 16 | 54, 2, 3, 0, 4) + struct.pack("<3I", 3 << 16 | 55, 1, 6)
    ending = struct.pack("<4I", 2 << 16 | 248, 7, 1 << 16 | 253, 1 << 16 | 56)
    entry = struct.pack("<4I", 4 << 16 | 15, 6, 3, 0x6B)
    code = code_object(HEADER + entry + pointer + void + function + ending)
    assert code.kernels[0].facts["arguments"][0]["type"].startswith("?**")


@pytest.mark.parametrize("name", ["waves.gVS", "arguments.O2.ocl-100"])
def test_every_truncation_is_an_error_of_the_tree_or_an_answer(name: str) -> None:
    data = (BIN / f"{name}.spv").read_bytes()
    for size in range(0, len(data), 52):
        try:
            code_object(data[:size])
        except SymdError:
            continue


def test_a_string_ends_at_its_zero_byte_and_takes_whole_words() -> None:
    words = [int.from_bytes(piece, "little") for piece in (b"abcd", b"ef\0\0", b"next")]
    assert text(words) == ("abcdef", 2)
    assert text([int.from_bytes(b"open", "little")]) == ("open", 1)


def test_word_counts_add_up_to_the_file() -> None:
    for path in FILES:
        words = parse(path.read_bytes())
        assert 20 + 4 * sum(words.count) == path.stat().st_size == words.end


@pytest.mark.parametrize(
    ("name", "known", "unknown"),
    [
        ("waves.gV", "NonSemantic.Shader.DebugInfo.100", "NonSemantic.Shader.DebugInfo.101"),
        ("waves.gV", "NonSemantic.Shader.DebugInfo.100", "NonSemantic.Kernel.DebugInfo.100"),
        ("blend.dpcpp", "NonSemantic.Shader.DebugInfo.200", "NonSemantic.Shader.DebugInfo.300"),
        ("inline.O2.ocl-100", "OpenCL.DebugInfo.100", "OpenCL.DebugInfo.101"),
    ],
)
def test_a_debug_set_of_an_unknown_version_is_named_and_never_read_as_another(
    name: str, known: str, unknown: str
) -> None:
    data = (BIN / f"{name}.spv").read_bytes()
    assert len(reading.read(code_object(data)).scopes) > 0
    assert not code_object(data).warnings
    newer = code_object(data.replace(known.encode(), unknown.encode()))
    (warning,) = newer.warnings
    assert unknown in warning
    assert len(reading.read(newer).scopes) == 0


@pytest.mark.parametrize("opcodes", [(17,), (54,), (12, 54, 56), (7, 7), (1 << 15,), ()])
def test_instructions_are_found_by_their_opcodes_in_order(opcodes: tuple[int, ...]) -> None:
    for data in (*(path.read_bytes() for path in FILES[:3]), HEADER[:20]):
        words = split(data)
        assert words.where(*opcodes) == [n for n, opcode in enumerate(words.opcode.tolist()) if opcode in opcodes]


def test_instructions_are_found_by_any_opcodes() -> None:
    for data in (path.read_bytes() for path in FILES):
        module = parse(data)
        opcode = module.opcode.tolist()
        for each in (*range(0, 400, 7), max(opcode) + 1, 65535):
            assert module.where(each) == [number for number, its in enumerate(opcode) if its == each]
        assert module.where(*opcode) == [*range(len(opcode))]
        assert module.where(5, 5, 54) == [number for number, its in enumerate(opcode) if its in (5, 54)]
        assert module.where() == []
