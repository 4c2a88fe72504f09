"""The libraries for CUDA and HIP in front of stand-ins of the vendors' runtimes: what programs load arrives, however they find the
functions, and they notice nothing."""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from symd.capture.process import opened
from symd.capture.program_files import is_device_code, read_part
from symd.capture.ways import CUDA_PRELOAD, HIP_PRELOAD, library
from symd.config import Limits
from symd.formats.containers import uri
from tests.capture.stand_in import (
    BUILD_LOG,
    DATA,
    DEVICE,
    FAILED,
    FOUND,
    KEY,
    LOADED,
    SOURCE,
    UNLOADED,
    Run,
    Taken,
    run_stand_in,
)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS, STUBS = HERE / "programs", HERE / "stubs"
CUBIN = min((ROOT / "samples" / "cuda" / "bin").glob("*.cubin"))
FATBIN = min((ROOT / "samples" / "cuda" / "bin").glob("*.fatbin"))
CODE_OBJECT = min((ROOT / "samples" / "amdgpu" / "bin").glob("*.co"))
BUNDLE = ROOT / "samples" / "amdgpu" / "bin" / "aligned.bundle"
OPENED = partial(opened, os.geteuid())
HOWS = ("linked", "dlsym", "look-up", "twice")
CUDA_HEADERS = [*Path("/usr/local").glob("cuda*/include/cuda.h"), *Path("/usr/include").glob("cuda.h")]


@dataclass(frozen=True)
class Runtime:
    """One vendor's: the number of its interface in records, its stand-in, the symd library in front of it."""

    name: str
    api: int
    file: str
    device: bytes
    preload: str
    define: str


CUDA = Runtime("libcuda", 3, "libcuda.so.1", b"Stub H200", CUDA_PRELOAD, "-DCUDA")
HIP = Runtime("libamdhip64", 4, "libamdhip64.so.6", b"Stub MI300X", HIP_PRELOAD, "-DHIP")
EACH = pytest.mark.parametrize("runtime", [CUDA, HIP], ids=["cuda", "hip"])


