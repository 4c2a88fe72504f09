"""``symd run`` on Level Zero programs, with the real drivers of both generations: the preloaded library and the wrapper driver."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from symd.model.captures import CaptureWay, FailedBuild, ModuleLoaded, ModuleUnloaded, ProcessEnded
from tests.live.capturing import Host, Outcome, assert_same, built
from tests.live.conftest import NEWER_ROOT, Target, demand
from tests.live.test_capture_opencl import HOSTS, frames
from tests.live.test_drivers_errors import DOUBLES

KERNELS = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
RAYCAST, VADD = (str(KERNELS / name / "opt.spv") for name in ("raycast", "vadd"))
TRIPLES = "kernel void triples(global int *x) { x[get_global_id(0)] *= 3; }\n"
NO_BINARY = "/bin/true"
"""An ELF image that is no code for a GPU."""
WRAPPER = ["--way", "wrapper-driver"]


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    if request.node.get_closest_marker("live_new") and NEWER_ROOT is None:
        pytest.skip("SYMD_LIVE_NEW_ROOT is not set; `make live-new` sets the newer drivers up")
    demand(request.param, "level-zero")
    return Host(request.param, "level-zero", tmp_path)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder = tmp_path_factory.mktemp("programs")
    folder.chmod(0o755)
    return lambda *flags: built(folder, "level_zero_host.c", *flags)


def both(host: Host, program: Path, *arguments: str, options: list[str] | None = None) -> Outcome:
    bare = host.bare(program, *arguments)
    captured = host.captured(program, *arguments, options=options or [])
    assert_same(bare, captured)
    return captured


REACHED = [
    pytest.param((), [], CaptureWay.PRELOAD, id="linked"),
    pytest.param(("-DBY_NAME",), [], CaptureWay.PRELOAD, id="opened"),
    pytest.param(("-DBY_TABLE",), [], CaptureWay.PRELOAD, id="by-table"),
    pytest.param((), WRAPPER, CaptureWay.WRAPPER_DRIVER, id="wrapper-linked"),
    pytest.param(("-DBY_NAME", "-DDEEP=RTLD_DEEPBIND"), WRAPPER, CaptureWay.WRAPPER_DRIVER, id="wrapper-deep"),
]


@pytest.mark.parametrize(("flags", "options", "way"), REACHED)
def test_modules_arrive_with_their_lines(
    host: Host, program: Callable[..., Path], flags: tuple[str, ...], options: list[str], way: CaptureWay
) -> None:
    captured = both(host, program(*flags), "plain", "2", RAYCAST, VADD, options=options)
    assert [event.kernels for event in captured.loaded] == [("raycast",)] * 2 + [("vadd",)] * 2
    assert [type(event) for event in captured.events] == [ModuleLoaded, ModuleUnloaded] * 4 + [ProcessEnded]
    assert {event.way for event in captured.loaded} == {way}
    assert {name for name, _ in frames(captured.loaded[0], "raycast")} >= {"raycast", "distance_to"}
    if host.target.root is not None:
        assert [set(event.addresses) for event in captured.loaded] == [set(event.kernels) for event in captured.loaded]
    assert len({event.data for event in captured.loaded}) == 2  # a module's file is the same for each load


def test_five_hundred_modules(host: Host, program: Callable[..., Path], write: Callable[[str, str], Path]) -> None:
    """Binaries, which a driver loads at once: so many follow each other as fast as they may."""
    (host.folder / "binary").mkdir()
    binary = host.target.compile(write("triples.cl", TRIPLES), host.folder / "binary").binary
    (host.folder / "triples.bin").write_bytes(binary)
    captured = both(host, program(), "plain", "500", str(host.folder / "triples.bin"))
    assert captured.output.count("created 0 ") == 500
    assert [event.kernels for event in captured.loaded] == [("triples",)] * 500
    assert len(captured.named("ModuleUnloaded")) == 500
    assert captured.summary.startswith("symd: 500 modules of 500 builds, through the preloaded library; in ")


def test_nothing_is_left_behind(host: Host, program: Callable[..., Path], tmp_path: Path) -> None:
    """No file beside the captures and symd's own cache of libraries, no process, no socket."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    place = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    command = [sys.executable, "-m", "symd", "run", "--out", str(tmp_path / "out"), "--"]
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="t") as short:  # a socket's path is not long
        ended = subprocess.run(
            [*command, *host.command(program(), "plain", "2", RAYCAST)],
            check=False, capture_output=True, text=True, cwd=work, timeout=300,
            env=host.variables | place | {"TMPDIR": short, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        assert ended.returncode == 7, ended.stderr
        assert list(Path(short).iterdir()) == []
        assert short not in Path("/proc/net/unix").read_text()
        assert not [
            each for each in Path("/proc").glob("[0-9]*") if f"SYMD_CAPTURE={short}".encode() in environ_of(each)
        ]
    left = {path.relative_to(home).parts[:3] for path in home.rglob("*") if path.is_file()}
    assert left == {(".cache", "symd", "native")}
    assert list(work.iterdir()) == []
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"captures.jsonl", "modules"}


def environ_of(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def test_threads_that_build_at_once(host: Host, program: Callable[..., Path]) -> None:
    captured = both(host, program(), "threads", "8", RAYCAST)
    assert len({event.handle for event in captured.loaded}) == 8


def test_a_binary_that_is_none_is_a_failed_build(host: Host, program: Callable[..., Path]) -> None:
    captured = both(host, program(), "fails", "1", NO_BINARY)
    codes = [line.split()[1] for line in captured.output.splitlines() if line.startswith("created ")]
    failed = [event for event in captured.events if isinstance(event, FailedBuild)]
    assert [f"{event.code:x}" for event in failed] == codes
    assert not captured.loaded


def test_the_log_of_a_failed_build_is_kept_also_where_the_program_asked_for_none(
    host: Host, program: Callable[..., Path], write: Callable[[str, str], Path]
) -> None:
    (host.folder / "spirv").mkdir()
    spirv = host.target.compile(write("doubles.cl", DOUBLES), host.folder / "spirv", product="pvc").spirv
    (host.folder / "doubles.spv").write_bytes(spirv)
    captured = both(host, program(), "fails", "1", str(host.folder / "doubles.spv"))
    first, second = (event for event in captured.events if isinstance(event, FailedBuild))
    assert "Double type is not supported" in first.build_log
    assert first.build_log == second.build_log
    assert "2 failed builds, logs kept" in captured.summary


@pytest.mark.parametrize("mode", ["_exit", "segv", "kill", "closed", "dropped", "fork"])
def test_however_the_program_goes_on(host: Host, program: Callable[..., Path], mode: str) -> None:
    if mode == "dropped" and os.geteuid() != 0:
        pytest.skip("only root can give rights away")
    captured = both(host, program(), mode, "1", RAYCAST)
    assert captured.status == {"_exit": 41, "segv": -11, "kill": -9}.get(mode, 7)
    assert len(captured.loaded) == captured.output.count("created 0 ")
    assert len(captured.loaded) >= 1
    assert {type(event) for event in captured.events[-1:]} == {ProcessEnded}


def test_a_python_program_that_calls_by_ctypes(host: Host) -> None:
    """Nothing of it was written for symd: it opens the loader and looks functions up."""
    script = (
        "import ctypes, sys\n"
        "ze = ctypes.CDLL('libze_loader.so.1')\n"
        "assert ze.zeInit(0) == 0\n"
        "count, driver, device, context, module = ctypes.c_uint32(1), *(ctypes.c_void_p() for _ in range(4))\n"
        "ze.zeDriverGet(ctypes.byref(count), ctypes.byref(driver))\n"
        "count = ctypes.c_uint32(1)\n"
        "ze.zeDeviceGet(driver, ctypes.byref(count), ctypes.byref(device))\n"
        "described = (ctypes.c_uint64 * 3)(0xd, 0, 0)\n"
        "assert ze.zeContextCreate(driver, described, ctypes.byref(context)) == 0\n"
        "data = open(sys.argv[1], 'rb').read()\n"
        "bytes_ = ctypes.create_string_buffer(data)\n"
        "described = (ctypes.c_uint64 * 7)(0x1b, 0, 0, len(data), ctypes.addressof(bytes_), 0, 0)\n"
        "print(ze.zeModuleCreate(context, device, described, ctypes.byref(module), None))\n"
    )
    captured = both(host, Path(sys.executable), "-c", script, RAYCAST)
    assert captured.output == "0\n"
    assert [event.kernels for event in captured.loaded] == [("raycast",)]


@pytest.fixture
def for_all() -> Iterator[Path]:
    """A folder in which every user works. Those of pytest are its user's alone, and are made so again when another pytest starts."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


_STARTS_ITSELF = "import subprocess, sys, symd; subprocess.run([sys.executable, '-c', ''], check=True)"
"""Fails where the interpreter lies below a folder that only root may enter: tools are started by way of it."""


@pytest.mark.live
def test_a_program_with_more_rights_than_its_caller(program: Callable[..., Path], for_all: Path) -> None:
    """Nothing is preloaded into it: symd takes the wrapper driver by itself."""
    tmp_path = for_all
    host = Host(Target("dg2", None), "level-zero", tmp_path)
    demand(host.target, "level-zero")
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("takes root and setpriv")
    privileged = tmp_path / "privileged"
    shutil.copy(program(), privileged)
    privileged.chmod(privileged.stat().st_mode | stat.S_ISUID)
    out = tmp_path / "out"
    command = [
        "setpriv",
        "--reuid",
        "65534",
        "--clear-groups",
        sys.executable,
        "-m",
        "symd",
        "run",
        "--out",
        str(out),
        "--",
    ]
    variables = host.variables | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    if subprocess.run(
        ["setpriv", "--reuid", "65534", "--clear-groups", sys.executable, "-c", _STARTS_ITSELF],
        check=False,
        env=variables,
        capture_output=True,
    ).returncode:
        pytest.skip("another user cannot read this symd, or cannot start this Python")
    ended = subprocess.run(
        [*command, str(privileged), "plain", "1", RAYCAST],
        check=False,
        capture_output=True,
        text=True,
        env=variables,
        cwd=tmp_path,
        timeout=300,
    )
    assert ended.returncode == 7, ended.stderr
    assert "through the wrapper driver" in ended.stderr
