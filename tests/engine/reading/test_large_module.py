"""Large modules: the same index and answers out of mapped files, one code object after the other where they are larger still.
Samples are read as if they were large."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine import reading
from symd.engine.reading import ModuleFile, OpenedModules
from symd.engine.reading.questions import ListedCode, MakeIndex, ObjectBytes, Outline, VariablesAt
from symd.errors import DataLoss, ObjectNotFound, SymdError

SAMPLES = Path(__file__).parents[3] / "samples"
EVERY = sorted(path for path in SAMPLES.glob("*/bin/**/*") if path.is_file() and path.stat().st_size)[::5]
"""Some of every kind."""
FILES = ["amdgpu/bin/host", "amdgpu/bin/libhost.a", "amdgpu/bin/shade.kpack", "cuda/bin/tonemap.zstd.fatbin"]


def module_file(path: Path) -> ModuleFile:
    return ModuleFile(hashlib.sha256(path.read_bytes()).hexdigest(), str(path))


def index(path: Path, into: Path) -> bytes:
    into.touch()
    MakeIndex(str(into)).answer(OpenedModules().open(module_file(path), Limits()))
    return into.read_bytes()


def read_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAPPED", 1)
    monkeypatch.setattr(reading, "LARGE", 1)


@pytest.mark.parametrize("path", EVERY, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_a_mapped_module_answers_as_one_that_was_read(path, tmp_path, monkeypatch):
    """Its index, what each code object is, and what listings take of them."""
    read = answers(path, tmp_path / "read")
    monkeypatch.setattr(reading, "MAPPED", 1)
    assert answers(path, tmp_path / "mapped") == read


def answers(path: Path, into: Path) -> list[object]:
    try:
        opened = OpenedModules().open(module_file(path), Limits())
        paths = [code.path for code in opened.objects]
    except SymdError as error:
        return [str(error)]
    found: list[object] = [type(ObjectBytes(each).answer(opened)) for each in paths[:3]]
    found += [ObjectBytes(each).answer(opened) for each in paths[:3]]
    found += [ListedCode(each).answer(opened) for each in paths[:3]]
    found += [VariablesAt(each, ((1, 0),)).answer(opened)[0] for each in paths[:3]]
    return [*found, index(path, into)]


@pytest.mark.parametrize("name", FILES)
def test_the_index_is_the_same_byte_for_byte(name, tmp_path, monkeypatch):
    before = index(SAMPLES / name, tmp_path / "whole")
    read_as_large(monkeypatch)
    assert index(SAMPLES / name, tmp_path / "in turn") == before


def test_a_large_module_is_indexed_without_an_outline(monkeypatch):
    read_as_large(monkeypatch)
    opened = OpenedModules().open(module_file(SAMPLES / "amdgpu/bin/host"), Limits())
    assert Outline().answer(opened) is None
    assert "unpacked" not in vars(opened)


def test_a_question_about_one_code_object_opens_no_other(monkeypatch):
    read_as_large(monkeypatch)
    path = SAMPLES / "amdgpu/bin/shade.kpack"
    opened = OpenedModules().open(module_file(path), Limits())
    wanted = "lib_libshade.so#0-gfx1100"
    (code,) = ListedCode(wanted).answer(opened)
    assert (code.path, code.target) == (wanted, "gfx1100")
    assert "unpacked" not in vars(opened)
    with pytest.raises(ObjectNotFound):
        ListedCode("nowhere").answer(opened)


def test_the_bytes_of_a_large_module_are_compared_with_its_digest(tmp_path, monkeypatch):
    read_as_large(monkeypatch)
    path = tmp_path / "module"
    path.write_bytes((SAMPLES / "amdgpu/bin/host").read_bytes())
    known = module_file(path)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(DataLoss):
        OpenedModules().open(known, Limits())


@pytest.mark.parametrize(("name", "large"), [("tonemap.zstd.fatbin", True), ("tonemap.none.fatbin", False)])
def test_a_module_whose_compressed_code_expands_to_much_is_not_unpacked_whole(name, large, monkeypatch):
    path = SAMPLES / "cuda/bin" / name
    monkeypatch.setattr(reading, "MAPPED", 1)
    monkeypatch.setattr(reading, "LARGE", path.stat().st_size + 1)
    opened = OpenedModules().open(module_file(path), Limits())
    Outline().answer(opened)
    assert ("unpacked" not in vars(opened)) is large