def compiled(*arguments: object) -> None:
    subprocess.run(["gcc", "-Wall", "-Werror", "-O1", *map(str, arguments)], check=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-ins and the programs, for both vendors."""
    folder = tmp_path_factory.mktemp("runtimes")
    for each in (CUDA, HIP):
        stub = folder / each.file
        compiled("-shared", "-fPIC", "-w", f"-Wl,-soname,{each.file}", "-o", stub, STUBS / f"{each.name}.c")
        program = [PROGRAMS / "runtime_program.c", each.define, "-ldl"]
        compiled("-o", folder / f"{each.name}-linked", *program, "-Wl,--no-as-needed", stub, f"-Wl,-rpath,{folder}")
        compiled("-o", folder / f"{each.name}-opening", *program)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with run_stand_in(tmp_path) as stand_in:
        yield stand_in


def preloaded(*preloads: str) -> dict[str, str]:
    return {"LD_PRELOAD": ":".join(str(library(name)) for name in preloads)}


def executed(
    built: Path, runtime: Runtime, how: str, file: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    program = built / f"{runtime.name}-{'linked' if how == 'linked' else 'opening'}"
    clean = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(built), **environment}
    return subprocess.run([program, how, file], capture_output=True, text=True, env=clean, check=False)


def told(records: list[Taken]) -> list[int]:
    return [record.kind for record in records]


@EACH
@pytest.mark.parametrize("how", HOWS)
def test_whatever_is_loaded_arrives_and_nothing_is_noticed(built: Path, run: Run, runtime: Runtime, how: str) -> None:
    file = CUBIN if runtime is CUDA else CODE_OBJECT
    bare = executed(built, runtime, how, file)
    assert bare.returncode == 7, bare.stdout
    captured = executed(built, runtime, how, file, SYMD_CAPTURE=str(run.folder), **preloaded(runtime.preload))
    assert (captured.stdout, captured.stderr, captured.returncode) == (bare.stdout, "", 7)
    records = run.records()
    loads = [LOADED, UNLOADED, LOADED, UNLOADED, LOADED, LOADED, LOADED, UNLOADED, LOADED, FAILED]
    assert told(records) == [*loads, *([FOUND] if how == "linked" else [])]
    assert {record.api for record in records} == {runtime.api}
    assert {record.fields[DATA] for record in records if record.kind == LOADED} == {file.read_bytes()}
    assert {record.fields[DEVICE] for record in records if record.kind == LOADED} == {runtime.device}
    assert [record.handle for record in records[:2]] == [records[0].handle] * 2
    assert records[9].code == 200
    assert b"not an image" in records[9].fields[BUILD_LOG]


@pytest.mark.parametrize("owner", [os.geteuid(), *([65534] if os.geteuid() == 0 else [])])
def test_what_the_socket_does_not_take_is_a_file_that_its_reader_alone_opens(built: Path, run: Run, owner: int) -> None:
    """The folder's owner, also where the program became root: sudo(8) may leave it the run's variables."""
    run.listener.close()
    os.chown(run.folder / "spool", owner, -1)
    before = os.umask(0)
    try:
        settings = {"SYMD_CAPTURE": str(run.folder), "SYMD_CAPTURE_KEY": "0123abcd"}
        executed(built, CUDA, "dlsym", CUBIN, **settings, **preloaded(CUDA_PRELOAD))
    finally:
        os.umask(before)
    statuses = [path.stat() for path in (run.folder / "spool").glob("*.record")]
    assert {(stat.S_IMODE(status.st_mode), status.st_uid) for status in statuses} == {(0o600, owner)}
    assert {record.fields[KEY] for record in run.spooled()} == {b"0123abcd"}


@pytest.mark.parametrize(
    ("runtime", "file"),
    [(CUDA, FATBIN), (HIP, BUNDLE)],
    ids=["fatbin", "bundle"],
)
def test_containers_arrive_whole(built: Path, run: Run, runtime: Runtime, file: Path) -> None:
    executed(built, runtime, "dlsym", file, SYMD_CAPTURE=str(run.folder), **preloaded(runtime.preload))
    data = {record.fields[DATA] for record in run.records() if record.kind == LOADED}
    assert {file.read_bytes().startswith(each) or each == file.read_bytes() for each in data} == {True}
    assert all(len(each) >= len(file.read_bytes().rstrip(b"\0")) for each in data)


def test_text_arrives_up_to_its_end(built: Path, run: Run, tmp_path: Path) -> None:
    ptx = tmp_path / "k.ptx"
    ptx.write_text("//\n.version 8.0\n.target sm_90\n.visible .entry k() { ret; }\n")
    executed(built, CUDA, "look-up", ptx, SYMD_CAPTURE=str(run.folder), **preloaded(CUDA_PRELOAD))
    assert {record.fields[DATA] for record in run.records() if record.kind == LOADED} == {ptx.read_bytes()}


@EACH
def test_a_program_that_nobody_captures_is_as_without(built: Path, runtime: Runtime) -> None:
    bare = executed(built, runtime, "twice", CUBIN)
    captured = executed(built, runtime, "twice", CUBIN, **preloaded(runtime.preload))
    assert (captured.stdout, captured.stderr, captured.returncode) == (bare.stdout, bare.stderr, bare.returncode)


@EACH
def test_both_libraries_stand_beside_each_other(built: Path, run: Run, runtime: Runtime) -> None:
    file = CUBIN if runtime is CUDA else CODE_OBJECT
    bare = executed(built, runtime, "dlsym", file)
    both = preloaded(CUDA_PRELOAD, HIP_PRELOAD)
    captured = executed(built, runtime, "dlsym", file, SYMD_CAPTURE=str(run.folder), **both)
    assert (captured.stdout, captured.returncode) == (bare.stdout, bare.returncode)
    assert len(run.records()) == 10


NEXT = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int puts(const char *text)
{
    int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "puts");
    printf("through %d: ", next && next != puts);
    fflush(stdout);
    return next(text);
}
"""
ASKING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    puts("hello");
    printf("%d\\n", dlsym(RTLD_DEFAULT, "printf") == (void *)printf);
    printf("%d\\n", dlsym(RTLD_DEFAULT, "no_such_thing") == NULL);
    const char *error = dlerror();
    printf("%s\\n", error && strstr(error, "no_such_thing") ? "named" : "unnamed");
    printf("%d\\n", dlerror() == NULL);
    return 0;
}
"""


@EACH
def test_dlsym_answers_others_as_if_they_had_asked_it(tmp_path: Path, runtime: Runtime) -> None:
    """RTLD_NEXT means the next after who asks, and dlerror tells of the last failure."""
    (tmp_path / "next.c").write_text(NEXT)
    (tmp_path / "asking.c").write_text(ASKING)
    compiled("-shared", "-fPIC", "-fno-builtin", "-o", tmp_path / "next.so", tmp_path / "next.c", "-ldl")
    compiled("-fno-builtin", "-o", tmp_path / "asking", tmp_path / "asking.c", "-ldl")
    wrapped = f"{tmp_path}/next.so"
    for order in ("{symd}:{next}", "{next}:{symd}"):
        names = order.format(symd=library(runtime.preload), next=wrapped)
        outcomes = [
            subprocess.run([tmp_path / "asking"], capture_output=True, text=True, env={"LD_PRELOAD": value}, check=True)
            for value in (wrapped, names)
        ]
        assert outcomes[0].stdout == outcomes[1].stdout == "through 1: hello\n1\n1\nnamed\n1\n"
        assert outcomes[1].stderr == ""


@EACH
def test_only_what_is_watched_is_exported(runtime: Runtime) -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", library(runtime.preload)], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert "dlsym" in names
    assert {name for name in names if not name.startswith(("cu", "__cuda", "hip", "__hip"))} == {"dlsym"}


def test_a_python_program_runs_as_without(run: Run) -> None:
    program = (
        "import ctypes, hashlib, ssl, sqlite3; print(ctypes.CDLL(None).getpid() > 0, sqlite3.sqlite_version > '3')"
    )
    clean = {"PATH": os.environ["PATH"]}
    both = {**clean, "SYMD_CAPTURE": str(run.folder), **preloaded(CUDA_PRELOAD, HIP_PRELOAD)}
    outcomes = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=each, check=True)
        for each in (clean, both)
    ]
    assert (outcomes[0].stdout, outcomes[0].stderr) == (outcomes[1].stdout, outcomes[1].stderr) == ("True True\n", "")
    assert run.records() == []


@EACH
def test_what_a_program_brings_along_is_told_by_its_place_in_the_file(
    built: Path, run: Run, tmp_path: Path, runtime: Runtime
) -> None:
    """The name needs escaping in a URI. The bytes are not copied."""
    file = FATBIN if runtime is CUDA else BUNDLE
    program = tmp_path / "a program #1?%"
    compiled(
        "-o", program, PROGRAMS / "registering.c", runtime.define, f'-DFILE_NAME="{file}"',
        "-Wl,--no-as-needed", built / runtime.file, f"-Wl,-rpath,{built}",
    )  # fmt: skip
    environment = {"SYMD_CAPTURE": str(run.folder), **preloaded(runtime.preload)}
    done = subprocess.run([program], capture_output=True, text=True, env=environment, check=True)
    assert (done.stdout, done.stderr) == ("done\n", "")
    (record,) = run.records()
    assert record.kind == FOUND
    assert DATA not in record.fields
    place = uri.parse_uri(record.fields[SOURCE].decode())
    assert place.path == str(program)
    data = read_part(place, Limits(), OPENED)
    assert is_device_code(data)
    assert file.read_bytes().startswith(data)
    assert len(data) >= len(file.read_bytes().rstrip(b"\0"))


@pytest.mark.parametrize("registered", [False, True], ids=["by-a-linked-runtime", "by-the-shared-one"])
def test_what_a_program_carries_is_told_once_however_it_is_registered(
    built: Path, run: Run, tmp_path: Path, *, registered: bool
) -> None:
    """nvcc links its runtime into programs as a rule: nobody sees it register, but it looks the driver's functions up."""
    program = tmp_path / "program"
    compiled(
        "-o", program, PROGRAMS / "registering.c", "-DCUDA", "-DCARRIED", f'-DFILE_NAME="{FATBIN}"', "-ldl",
        *(["-DREGISTERED", "-Wl,--no-as-needed", built / CUDA.file] if registered else []), f"-Wl,-rpath,{built}",
    )  # fmt: skip
    bare = subprocess.run([program], capture_output=True, text=True, check=True)
    environment = {"SYMD_CAPTURE": str(run.folder), **preloaded(CUDA_PRELOAD)}
    done = subprocess.run([program], capture_output=True, text=True, env=environment, check=True)
    assert (done.stdout, done.stderr) == (bare.stdout, bare.stderr) == ("done\n", "")
    (record,) = run.records()
    assert record.kind == FOUND
    data = read_part(uri.parse_uri(record.fields[SOURCE].decode()), Limits(), OPENED)
    assert is_device_code(data)
    assert FATBIN.read_bytes().startswith(data)


