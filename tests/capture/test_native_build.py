"""The libraries that are loaded into programs: built once, kept where nobody else can change them, explained where they cannot be."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from symd.capture import ways
from symd.capture.ways import LEVEL_ZERO_PRELOAD, OPENCL_LAYER, library, wrapper_driver
from symd.config import Limits
from symd.errors import DeadlineExceeded, FailedPrecondition, StoreUnavailable, ToolFailed, ToolMissing
from tests.small_disk import small_disk
from tests.tools import require

LIMITS = Limits()
NATIVE = Path(ways.__file__).with_name("native")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    require("cc")
    return tmp_path


def symbols(path: Path) -> list[str]:
    words = [require("nm"), "-D", "--defined-only", "--format=just-symbols", str(path)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()


def test_nothing_is_exported_but_what_loaders_look_up() -> None:
    assert symbols(library(OPENCL_LAYER)) == ["clGetLayerInfo", "clInitLayer"]
    assert symbols(library(LEVEL_ZERO_PRELOAD)) == ["zeGetModuleProcAddrTable"]
    assert symbols(wrapper_driver("libze_intel_gpu.so.1")) == ["zeGetModuleProcAddrTable"]


def test_a_wrapper_needs_the_driver_that_it_wraps() -> None:
    for driver in ("libze_intel_gpu.so.1", "/opt/intel/libze_intel_gpu.so.1"):
        built = wrapper_driver(driver)
        words = [require("readelf"), "-d", str(built)]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        assert f"[{driver}]" in said


def test_the_second_use_builds_nothing(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    first = library(OPENCL_LAYER)
    monkeypatch.setenv("PATH", "/nowhere")
    assert library(OPENCL_LAYER) == first
    assert {path.name for path in first.parent.iterdir()} == {"opencl_layer.so"}
    assert first.is_relative_to(cache)


def test_what_others_could_have_changed_is_built_again() -> None:
    built = library(OPENCL_LAYER)
    built.write_bytes(b"not this")
    built.chmod(0o777)
    assert library(OPENCL_LAYER).read_bytes().startswith(b"\x7fELF")
    assert not built.stat().st_mode & 0o022


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("way", [".", "symd", "symd/native", "symd/native/*"])
def test_a_cache_that_another_user_may_change_is_not_used(
    way: str, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """He could put his library in its place after it was looked at: the folder's owner may rename what is in it."""
    built = library(OPENCL_LAYER)
    (folder,) = cache.glob(way) if way != "." else [cache]
    os.chown(folder, 65534, 65534)
    with pytest.raises(FailedPrecondition, match=r"other users may change .*set XDG_CACHE_HOME"):
        library(OPENCL_LAYER)
    run = tmp_path_factory.mktemp("run")
    assert library(OPENCL_LAYER, run).is_relative_to(run)
    os.chown(folder, 0, 0)
    assert library(OPENCL_LAYER, run) == built


def test_a_cache_in_which_others_may_write_is_not_used(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache.chmod(0o757)
    run = tmp_path_factory.mktemp("run")
    assert library(OPENCL_LAYER, run).is_relative_to(run)


def test_others_may_not_write_in_a_cache_that_is_made(cache: Path) -> None:
    before = os.umask(0)
    try:
        built = library(OPENCL_LAYER)
    finally:
        os.umask(before)
    made = [each for each in built.parents if each.is_relative_to(cache) and each != cache]
    assert [each.stat().st_mode & 0o077 for each in made] == [0, 0, 0]


def test_no_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolMissing, match=r"no C compiler.*apt-get install gcc libc6-dev"):
        library(OPENCL_LAYER)


