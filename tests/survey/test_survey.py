"""The survey sees what is wrong, and says so by its exit code; and what is small of it, surveyed."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests import tools
from tests.builders.elf import ALLOC, ET_DYN, OBJECT, Section, Symbol, build_elf
from tests.survey import __main__ as command
from tests.survey import page
from tests.survey.artefacts import ARTEFACTS, HIP, Artefact, Bounds
from tests.survey.case import ROOT, Case, Compared
from tests.survey.compare import (
    COMPARISONS,
    elf_symbols,
    embedded_spirv,
    hpcstruct,
    llvm_symbolizer,
    nvidia_tools,
    offloading,
    source_text,
    spirv_tools,
)
from tests.survey.measured import Usage, run
from tests.survey.registries import DebianPackage, Unreachable, Wheel
from tests.survey.surveyed import Row, least, over, refuse, survey

AMD = ROOT / "samples" / "amdgpu" / "bin"
CUDA = ROOT / "samples" / "cuda" / "bin"
SPIRV = ROOT / "samples" / "spirv" / "bin"
MIB = 1 << 20


def sample(*, files: str, compare: tuple[str, ...], bounds: Bounds | None = None) -> Artefact:
    return Artefact("sample", (files,), compare, checkout="SYMD_SURVEY_SAMPLES", about="a sample", bounds=bounds)


@pytest.fixture
def amd_case(tmp_path: Path) -> Case:
    tools.require("llvm-symbolizer-22")
    return Case(AMD / "split-22-dwarf5-whole.co", tmp_path)


def test_a_host_program_agrees_with_every_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMD_SURVEY_SAMPLES", str(AMD))
    row = survey(sample(files="host", compare=(*HIP, "pyelftools")), tmp_path)
    assert not row.problems
    assert len(row.compared) == len(HIP) + 1
    assert min(row.compared.values()) > 0
    assert row.reasons["EXACT"] > 50
    assert row.info.peak > MIB
    assert row.one_address.processor > 0


def test_a_comparison_that_finds_nothing_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMD_SURVEY_SAMPLES", str(AMD))
    row = survey(sample(files="split-22-dwarf5-whole.co", compare=("spirv-kernels",)), tmp_path)
    assert row.problems == ["spirv-dis: modules with their entry points: nothing to compare"]
    assert survey(sample(files="no-such-file", compare=()), tmp_path).problems


def test_a_file_that_symd_refuses_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "broken.co").write_bytes((AMD / "split-22-dwarf5-whole.co").read_bytes()[:200])
    monkeypatch.setenv("SYMD_SURVEY_SAMPLES", str(tmp_path / "files"))
    row = survey(sample(files="*.co", compare=()), tmp_path / "work")
    assert any("exit code 2" in problem for problem in row.problems)


def test_a_claim_of_a_host_file_is_a_problem(tmp_path: Path) -> None:
    row = Row()
    refuse([Path(sys.executable).resolve()], tmp_path, row)
    assert not row.problems
    refuse([AMD / "host"], tmp_path, row)
    assert len(row.problems) == 1
    assert set(row.compared.values()) == {2}


def test_wrong_frames_are_told(amd_case: Case) -> None:
    assert not llvm_symbolizer.frames(amd_case).differences
    answers = amd_case.asked[0].answers(as_written=True)
    right = next(answer for answer in answers if answer["frames"] and answer["reason"] == "EXACT")
    right["frames"][0]["line"] += 1
    found = llvm_symbolizer.frames(amd_case)
    assert len(found.differences) == 1
    right["frames"] = []
    assert len(llvm_symbolizer.frames(amd_case).differences) == 1


def test_answers_that_the_source_contradicts_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_text, "PROGRAMS", CUDA.parent)
    case = Case(CUDA / "raycast.sm_90.lines.cubin", tmp_path)
    found = source_text.answers(case)
    assert found.count > 100
    assert not found.differences
    called = next(answer for answer in case.asked[0].answers() if len(answer["frames"]) > 1)
    called["frames"][1]["line"] -= 1
    assert called["reason"] in source_text.answers(case).differences[0]
    called["frames"] = called["frames"][:1]
    called["frames"][0]["line"] = 1
    (told,) = source_text.answers(case).differences
    assert "and wrong: _Z7squaredfff:1" in told


def test_wrong_functions_and_kernels_are_told(amd_case: Case) -> None:
    assert not elf_symbols.functions(amd_case).differences
    assert not elf_symbols.kernels(amd_case).differences
    amd_case.asked[0].answers()[0]["frames"][-1].update(function="nobody", linkage_name=None)
    assert len(elf_symbols.functions(amd_case).differences) == 1
    amd_case.objects[0].entry["kernels"][0]["size"] += 4
    assert len(elf_symbols.kernels(amd_case).differences) == 1


def test_cubins_that_one_of_the_two_has_not_are_told(tmp_path: Path) -> None:
    objects = Case(CUDA / "program", tmp_path).objects
    digests = Counter(str(each.entry["sha256"]) for each in objects)
    assert not nvidia_tools.compare_cubins(digests, objects).differences
    assert nvidia_tools.compare_cubins(digests + Counter(["0" * 64]), objects).differences
    with_kernels = next(each for each in objects if each.entry["kernels"])
    assert nvidia_tools.compare_cubins(digests - Counter([with_kernels.entry["sha256"]]), objects).differences


LISTING = """\
//--------------------- .text.saxpy --------------------------
.text.saxpy:
        //## File "/src/a.cu", line 4 inlined at "/src/a.cu", line 9
        //## File "/src/a.cu", line 9
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   NOP ;
        //## File "/src/a.cu", line 10
        /*0020*/                   EXIT ;
