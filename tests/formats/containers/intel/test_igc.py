"""Intel's other containers: the debug container, the NEO ELF, the per-kernel ELF images, ocloc's archive for several
devices; against their headers read by hand and pyelftools."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from symd.config import Limits
from symd.errors import Malformed, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers import host_elf, identify, unpack
from symd.formats.containers.format import Element
from symd.formats.containers.intel import igc_debug, igc_elf, neo_elf, patch_tokens
from symd.formats.elf import MAGIC
from tests import tools
from tests.builders import igc
from tests.builders.elf import AX, Section, build_elf

KERNELS = Path(__file__).parents[4] / "samples" / "kernels"
FUNCTIONS_ONLY = "Intel_Symbol_Table_Void_Program"
"""What the compiler calls the "kernel" that only holds a module's functions."""
MANIFEST = json.loads((KERNELS / "manifest.json").read_text())


def named(kind: str) -> list[str]:
    return sorted(name for name, entry in MANIFEST.items() if entry["format"] == kind)


def sample(name: str) -> bytes:
    return (KERNELS / "bin" / name).read_bytes()


def records(data: bytes) -> list[tuple[str, bytes]]:
    """The debug container by the layout of program_debug_data.h."""
    (count,) = struct.unpack_from("<I", data, 24)
    at, found = 28, []
    for _ in range(count):
        name, image, isa = struct.unpack_from("<3I", data, at)
        name = name + 3 & ~3
        found.append((data[at + 12 : at + 12 + name].split(b"\0")[0].decode(), data[at + 12 + name :][:image]))
        at += 12 + name + image + isa
    return found


@pytest.mark.parametrize("name", named("igc-debug"))
def test_kernels_and_images_are_those_of_the_container(name: str) -> None:
    wanted = [(kernel, hashlib.sha256(image).hexdigest()) for kernel, image in records(sample(name)) if image]
    objects = unpack(sample(name)).objects
    assert [(one.path, hashlib.sha256(one.data).hexdigest()) for one in objects] == wanted
    kernels = [kernel for kernel, _ in wanted if kernel != FUNCTIONS_ONLY]
    assert [kernel.name for one in objects for kernel in one.kernels] == kernels


@pytest.mark.parametrize("name", named("igc-debug"))
def test_the_header_names_the_core(name: str) -> None:
    cores = {"skl": "gen9", "tgllp": "gen12lp", "dg2": "xe-hpg", "pvc": "xe-hpc"}
    assert {one.target for one in unpack(sample(name)).objects} == {cores[MANIFEST[name]["device"]]}


@pytest.mark.parametrize("name", named("neo-elf"))
def test_the_neo_elf_hands_on_its_debug_and_spirv_sections(name: str) -> None:
    file = ELFFile(BytesIO(sample(name)))
    kinds = {0xFF000008: "debug", 0xFF000009: "spirv"}
    wanted = {kinds[one["sh_type"]]: one.data() for one in file.iter_sections() if one["sh_type"] in kinds}
    elements = neo_elf.read(Element("", sample(name)), Budget(Limits())).elements
    assert {element.name: element.data for element in elements} == {kind: data for kind, data in wanted.items() if data}


def test_a_zebin_in_a_neo_elf_is_opened() -> None:
    binary = sample("vadd/dg2-opt.zebin")
    unpacked = unpack(igc.neo_elf([(igc.DEVICE_BINARY, binary), (igc.OPTIONS, b"-g\0")]))
    assert next((one.path, one.format) for one in unpacked.objects) == ("binary", "zebin")
    assert unpacked.containers[0].facts == {"build_options": "-g"}


def test_a_neo_elf_of_nothing_is_malformed_and_one_without_debug_data_says_so() -> None:
    with pytest.raises(Malformed):
        unpack(igc.neo_elf([(igc.OPTIONS, b"-g\0")]))
    unpacked = unpack(igc.neo_elf([(igc.DEVICE_BINARY, igc.patch_token_program([]))]))
    assert unpacked.notes == ("the program was built without debug information",)


def test_the_program_binary_shares_the_magic_and_is_told_apart() -> None:
    program, container = igc.patch_token_program([]), igc.debug_container([])
    assert program[:8] == container[:8]
    assert (identify(program), identify(container)) == (patch_tokens, igc_debug)
    with pytest.raises(Unsupported, match="patch-token"):
        unpack(program)


