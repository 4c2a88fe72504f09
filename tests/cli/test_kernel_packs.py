"""Host programs of ROCm whose code objects are in kernel packs beside them."""

from __future__ import annotations

import pytest

from symd.config import Limits
from symd.engine.files.companion_files import with_kernel_packs
from symd.errors import InvalidInput
from symd.formats.containers.amd import kpack
from tests.builders.kpack import host, kernel_pack
from tests.formats.containers.amd import objects

GFX900, GFX1100 = objects.sample("v4-gfx900.co"), objects.sample("v5-gfx1100.co")
PROGRAM = "lib/librand.so"


@pytest.fixture
def program(tmp_path):
    """A library, and packs of two processors beside it, which hold other libraries too."""
    for folder in ("lib", ".kpack"):
        (tmp_path / folder).mkdir()
    path = tmp_path / PROGRAM
    path.write_bytes(host(PROGRAM, "../.kpack/rand_@GFXARCH@.kpack"))
    packs = {"gfx900": GFX900, "gfx1100": GFX1100}
    for processor, content in packs.items():
        entries = ((f"{PROGRAM}#0", processor, content), ("lib/other.so#0", processor, b"no code object"))
        (tmp_path / f".kpack/rand_{processor}.kpack").write_bytes(kernel_pack(*entries, zstd=True))
    return path


def code_objects(path, **environment):
    joined = with_kernel_packs(path.read_bytes(), str(path), Limits(), environment)
    return {entry.processor: entry.content for entry in kpack.opened(joined, objects.budget()).entries}


def test_packs_are_found_beside_the_program(program):
    assert code_objects(program) == {"gfx900": GFX900, "gfx1100": GFX1100}


def test_the_loader_s_variables_name_packs_instead_and_before(program, tmp_path):
    other = tmp_path / "other.kpack"
    other.write_bytes(kernel_pack((f"{PROGRAM}#0", "gfx900", b"mine")))
    assert code_objects(program, ROCM_KPACK_PATH=f"{other}:{tmp_path}/none") == {"gfx900": b"mine"}
    assert code_objects(program, ROCM_KPACK_PATH_PREFIX=str(other)) == {"gfx900": b"mine", "gfx1100": GFX1100}


def test_a_program_whose_packs_are_missing_says_where_they_were_looked_for(program):
    for pack in (program.parents[1] / ".kpack").iterdir():
        pack.unlink()
    with pytest.raises(InvalidInput, match=r"\.\./\.kpack/rand_@GFXARCH@\.kpack") as caught:
        code_objects(program)
    assert "ROCM_KPACK_PATH" in caught.value.hint


def test_a_damaged_pack_is_named(program):
    damaged = program.parents[1] / ".kpack/rand_gfx900.kpack"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(InvalidInput, match="cut off") as caught:
        code_objects(program)
    assert "rand_gfx900.kpack" in caught.value.where


@pytest.mark.parametrize("data", [GFX900, b"", host("a")[:40]])
def test_what_is_no_such_program_stays_as_it_is(data):
    assert with_kernel_packs(data, "file", Limits(), {}) == data


def test_addresses_of_the_program_are_symbolized(program, run):
    path = f"{PROGRAM.replace('/', '_')}#0-gfx900"
    (kernel,) = run("info", "--json", objects.path("v4-gfx900.co")).json[0]["objects"][0]["kernels"][:1]
    subject = f"{kernel['name']}+0x10"
    answered = run("symbolize", "--json", program, "--object", path, subject).json
    alone = run("symbolize", "--json", objects.path("v4-gfx900.co"), subject).json
    assert answered[0]["frames"] == alone[0]["frames"] != []


def test_info_lists_the_code_objects_of_all_packs(program, run):
    assert [found["target"] for found in run("info", "--json", program).json[0]["objects"]] == ["gfx1100", "gfx900"]


def test_a_program_that_is_cut_off_is_named(tmp_path, run):
    path = tmp_path / "cut.so"
    path.write_bytes(host("a", "b")[:-1])
    outcome = run("info", path)
    assert outcome.code == 2
    assert "cut.so" in outcome.err


@pytest.mark.parametrize("named", ["absolute", "../elsewhere/rand_@GFXARCH@.kpack", "../.kpack/../x/r.kpack"])
def test_for_a_daemon_packs_elsewhere_are_left_out(program, tmp_path, capsys, named):
    named = f"{tmp_path}/elsewhere/rand_@GFXARCH@.kpack" if named == "absolute" else named
    for path in (tmp_path / "elsewhere/rand_gfx900.kpack", tmp_path / "x/r.kpack"):
        path.parent.mkdir()
        path.write_bytes(kernel_pack((f"{PROGRAM}#0", "gfx900", b"mine")))
    data = host(PROGRAM, named)
    assert with_kernel_packs(data, str(program), Limits(), {}) != data
    with pytest.raises(InvalidInput):
        with_kernel_packs(data, str(program), Limits(), {}, beside=True)
    said = capsys.readouterr().err
    assert "not sent to the daemon" in said
    assert ".kpack; ROCM_KPACK_PATH" in said


@pytest.mark.parametrize("named", ["r.kpack", "below/r.kpack", "../.kpack/rand_@GFXARCH@.kpack"])
def test_for_a_daemon_packs_are_read_where_rocm_has_them(program, capsys, named):
    (program.parent / "below").mkdir()
    for folder in (program.parent, program.parent / "below"):
        (folder / "r.kpack").write_bytes(kernel_pack((f"{PROGRAM}#0", "gfx900", b"mine")))
    assert with_kernel_packs(host(PROGRAM, named), str(program), Limits(), {}, beside=True)
    assert capsys.readouterr().err == ""
