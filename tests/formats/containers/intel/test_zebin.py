"""Zebins: what the samples' own YAML, symbols and the sources say of kernels, and the header as the layout document has it."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
import yaml
from elftools.elf.elffile import ELFFile

from symd.config import Limits
from symd.errors import Malformed
from symd.formats.budget import Budget
from symd.formats.containers import unpack
from symd.formats.containers.format import Element
from symd.formats.containers.intel import zebin
from symd.model.code import CodeObject
from tests.builders.elf import AX, Section, Symbol, build_elf

KERNELS = Path(__file__).parents[4] / "samples" / "kernels"
MANIFEST = json.loads((KERNELS / "manifest.json").read_text())
ZEBINS = sorted(name for name, entry in MANIFEST.items() if "zebin" in entry["format"])
TEXT = Section(".text.k", flags=AX, data=bytes(64))
ZE_INFO, SPIRV, GTPIN, VISAASM, MISC = 0xFF000011, 0xFF000009, 0xFF000012, 0xFF000013, 0xFF000014


def code(data: bytes) -> CodeObject:
    found = zebin.read(Element("", data), Budget(Limits())).code_object
    assert found is not None
    return found


def sample(name: str) -> bytes:
    return (KERNELS / "bin" / name).read_bytes()


@pytest.mark.parametrize("name", ZEBINS)
def test_kernels_and_their_facts_are_those_that_the_file_describes(name: str) -> None:
    """Read by pyelftools and PyYAML."""
    file = ELFFile(BytesIO(sample(name)))
    described = yaml.safe_load(file.get_section_by_name(".ze_info").data().rstrip(b"\0"))
    arguments = {entry["name"]: entry.get("args_info") for entry in described.get("kernels_misc_info") or ()}
    found = {kernel.name: kernel for kernel in code(sample(name)).kernels}
    assert sorted(found) == sorted(MANIFEST[name]["kernels"])
    for entry in described["kernels"]:
        if entry["name"] not in found:
            continue
        facts, environment = found[entry["name"]].facts, entry["execution_env"]
        assert facts["simd_width"] == environment["simd_size"]
        assert facts["registers"] == environment["grf_count"]
        assert facts.get("shared_memory") == environment.get("slm_size")
        assert facts.get("barriers") == environment.get("barrier_count")
        has_spills = tuple(map(int, described["version"].split("."))) >= (1, 39)
        assert facts.get("spill_size") == (environment.get("spill_size", 0) if has_spills else None)
        wanted = [
            (one.get("name", ""), one["type_name"].partition(";")[0]) for one in arguments.get(entry["name"]) or ()
        ]
        assert [(one["name"], one["type"]) for one in facts.get("arguments", ())] == wanted


@pytest.mark.parametrize(
    ("version", "spills"),
    [
        ("'1.20'", None), ("'1.38'", None), ("'1.39'", 0), ("'1.100'", 0), ("'2.0'", 0), ("1.5", None),
        ("''", None), ("one", None), ("'1.'", None), (f"'1.{'9' * 5000}'", None),
    ],
)  # fmt: skip
def test_spills_that_are_left_out_are_none_in_versions_that_have_them(version: str, spills: int | None) -> None:
    """``spill_size`` came with version 1.39 of .ze_info."""
    described = f"version: {version}\nkernels:\n  - name: k\n    execution_env:\n      grf_count: 128\n"
    assert zebin.kernel_facts(described.encode())["k"].get("spill_size") == spills


@pytest.mark.parametrize("name", ZEBINS)
def test_a_kernel_covers_its_section_as_far_as_symbols_do(name: str) -> None:
    file = ELFFile(BytesIO(sample(name)))
    symbols = list(file.get_section_by_name(".symtab").iter_symbols())
    kernels = code(sample(name)).kernels
    assert kernels
    for kernel in kernels:
        section = file.get_section(kernel.section_index)
        assert (section.name, kernel.offset) == (f".text.{kernel.name}", 0)
        inside = [one for one in symbols if one["st_shndx"] == kernel.section_index]
        sizes = [one["st_size"] for one in inside if one.name == kernel.name and one["st_info"]["type"] == "STT_FUNC"]
        assert kernel.size >= max(sizes, default=0)
        assert kernel.size <= section["sh_size"]


def test_local_memory_and_barriers_are_those_of_the_source() -> None:
    """reduce.cl: total keeps 64 floats in local memory and meets at a barrier."""
    found = {kernel.name: kernel.facts for kernel in code(sample("reduce/igc2-dg2-opt.zebin")).kernels}
    assert (found["total"]["shared_memory"], found["total"]["barriers"]) == (256, 1)
    assert [one["address_space"] for one in found["largest"]["arguments"]] == ["global", "global", "local"]


@pytest.mark.parametrize("name", ZEBINS)
def test_the_target_is_the_device_that_it_was_compiled_for(name: str) -> None:
    """The older generation's zebins hold no note of it."""
    target = code(sample(name)).target
    assert target == MANIFEST[name]["device"] or (target is None and "igc2" not in name)


