"""symd locate, names and watch."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store import Store
from tests.cli.conftest import ROOT, SYMD, Run

SAMPLES = ROOT / "samples" / "kernels" / "bin"
BLUR = SAMPLES / "blur" / "igc2-dg2-opt-zebin.blur.elf"
"""gdb says of it: line 8 has the locations 0x1e8, 0x2d0, 0x3c0 and 0x400, all in ``at``; a breakpoint at line 11, where
``blur`` begins, goes to 0x120 and line 13."""
RAYCAST = SAMPLES / "raycast" / "dg2-opt-zebin.raycast.elf"
LINKED = ROOT / "samples" / "cuda" / "bin" / "linked.sm_90.debug.cubin"
"""Of two sources and two headers."""
FILTERS = ROOT / "samples" / "amdgpu" / "bin" / "v5-gfx1100.co"


def test_json_has_the_contracts_keys_in_its_order(run: Run) -> None:
    first = run("locate", "--json", BLUR, "blur.cl:8").json[0]
    assert list(first.items()) == [
        ("requested", "blur.cl:8"),
        ("object", ""),
        ("kernel", "blur"),
        ("function", "at"),
        ("section", ".text.blur"),
        ("section_offset", 0x1E8),
        ("address", 0x1E8),
        ("file", "/tmp/symd-opencl/blur.cl"),
        ("line", 8),
        ("column", 22),
        ("inlined", True),
        ("slid", False),
    ]


def test_a_helper_inlined_four_times_gives_the_four_places_of_gdb(run: Run) -> None:
    assert [location["address"] for location in run("locate", "--json", BLUR, "blur.cl:8").json] == [
        0x1E8,
        0x2D0,
        0x3C0,
        0x400,
    ]


def test_sliding_prologues_and_all(run: Run) -> None:
    ((begun,), (slid,), (every,)) = (
        run("locate", "--json", BLUR, "blur.cl:11").json,
        run("locate", "--json", BLUR, "blur.cl:9").json,
        run("locate", "--json", "--all", BLUR, "blur.cl:11").json,
    )
    assert (begun["address"], begun["line"], begun["slid"]) == (0x120, 13, False)
    assert (slid["address"], slid["line"], slid["slid"]) == (0x120, 13, True)
    assert (every["address"], every["line"], every["slid"]) == (0, 11, False)


@pytest.mark.parametrize(
    ("arguments", "reason", "candidates"),
    [
        (["blur.cl:99"], "PAST_END", ["/tmp/symd-opencl/blur.cl"]),
        (["--all", "blur.cl:9"], "NO_CODE_AT_LINE", ["/tmp/symd-opencl/blur.cl"]),
        (["x/blur.cl:9"], "NO_SUCH_FILE", ["/tmp/symd-opencl/blur.cl"]),
        (["nothing.cl:9"], "NO_SUCH_FILE", []),
    ],
)
def test_a_refusal_is_one_line_and_a_no(run: Run, arguments: list[str], reason: str, candidates: list[str]) -> None:
    outcome = run("locate", "--json", BLUR, *arguments)
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.json == [{"requested": arguments[-1], "reason": reason, "candidates": candidates}]


@pytest.mark.parametrize("line", ["blur.cl", "blur.cl:0", ":8", "blur.cl:x"])
def test_what_is_no_source_line_is_misuse(run: Run, line: str) -> None:
    outcome = run("locate", BLUR, line)
    assert (outcome.code, outcome.out) == (2, "")
    assert "FILE:LINE" in outcome.err


def test_a_bad_rule_is_misuse(run: Run) -> None:
    outcome = run("locate", "--map", "nothing", BLUR, "blur.cl:8")
    assert outcome.code == 2
    assert "FROM=TO" in outcome.err


def test_rules_move_the_files(run: Run) -> None:
    places = run("locate", "--json", "--map", "/tmp/symd-opencl=/home/me", BLUR, "/home/me/blur.cl:8").json
    assert {place["file"] for place in places} == {"/home/me/blur.cl"}


def test_text_says_where_and_why(run: Run) -> None:
    lines = run("locate", BLUR, "blur.cl:8", "blur.cl:9", "blur.cl:99", "x/blur.cl:1").out.splitlines()
    assert lines[0] == "blur.cl:8: 0x1e8 (.text.blur)+0x1e8 in blur: at at /tmp/symd-opencl/blur.cl:8:22 (inlined)"
    assert (
        lines[4]
        == "blur.cl:9: 0x120 (.text.blur)+0x120 in blur: blur at /tmp/symd-opencl/blur.cl:13:13 (slid: no code on the line itself)"
    )
    at_column = run("locate", BLUR, "blur.cl:8:99").out.splitlines()
    assert at_column == [
        f"{line.replace(':8: ', ':8:99: ', 1)} (slid: no code at this column)" for line in lines[: len(at_column)]
    ]
    assert lines[5].endswith("; the last line with one is 19 [PAST_END]")
    assert lines[6:] == [
        "x/blur.cl:1: no such source file [NO_SUCH_FILE]",
        "  did you mean /tmp/symd-opencl/blur.cl?",
    ]


def test_a_line_in_doubt_has_its_addresses_and_the_call_that_shows_them(run: Run) -> None:
    """llvm-dwarfdump has two rows of line 16: a statement at 0x60, and 0x688, where none begins."""
    outcome = run("locate", RAYCAST, "raycast.cl:16")
    first, statement, other, call = outcome.out.splitlines()
    assert (outcome.code, first.endswith("at every statement on this line [CONTRADICTORY]")) == (1, True)
    assert statement == "  uncertain address: 0x60 (.text.raycast)+0x60 [CONTRADICTORY]"
    assert other == "  uncertain address: 0x688 (.text.raycast)+0x688, where no statement begins [INFERRED]"
    assert call.startswith(f"  symd symbolize --as-written {RAYCAST} ADDRESS shows what the debug data says")
    assert "raycast.cl:16" in run("symbolize", "--as-written", RAYCAST, "0x60").out


def test_a_number_alone_is_a_line_of_the_only_source(run: Run) -> None:
    alone, named = run("locate", BLUR, "8"), run("locate", BLUR, "blur.cl:8")
    assert (alone.code, alone.out) == (0, named.out.replace("blur.cl:8: ", "8: "))
    tonemap = SAMPLES / "tonemap" / "igc2-dg2-opt.zebin"
    assert run("locate", tonemap, "9").out == run("locate", tonemap, "tonemap.cl:9").out.replace(
        "tonemap.cl:9: ", "9: "
    )
    several = run("locate", LINKED, "9")
    assert (several.code, "9 may be a line of 2 source files (write " in several.err) == (2, True)
    assert f"symd locate {LINKED} linked_callee.cu:9 or symd locate {LINKED} linked_kernel.cu:9)" in several.err


def test_names_by_name_pattern_and_prefix(run: Run) -> None:
    def found(*arguments: str) -> list[tuple[str, str]]:
        return [(each["kind"], each["name"]) for each in run("names", "--json", FILTERS, *arguments).json]

    assert found("shading::blend") == [("function", "blend")]
    assert found("march*") == [("function", "march<float>"), ("function", "march<double>")]
    assert found("--kind", "kernel", "*") == [("kernel", "_Z5shadePfPKfi"), ("kernel", "_Z13shade_doublesPdPKdi")]
    assert found("--prefix", "shade.") == [("file", "/src/shade.hip")]
    assert found("-C", "--kind", "kernel", "shade") == [("kernel", "shade(float*, float const*, int)")]


def test_a_kernel_has_its_place_and_its_facts(run: Run) -> None:
    (kernel,) = run("names", "--json", FILTERS, "--kind", "kernel", "shade").json
    assert (kernel["section"], kernel["section_offset"], kernel["address"], kernel["size"]) == (".text", 0, 6400, 132)
    assert kernel["facts"]["kernarg_size"] == 20


def test_a_name_nobody_has_is_a_no(run: Run) -> None:
    outcome = run("names", FILTERS, "--exact", "march*")
    assert (outcome.code, outcome.out) == (1, "")
    calls = (f"symd names {FILTERS} --exact '{name}'" for name in ("march<float>", "march<double>"))
    said = f"nothing is named 'march*' (did you mean march<float> or march<double>? Write {' or '.join(calls)})"
    assert outcome.err == f"symd: {FILTERS}: {said}\n"
    assert run("names", FILTERS, "").code == 2


def test_text_of_names_is_one_line_each(run: Run) -> None:
    lines = run("names", FILTERS, "*").out.splitlines()
    assert [line.split()[0] for line in lines] == ["kernel", "kernel", "function", "function", "function", "file"]
    assert "0x1984 (.text)+0x84, 84 bytes" in lines[2]
    assert lines[4].endswith("inlined 2 times")


def test_a_server_answers_alike_and_a_watch_hears_of_what_it_is_given(run: Run, tmp_path: Path) -> None:
    config = Config(store=tmp_path / "store", address=f"unix:{tmp_path}/s", grace=1.0)
    with Engine(Store(config.store, Limits(), durable=False)) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address:
            daemon.server.start()
            command = [*SYMD, "watch", "--server", address, "--json", "blur.cl:8"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
                assert waiting.stdout
                remote = run("locate", "--server", address, "--json", BLUR, "blur.cl:8").out
                heard = [json.loads(waiting.stdout.readline()) for _ in range(4)]
                waiting.terminate()
            assert remote == run("locate", "--json", BLUR, "blur.cl:8").out
            assert [
                {key: value for key, value in each.items() if key not in ("module", "resume_token")} for each in heard
            ] == [json.loads(line) for line in remote.splitlines()]
            assert {each["module"] for each in heard} == {f"modules/{record.sha256}" for record in engine.modules()}
            daemon.stop(1)


def test_without_debug_data_there_is_no_source_file_to_look_for(run: Run) -> None:
    stripped = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900-nodebug.co"
    outcome = run("locate", stripped, "shade.cl:13")
    advice = "compile with -g, or with -gline-tables-only for lines alone (hipcc, clang)"
    assert outcome.err == f"symd: {stripped} has no debug data, and so no source files: {advice}\n"
    assert outcome.code == 1


def test_a_fat_binary_without_machine_code_says_what_it_has(run: Run) -> None:
    file = ROOT / "samples" / "cuda" / "bin" / "saxpy.lto.fatbin"
    outcome = run("locate", file, "saxpy.cu:3")
    assert outcome.code == 1
    assert outcome.err.startswith(
        f"symd: there is no code object in {file}; LTO entry lto_90 at byte 16: skipped, it holds NVVM IR"
    )


def test_a_source_file_like_no_other_says_how_to_see_the_files(run: Run, sample: Path):
    outcome = run("locate", sample, "zzz.cl:1")
    assert outcome.err == f"symd: symd names --kind file {sample} '*' shows the source files\n"
    assert outcome.code == 1


def test_readable_names_are_those_of_kernels_too(run: Run) -> None:
    """As c++filt writes the name of the kernel's symbol."""
    cubin = ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.lines.cubin"
    assert " in _Z7raycastPfi6float3: _Z7raycastPfi6float3 at " in run("locate", cubin, "raycast.cu:29").out
    said = run("locate", "-C", cubin, "raycast.cu:29").out
    assert " in raycast(float*, int, float3): raycast(float*, int, float3) at " in said


def test_a_line_past_the_end_comes_with_the_call_for_the_last_one(run: Run) -> None:
    file = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    past = run("locate", file, "shade.cl:200")
    last = re.search(r"the last line with one is (\d+) \[PAST_END\]", past.out)
    assert last is not None
    assert (past.code, past.err) == (1, f"symd: write symd locate {file} shade.cl:{last[1]}\n")
    assert run("locate", file, f"shade.cl:{last[1]}").code == 0
