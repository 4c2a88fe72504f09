"""The modules of a CUDA core dump are looked into when they are opened."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from symd.config import Limits
from symd.formats.containers import unpack
from symd.formats.containers.nvidia import core_sections

DUMP = Path(__file__).parents[4] / "samples/cores/bin/plugin.nvcudmp.gz"


def test_whoever_wants_one_module_does_not_read_the_symbols_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    data, looks = gzip.decompress(DUMP.read_bytes()), 0
    has_addresses = core_sections._has_addresses

    def counted(*arguments: Any) -> bool:
        nonlocal looks
        looks += 1
        return has_addresses(*arguments)

    monkeypatch.setattr(core_sections, "_has_addresses", counted)
    paths = [each.path for each in unpack(data, Limits()).objects]
    assert (len(paths), looks) == (2, 2)
    assert [each.path for each in unpack(data, Limits(), paths[1]).objects] == paths[1:]
    assert looks == 3
