"""The function that a daemon's processes call."""

from __future__ import annotations

import gc
import hashlib
from pathlib import Path

import pytest

from symd.config import Limits
from symd.index import Index
from symd.reading import served
from symd.reading.module_file import ModuleFile
from symd.reading.questions import MakeIndex
from symd.reading.values import decode
from tests.fuzz.mutations import SAMPLES


@pytest.mark.parametrize("collects", [True, False])
def test_a_process_that_looks_for_garbage_when_it_likes_does_so_after_an_index(
    tmp_path: Path, *, collects: bool
) -> None:
    module, index = SAMPLES / "amdgpu/bin/v4-scale.co", tmp_path / "index"
    index.touch()
    digest = hashlib.sha256(module.read_bytes()).hexdigest()
    request = served.request(ModuleFile(digest, str(module)), MakeIndex(str(index)))
    with module.open("rb") as data, index.open("r+b") as into:
        try:
            if not collects:
                gc.disable()
            size = decode(served.answer(request, Limits(), [data.fileno(), into.fileno()]))
            assert gc.isenabled() is collects
        finally:
            gc.enable()
    assert size == index.stat().st_size
    Index.checked(index.read_bytes(), digest)
