"""The committed sample binaries are what their names and the manifest say, read with nothing but readelf and struct."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from pathlib import Path

import pytest

from tests.tools import output, require

KERNELS = Path(__file__).parents[2] / "samples" / "kernels"
MANIFEST = json.loads((KERNELS / "manifest.json").read_text())
SPIRV_MAGIC = struct.pack("<I", 0x07230203)
GRAPHICS_CORES = {"skl": 12, "tgllp": 18, "dg2": 0xC07, "pvc": 0xC08, "bmg": 0xC09}
FORMATS = {".dbg": "igc-debug", ".bin": "neo-elf", ".zebin": "zebin", ".elf": "igc-elf", ".spv": "spirv"}
NAME = re.compile(
    r"(?P<newer>igc2-)?((?P<device>skl|tgllp|dg2|pvc|bmg)-)?(?P<level>opt|O0)(?P<nodebug>-nodebug)?"
    r"(-(?P<how>patch|zebin)\.(?P<kernel>\w+))?(?P<suffix>\.\w+)"
)
BUDGET = 6 << 20
NOT_A_KERNEL = "Intel_Symbol_Table_Void_Program"
"""The text that IGC adds to a module for globals and functions that are no kernel's own."""


def made_here() -> list[str]:
    """The binaries that build.py makes; what a driver returned is checked where it was taken."""
    return [name for name in MANIFEST if not Path(name).name.startswith("driver-")]


def read(name: str) -> bytes:
    return (KERNELS / "bin" / name).read_bytes()


def sniffed(data: bytes) -> str:
    """The format, from its first bytes."""
    if data.startswith(SPIRV_MAGIC):
        return "spirv"
    if data.startswith(b"CTNI"):
        return "igc-debug" if struct.unpack_from("<I", data, 8) == (0,) else "patch-tokens"
    assert data.startswith(b"\x7fELF\x02\x01")
    kind, machine = struct.unpack_from("<2H", data, 16)
    known = {(0xFF04, 0): "neo-elf", (1, 205): "zebin", (2, 205): "debug-zebin"}
    return known.get((kind, machine), "igc-elf" if machine in (182, 62) else "unknown")


def debug_records(data: bytes) -> list[tuple[str, bytes]]:
    """Names and ELF files of an IGC debug container."""
    (count,) = struct.unpack_from("<I", data, 24)
    at, found = 28, []
    for _ in range(count):
        name, elf, isa = struct.unpack_from("<3I", data, at)
        at += 12
        found.append((data[at : at + name].rstrip(b"\0").decode(), data[at + name : at + name + elf]))
        at += name + elf + isa
    assert at == len(data)
    return found


def entry_points(spirv: bytes) -> list[str]:
    """Names of the OpEntryPoint instructions (opcode 15)."""
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
    at, found = 5, []
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if opcode == 15:
            found.append(spirv[(at + 3) * 4 : (at + count) * 4].split(b"\0")[0].decode())
        at += count
    return found


def section_names(path: Path) -> list[str]:
    return re.findall(r"^ +\[ *\d+\] (\S+)", output(require("readelf"), "-SW", path), re.MULTILINE)


def test_the_manifest_lists_every_binary_and_nothing_else():
    there = {str(path.relative_to(KERNELS / "bin")) for path in (KERNELS / "bin").rglob("*") if path.is_file()}
    assert there == set(MANIFEST)
    assert sum(entry["size"] for entry in MANIFEST.values()) < BUDGET


@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_a_binary_is_the_one_that_the_manifest_describes(name):
    data, entry = read(name), MANIFEST[name]
    assert (len(data), hashlib.sha256(data).hexdigest()) == (entry["size"], entry["sha256"])
    assert sniffed(data) == entry["format"]


@pytest.mark.parametrize("name", made_here())
def test_a_name_tells_the_truth(name):
    entry, hit = MANIFEST[name], NAME.fullmatch(Path(name).name)
    assert hit, name
    assert (KERNELS / entry["source"]).stem == Path(name).parent.name
    assert FORMATS[hit["suffix"]] == entry["format"]
    assert hit["device"] == entry["device"]
    assert (hit["level"] == "opt") == entry["optimised"] == ("-cl-opt-disable" not in entry["options"])
    assert bool(hit["nodebug"]) == ("-g" not in entry["options"].split())
    assert ("libigc2" in entry["compiler"]) == bool(hit["newer"])


@pytest.mark.parametrize("name", [name for name in made_here() if name.endswith(".dbg")])
def test_a_debug_container_holds_the_kernels_and_names_the_device(name):
    data, entry = read(name), MANIFEST[name]
    assert struct.unpack_from("<I", data, 12) == (GRAPHICS_CORES[entry["device"]],)
    records = debug_records(data)
    assert [kernel for kernel, _ in records if kernel != NOT_A_KERNEL] == entry["kernels"]
    assert {sniffed(elf) for _, elf in records} == {"igc-elf"}


@pytest.mark.parametrize("name", [name for name in made_here() if name.endswith(".spv")])
def test_spirv_has_the_kernels_as_entry_points(name):
    assert entry_points(read(name)) == MANIFEST[name]["kernels"]


@pytest.mark.parametrize("name", [name for name in made_here() if name.endswith(".zebin")])
def test_a_zebin_has_a_text_for_each_kernel_and_the_debug_information_that_is_claimed(name):
    names, entry = section_names(KERNELS / "bin" / name), MANIFEST[name]
    texts = [section.removeprefix(".text.") for section in names if section.startswith(".text.")]
    assert [kernel for kernel in texts if kernel != NOT_A_KERNEL] == entry["kernels"]
    lines = ".debug_line" in names
    assert ("dwarf-5" if ".debug_addr" in names else "dwarf-4") == entry["debug"] if lines else entry["debug"] == "none"


@pytest.mark.parametrize("name", [name for name in made_here() if name.endswith((".zebin", ".bin"))])
def test_the_build_options_inside_are_the_ones_that_the_manifest_names(name):
    data, entry = read(name), MANIFEST[name]
    assert all(option.encode() in data for option in entry["options"].split())
    assert (b"-cl-opt-disable" in data) == (not entry["optimised"])


@pytest.mark.parametrize("name", [name for name in made_here() if name.endswith(".elf")])
def test_a_dumped_elf_has_lines_for_its_kernel(name):
    path = KERNELS / "bin" / name
    kernel = NAME.fullmatch(path.name)["kernel"]
    text = output(require("llvm-dwarfdump"), "--debug-info", path)
    if MANIFEST[name]["kernels"] != []:
        assert f'DW_AT_name\t("{kernel}")' in text
    assert ".debug_line" in section_names(path)


def test_no_binary_contains_a_path_of_the_machine_that_made_it():
    allowed = (b"/tmp/symd-opencl", b"/usr/lib/llvm-14/lib/clang/")
    places = re.compile(rb"/(?:home|root|tmp|usr|work|var|opt)/[\x21-\x7e]*")
    found = {hit for name in made_here() for hit in places.findall(read(name)) if not hit.startswith(allowed)}
    assert found == set()
