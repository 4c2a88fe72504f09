"""LLVM's PTX: lines that it counts up within inline assembly, as Triton's accesses have them, and inlined calls that it says nothing of."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

import symd
from symd.debuginfo import row_scopes
from symd.debuginfo.rows_alone import UNKNOWN, AssemblyRows, shifts
from symd.model.answers import Reason
from symd.model.debug_info import LineRows

SAMPLES = Path(__file__).parents[2] / "samples"
TRITON = SAMPLES / "triton"
SOURCE = (TRITON / "helpers.py").read_text().splitlines()
ACCESSES = {
    "wide-sm_80": {0x90: "x + i)", 0x1C0: "y + i", 0x1D0: "return tl.load", 0x270: "atomic_add", 0x500: "tl.store"},
    "wide-sm_90": {0xF0: "x + i)", 0x160: "y + i", 0x180: "return tl.load", 0x1E0: "atomic_add", 0x3A0: "tl.store"},
    "total-sm_80": {0x60: "a = tl.load", 0x1E0: "apart(tl.load(x))", 0x2D0: "tl.store"},
    "total-sm_90": {0x70: "a = tl.load", 0x210: "apart(tl.load(x))", 0x2F0: "tl.store"},
    "add-sm_80": {0xB0: "y + i", 0xC0: "x + i", 0x1F0: "tl.store"},
    "add-sm_90": {0xE0: "y + i", 0xF0: "x + i", 0x230: "tl.store"},
}
"""The instructions that ``nvdisasm`` of CUDA 13.5 shows as reading or writing global memory, and what stands in the line that makes each, as its registers tell."""
FOUR_WORDS = """
	.loc	1 19 9
	// begin inline asm
	.loc	1 19 9
	mov.u32 %r1, 0x0;
	.loc	1 20 9
	mov.u32 %r2, %r9;
	{guard}ld.global.v2.b32 {{ %r1, %r2 }}, [ %rd2 + 0 ];

	// end inline asm
	bar.sync 	0;
	.loc	1 19 17
	add.s64 	%rd2, %rd6, %rd8;
"""
"""As Triton 3.9 has it, which wrote the lines that begin with ``.loc``: so are the texts below."""
BRACES = """
{
	.reg .b32 	%r<4>;
	ld.param.b64 	%rd2, [total_param_0];
	.loc	1 21 9
	// begin inline asm
	{
	.reg .b32 t;
	.loc	1 23 9
	add.s32 t, %r1, 3;
	.loc	1 24 9
	shl.b32 %r2, t, 2;
	}

	// end inline asm
	.loc	1 21 9
	{ // callseq 0, 0
	.param .b32 param0;
	.loc	1 25 9
	st.param.b32 	[param0], %r2;
	} // callseq 0
	{
	.param .b32 param0;
	.loc	1 25 9
	st.param.b32 	[param0], %r2;
	}
	ret;
}
"""


def shifted(ptx: str) -> dict[str, int]:
    """What is said of the lines of a text, of which an image keeps no ``.loc`` and no line that is a comment."""
    lines = ["" if line.strip().startswith((".loc", "//")) else line for line in ptx.split("\n")]
    return {lines[number - 1].strip(): shift for number, shift in shifts([line.encode() for line in lines]).items()}


@pytest.mark.parametrize("name", ACCESSES)
def test_an_access_has_the_line_where_the_source_has_it(name: str) -> None:
    with symd.open(TRITON / "bin" / f"{name}.cubin") as module:
        for offset, text in ACCESSES[name].items():
            answer = module.symbolize(f"{name.partition('-')[0]}+{offset:#x}")
            assert text in SOURCE[answer.frames[0].line - 1], (hex(offset), answer)
            assert (answer.reason is Reason.CONTRADICTORY) == (answer.frames[0].function is None)


def test_as_written_the_lines_are_those_that_nvdisasm_prints() -> None:
    with symd.open(TRITON / "bin" / "wide-sm_80.cubin") as module:
        written = [module.symbolize(f"wide+{offset:#x}", as_written=True) for offset in (0x90, 0x1C0, 0x1D0)]
    assert [(answer.frames[0].line, answer.reason) for answer in written] == [
        (54, Reason.EXACT),
        (54, Reason.EXACT),
        (42, Reason.EXACT),
    ]


def test_what_sets_the_words_of_a_load_counts_lines_up() -> None:
    assert shifted(FOUR_WORDS.format(guard="@%p1 ")) == {
        "mov.u32 %r2, %r9;": 1,
        "@%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd2 + 0 ];": 1,
        "bar.sync \t0;": 1,
    }
    alone = FOUR_WORDS.format(guard="").replace("\tld.global", "\t.loc 1 21 9\n\tld.global")
    assert shifted(alone) == {
        "mov.u32 %r2, %r9;": 1,
        "ld.global.v2.b32 { %r1, %r2 }, [ %rd2 + 0 ];": 2,
        "bar.sync \t0;": 2,
    }


@pytest.mark.parametrize("guard", ["", "@%p1 "])
def test_older_versions_of_llvm_count_nothing(guard: str) -> None:
    lines = FOUR_WORDS.format(guard=guard).split("\n")
    begin = lines.index("\t// begin inline asm")
    inside = [line for line in lines[begin + 1 : begin + 8] if not line.startswith("\t.loc")]
    assert shifted("\n".join([*lines[: begin + 1], *inside, *lines[begin + 8 :]])) == {}


@pytest.mark.parametrize(
    "other",
    ["mov.u32 %r2, %tid.x;", "mov.u32 %r7, 0x0;", "mov.b32 %r2, %r9, %r8;", "add.u32 %r2, %r9, 1;"],
)
def test_what_sets_something_else_is_not_of_the_load(other: str) -> None:
    assert "@%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd2 + 0 ];" not in shifted(
        FOUR_WORDS.format(guard="@%p1 ").replace("mov.u32 %r2, %r9;", other)
    )


def test_assembly_in_braces_is_of_an_unknown_line_and_a_call_is_none() -> None:
    assert shifted(BRACES) == {"add.s32 t, %r1, 3;": UNKNOWN, "shl.b32 %r2, t, 2;": UNKNOWN}


def test_a_branch_behind_an_access_is_none() -> None:
    """An empty line in front of it was a ``.loc``."""
    behind = "\t.loc\t1 14 5\n\t@%p1 bra \t$L__BB0_2;\n// %bb.1:\n\t.loc\t1 8 9\n\tand.b32 %r5, %r4, 3;\n"
    text = FOUR_WORDS.format(guard="@%p1 ").replace("\t.loc\t1 19 17\n", behind)
    assert set(shifted(text)) == {
        "mov.u32 %r2, %r9;", "@%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd2 + 0 ];", "bar.sync \t0;",
    }  # fmt: skip


def test_a_policy_of_eviction_counts_lines_up() -> None:
    text = """
