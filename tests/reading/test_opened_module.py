"""A module is unpacked once for all questions that come one after another, however large it is."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from symd import containers
from symd.config import Limits
from symd.errors import ObjectNotFound
from symd.reading.module_file import ModuleFile
from symd.reading.opened_module import OpenedModules
from symd.reading.questions import ObjectBytes
from tests.hostile.growth import code_object
from tests.hostile.wrappers import in_archive


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is unpacked."""
    sizes: list[int] = []
    unpack = containers.unpack

    def counted(data: bytes, limits: Limits | None = None) -> containers.OpenedModule:
        sizes.append(len(data))
        return unpack(data, limits)

    monkeypatch.setattr(containers, "unpack", counted)
    return sizes


def stored(folder: Path, data: bytes) -> ModuleFile:
    digest = hashlib.sha256(data).hexdigest()
    path = folder / digest
    path.write_bytes(data)
    return ModuleFile(digest, str(path))


def test_every_object_of_a_module_larger_than_what_is_kept_is_read_at_one_unpacking(
    tmp_path: Path, unpacked: list[int]
) -> None:
    data = in_archive(*[code_object()] * 50)
    module, opened = stored(tmp_path, data), OpenedModules(kept_bytes=0)
    paths = [code.path for code in opened.open(module, Limits()).objects]
    assert len(set(paths)) == 50
    for path in paths:
        assert ObjectBytes(path).answer(opened.open(module, Limits())) == code_object()
    assert unpacked == [len(data)]
    with pytest.raises(ObjectNotFound):
        ObjectBytes("m50").answer(opened.open(module, Limits()))


def test_of_two_modules_larger_than_what_is_kept_the_last_stays(tmp_path: Path, unpacked: list[int]) -> None:
    one, other = (stored(tmp_path, in_archive(*[code_object()] * count)) for count in (2, 3))
    opened = OpenedModules(kept_bytes=0)
    for module in (one, one, other, other, one):
        assert opened.open(module, Limits()).objects
    assert len(unpacked) == 3