@EACH
def test_what_a_program_brought_along_in_a_file_that_is_gone_is_told_by_its_bytes(
    built: Path, run: Run, tmp_path: Path, runtime: Runtime
) -> None:
    file = FATBIN if runtime is CUDA else BUNDLE
    program = tmp_path / "program"
    compiled(
        "-o", program, PROGRAMS / "registering.c", runtime.define, f'-DFILE_NAME="{file}"', "-DREMOVED",
        "-Wl,--no-as-needed", built / runtime.file, f"-Wl,-rpath,{built}",
    )  # fmt: skip
    environment = {"SYMD_CAPTURE": str(run.folder), **preloaded(runtime.preload)}
    done = subprocess.run([program], capture_output=True, text=True, env=environment, check=True)
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert not program.exists()
    (record,) = run.records()
    assert SOURCE not in record.fields
    assert is_device_code(record.fields[DATA])
    assert file.read_bytes().startswith(record.fields[DATA].rstrip(b"\0"))


@EACH
@pytest.mark.parametrize("through", ["runtime", "plugin"])
def test_a_runtime_that_a_program_closes_is_closed(
    built: Path, run: Run, tmp_path: Path, runtime: Runtime, through: str
) -> None:
    """And it may be opened again, at another address."""
    program, plugin = tmp_path / "program", tmp_path / "plugin.so"
    compiled("-o", program, PROGRAMS / "closing.c", runtime.define, "-ldl")
    compiled(
        "-shared", "-fPIC", "-o", plugin, PROGRAMS / "closing.c", runtime.define, "-DPLUGIN",
        "-Wl,--no-as-needed", built / runtime.file, f"-Wl,-rpath,{built}",
    )  # fmt: skip
    opened = built / runtime.file if through == "runtime" else plugin
    file = CUBIN if runtime is CUDA else CODE_OBJECT
    command = [program, opened, built / runtime.file, file]
    bare = subprocess.run(command, capture_output=True, text=True, check=True)
    assert bare.stdout == "loaded 0 kept 0 moved 1\nloaded 0 kept 0 moved 1\n"
    environment = {"SYMD_CAPTURE": str(run.folder), **preloaded(runtime.preload)}
    captured = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert captured.stdout == bare.stdout
    records = run.records()
    assert told(records) == [LOADED, LOADED]
    assert {record.fields[DEVICE] for record in records} == {runtime.device}


