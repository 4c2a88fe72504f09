"""Source text: what modules carry, which places on disk may be read, and what an MD5 rules out."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.debuginfo import reading
from symd.debuginfo.embedded_sources import embedded_sources
from symd.errors import ObjectNotFound
from symd.formats import containers
from symd.model.code import CodeObject
from symd.model.sources import PathRule, SourceText, TextOrigin
from symd.query.source_files import Allowed, completed, from_module, places
from tests.query.disasm.objects import SAMPLES
from tests.tools import output, require

SPIRV = SAMPLES / "spirv"
AMD = SAMPLES / "amdgpu"


def code_of(path: Path) -> CodeObject:
    return containers.unpack(path.read_bytes()).objects[0]


@pytest.mark.parametrize("name", ["waves.g.spv", "waves.gVS.spv", "waves.gVS.big-endian.spv"])
def test_spirv_carries_its_source(name: str) -> None:
    found = embedded_sources(code_of(SPIRV / "bin" / name))
    source = next(SPIRV.rglob("waves.comp")).read_text()
    assert (found["waves.comp"].text or "").strip() == source.strip()


def test_cubins_carry_their_ptx_by_the_name_of_its_section() -> None:
    code = code_of(SAMPLES / "cuda" / "bin" / "saxpy.sm_75.lines.cubin")
    (source,) = from_module([code], [".nv_debug_ptx_txt"])
    assert source.origin is TextOrigin.MODULE
    assert source.text is not None
    lines = source.text.splitlines()
    assert any(line.startswith(".version ") for line in lines)
    section = code.section(".nv_debug_ptx_txt")
    assert section is not None
    assert "\n".join(lines).encode() == section.data.rstrip(b"\0").replace(b"\0", b"\n")


DWARF_5 = ["v4-gfx900.co", "v4-gfx900.o", "v4-gfx900-sections.o", "v4-gfx900-zlib.co", "v5-gfx1100.co", "v6-gfx1201.co"]


@pytest.mark.parametrize("name", DWARF_5)
def test_md5_sums_are_those_that_llvm_reads(name: str) -> None:
    """And each belongs to a file by the very name that line rows have."""
    path = AMD / "bin" / name
    printed = output(require("llvm-dwarfdump"), "--debug-line", path)
    theirs = set(re.findall(r"md5_checksum: ([0-9a-f]{32})", printed))
    code = code_of(path)
    ours = embedded_sources(code)
    assert theirs
    assert {each.md5.hex() for each in ours.values() if each.md5} == theirs
    assert set(ours) <= set(reading.read(code).files)


@pytest.mark.parametrize("name", DWARF_5)
def test_md5_sums_are_those_of_the_sources(name: str) -> None:
    found = {file: each.md5 for file, each in embedded_sources(code_of(AMD / "bin" / name)).items() if each.md5}
    for file, md5 in found.items():
        source = AMD / "src" / Path(file).name
        assert hashlib.md5(source.read_bytes(), usedforsecurity=False).digest() == md5


def test_embedded_source_is_found(tmp_path: Path) -> None:
    """clang's -gembed-source puts the text into the line table's header."""
    source = tmp_path / "k.cl"
    source.write_text("kernel void k(global int *p)\n{\n    p[0] = 1;\n}\n")
    target = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx900", "-nogpulib", "-mcode-object-version=4"]
    options = ["-x", "cl", "-cl-std=CL2.0", "-gdwarf-5", "-gembed-source", "-c", "-o", str(tmp_path / "k.o")]
    subprocess.run([require("clang-14", "clang"), *target, *options, str(source)], check=True)
    code = code_of(tmp_path / "k.o")
    file = next(name for name in reading.read(code).files if name.endswith("k.cl"))
    (found,) = from_module([code], [file])
    assert found.text == source.read_text()
    assert found.verified


def test_older_dwarf_and_code_without_any_carry_nothing() -> None:
    assert not embedded_sources(code_of(AMD / "bin" / "v4-gfx900-dwarf4.co"))
    assert not embedded_sources(code_of(AMD / "bin" / "v4-gfx900-nodebug.co"))


@given(st.integers(0, 4000), st.integers(0, 255))
def test_damaged_line_tables_raise_nothing(at: int, value: int) -> None:
    data = bytearray((AMD / "bin" / "v4-gfx900.o").read_bytes())
    code = code_of(AMD / "bin" / "v4-gfx900.o")
    section = code.section(".debug_line")
    assert section is not None
    start = bytes(data).find(section.data)
    data[start + at % section.size] = value
    for each in containers.unpack(bytes(data)).objects:
        embedded_sources(each)


def test_what_the_module_carries_is_answered_in_order_and_what_not_is_said() -> None:
    code = code_of(SPIRV / "bin" / "waves.g.spv")
    missing, known = from_module([code], ["nothing.comp", "waves.comp"])
    assert (missing.text, missing.origin, missing.verified) == (None, TextOrigin.NONE, False)
    assert "does not contain" in missing.problem
    assert (known.file, known.origin, known.problem, known.verified) == ("waves.comp", TextOrigin.MODULE, "", True)
    with pytest.raises(ObjectNotFound):
        from_module([code], ["waves.comp"], "elsewhere")


TEXT = b"one\ntwo\n"
MD5 = hashlib.md5(TEXT, usedforsecurity=False).digest()


def reader(files: dict[str, bytes]):
    asked = []

    def read(root: str, path: str) -> bytes | None:
        asked.append((root, path))
        return files.get(path)

    return read, asked


def test_a_file_is_found_below_an_allowed_root_through_a_rule() -> None:
    read, _ = reader({"/here/src/a.cl": TEXT})
    allowed = Allowed(("/other", "/here"), (PathRule("/build", "/here/src"),))
    found = completed(SourceText("/build/x/../a.cl", md5=MD5, problem="no"), allowed, read)
    assert (found.text, found.origin, found.path) == (TEXT.decode(), TextOrigin.DISK, "/here/src/a.cl")
    assert found.verified
    assert not found.problem


def test_a_relative_name_is_looked_for_below_every_root() -> None:
    read, asked = reader({"/b/k.cl": TEXT})
    found = completed(SourceText("./k.cl"), Allowed(("/a", "/b")), read)
    assert asked == [("/a", "/a/k.cl"), ("/b", "/b/k.cl")]
    assert found.text == TEXT.decode()
    assert not found.verified, "no sum says that this is the file"


def test_another_version_of_the_file_is_not_shown() -> None:
    read, _ = reader({"/src/k.cl": b"changed"})
    found = completed(SourceText("/src/k.cl", md5=MD5), Allowed(("/src",)), read)
    assert found.text is None
    assert "MD5" in found.problem
    assert "/src/k.cl" in found.problem


def test_of_two_files_the_one_with_the_right_sum_is_shown() -> None:
    read, _ = reader({"/a/k.cl": b"changed", "/b/k.cl": TEXT})
    found = completed(SourceText("k.cl", md5=MD5), Allowed(("/a", "/b")), read)
    assert found.path == "/b/k.cl"


def test_without_allowed_roots_nothing_is_read() -> None:
    read, asked = reader({"/src/k.cl": TEXT})
    found = completed(SourceText("/src/k.cl", problem="the module does not contain its text"), Allowed(), read)
    assert found.text is None
    assert not asked
    assert "no folder is allowed" in found.problem


def test_what_the_module_carries_is_not_looked_for_on_disk() -> None:
    read, asked = reader({"/src/k.cl": TEXT})
    carried_text = SourceText("/src/k.cl", "its own", TextOrigin.MODULE)
    assert completed(carried_text, Allowed(("/src",)), read) is carried_text
    assert not asked


@pytest.mark.parametrize(
    "file",
    ["/etc/passwd", "/src/../etc/passwd", "../etc/passwd", "x/../../etc/passwd", "/srcs/k.cl", "/src", "", ".", "a\0b"],
)
def test_names_that_lead_out_of_the_roots_are_nowhere(file: str) -> None:
    assert not [*places(file, Allowed(("/src",)))]


@pytest.mark.parametrize("file", [".env", "/src/.env", "deep/.netrc", "/build/x"])
def test_a_hidden_file_is_no_source(file: str) -> None:
    assert not [*places(file, Allowed(("/src",), (PathRule("/build/x", "/src/.x"),)))]


def test_a_source_may_lie_in_a_hidden_folder() -> None:
    assert [*places(".venv/lib/kernel.py", Allowed(("/src",)))] == [("/src", "/src/.venv/lib/kernel.py")]


def test_a_rule_does_not_make_a_root() -> None:
    assert not [*places("/build/k.cl", Allowed(("/src",), (PathRule("/build", "/etc"),)))]
    assert not [*places("/build/../../../etc/passwd", Allowed(("/src",), (PathRule("/build", "/src/.."),)))]


@given(st.text(alphabet="./ab\\:\0", max_size=30), st.text(alphabet="./a", max_size=8))
def test_no_name_leads_out_of_its_root(file: str, replacement: str) -> None:
    for root, path in places(file, Allowed(("/src/a", "/"), (PathRule("/b", replacement),))):
        assert path == f"{root.rstrip('/')}/{path[len(root.rstrip('/')) + 1 :]}"
        assert ".." not in path.split("/")