@pytest.mark.parametrize("name", named("igc-elf"))
def test_a_dumped_kernel_is_one_kernel_under_its_name(name: str) -> None:
    [code] = unpack(sample(name)).objects
    machine = ELFFile(BytesIO(sample(name))).header["e_machine"]
    assert (code.relocation, code.linked) == (("igc-dump", False) if machine == "EM_X86_64" else ("igc", True))
    if machine == "EM_X86_64":  # the others are named by their debug data, when they are indexed
        assert [kernel.name for kernel in code.kernels] == MANIFEST[name]["kernels"]


def test_a_true_x86_object_is_not_taken_for_a_dump() -> None:
    object_ = build_elf(machine=62, type=1, sections=[Section(".text.main", flags=AX, data=b"\xc3")])
    plain = build_elf(machine=62, type=1, sections=[Section(".text", flags=AX, data=b"\xc3\x80\x48")])
    assert [igc_elf.claims(data) for data in (object_, plain)] == [False, False]
    assert [identify(data) for data in (object_, plain)] == [host_elf, host_elf]


def test_an_image_without_code_is_malformed() -> None:
    with pytest.raises(Malformed, match="executable"):
        unpack(build_elf(machine=182, type=2, sections=[Section(".data", data=b"x")]))


def test_an_archive_for_several_devices_holds_each_of_them(tmp_path: Path) -> None:
    """ocloc names members by device and puts padding between them, of which nothing is said."""
    (tmp_path / "vadd.cl").write_bytes((KERNELS / "vadd.cl").read_bytes())
    command = [tools.require("ocloc"), "compile", "-file", "vadd.cl", "-device", "tgllp,skl", "-options", "-g"]
    subprocess.run([*command, "-output", "several"], cwd=tmp_path, check=True, capture_output=True)
    data = (tmp_path / "several").read_bytes()
    assert b"pad_0" in data
    unpacked = unpack(data)
    kernels = [
        (one.target, [kernel.name for kernel in one.kernels]) for one in unpacked.objects if one.debug == "dwarf-4"
    ]
    assert sorted(kernels) == [("gen12lp", ["vadd"]), ("gen9", ["vadd"])]
    assert unpacked.notes == ()


HOST_SOURCE = """
static const unsigned char table[] = {0x00, '.', 't', 'e', 'x', 't', '.', 0x80, 0x48};
extern int elsewhere(int);
static inline int twice(int x) { return x + x + table[x & 7]; }
int host(int x) { return elsewhere(twice(x)); }
__attribute__((section(".text.hot"))) int hot(int x) { return twice(x) * 3; }
"""


@pytest.mark.parametrize("options", [(), ("-O2",)])
def test_host_objects_that_hold_the_same_bytes_by_chance_are_not_taken_for_dumps(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The object has .text.hot and the bytes of Intel's attribute, and the name .text only as the end of .rela.text."""
    source, object_ = tmp_path / "host.c", tmp_path / "host.o"
    source.write_text(HOST_SOURCE)
    subprocess.run([tools.require("gcc"), "-g", "-c", *options, "-o", object_, source], check=True)
    data = object_.read_bytes()
    assert b"\0.text." in data
    assert b"\0.text\0" not in data
    assert b"\x80\x48" in data
    assert not igc_elf.claims(data)
    assert identify(data) is host_elf


def test_no_object_or_library_of_this_machine_is_claimed_as_gpu_code() -> None:
    """Some hundred of them; what carries device code in sections of its own is a host program."""
    folders = [Path(folder) for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/gcc", "/usr/bin")]
    files = [
        file
        for folder in folders
        if folder.exists()
        for pattern in ("*.o", "*.so*", "gcc*")
        for file in sorted(folder.rglob(pattern))
    ]
    host = [
        file for file in files if file.is_file() and file.stat().st_size < 4 << 20 and file.read_bytes()[:4] == MAGIC
    ][:400]
    assert len(host) > 100
    wrong = {
        str(file): claimed.NAME for file in host if (claimed := identify(file.read_bytes())) is not host_elf and claimed
    }
    assert not wrong
