"""One job in a process of its own: `python child.py JOB FILE` prints its seconds and the peak of its memory as JSON.
It imports only what the job needs, so that it also runs where symd is not installed."""

from __future__ import annotations

import gc
import importlib
import json
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def index(path: Path) -> int:
    """symd's whole cold index, as its readers make it: out of the mapped file, of a large module into another; returns its
    size in bytes. What it imports on the way is there before the time begins, as all of symbolic is."""
    from symd.config import Limits  # noqa: PLC0415 - only this job needs it
    from symd.formats.containers.file_part import LARGE, MAPPED  # noqa: PLC0415 - only this job needs it
    from symd.index.module import build_index, write_index_in_turn  # noqa: PLC0415 - only this job needs it

    def work() -> int:
        size = path.stat().st_size
        if size < MAPPED:
            return len(build_index(path.read_bytes(), Limits()))
        with path.open("rb") as file, tempfile.TemporaryFile() as into:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if size < LARGE:
                return len(build_index(data, Limits()))
            return write_index_in_turn(into, data, None, Limits())

    import_as(work)
    gc.disable()  # as the process does that indexes for the daemon (symd/system/process/worker.py)
    return report(work)


def import_as(work: Callable[[], object]) -> None:
    """Import what ``work`` imports on its way; it is done in another process, and nothing else of it is known in this one."""
    reader, writer = os.pipe()
    if not os.fork():
        before = set(sys.modules)
        work()
        os.write(writer, " ".join(name for name in sys.modules if name not in before).encode())  # fits into a pipe
        os._exit(0)
    os.close(writer)
    os.wait()
    for name in os.read(reader, 1 << 16).decode().split():
        importlib.import_module(name)


def symcache(path: Path) -> int:
    """symbolic's whole index."""
    import symbolic  # noqa: PLC0415 - only this job needs it

    def work() -> int:
        archive = symbolic.Archive.open(str(path))
        cache = next(iter(archive.iter_objects())).make_symcache()
        return cache.version

    return report(work)


def pyelftools(path: Path) -> int:
    """Every line row and every DIE."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - only this job needs it

    def work() -> int:
        count = 0
        with path.open("rb") as file:
            dwarf = ELFFile(file).get_dwarf_info()
            for unit in dwarf.iter_CUs():
                program = dwarf.line_program_for_CU(unit)
                count += len(program.get_entries()) if program else 0
                count += sum(1 for _ in unit.iter_DIEs())
        return count

    return report(work)


def nothing(_path: Path) -> int:
    """What importing symd takes of memory before any work."""
    from symd.index.module import build_index  # noqa: PLC0415 - only this job needs it

    return report(lambda: len(build_index.__name__))


def report(work) -> int:
    before = time.perf_counter()
    value = work()
    seconds = time.perf_counter() - before
    print(json.dumps({"seconds": seconds, "peak": peak(), "value": value}))
    return 0


def peak() -> int:
    """The largest resident size of this program in bytes. ru_maxrss would count the parent's too, which forked."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) * 1024


JOBS = {"index": index, "symcache": symcache, "pyelftools": pyelftools, "nothing": nothing}

if __name__ == "__main__":
    sys.exit(JOBS[sys.argv[1]](Path(sys.argv[2])))
