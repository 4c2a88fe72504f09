"""The index of a module of many megabytes, made with what is done only for such ones."""

from __future__ import annotations

import hashlib
import subprocess
import sys

from symd.config import Limits
from symd.formats.elf.constants import EM_AMDGPU
from symd.index import Index
from symd.index.module import build_index
from tests.builders.elf import Section, build_elf


def test_the_digest_is_that_of_all_bytes() -> None:
    """Another thread makes it meanwhile; the code object is the module itself, and has the same."""
    data = build_elf(machine=EM_AMDGPU, sections=[Section(".text", flags=6, data=bytes(range(256)) * (5 << 12))])
    summary = Index(build_index(data, Limits())).summary
    digest = hashlib.sha256(data).hexdigest()
    assert (summary.sha256, summary.size, summary.objects[0].sha256) == (digest, len(data), digest)


def test_where_the_heap_cannot_be_laid_out_the_index_is_made_all_the_same() -> None:
    """As in a process with little address space (RLIMIT_AS)."""
    made = subprocess.run([sys.executable, "-c", _WITH_LITTLE], capture_output=True, text=True, check=True, timeout=60)
    assert made.stdout == "None\n"


def test_the_heap_stays_as_large_where_there_is_room_inside_it() -> None:
    """As in a process that read its questions before: the block that keeps the heap lies behind what the index takes."""
    made = subprocess.run([sys.executable, "-c", _WITH_GAPS], capture_output=True, text=True, check=True, timeout=60)
    assert made.stdout == "True\n"


_WITH_GAPS = """
import numpy as np
from symd.index.module import keep_freed_memory

def address(block):
    return block.__array_interface__["data"][0]

keep_freed_memory()
blocks = [np.empty(3 << 20, np.uint8) for _ in range(8)]
del blocks[::2]
kept = keep_freed_memory(14 << 20)
print(address(np.empty(20 << 20, np.uint8)) < address(kept))
"""
_WITH_LITTLE = """
import resource
from pathlib import Path
from symd.index.module import keep_freed_memory

used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), resource.RLIM_INFINITY))
print(keep_freed_memory(60 << 20))
"""
