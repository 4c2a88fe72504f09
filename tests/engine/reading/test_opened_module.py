"""A module is unpacked once for all questions that come one after another, however large it is; the debug data of a code object
is opened once for those about its variables."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from symd.config import Limits
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.relocation import LinearLayout
from symd.debuginfo.variables import visible
from symd.engine import reading
from symd.engine.reading import ModuleFile, OpenedModules
from symd.engine.reading.questions import ObjectBytes, VariablesAt
from symd.errors import Malformed, ObjectNotFound
from symd.formats import containers
from symd.formats.budget import DebugBudget
from symd.model.code import CodeObject
from symd.model.variables import Visible
from tests.fuzz.mutations import SAMPLES
from tests.hostile.growth import code_object
from tests.hostile.wrappers import in_archive


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is unpacked."""
    sizes: list[int] = []
    unpack = containers.unpack

    def counted(data: bytes, limits: Limits | None = None, *rest: str | None) -> containers.UnpackedModule:
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


@pytest.fixture
def relocated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of code objects whose debug data is opened to answer about variables."""
    paths: list[str] = []
    relocate = visible.relocated

    def counted(code: CodeObject, layout: LinearLayout, budget: DebugBudget) -> DebugSections:
        paths.append(code.path)
        return relocate(code, layout, budget)

    monkeypatch.setattr(visible, "relocated", counted)
    return paths


def test_debug_data_is_opened_once_for_questions_about_variables_of_one_code_object(
    tmp_path: Path, relocated: list[str]
) -> None:
    image = (SAMPLES / "amdgpu/bin/v4-gfx900.co").read_bytes()
    module = stored(tmp_path, in_archive(image, image))
    opened = OpenedModules().open(module, Limits())
    one, other = (code.path for code in opened.objects)
    section = next(section.index for section in opened.objects[0].sections if section.executable)
    found = [VariablesAt(one, ((section, offset),)).answer(opened)[0] for offset in range(0, 0x100, 0x20)]
    found += VariablesAt(one, tuple((section, offset) for offset in range(0x100, 0x220, 0x20))).answer(opened)
    assert relocated == [one]
    assert VariablesAt(other, ((section, 0),)).answer(opened)[0] == found[0]
    assert relocated == [one, other]
    assert VariablesAt(one, ((section, 0x20),)).answer(opened)[0] == found[1]
    assert relocated == [one, other, one]
    assert found == [visible.VariableReader(opened.objects[0]).at(section, offset) for offset in range(0, 0x220, 0x20)]
    assert len({len(each.variables) for each in found if isinstance(each, Visible)}) > 1
    with pytest.raises(ObjectNotFound):
        VariablesAt("elsewhere", ((section, 0),)).answer(opened)[0]


def test_debug_data_of_a_large_module_does_not_stay_open(
    tmp_path: Path, relocated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LARGE", 1000)
    module = stored(tmp_path, (SAMPLES / "amdgpu/bin/v4-gfx900.co").read_bytes())
    opened = OpenedModules().open(module, Limits())
    first, second = (VariablesAt(opened.objects[0].path, ((7, 0),)).answer(opened)[0] for _ in range(2))
    assert first == second
    assert len(relocated) == 2


def test_debug_data_that_cannot_be_read_says_why_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_code: CodeObject, _layout: LinearLayout, _budget: DebugBudget) -> DebugSections:
        raise Malformed("the relocation has no symbol")

    monkeypatch.setattr(visible, "relocated", refuse)
    opened = OpenedModules().open(stored(tmp_path, (SAMPLES / "amdgpu/bin/v4-gfx900.co").read_bytes()), Limits())
    path = opened.objects[0].path
    assert VariablesAt(path, ((7, 0),)).answer(opened)[0] == VariablesAt(path, ((7, 0),)).answer(opened)[0]
    assert "the relocation has no symbol" in str(VariablesAt(path, ((7, 0),)).answer(opened)[0])
