"""The index of a module of many megabytes, made with what is done only for such ones."""

from __future__ import annotations

import hashlib

from symd.config import Limits
from symd.elf.constants import EM_AMDGPU
from symd.index import Index
from symd.index.module import build_index
from tests.builders.elf import Section, build_elf


def test_the_digest_is_that_of_all_bytes() -> None:
    """Another thread makes it meanwhile; the code object is the module itself, and has the same."""
    data = build_elf(machine=EM_AMDGPU, sections=[Section(".text", flags=6, data=bytes(range(256)) * (5 << 12))])
    summary = Index(build_index(data, Limits())).summary
    digest = hashlib.sha256(data).hexdigest()
    assert (summary.sha256, summary.size, summary.objects[0].sha256) == (digest, len(data), digest)