NVCC = shutil.which("nvcc")


@pytest.mark.skipif(not NVCC, reason="nvcc is not installed")
@pytest.mark.parametrize("linkage", ["shared", "static"])
def test_a_program_of_nvccs_tells_its_fat_binary(built: Path, run: Run, tmp_path: Path, linkage: str) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void k(int *p) { *p += 1; }\nint main() { k<<<1, 1>>>(nullptr); return 0; }\n"
    )
    command = [NVCC, "-lineinfo", "-arch=sm_90", "-cudart", linkage, "-o", str(tmp_path / "k"), str(tmp_path / "k.cu")]
    subprocess.run([str(each) for each in command], check=True, capture_output=True)
    needed = subprocess.run(["ldd", tmp_path / "k"], capture_output=True, text=True, check=True).stdout
    folders = re.findall(r"libcudart\S+ => (/\S+)/", needed) or [
        str(path.parent) for path in Path("/usr/local").glob("cuda*/lib*/libcudart.so")
    ]
    environment = {"LD_LIBRARY_PATH": ":".join([str(built), *folders]), "SYMD_CAPTURE": str(run.folder)}
    subprocess.run([tmp_path / "k"], env=environment | preloaded(CUDA_PRELOAD), check=False, timeout=60)
    found = [record for record in run.records() if record.kind == FOUND]
    assert found
    data = read_part(uri.parse_uri(found[0].fields[SOURCE].decode()), Limits(), OPENED)
    assert struct.unpack_from("<I", data) == (0xBA55ED50,)


@pytest.mark.skipif(not CUDA_HEADERS, reason="cuda.h is not installed")
def test_the_stand_in_has_the_signatures_of_cudas_header(tmp_path: Path) -> None:
    compiled(
        "-shared",
        "-fPIC",
        "-Wno-unused",
        f"-I{CUDA_HEADERS[0].parent}",
        "-o",
        tmp_path / "stub.so",
        STUBS / "libcuda.c",
    )