@pytest.mark.parametrize(
    ("kind", "machine", "flags", "target"),
    [
        (0xFF12, 0x4F6, 0, "dg2"),
        (0xFF11, 0x12, 0, "skl"),
        (0xFF12, 0xC08, 1 << 15, "xe-hpc"),
        (0xFF13, 0x0C, 1 << 15, "gen9"),
        (0xFF12, 0x999, 0, None),
        (1, 205, 0, None),
        (2, 205, 0, None),
    ],
)
def test_machine_numbers_are_products_or_cores_as_the_flags_say(kind, machine, flags, target) -> None:
    data = build_elf(machine=machine, type=kind, flags=flags, sections=[TEXT])
    assert zebin.claims(data)
    assert code(data).target == target


def test_the_flags_are_told_field_by_field() -> None:
    """TargetFlags of the layout document: generator 1 in bits 21 to 23, revisions 3 to 5, validated."""
    flags = 1 << 21 | 5 << 16 | 1 << 15 | 1 << 13 | 3 << 8 | 0x7F
    facts = code(build_elf(machine=0xC07, type=0xFF12, flags=flags, sections=[TEXT])).facts
    assert facts["generator"] == "IGC"
    assert (facts["min_revision"], facts["max_revision"]) == (3, 5)
    assert (facts["machine_is_core"], facts["validate_revision"], facts["generator_flags"]) == (True, True, 0x7F)
    assert facts["disable_extended_validation"] is False


def test_sections_of_the_documents_types_are_facts_and_spirv_is_opened() -> None:
    spirv = (KERNELS / "bin" / "vadd" / "opt.spv").read_bytes()
    sections = [TEXT, Section(".spv", SPIRV, data=spirv), Section(".gtpin_info.k", GTPIN, data=b"x")]
    sections += [Section(".visaasm.k", VISAASM, data=b"x"), Section(".misc.build", MISC, data=b"x")]
    unpacked = unpack(build_elf(machine=205, sections=sections))
    assert [(one.path, one.format) for one in unpacked.objects] == [("", "zebin"), ("spirv", "spirv")]
    facts = unpacked.objects[0].facts
    assert (facts["gtpin_info"], facts["visaasm"], facts["spirv"]) == (True, True, True)


def test_functions_are_symbols_and_entry_marks_are_not() -> None:
    symbols = [
        Symbol("k", value=0, size=40, section=1),
        Symbol("_entry", value=16, size=24, section=1),
        Symbol("helper", value=40, size=16, section=1),
        Symbol("data", value=0, size=8, section=1, type=1),
        Symbol("", value=8, size=8, section=1),
    ]
    found = code(build_elf(machine=205, sections=[TEXT], symbols=symbols))
    assert [(one.name, one.offset, one.size) for one in found.functions] == [("k", 0, 40), ("helper", 40, 16)]
    assert [(one.name, one.size) for one in found.kernels] == [("k", 56)]


def test_the_section_of_functions_alone_is_no_kernel() -> None:
    void = Section(".text.Intel_Symbol_Table_Void_Program", flags=AX, data=bytes(32))
    found = code(build_elf(machine=205, sections=[TEXT, void]))
    assert [one.name for one in found.kernels] == ["k"]