\t// begin inline asm
\t.loc\t1 43 5
\tmov.u64 %rd93, 0x0;
\t.loc\t1 44 5
\tcreatepolicy.fractional.L2::evict_first.b64 %rd93, 1.0;

\t// end inline asm
\t// begin inline asm
\t@%p1 st.global.L1::evict_first.L2::cache_hint.b16 [ %rd2 + 0 ], { %rs1 }, %rd93;

\t// end inline asm
\t.loc\t1 45 5
\tret;
"""
    assert shifted(text) == {
        "createpolicy.fractional.L2::evict_first.b64 %rd93, 1.0;": 1,
        "@%p1 st.global.L1::evict_first.L2::cache_hint.b16 [ %rd2 + 0 ], { %rs1 }, %rd93;": 1,
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [("\tshl.b32 %r2, t, 2;\n\t}\n\n", "\tshl.b32 %r2, t, 2; }\n\n"), ("\t{\n\t.reg .b32 t;", "\t{ .reg .b32 t;")],
)
def test_braces_may_stand_beside_instructions(one: str, other: str) -> None:
    assert one in BRACES
    found = shifted(BRACES.replace(one, other) * 2)
    assert set(found) == {
        "add.s32 t, %r1, 3;",
        other.split("\n", maxsplit=1)[0].strip() if "shl" in other else "shl.b32 %r2, t, 2;",
    }
    assert set(found.values()) == {UNKNOWN}


def test_rows_without_code_and_without_functions_have_no_pieces() -> None:
    empty = LineRows.empty()
    assembly = AssemblyRows(array("I", [0]), array("Q", [0]), array("Q", [16]), array("q", [1]))
    found = row_scopes.scopes(empty, ("",), (), files=("",), assembly=assembly)
    assert not len(found.written.start)


def test_the_users_own_assembly_is_doubted_and_keeps_its_line() -> None:
    """LLVM counts from the line of the call, and the text begins on the next one."""
    with symd.open(TRITON / "bin" / "wide-sm_90.cubin") as module:
        answer = module.symbolize("wide+0x230")
    assert (answer.reason, answer.frames[0].line) == (Reason.CONTRADICTORY, 58)
    assert "add.s32" in SOURCE[59 - 1]


@pytest.mark.parametrize("name", ["fatbin-14.o", "linked-22.so", "module-22.o", "offloading-22.o"])
def test_where_no_inlined_call_is_told_a_line_may_be_a_callees(name: str) -> None:
    """``norms`` begins on line 16 of wrapped.cu, and what it calls stands before it."""
    body = range(16, 21)
    with symd.open(SAMPLES / "cuda" / "bin" / "clang" / name) as module:
        for path in [each.path for each in module.objects]:
            offsets = range(0, 0x100, 16)
            queries = [f"_Z5normsPfPKfi+{offset:#x}" for offset in offsets]
            said = [module.symbolize(query, path=path) for query in queries]
            written = [module.symbolize(query, path=path, as_written=True) for query in queries]
            lined = [answer for answer in said if answer.frames and answer.frames[0].line]
            assert lined
            assert {answer.frames[0].line in body for answer in lined} == {True, False}
            assert all((answer.frames[0].line in body) == (answer.reason is Reason.INFERRED) for answer in lined)
            assert all(answer.reason is Reason.CONTRADICTORY or answer.reason is Reason.INFERRED for answer in lined)
            assert [answer.frames for answer in said] == [answer.frames for answer in written]
            assert {answer.reason for answer in written if answer.frames and answer.frames[0].line} == {Reason.EXACT}
