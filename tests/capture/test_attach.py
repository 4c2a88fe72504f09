"""Modules of processes that run: real children with device code in their memory, their mapped files and a runtime's list."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from symd.capture import attach, program_files
from symd.capture import process as process_room
from symd.capture.attach import AttachEvent, Attachment, MemorySearch, SearchCounts, extent, may_begin
from symd.capture.process import MemoryMapping, RunningProcess
from symd.capture.records import parse_record
from symd.config import Limits
from symd.errors import FailedPrecondition, InvalidInput, LimitExceeded
from symd.formats.containers import unpack
from symd.formats.containers.intel import igc_debug
from symd.model.captures import CaptureApi, CaptureWay, ModuleFound, ModuleLoaded
from tests.builders.elf import ALLOC, ET_DYN, Section, build_elf
from tests.capture import records_made

ROOT = Path(__file__).parents[2]
ZEBIN = ROOT / "samples" / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin"
DEBUG_DATA = ROOT / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.dbg"
CODE_OBJECTS = sorted((ROOT / "samples" / "amdgpu" / "bin").rglob("*.co"))
CUBINS = sorted((ROOT / "samples" / "cuda" / "bin").rglob("*.cubin"))


@contextlib.contextmanager
def running(program: str, *arguments: object, home: Path, **environment: str) -> Iterator[RunningProcess]:
    """A Python program that says a line when it is ready and then waits; its caches are below ``home``."""
    command = [sys.executable, "-c", textwrap.dedent(program) + "\nprint('ready', flush=True)\nsys.stdin.read()"]
    clean = {"PATH": os.environ["PATH"], "HOME": str(home), **environment}
    with subprocess.Popen(
        [*command, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        try:
            with RunningProcess(child.pid) as process:
                yield process
        finally:
            child.kill()


def attached(process: RunningProcess, limits: Limits | None = None) -> tuple[list[AttachEvent], Attachment]:
    attachment = Attachment(process, limits or Limits())
    return list(attachment.events()), attachment


# Read straight into the area: a freed copy in the heap would be found as well, and go while a test looks at it.
HOLDING = """
    import mmap, os, sys
    kept = []
    for path in sys.argv[1:]:
        size = os.path.getsize(path)
        area = mmap.mmap(-1, size + 8192)
        with open(path, "rb", buffering=0) as file:
            file.readinto(memoryview(area)[4096 - 16 : 4096 - 16 + size])
        kept.append(area)
"""


@pytest.mark.parametrize("path", [ZEBIN, DEBUG_DATA, *CODE_OBJECTS[:3], *CUBINS[:3]], ids=lambda path: path.name)
def test_a_module_in_memory_is_found_whole(path: Path, tmp_path: Path) -> None:
    with running(HOLDING, path, home=tmp_path) as process:
        events, attachment = attached(process)
    found = [event for event in events if event.data == path.read_bytes()]
    assert len(found) == 1
    assert found[0].process is not None
    assert found[0].process.process == process.pid
    assert found[0].way is CaptureWay.ATTACH
    assert any(note.startswith("memory: modules found in ") for note in attachment.notes)


def test_the_place_in_memory_is_a_code_object_uri(tmp_path: Path) -> None:
    with running(HOLDING, CUBINS[0], home=tmp_path) as process:
        events, _ = attached(process)
        (event,) = [event for event in events if event.data == CUBINS[0].read_bytes()]
        assert isinstance(event, ModuleFound)
        assert event.api is CaptureApi.CUDA
        assert event.source.startswith(f"memory://{process.pid}#offset=0x")
        assert event.source.endswith(f"&size={len(event.data)}")
        address = int(event.source.partition("offset=")[2].partition("&")[0], 16)
        assert process.read(address, len(event.data)) == event.data


def test_what_is_left_of_a_freed_module_is_passed_over(tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes(ZEBIN.read_bytes()[:3000])
    with running(HOLDING, cut, home=tmp_path) as process:
        events, attachment = attached(process)
    assert not [event for event in events if event.data[:64] == ZEBIN.read_bytes()[:64]]
    assert any("passed over" in note for note in attachment.notes)


def test_memory_that_was_never_touched_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
        import mmap, sys
        area = mmap.mmap(-1, 1 << 36, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
        data = open(sys.argv[1], "rb").read()
        area[1 << 35 : (1 << 35) + len(data)] = data
        data = None
    """
    monkeypatch.setattr(attach, "ATTACH_BYTES", 1 << 30)
    with running(program, ZEBIN, home=tmp_path) as process:
        before = resident(process.pid)
        events, _ = attached(process)
        assert resident(process.pid) - before < 1 << 20
    assert [event for event in events if event.data == ZEBIN.read_bytes()]


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_what_is_not_searched_is_said_with_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "ATTACH_BYTES", 4096)
    with running(HOLDING, ZEBIN, home=tmp_path) as process:
        _, attachment = attached(process)
    assert any("bytes were not searched (at most 4,096 are)" in note for note in attachment.notes)


