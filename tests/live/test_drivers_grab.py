"""Real drivers give debug data, native binary and names, for each input that they take."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from symd.capture.drivers import Confinement
from tests.live.conftest import Built, Target, demand

TWO_KERNELS = """\
float square(float x) { return x * x + 1.0f; }

kernel void scale(global float *a, float factor) {
    int i = get_global_id(0);
    a[i] = square(a[i]) * factor;
}

kernel void shift(global int *a) {
    a[get_global_id(0)] += 3;
}
"""
ONE_KERNEL = "kernel void alone(global int *a) {\n    a[get_global_id(0)] *= 7;\n}\n"
CONTAINER = b"CTNI" + (1081).to_bytes(4, "little")
EM_INTELGT = 205

Writer = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Target], Built]:
    """The two kernels, compiled by the generation's own ocloc: once for each target."""

    @cache
    def compile_for(target: Target) -> Built:
        folder = tmp_path_factory.mktemp("ocloc")
        source = folder / "two.cl"
        source.write_text(TWO_KERNELS)
        out = folder / "out"
        out.mkdir()
        return target.compile(source, out)

    return compile_for


@pytest.fixture
def two(target: Target, compiled: Callable[[Target], Built]) -> Built:
    return compiled(target)


def sections(data: bytes) -> dict[str, bytes]:
    return {section.name: section.data() for section in ELFFile(io.BytesIO(data)).iter_sections()}


def check_debug_data(target: Target, data: bytes, kernels: set[str]) -> None:
    """The older generation gives the compiler's container with as many kernels, the newer one a debug zebin."""
    if target.root is None:
        assert data[:8] == CONTAINER
        assert int.from_bytes(data[24:28], "little") == len(kernels)
        for name in kernels:
            assert name.encode() + b"\0" in data
    else:
        assert data[:4] == b"\x7fELF"
        assert int.from_bytes(data[18:20], "little") == EM_INTELGT
        assert {name for name in sections(data) if name.startswith(".text.")} == {f".text.{name}" for name in kernels}
        assert sections(data)[".debug_line"]
        assert sections(data)[".debug_info"]


def test_spirv_gives_debug_data_names_and_a_native_binary(target: Target, api: str, two: Built) -> None:
    got = target.grab(api, "spirv", two.spirv)
    assert set(got.kernels) == {"scale", "shift"}
    check_debug_data(target, got.debug_data, {"scale", "shift"})
    assert got.native[:4] == b"\x7fELF"
    assert "Intel" in got.device
    assert got.driver.split()[-1][0].isdigit()


def test_older_drivers_give_byte_for_byte_what_ocloc_writes(target: Target, api: str, two: Built) -> None:
    if target.root is not None:
        pytest.skip("the newer compiler names its relocation symbols differently in each run")
    assert target.grab(api, "spirv", two.spirv).debug_data == two.debug


def test_newer_drivers_give_the_code_that_ocloc_writes(target: Target, api: str, two: Built) -> None:
    if target.root is None:
        pytest.skip("older binaries are no zebins")
    if target.product == "dg2":
        pytest.skip("simulation turns off the bindless addressing of buffers that ocloc uses for dg2")
    ours, theirs = sections(target.grab(api, "spirv", two.spirv).native), sections(two.binary)
    for name in (".text.scale", ".text.shift", ".debug_line"):
        assert ours[name] == theirs[name]


def test_opencl_builds_from_source(target: Target) -> None:
    demand(target, "opencl")
    got = target.grab("opencl", "source", TWO_KERNELS.encode())
    assert set(got.kernels) == {"scale", "shift"}
    check_debug_data(target, got.debug_data, {"scale", "shift"})


def test_one_source_gives_the_same_debug_data_every_time(target: Target) -> None:
    demand(target, "opencl")
    if target.root is not None:
        pytest.skip("the newer compiler names its relocation symbols differently in each run")
    first, second = (target.grab("opencl", "source", TWO_KERNELS.encode()) for _ in range(2))
    assert first.debug_data == second.debug_data


def test_a_source_can_be_given_its_file_name(target: Target, write: Writer) -> None:
    demand(target, "opencl")
    path = write("named kernel.cl", ONE_KERNEL)
    got = target.grab("opencl", "source", ONE_KERNEL.encode(), f'-g -s "{path}"')
    assert str(path.parent).encode() in got.debug_data
    assert b"named kernel.cl" in got.debug_data


def test_a_native_binary_goes_back_in(target: Target, api: str, two: Built) -> None:
    first = target.grab(api, "spirv", two.spirv)
    again = target.grab(api, "native", first.native)
    assert set(again.kernels) == {"scale", "shift"}
    check_debug_data(target, again.debug_data, {"scale", "shift"})
    if target.root is None:
        assert again.debug_data == first.debug_data


def test_ocloc_s_binary_is_a_native_input(target: Target, api: str, two: Built) -> None:
    got = target.grab(api, "native", two.binary)
    assert set(got.kernels) == {"scale", "shift"}
    check_debug_data(target, got.debug_data, {"scale", "shift"})


def test_a_module_without_debug_information_is_a_value_and_no_error(
    target: Target, api: str, tmp_path: Path, write: Writer
) -> None:
    built = target.compile(write("one.cl", ONE_KERNEL), tmp_path, options="-cl-mad-enable")
    got = target.grab(api, "spirv", built.spirv, "")
    assert got.kernels == ("alone",)
    if target.root is None:
        assert got.debug_data == b""
    else:
        assert not [name for name in sections(got.debug_data) if name.startswith(".debug_")]


def test_caches_and_dumps_in_the_working_directory_do_not_matter(
    target: Target, api: str, two: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache folder makes the older drivers forget debug data at the second build; their dumps would litter."""
    here = tmp_path / "here"
    for name in ("cl_cache", "l0_cache"):
        (here / name).mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("cl_cache_dir", str(here / "cl_cache"))
    monkeypatch.setenv("l0_cache_dir", str(here / "l0_cache"))
    for _ in range(2):
        check_debug_data(
            target, target.grab(api, "spirv", two.spirv, confinement=Confinement.NONE).debug_data, {"scale", "shift"}
        )
    assert sorted(str(path.relative_to(here)) for path in here.rglob("*")) == ["cl_cache", "l0_cache"]


def test_many_grabs_at_once_do_not_disturb_each_other(target: Target, api: str, two: Built) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: target.grab(api, "spirv", two.spirv), range(6)))
    for got in results:
        check_debug_data(target, got.debug_data, {"scale", "shift"})


def test_the_second_of_two_devices_can_be_chosen(
    target: Target, api: str, two: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CreateMultipleRootDevices", "2")
    got = target.grab(api, "spirv", two.spirv, confinement=Confinement.NONE, device=1)
    check_debug_data(target, got.debug_data, {"scale", "shift"})


def test_no_process_is_left_behind(target: Target, api: str, two: Built) -> None:
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    if not children.exists():
        pytest.skip("this kernel does not list a process's children")
    before = set(children.read_text().split())
    target.grab(api, "spirv", two.spirv)
    assert set(children.read_text().split()) == before
