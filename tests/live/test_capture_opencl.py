"""``symd run`` on OpenCL programs, with the real drivers of both generations: what they build arrives, and they do not notice."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from symd.capture.folder_sink import SOURCES
from symd.config import Limits
from symd.engine.engine import Engine
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.model.captures import CaptureWay, FailedBuild, ModuleLoaded, ModuleUnloaded, ProcessEnded
from symd.store import Store
from tests.live.capturing import Host, Outcome, assert_same, built
from tests.live.conftest import NEWER_ROOT, Target, demand, missing

HOSTS = [
    pytest.param(Target("dg2", None), id="dg2", marks=pytest.mark.live),
    pytest.param(Target("dg2", NEWER_ROOT), id="newer-dg2", marks=pytest.mark.live_new),
]


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    if request.node.get_closest_marker("live_new") and NEWER_ROOT is None:
        pytest.skip("SYMD_LIVE_NEW_ROOT is not set; `make live-new` sets the newer drivers up")
    demand(request.param, "opencl")
    return Host(request.param, "opencl", tmp_path)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder = tmp_path_factory.mktemp("programs")
    folder.chmod(0o755)
    return lambda *flags: built(folder, "opencl_host.c", *flags)


def both(host: Host, program: Path, *arguments: str, **options: object) -> Outcome:
    bare = host.bare(program, *arguments)
    captured = host.captured(program, *arguments, **options)  # type: ignore[arg-type]
    assert_same(bare, captured)
    return captured


def frames(loaded: ModuleLoaded, kernel: str) -> set[tuple[str, int]]:
    """Function and line of every exact answer in the first kilobytes of a kernel."""
    with Engine(Store.temporary(Limits()), Limits()) as engine:
        digest = engine.add(loaded.data, "captured").sha256
        asked = [ByKernel(kernel, KernelOffset(offset)) for offset in range(0, 2048, 8)]
        answers = engine.symbolize(digest, asked)
        return {(f.function, f.line) for a in answers if a.reason is Reason.EXACT for f in a.frames}


@pytest.mark.parametrize("flags", [(), ("-DBY_NAME",)], ids=["linked", "opened"])
def test_modules_arrive_with_their_lines_and_addresses(
    host: Host, program: Callable[..., Path], flags: tuple[str, ...]
) -> None:
    captured = both(host, program(*flags), "plain", "3")
    assert [event.kernels for event in captured.loaded] == [("scale_0",), ("scale_1",), ("scale_2",)]
    assert {("helper", 1), ("scale_1", 4)} <= frames(captured.loaded[1], "scale_1")
    for event in captured.loaded:
        assert set(event.addresses) == set(event.kernels)
        assert event.way is CaptureWay.OPENCL_LAYER
        assert "Intel" in event.device
        assert event.process.command[-2:] == ("plain", "3")
    assert [type(event) for event in captured.events] == [ModuleLoaded, ModuleUnloaded] * 3 + [ProcessEnded]
    times = [event.time for event in captured.events]
    assert times == sorted(times)
    assert captured.summary.startswith("symd: 3 modules of 3 builds, through the OpenCL layer; in ")


def test_threads_that_build_at_once(host: Host, program: Callable[..., Path]) -> None:
    captured = both(host, program(), "threads", "8")
    assert {event.kernels for event in captured.loaded} == {(f"scale_{index}",) for index in range(8)}


def test_a_failed_build_leaves_its_log(host: Host, program: Callable[..., Path]) -> None:
    captured = both(host, program(), "fails")
    failed, ended = captured.events
    assert isinstance(failed, FailedBuild)
    assert isinstance(ended, ProcessEnded)
    assert failed.code == -11
    assert "not_declared" in failed.build_log
    assert captured.summary.startswith("symd: 0 modules of 1 build; 1 failed build, logs kept; in ")


def test_the_same_source_twice_is_two_loads(host: Host, program: Callable[..., Path]) -> None:
    captured = both(host, program(), "same")
    first, second = captured.loaded
    assert first.kernels == second.kernels == ("scale_7",)
    assert [type(event) for event in captured.events] == [ModuleLoaded, ModuleUnloaded] * 2 + [ProcessEnded]


def test_a_program_that_is_built_again_is_another_module(host: Host, program: Callable[..., Path]) -> None:
    captured = both(host, program(), "again")
    assert [type(event) for event in captured.events] == [
        ModuleLoaded, ModuleUnloaded, ModuleLoaded, ModuleUnloaded, ProcessEnded,
    ]  # fmt: skip
    first, second = captured.loaded
    assert first.handle == second.handle
    assert first.data != second.data


@pytest.mark.parametrize("mode", ["link", "binary", "callback"])
def test_other_ways_to_a_program(host: Host, program: Callable[..., Path], mode: str) -> None:
    captured = both(host, program(), mode)
    assert captured.loaded
    assert {len(event.kernels) for event in captured.loaded} == {1}
    assert len(captured.loaded) == {"binary": 2}.get(mode, 1)
    assert len(captured.named("ModuleUnloaded")) == len(captured.loaded)


def test_a_kernel_holds_its_program(host: Host, program: Callable[..., Path]) -> None:
    captured = both(host, program(), "held")
    *_, loaded, unloaded, _ended = captured.events
    assert isinstance(unloaded, ModuleUnloaded)
    assert unloaded.time - loaded.time > 50_000_000  # it sleeps as long between the two releases


@pytest.mark.parametrize("mode", ["_exit", "segv", "kill", "abort"])
def test_however_the_program_ends(host: Host, program: Callable[..., Path], mode: str) -> None:
    captured = both(host, program(), mode, "2")
    assert captured.status == {"_exit": 41, "segv": -11, "kill": -9, "abort": -6}[mode]
    assert len(captured.loaded) == 2
    assert isinstance(captured.events[-1], ProcessEnded)


def test_forks_and_other_programs_are_processes_and_images_of_their_own(
    host: Host, program: Callable[..., Path]
) -> None:
    forked = host.captured(program(), "fork-first")
    bare = host.bare(program(), "fork-first")
    assert forked.status == bare.status
    assert sorted(forked.output.splitlines()) == sorted(bare.output.splitlines())  # the two are not in step
    assert len({event.process for event in forked.loaded}) == 2
    assert len(forked.named("ProcessEnded")) == 2
    parent = both(host, program(), "fork")
    assert len({event.process for event in parent.loaded}) == 1
    if host.target.root is None:  # under the loader of a driver folder it would not find itself
        became = both(host, program(), "exec")
        assert [event.process.command[1] for event in became.loaded] == ["exec", "plain", "plain"]
        assert len({event.process.process for event in became.loaded}) == 1
        assert len(became.named("ProcessEnded")) == 2


@pytest.mark.parametrize("mode", ["closed", "dropped", "chroot"])
def test_descriptors_and_rights_may_go(host: Host, program: Callable[..., Path], mode: str) -> None:
    if mode != "closed" and os.geteuid() != 0:
        pytest.skip("only root can give rights away")
    captured = both(host, program(), mode, "2")
    assert len(captured.loaded) == captured.output.count("built 0 ")  # in another root a driver may not find its parts


def test_lines_for_a_program_that_asked_for_none(host: Host, program: Callable[..., Path]) -> None:
    bare = host.bare(program(), "no-lines")
    without = host.captured(program(), "no-lines")
    captured = host.captured(program(), "no-lines", options=["--debug-lines"])
    assert_same(bare, captured)
    [before], [loaded] = without.loaded, captured.loaded
    assert not frames(before, "scale_4")
    assert {("scale_4", 4), ("scale_4", 3)} & frames(loaded, "scale_4")
    [source] = (host.folder / "out" / SOURCES).iterdir()
    assert source.read_text().startswith("float helper(float x)")
    assert_same(host.bare(program(), "fails"), host.captured(program(), "fails", options=["--debug-lines"]))


@pytest.mark.parametrize("name", ["clinfo", "clpeak"])
def test_programs_that_nobody_here_wrote(host: Host, name: str) -> None:
    found = shutil.which(name)
    if found is None:
        missing(f"{name} is not here")
    arguments = {"clinfo": ("-l",), "clpeak": ("--compute-integer",)}[name]
    captured = host.captured(found, *arguments)
    bare = host.bare(found, *arguments)
    assert (captured.status, captured.errors) == (bare.status, bare.errors)
    if name == "clpeak":
        assert captured.loaded
        assert all(event.kernels for event in captured.loaded)
    else:
        assert captured.output == bare.output