class Ticking:
    """A process all of whose memory repeats ``content``; each read takes a second of a clock of its own."""

    def __init__(self, content: bytes, size: int) -> None:
        self.reads, self._content, self._size = 0, content, size

    def monotonic(self) -> float:
        return float(self.reads)

    def held_ranges(self, mapping: MemoryMapping) -> Iterator[tuple[int, int]]:
        yield mapping.start, mapping.start + self._size

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        skipped = address % len(self._content)
        return (self._content * (size // len(self._content) + 2))[skipped : skipped + size]


def search(process: Ticking, limits: Limits, monkeypatch: pytest.MonkeyPatch) -> SearchCounts:
    monkeypatch.setattr(attach, "time", process)
    mapping = MemoryMapping(0, 1 << 30, True, 0, "0:0", 0, "", False, False, 1 << 30)
    found = MemorySearch(cast("RunningProcess", process), [mapping], limits)
    assert list(found) == []
    return found.counts


def test_a_search_ends_in_the_middle_of_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = b"\0" * 4096
    monkeypatch.setattr(attach, "ATTACH_SECONDS", 3.5)
    counts = search(Ticking(bare, 64 << 20), Limits(), monkeypatch)
    assert (counts.searched, counts.unsearched, counts.limits) == (16 << 20, 48 << 20, {"attach_seconds"})
    monkeypatch.setattr(attach, "ATTACH_SECONDS", 60.0)
    monkeypatch.setattr(attach, "ATTACH_BYTES", 10 << 20)
    counts = search(Ticking(bare, 64 << 20), Limits(), monkeypatch)
    assert (counts.searched, counts.unsearched, counts.limits) == (8 << 20, 56 << 20, {"attach_bytes"})


def test_a_search_ends_in_the_middle_of_a_beginning_that_claims_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header of 99,999 kernels; there is one at each page."""
    header = igc_debug.MAGIC.ljust(24, b"\0") + (99_999).to_bytes(4, "little")
    process = Ticking(header.ljust(4096, b"\0"), 8 << 20)
    monkeypatch.setattr(attach, "ATTACH_SECONDS", 50)
    counts = search(process, Limits(), monkeypatch)
    assert process.reads <= 52
    assert counts.limits == {"attach_seconds"}
    assert counts.unsearched >= 4 << 20


def test_a_table_of_headers_that_no_module_has_is_not_read() -> None:
    head = bytearray(CODE_OBJECTS[0].read_bytes()[:64])
    head[32:40] = (64).to_bytes(8, "little")
    head[54:58] = b"\xff" * 4
    asked: list[int] = []

    def read(offset: int, size: int) -> bytes:
        asked.append(size)
        return bytes(head)[offset : offset + size]

    assert extent(read) is None
    assert max(asked) <= 16 << 20


def test_mapped_files_with_device_code_are_taken(tmp_path: Path) -> None:
    program = """
        import mmap, sys
        files = [open(path, "rb") for path in sys.argv[1:]]
        maps = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]
    """
    host = tmp_path / "host program.so"
    subprocess.run(["gcc", "-shared", "-o", str(host), "-x", "c", "/dev/null"], check=True)
    subprocess.run(
        ["objcopy", f"--add-section=.nv_fatbin={min((ROOT / 'samples' / 'cuda').rglob('*.fatbin'))}", str(host)],
        check=True,
    )
    with running(program, ZEBIN, host, home=tmp_path) as process:
        events, attachment = attached(process)
    sources = {event.source for event in events if isinstance(event, ModuleFound)}
    assert {str(ZEBIN), str(host)} <= sources
    assert any(re.search(r"\d of \d+ mapped files? (carry|carries) device code", note) for note in attachment.notes)


def test_a_mapped_file_that_is_gone_is_taken_or_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone.zebin"
    gone.write_bytes(ZEBIN.read_bytes())
    program = """
        import mmap, os, sys
        file = open(sys.argv[1], "rb")
        kept = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        os.unlink(sys.argv[1])
    """
    with running(program, gone, home=tmp_path) as process:
        events, attachment = attached(process)
    taken = [event for event in events if event.data == ZEBIN.read_bytes()]
    assert taken or [left for left in attachment.left_out if left.path == str(gone)]


CUTTING = """
    import os, sys
    from pathlib import Path
    from symd.formats import containers
    from symd.capture import attach
    from symd.capture.process import RunningProcess
    from symd.config import Limits
    target, begins = Path(sys.argv[2]), Path(sys.argv[2]).read_bytes()[:64]
    known = containers.identify
    def cutting(data):
        if data[:64] == begins:
            os.truncate(target, 4096)
        return known(data)
    containers.identify = cutting
    attach.ATTACH_BYTES = 0
    with RunningProcess(int(sys.argv[1])) as process:
        attachment = attach.Attachment(process, Limits())
        list(attachment.events())
    print([str(each.error) for each in attachment.left_out if each.path == str(target)])
"""


def test_a_mapped_file_that_is_cut_off_while_it_is_read_is_named(tmp_path: Path) -> None:
    """Its bytes are touched after it became shorter: of a mapping that would be the end of symd, so that it is another process here."""
    target = tmp_path / "cut.zebin"
    target.write_bytes(ZEBIN.read_bytes())
    program = """
        import mmap, sys
        file = open(sys.argv[1], "rb")
        kept = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    """
    with running(program, target, home=tmp_path) as process:
        command = [sys.executable, "-c", textwrap.dedent(CUTTING), str(process.pid), str(target)]
        ended = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "['it was cut off to 4,096 bytes while it was read']\n"


def elf_program(path: Path, section: str, content: bytes) -> Path:
    """A host's shared library with a section of that name."""
    subprocess.run(["gcc", "-shared", "-o", str(path), "-x", "c", "/dev/null"], check=True)
    part = path.with_suffix(".part")
    part.write_bytes(content)
    subprocess.run(["objcopy", f"--add-section={section}={part}", str(path)], check=True)
    return path


def test_of_a_host_program_its_tables_say_whether_it_carries_device_code(tmp_path: Path) -> None:
    with_code = elf_program(tmp_path / "with.so", ".hip_fatbin", b"x" * 5000)
    without = elf_program(tmp_path / "without.so", ".hip_fatbins", b"x" * 5000)
    found = {}
    for path in (with_code, without, ZEBIN, Path(__file__)):
        with path.open("rb") as file:
            found[path] = program_files.device_code(file.fileno(), Limits())
    assert found == {
        with_code: with_code.read_bytes(), without: None, ZEBIN: ZEBIN.read_bytes(), Path(__file__): None,
    }  # fmt: skip
    with with_code.open("rb") as file, pytest.raises(LimitExceeded, match="is larger than 4,096 bytes"):
        program_files.device_code(file.fileno(), Limits(folder_bytes=4096))
    with without.open("rb") as file:
        assert program_files.device_code(file.fileno(), Limits(folder_bytes=4096)) is None


def test_of_a_vulkan_library_no_section_says_that_it_has_device_code(tmp_path: Path) -> None:
    """To find its modules the data of every mapped file would have to be read."""
    library = tmp_path / "libshaders.so"
    library.write_bytes(vulkan_library())
    assert unpack(library.read_bytes()).objects
    with library.open("rb") as file:
        assert program_files.device_code(file.fileno(), Limits()) is None


def vulkan_library() -> bytes:
    data = Section(".rodata", flags=ALLOC, address=0x2000, data=(ROOT / "samples/spirv/bin/waves.g.spv").read_bytes())
    return build_elf(machine=62, type=ET_DYN, sections=[data])


@pytest.mark.parametrize("field", [(40, 8, (1 << 64) - 64), (40, 8, 1 << 40), (58, 2, 0xFFFF), (62, 2, 0xFFFF)])
def test_damaged_tables_of_a_mapped_program_say_nothing(tmp_path: Path, field: tuple[int, int, int]) -> None:
    """Its section table's place, entry size and number of the names' section (e_shoff, e_shentsize, e_shstrndx)."""
    at, size, value = field
    damaged = elf_program(tmp_path / "damaged.so", ".hip_fatbin", b"x" * 5000)
    data = bytearray(damaged.read_bytes())
    data[at : at + size] = value.to_bytes(size, "little")
    damaged.write_bytes(data)
    with damaged.open("rb") as file:
        assert program_files.device_code(file.fileno(), Limits()) is None


def test_caches_are_taken_from_when_the_process_was_started(tmp_path: Path) -> None:
    cache = tmp_path / "triton" / "hash"
    cache.mkdir(parents=True)
    (cache / "old.cubin").write_bytes(CUBINS[0].read_bytes())
    os.utime(cache / "old.cubin", (time.time() - 900, time.time() - 900))
    program = """
        import sys
        open(sys.argv[1], "wb").write(open(sys.argv[2], "rb").read())
    """
    with running(program, cache / "new.cubin", CUBINS[1], home=tmp_path, TRITON_CACHE_DIR=str(cache.parent)) as process:
        events, attachment = attached(process)
    data = [event.data for event in events]
    assert CUBINS[1].read_bytes() in data  # from the cache, or where the program has read it
    assert CUBINS[0].read_bytes() not in data
    assert any(note.startswith("caches: ") and note.endswith(": 1") for note in attachment.notes)


def test_a_cache_that_the_process_names_relatively_is_in_its_own_directory(tmp_path: Path) -> None:
    (tmp_path / "cache" / "hash").mkdir(parents=True)
    program = """
        import os, subprocess, sys
        os.chdir(sys.argv[1])
        subprocess.run(["cp", sys.argv[2], "cache/hash/new.cubin"], check=True)
    """
    with running(program, tmp_path, CUBINS[1], home=tmp_path, TRITON_CACHE_DIR="cache") as process:
        events, _ = attached(process)
    assert CUBINS[1].read_bytes() in [event.data for event in events]


def test_a_process_that_ends_meanwhile_is_said_to_have(tmp_path: Path) -> None:
    """After its mappings were read and its memory was opened."""
    with running(HOLDING, ZEBIN, home=tmp_path) as process:
        attachment = Attachment(process, Limits())
        seen = process.open_memory

        def ends() -> None:
            seen()
            os.kill(process.pid, signal.SIGKILL)
            os.waitid(os.P_PID, process.pid, os.WEXITED)

        process.open_memory = ends  # type: ignore[method-assign]
        list(attachment.events())
    assert any(note.startswith("memory was not searched to its end: it has ended") for note in attachment.notes)
    assert "the process ended meanwhile: there may have been more" in attachment.notes


def test_a_process_that_ends_while_the_kernel_refuses_is_said_to_have_ended(tmp_path: Path) -> None:
    with running("import sys", home=tmp_path) as process:
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED)
        refused = process._refused(PermissionError(13, "Permission denied"))
    assert isinstance(refused, InvalidInput)
    assert refused.message == "it has ended"