"""


def test_nvdisasms_positions_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    printing = (sys.executable, "-c", f"print({LISTING!r})")
    monkeypatch.setattr(nvidia_tools, "run", lambda *_: run(printing, tmp_path))
    monkeypatch.setattr(nvidia_tools, "tool", lambda name: name)
    ((name, chains),) = nvidia_tools.disassembled(tmp_path / "a.cubin")
    assert name == ".text.saxpy"
    assert list(chains) == [(0, [("/src/a.cu", 4), ("/src/a.cu", 9)]), (16, []), (32, [("/src/a.cu", 10)])]


def test_other_positions_than_nvdisasms_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (each,) = Case(CUDA / "saxpy.sm_75.lines.cubin", tmp_path).objects
    first, *_ = each.answers(as_written=True)
    offset = first["section_offset"]
    chain = [(frame["file"], frame["line"]) for frame in first["frames"]]
    for told, differences in ((chain, 0), ([(chain[0][0], chain[0][1] + 1), *chain[1:]], 1), ([], 1)):
        listed = [(first["section"], iter([(offset, told)]))]
        monkeypatch.setattr(nvidia_tools, "disassembled", lambda _, listed=listed: listed)
        assert len(nvidia_tools.compare_positions(each).differences) == differences


def test_other_lines_than_hpcstructs_are_told_but_of_the_assemblers_own_functions(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "struct").mkdir()
    path = tmp_path / "bin" / "linked"
    path.write_bytes((CUDA / "linked.sm_80.lines.cubin").read_bytes())
    case = Case(path, tmp_path / "case")
    ((_, elf),) = elf_symbols.listed([path])
    begin = {each.name: each.offset for each in elf.sections.values()}
    kernel, own = begin[".text._Z5decayPff"], begin[".text.__cuda_sm20_sqrt_rn_f32_slowpath"]
    for lines, told in (({own: 7}, 0), ({kernel: 7, own: 7}, 1)):
        text = "".join(f'<S l="{number}" v="{{[{at:#x}-{at + 1:#x})}}"/>' for at, number in lines.items())
        (tmp_path / "struct" / "linked.hpcstruct").write_text(f"<P>{text}</P>")
        found = hpcstruct.lines(case)
        assert (found.count, len(found.differences)) == (len(lines) - 1, told)


def test_a_position_that_the_section_before_ended_with_is_not_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """nvdisasm prints a position where it changes, also from one section to the next."""
    (each,) = Case(CUDA / "saxpy.sm_75.lines.cubin", tmp_path).objects
    section = each.entry["kernels"][0]["section_index"]
    each.queries = [f"(#{section})+0x0"]
    (first,) = each.answers(as_written=True)
    frame, name = first["frames"][0], first["section"]
    for line, differences in ((frame["line"], 0), (frame["line"] + 1, 2)):
        before = (f"#{section}", [(0, [(frame["file"], line)])])
        monkeypatch.setattr(nvidia_tools, "disassembled", lambda _, before=before: [before, (name, [(0, [])])])
        assert len(nvidia_tools.compare_positions(each).differences) == differences


def test_positions_of_spirv_are_compared(tmp_path: Path) -> None:
    tools.require("spirv-dis")
    case = Case(SPIRV / "blend.dpcpp.spv", tmp_path)
    assert spirv_tools.positions(case).count > 20
    assert not spirv_tools.positions(case).differences
    assert not spirv_tools.kernels(case).differences
    other = Case(SPIRV / "waves.gVS.spv", tmp_path / "other")
    other.objects[0].path.write_bytes((SPIRV / "blend.dpcpp.spv").read_bytes())
    assert spirv_tools.kernels(other).differences


def test_what_is_newer_than_spirv_dis_is_replaced_and_nothing_moves(tmp_path: Path) -> None:
    tools.require("spirv-dis")
    module = tmp_path / "newer.spv"
    data = (SPIRV / "waves.gVS.spv").read_bytes()
    newer = spirv_tools.replaced(data, 17, 1)  # the capability Shader
    assert newer != data
    assert len(newer) == len(data)
    module.write_bytes(newer.replace(struct.pack("<2I", 2 << 16 | 17, 0), struct.pack("<2I", 2 << 16 | 17, 60000)))
    assert spirv_tools.disassembled(module).code
    assert spirv_tools.readable(module).read_bytes() == newer
    assert not spirv_tools.disassembled(spirv_tools.readable(module)).code


def test_images_of_sycl_programs_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = Case(AMD / "host", tmp_path)
    case.info = {
        "objects": [{"object": "sycl-spir64"}],
        "containers": [{"container": ""}, {"container": "sycl-spir64#2"}],
    }
    for size, differences in ((0x20, 0), (0x30, 1)):
        header = f"  [26] .tgtimg           PROGBITS        0000000000050450 04d450 {size:06x} 00 WAo  0   0 16\n"
        monkeypatch.setattr(offloading, "printed", lambda *_, header=header: header)
        assert len(offloading.images(case).differences) == differences


def test_modules_that_the_symbol_table_or_symd_has_not_are_told(tmp_path: Path) -> None:
    """A variable with the magic number alone is none."""
    modules = [(SPIRV / name).read_bytes() for name in ("waves.g.spv", "waves.gV.spv")]
    variables = [
        Symbol("first", 0x2000, len(modules[0]), ".rodata", OBJECT),
        Symbol("second", 0x2000 + len(modules[0]), len(modules[1]), ".rodata", OBJECT),
        Symbol("magic", 0x2000, 4, ".rodata", OBJECT),
    ]
    for number, (symbols, told) in enumerate([(variables, 0), (variables[1:], 1), (variables[2:], 2)]):
        path = tmp_path / f"lib{number}.so"
        section = Section(".rodata", flags=ALLOC, address=0x2000, data=b"".join(modules))
        path.write_bytes(build_elf(machine=62, type=ET_DYN, sections=[section], symbols=symbols))
        found = embedded_spirv.modules(Case(path, tmp_path / str(number)))
        assert (found.count, len(found.differences)) == (2 - told, told)
        assert len(embedded_spirv.arrays(path)) == 2 - told


def test_a_doubt_of_sound_debug_data_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMD_SURVEY_SAMPLES", str(AMD))

    def doubting(case: Case) -> Compared:
        case.asked[0].answers()[0]["reason"] = "CONTRADICTORY"
        return Compared("doubt", 1)

    monkeypatch.setitem(COMPARISONS, "doubt", doubting)
    monkeypatch.setattr(Case, "one_address", Usage())
    row = survey(sample(files="split-22-dwarf5-whole.co", compare=("doubt",)), tmp_path)
    assert len(row.problems) == 1
    assert "CONTRADICTORY" in row.problems[0]
    looked_at = replace(sample(files="split-22-dwarf5-whole.co", compare=("doubt",)), doubted=1, why_doubted="a test")
    row = survey(looked_at, tmp_path)
    assert (row.problems, row.remarks) == ([], ["a test"])


def test_bounds_are_held(amd_case: Case) -> None:
    row = Row(info=amd_case.info_usage, one_address=amd_case.one_address)
    assert over(Bounds(info=(60, 1 << 30), address_of_object=(60, 1 << 30), address=(60, 1 << 30)), amd_case, row) == []
    assert len(over(Bounds(info=(60, MIB)), amd_case, row)) == 1
    assert len(over(Bounds(address_of_object=(0, 1 << 30)), amd_case, row)) == 1
    assert len(over(Bounds(address=(60, MIB)), amd_case, row)) == 1
    assert len(row.remarks) == 2


def test_what_others_disturb_is_measured_again() -> None:
    turns = iter([Usage(processor=3, peak=1), Usage(processor=1, peak=1), Usage(processor=0, peak=1)])
    assert least(Usage(processor=2, peak=1), lambda: next(turns), (1.5, 1)).processor == 1
    assert next(turns).processor == 0


def test_memory_is_that_of_the_program_alone(tmp_path: Path) -> None:
    filler = bytearray(b"x") * (150 * MIB)
    small = run([sys.executable, "-I", "-S", "-c", "pass"], tmp_path)
    large = run([sys.executable, "-I", "-S", "-c", "b = bytearray(b'x') * (100 << 20)"], tmp_path)
    assert small.usage.peak < 60 * MIB < 100 * MIB < large.usage.peak < 200 * MIB
    assert (small.code, len(filler)) == (0, 150 * MIB)
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sleep", "600"], tmp_path, deadline=1)
    failed = run([sys.executable, "-c", "import sys; sys.exit(7)"], tmp_path, stdin=b"not read")
    assert failed.code == 7


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (lambda *_: Row(files=1), 0),
        (lambda *_: Row(files=1, problems=["wrong"]), 1),
        (lambda *_: (_ for _ in ()).throw(Unreachable("no registry")), 3),
    ],
)
def test_the_exit_code_tells(
    row: Callable[..., Row], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "survey", row)
    monkeypatch.setattr(command, "BUILD", tmp_path)
    monkeypatch.setattr(sys, "argv", ["tests.survey", "--no-page", "dpctl"])
    assert command.main() == code


def test_a_row_replaces_its_own_and_leaves_the_others() -> None:
    one, two, gone = (Artefact(name, (), (), about=name) for name in ("one", "two", "gone"))
    rows = {each.name: page.line(each, Row(files=1)) for each in (one, two, gone)}
    text = page.updated(f"before\n{page.BEGIN}\n{page.END}\nafter\n", rows, (one, two, gone))
    assert text.count("\n| ") == 4
    changed = page.updated(text, {"two": page.line(two, Row(files=7))}, (one, two))
    assert rows["one"] in changed
    assert "7 files" in changed
    assert "gone" not in changed
    assert changed.startswith("before\n")
    assert changed.endswith(f"{page.END}\nafter\n")
    with pytest.raises(ValueError, match="not in the page"):
        page.updated("no table", rows)


def test_the_table_has_a_row_for_each_artefact() -> None:
    table = page.PAGE.read_text().partition(page.BEGIN)[2].partition(page.END)[0]
    titles = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")]
    assert titles[1:] == [each.title for each in ARTEFACTS]
    assert "problems" not in table


def test_what_is_surveyed_is_pinned_and_compared() -> None:
    assert len({each.name for each in ARTEFACTS}) == len({each.title for each in ARTEFACTS}) == len(ARTEFACTS)
    for each in ARTEFACTS:
        assert each.compare
        assert set(each.compare) <= set(COMPARISONS)
        assert all(package.version for package in each.packages)


def test_a_package_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    for package in (Wheel("symd-has-no-such-package", "0"), DebianPackage("symd-has-no-such-package", "0")):
        with pytest.raises(Unreachable, match="symd-has-no-such-package 0"):
            package.unpack(tmp_path)


@pytest.mark.parametrize("artefact", [each for each in ARTEFACTS if each.small], ids=lambda each: each.name)
def test_what_is_small_agrees(artefact: Artefact, tmp_path: Path) -> None:
    try:
        row = survey(artefact, tmp_path)
    except Unreachable as reason:
        pytest.skip(str(reason))
    assert not row.problems


def test_usages_add_up() -> None:
    assert Usage(1, 2, 3).then(Usage(4, 5, 1)) == Usage(5, 7, 3)