@pytest.mark.parametrize(
    "text", [b"kernels: [", b"- 1\n", b"kernels: 7\n", b"\xff\xfe", b"", b"kernels:\n - name: k\n   execution_env: 3\n"]
)
def test_a_description_that_makes_no_sense_costs_a_note_at_most(text: bytes) -> None:
    found = code(build_elf(machine=205, sections=[TEXT, Section(".ze_info", ZE_INFO, data=text)]))
    assert [one.name for one in found.kernels] == ["k"]
    assert found.kernels[0].facts.get("simd_width") is None


def test_notes_name_the_product() -> None:
    def note(kind: int, value: int) -> bytes:
        return struct.pack("<III8sI", 8, 4, kind, b"IntelGT", value)

    compat = Section(".note.intelgt.compat", 7, data=note(1, 0x4F7) + note(2, 0xC08) + note(99, 1))
    odd = Section(".note.intelgt.other", 7, data=b"not a note at all")
    found = code(build_elf(machine=205, sections=[TEXT, compat, odd]))
    assert (found.target, found.facts["core_family"]) == ("pvc", 0xC08)


@pytest.mark.parametrize(
    ("family", "core", "config", "target"),
    [
        (0, 0xC07, (12, 55, 8), "dg2"),
        (0, 0xC09, (20, 1, 0), "bmg"),
        (0, 0xC08, (12, 60, 7), "pvc"),
        (0, 0xC07, (99, 1, 0), "xe-hpg"),
        (30, 0x12, (0, 0, 0), "rkl"),
        (32, 0x12, (0, 0, 0), "adl-p"),
        (33, 0x12, (0, 0, 0), "adl-n"),
        (1340, 0x1E00, (30, 4, 4), "nvl-s"),
        (0x4F7, 0xC08, (12, 55, 8), "pvc"),
    ],
)
def test_the_product_is_that_of_the_configuration_where_the_family_has_no_name(
    family: int, core: int, config: tuple[int, int, int], target: str
) -> None:
    """The vector back end writes family 0. Architecture, release and revision as the driver counts them."""
    architecture, release, revision = config
    values = {1: family, 2: core, 6: architecture << 22 | release << 14 | revision}
    notes = (struct.pack("<III8sI", 8, 4, kind, b"IntelGT", value) for kind, value in values.items())
    compat = Section(".note.intelgt.compat", 7, data=b"".join(notes))
    assert code(build_elf(machine=205, sections=[TEXT, compat])).target == target


def test_a_note_that_leaves_its_section_is_malformed() -> None:
    cut = Section(".note.intelgt.compat", 7, data=struct.pack("<III8s", 8, 400, 1, b"IntelGT"))
    with pytest.raises(Malformed):
        code(build_elf(machine=205, sections=[TEXT, cut]))


@pytest.mark.parametrize("name", [name for name in ZEBINS if "driver-" in name])
def test_what_a_driver_returns_is_a_debug_zebin(name: str) -> None:
    assert unpack(sample(name)).format == "debug-zebin"


@pytest.mark.parametrize("name", ZEBINS)
def test_a_kernel_begins_behind_its_payload_prologue_where_its_entry_symbol_says(name: str) -> None:
    """Symbols and build options read by pyelftools."""
    file = ELFFile(BytesIO(sample(name)))
    starts = [section["sh_addr"] if file["e_type"] == "ET_EXEC" else 0 for section in file.iter_sections()]
    entries = {
        symbol["st_shndx"]: symbol["st_value"] - starts[symbol["st_shndx"]]
        for symbol in file.get_section_by_name(".symtab").iter_symbols()
        if symbol.name == "_entry"
    }
    found = code(sample(name))
    assert entries
    for kernel in found.kernels:
        assert kernel.facts.get("entry") == entries.get(kernel.section_index)
    options = file.get_section_by_name(".misc.buildOptions")
    assert found.facts.get("build_options") == (options and options.data().rstrip(b"\0").decode())


@pytest.mark.parametrize(("words", "reads"), [(["symbolize", "vadd+0x100"], False), (["info"], True)])
def test_one_address_reads_no_yaml(words: list[str], *, reads: bool) -> None:
    """What .ze_info says of kernels is for those who look at it."""
    verb, *queries = words
    file = str(KERNELS / "bin/vadd/dg2-opt.zebin")
    command = [sys.executable, "-X", "importtime", "-m", "symd", verb, file, *queries]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "vadd" in done.stdout
    assert ("yaml" in done.stderr) is reads