RUNTIME = """
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct r_debug _amdgpu_r_debug = {.r_version = VERSION};
static struct link_map map[2];
void load(const char *path, unsigned long size, unsigned long at, const char *file)
{
    static char names[2][4096];
    FILE *stream = fopen(path, "rb");
    char *bytes = malloc(size);
    if (!stream || fread(bytes, 1, size, stream) != size)
        abort();
    snprintf(names[0], sizeof names[0], "memory://%d#offset=0x%lx&size=%lu", getpid(), (unsigned long)bytes, size);
    snprintf(names[1], sizeof names[1], "file://%s", file);
    map[0] = (struct link_map){.l_addr = at, .l_name = names[0], .l_next = &map[1]};
    map[1] = (struct link_map){.l_addr = at * 2, .l_name = names[1], .l_prev = &map[0]};
    _amdgpu_r_debug.r_map = map;
}
"""
LOADING = """
    import ctypes, os, sys
    library = ctypes.CDLL(sys.argv[1])
    size = os.path.getsize(sys.argv[2])
    library.load(sys.argv[2].encode(), ctypes.c_ulong(size), ctypes.c_ulong(0x7F0000400000), sys.argv[3].encode())
"""


def runtime(folder: Path, version: int) -> Path:
    """A library with the list that ROCm's runtime has for debuggers."""
    library = folder / "libhsa-runtime64.so.1"
    command = ["gcc", "-shared", "-fPIC", f"-DVERSION={version}", "-o", str(library), "-x", "c", "-"]
    subprocess.run(command, input=RUNTIME, text=True, check=True)
    return library