def script(folder: Path, text: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_compiler_that_fails_or_hangs_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", script(tmp_path, "echo no stdio.h here >&2; exit 1"))
    with pytest.raises(ToolFailed, match=r"no stdio.h here"):
        library(OPENCL_LAYER)
    monkeypatch.setenv("CC", script(tmp_path, "sleep 100"))
    monkeypatch.setattr(ways, "COMPILE_SECONDS", 0.2)
    with pytest.raises(DeadlineExceeded):
        library(OPENCL_LAYER)
    assert not list(tmp_path.rglob("*.so"))


def test_a_cache_that_cannot_be_written_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(StoreUnavailable, match="XDG_CACHE_HOME"):
        library(OPENCL_LAYER)


def test_a_library_is_built_elsewhere_where_the_cache_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    built = library(OPENCL_LAYER, tmp_path / "run")
    assert built.is_relative_to(tmp_path / "run")
    assert symbols(built) == ["clGetLayerInfo", "clInitLayer"]


@pytest.mark.parametrize("which", ["XDG_CACHE_HOME", "TMPDIR"])
def test_a_full_disk_is_not_a_missing_compiler(which: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the cache, and of the folder in which the compiler runs."""
    place = tmp_path / "disk"
    with small_disk(place, 64 << 10) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        (place / "symd").mkdir()
        fill(place / "filling", leave=8 << 10)
        monkeypatch.setenv(which, str(place))
        monkeypatch.setattr("tempfile.tempdir", None)  # asked once, and kept
        with pytest.raises(StoreUnavailable, match="no space left on device") as caught:
            library(OPENCL_LAYER)
        assert "apt-get" not in str(caught.value)
        assert which in str(caught.value)


def fill(file: Path, leave: int) -> None:
    """Make a file that leaves so many bytes of its disk."""
    room = os.statvfs(file.parent)
    file.write_bytes(bytes(room.f_bavail * room.f_frsize - leave))


def test_a_library_beside_its_source_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ways, "_NATIVE", tmp_path)
    (tmp_path / "opencl_layer.so").write_bytes(b"")
    assert library(OPENCL_LAYER) == tmp_path / "opencl_layer.so"


@pytest.mark.parametrize("name", ["opencl_layer", "level_zero_preload", "level_zero_wrapper"])
@pytest.mark.parametrize("compiler", ["cc", "clang"])
def test_the_sources_compile_without_a_warning(name: str, compiler: str) -> None:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", '-DDRIVER="x"']
    subprocess.run([require(compiler), *flags, str(NATIVE / f"{name}.c")], check=True)


OPENCL_CHECKS = """
#define CL_TARGET_OPENCL_VERSION 210
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <CL/cl_layer.h>
#include <stddef.h>
#define ENTRY(name, number) _Static_assert(offsetof(cl_icd_dispatch, name) == (number) * sizeof(void *), #name);
"""
LEVEL_ZERO_CHECKS = """
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <stddef.h>
_Static_assert(offsetof(ze_module_dditable_t, pfnCreate) == 0, "create");
_Static_assert(offsetof(ze_module_dditable_t, pfnDestroy) == sizeof(void *), "destroy");
_Static_assert(offsetof(ze_device_properties_t, name) == 112, "name");
_Static_assert(sizeof(ze_device_properties_t) <= 512, "room");
_Static_assert(ZE_MAX_DEVICE_NAME == 256, "name's length");
_Static_assert(ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES == 3, "type");
_Static_assert(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE == 0x70000004, "failure");
_Static_assert(ZE_RESULT_ERROR_UNINITIALIZED == 0x78000001, "uninitialized");
"""


def entries() -> str:
    """What the layer believes of the table, as checks of the header's."""
    text = (NATIVE / "opencl_layer.c").read_text()
    found = re.findall(r"^    ([A-Z_]+) = (\d+),$", text[: text.index("ENTRIES =")], re.MULTILINE)
    words = {"IL": "IL", "BUILT": "Built", "IN": "In"}
    names = {name: "cl" + "".join(words.get(word, word.capitalize()) for word in name.split("_")) for name, _ in found}
    return "".join(f"ENTRY({names[name]}, {number})\n" for name, number in found)


@pytest.mark.parametrize("text", ["opencl", "level-zero"])
def test_numbers_are_those_of_the_headers(text: str, tmp_path: Path) -> None:
    for header in ("/usr/include/CL/cl_layer.h", "/usr/include/level_zero/ze_ddi.h"):
        if not Path(header).exists():
            pytest.skip(f"{header} is not here")
    source = tmp_path / "checks.c"
    source.write_text(OPENCL_CHECKS + entries() if text == "opencl" else LEVEL_ZERO_CHECKS)
    assert text != "opencl" or source.read_text().count("ENTRY(") > 15
    subprocess.run([require("cc"), "-std=c11", "-fsyntax-only", str(source)], check=True, env=os.environ)