def test_the_list_of_rocms_runtime_gives_load_addresses(tmp_path: Path) -> None:
    library = runtime(tmp_path, 10)
    first, second = CODE_OBJECTS[:2]
    with running(LOADING, library, first, second, home=tmp_path) as process:
        events, attachment = attached(process)
    loaded = {event.load_base: event for event in events if isinstance(event, ModuleLoaded)}
    assert loaded[0x7F0000400000].data == first.read_bytes()
    assert loaded[0x7F0000400000 * 2].data == second.read_bytes()
    assert loaded[0x7F0000400000].api is CaptureApi.HIP
    assert "ROCm's runtime lists 2 loaded code objects" in attachment.notes


NOBODY = 65534
DROPPING = f"""
    import os
    os.setgroups([]); os.setresgid({NOBODY}, {NOBODY}, {NOBODY}); os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may come to, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="symd-test-public-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_another_users_program_may_not_read_is_not_read_for_it(tmp_path: Path, public: Path) -> None:
    """It names a private file where ROCm's runtime has its list, and a private folder as its cache."""
    library = runtime(public, 10)
    shown, secret = public / "shown.co", tmp_path / "secret.co"
    shown.write_bytes(CODE_OBJECTS[0].read_bytes())
    secret.write_bytes(CODE_OBJECTS[1].read_bytes())
    (tmp_path / "caches").mkdir()
    program = "import ctypes, shutil, sys; shutil.copyfile(*sys.argv[4:])" + textwrap.dedent(DROPPING + LOADING)
    arguments = (library, shown, secret, CUBINS[0], tmp_path / "caches" / "secret.cubin")
    with running(program, *arguments, home=public, TRITON_CACHE_DIR=str(tmp_path / "caches")) as process:
        events, attachment = attached(process)
    data = [event.data for event in events]
    assert shown.read_bytes() in data
    assert secret.read_bytes() not in data
    assert not any(event.source.endswith("secret.cubin") for event in events if isinstance(event, ModuleFound))
    assert str(tmp_path / "caches") in [left.path for left in attachment.left_out]


def test_code_objects_that_were_not_read_in_time_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.capture.attach.ATTACH_SECONDS", 0.0)
    library = runtime(tmp_path, 10)
    with running(LOADING, library, *CODE_OBJECTS[:2], home=tmp_path) as process:
        _, attachment = attached(process)
    assert "2 of them were not read (the time was over)" in attachment.notes


def test_a_library_that_is_too_large_to_be_the_runtime_is_not_read(tmp_path: Path) -> None:
    library = runtime(tmp_path, 10)
    with running(LOADING, library, *CODE_OBJECTS[:2], home=tmp_path) as process:
        _, attachment = attached(process, Limits(folder_bytes=4096))
    assert any("could not be read" in note and "larger than 4,096 bytes" in note for note in attachment.notes)


def test_bytes_that_are_loaded_twice_are_listed_at_both_addresses(tmp_path: Path) -> None:
    """As ROCm lists one code object for two GPUs."""
    library = runtime(tmp_path, 10)
    first = CODE_OBJECTS[0]
    with running(LOADING, library, first, first, home=tmp_path) as process:
        events, _ = attached(process)
    bases = [event.load_base for event in events if isinstance(event, ModuleLoaded)]
    assert bases == [0x7F0000400000, 0x7F0000400000 * 2]
    assert [event.data for event in events].count(first.read_bytes()) == 2


def test_a_list_of_another_version_is_named(tmp_path: Path) -> None:
    library = runtime(tmp_path, 99)
    with running(LOADING, library, *CODE_OBJECTS[:2], home=tmp_path) as process:
        _, attachment = attached(process)
    assert any("has version 99" in note for note in attachment.notes)


@pytest.mark.parametrize("title", [b"a title", b"words\0", b"x" * 5000, b""], ids=lambda title: f"{len(title)} bytes")
def test_a_command_line_is_read_as_records_have_it(title: bytes, tmp_path: Path) -> None:
    """Whatever a program wrote over it: else one process has two contexts."""
    told = parse_record(records_made.record(fields=records_made.field(records_made.COMMAND, title)))
    with running("import sys", home=tmp_path) as process:
        read = process._bytes
        process._bytes = lambda name: title if name == "cmdline" else read(name)  # type: ignore[method-assign]
        assert process._command() == told.command


def test_a_dead_process_that_nobody_waited_for_has_ended(tmp_path: Path) -> None:
    with running("import sys", home=tmp_path) as process:
        assert not process.has_ended()
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process.has_ended()


def test_no_such_process_is_said() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    with pytest.raises(InvalidInput, match="no such process"):
        RunningProcess(child.pid)


def test_a_thread_of_the_kernel_is_refused_by_name() -> None:
    kernel = next(
        (int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if not path.read_bytes()), None
    )
    if kernel is None:
        pytest.skip("this machine shows no threads of the kernel")
    with RunningProcess(kernel) as process, pytest.raises((InvalidInput, FailedPrecondition)):
        process.mappings()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """As somebody who is not its user sees it."""
    tmp_path.chmod(0o755)
    program = (
        "import os, sys\n"
        "from symd.capture.process import RunningProcess\n"
        "from symd.errors import FailedPrecondition\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try:\n RunningProcess(int(sys.argv[1])).mappings()\n"
        "except FailedPrecondition as error:\n print(error)"
    )
    with running("import sys", home=tmp_path) as process:
        command = [sys.executable, "-c", program, str(process.pid)]
        told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "it belongs to user 0, and you are 65534" in told.stdout
    assert "run symd as that user, or as root" in told.stdout


@pytest.mark.parametrize("scope", [1, 2, 3])
def test_yamas_switch_is_named(scope: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_room, "_ptrace_scope", lambda: scope)
    with running("import sys", home=tmp_path) as process:
        error = process._refused(PermissionError(13, "Permission denied"))
    assert isinstance(error, FailedPrecondition)
    assert f"kernel.yama.ptrace_scope is {scope}" in error.message
    assert "symd run" in error.hint


@pytest.mark.parametrize(
    "path", [ZEBIN, DEBUG_DATA, *CODE_OBJECTS, *CUBINS], ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_the_extent_of_a_module_is_its_files_size(path: Path) -> None:
    data = path.read_bytes()
    behind = data + b"\xaa" * 4096
    assert may_begin(data[:64])
    assert extent(lambda offset, size: behind[offset : offset + size]) == len(data)


@pytest.mark.parametrize("data", [b"\x7fELF", b"", b"\x7fELF" + b"\xff" * 300, b"CTNI" + b"\0" * 60], ids=repr)
def test_nonsense_has_no_extent(data: bytes) -> None:
    assert extent(lambda offset, size: data[offset : offset + size]) is None


def test_a_hosts_image_does_not_begin_a_module() -> None:
    assert not may_begin(build_elf(machine=62)[:64])
