"""Split DWARF beside an object, in a folder, and given by name."""

from __future__ import annotations

import pytest

from symd.config import Limits
from symd.debuginfo import separate_files
from symd.engine.files.companion_files import with_dwo_files
from tests import tools
from tests.builders.elf import Section, build_elf
from tests.formats.containers.amd import objects
from tests.formats.containers.test_with_dwo import bundle_of

NAME = "split-19-dwarf5"


@pytest.fixture
def place(tmp_path):
    (tmp_path / f"{NAME}.co").write_bytes(objects.sample(f"{NAME}.co"))
    (tmp_path / "elsewhere").mkdir()
    return tmp_path


def inlined(outcome) -> bool:
    assert outcome.code == 0, outcome.err
    return any(len(answer["frames"]) > 1 for answer in outcome.json)


def symbolize(run, place, *options):
    subjects = [f"shade+{offset:#x}" for offset in range(0, 0x190, 4)]
    return run("symbolize", "--json", place / f"{NAME}.co", *options, *subjects)


@pytest.mark.parametrize("suffix", [".dwo", ".co.dwp"])
def test_files_beside_the_object_are_found(place, run, suffix):
    assert not inlined(symbolize(run, place))
    (place / f"{NAME}{suffix}").write_bytes(objects.sample(f"{NAME}{suffix}"))
    assert inlined(symbolize(run, place))


@pytest.mark.parametrize("suffix", [".dwo", ".co.dwp"])
def test_info_names_the_file_that_is_read_with_the_object(place, run, suffix):
    file, apart = place / f"{NAME}.co", place / f"{NAME}{suffix}"
    assert "read with it" not in run("info", file).out
    apart.write_bytes(objects.sample(apart.name))
    said = next(line for line in run("info", file).out.splitlines() if "read with it" in line)
    own = file.stat().st_size
    total = int(said.split()[-2])
    assert said == f"├── debug  from {apart}, read with it: {file} itself has {own} of the {total} bytes"
    assert total > own


@pytest.mark.parametrize("suffix", [".dwo", ".co.dwp"])
def test_a_folder_or_a_file_may_be_given(place, run, suffix):
    apart = place / "elsewhere" / f"{NAME}{suffix}"
    apart.write_bytes(objects.sample(f"{NAME}{suffix}"))
    assert inlined(symbolize(run, place, "--debug", place / "elsewhere"))
    assert inlined(symbolize(run, place, "--debug", apart))


def test_a_daemon_gets_the_object_with_its_files(place, run, server):
    (place / f"{NAME}.dwo").write_bytes(objects.sample(f"{NAME}.dwo"))
    assert inlined(symbolize(run, place, "--server", server))


def test_a_damaged_file_is_named(place, run):
    (place / f"{NAME}.dwo").write_bytes(b"\x7fELF")
    outcome = symbolize(run, place)
    assert outcome.code == 2
    assert f"{NAME}.dwo" in outcome.err


def test_a_file_of_another_build_beside_the_object_is_told_and_left_out(place, run):
    (place / f"{NAME}.dwo").write_bytes(objects.sample("split-22-dwarf5.dwo"))
    outcome = symbolize(run, place)
    assert not inlined(outcome)
    assert f"{NAME}.dwo: the .dwo file or package belongs to another code object" in outcome.err


def test_a_file_of_another_build_is_refused(place, run):
    other = place / "elsewhere" / "other.dwo"
    other.write_bytes(objects.sample("split-22-dwarf5.dwo"))
    outcome = symbolize(run, place, "--debug", other)
    assert outcome.code == 2
    assert "belongs to another code object" in outcome.err


def test_a_file_may_be_given_beside_one_that_is_found(place, run):
    apart = place / f"{NAME}.dwo"
    apart.write_bytes(objects.sample(f"{NAME}.dwo"))
    assert inlined(symbolize(run, place, "--debug", apart))


def test_a_folder_without_the_files_is_refused(place, run):
    outcome = symbolize(run, place, "--debug", place / "elsewhere")
    assert outcome.code == 1
    assert f"{NAME}.dwo" in outcome.err


def test_variables_say_what_is_missing(place, run):
    outcome = run("variables", place / f"{NAME}.co", "shade+0x40")
    assert f"is in {NAME}.dwo, which is not here" in outcome.out + outcome.err


def test_a_large_object_finds_its_files(place, run, monkeypatch):
    monkeypatch.setattr("symd.engine.files.opened_file.LARGE", 1)
    (place / f"{NAME}.dwo").write_bytes(objects.sample(f"{NAME}.dwo"))
    assert inlined(symbolize(run, place))


@pytest.mark.parametrize("where", ["absolute", "up"])
def test_for_a_daemon_files_elsewhere_are_left_out(place, capsys, monkeypatch, where):
    """What an object names may be any file of this machine."""
    (place / "elsewhere" / f"{NAME}.dwo").write_bytes(objects.sample(f"{NAME}.dwo"))
    (place / "here").mkdir()
    file, data = place / "here" / f"{NAME}.co", objects.sample(f"{NAME}.co")
    named = f"{place}/elsewhere/{NAME}.dwo" if where == "absolute" else f"../elsewhere/{NAME}.dwo"
    units = [unit.changed(dwo_name=named.encode()) for unit in separate_files.skeletons(data, objects.budget())]
    monkeypatch.setattr(separate_files, "skeletons", lambda _data, _budget: tuple(units))
    joined = with_dwo_files(data, str(file), Limits())
    assert joined != data
    assert with_dwo_files(data, str(file), Limits(), beside=True) == data
    assert f"{NAME}.dwo; --debug FOLDER" in capsys.readouterr().err
    assert with_dwo_files(data, str(file), Limits(), place / "elsewhere", beside=True) == joined
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", [b"kmsg", b"/proc/kmsg", b"self/mounts"])
def test_a_file_that_the_kernel_makes_up_is_none(place, monkeypatch, name):
    data = objects.sample(f"{NAME}.co")
    units = [
        unit.changed(dwo_name=name, comp_dir=b"/proc") for unit in separate_files.skeletons(data, objects.budget())
    ]
    monkeypatch.setattr(separate_files, "skeletons", lambda _data, _budget: tuple(units))
    assert with_dwo_files(data, str(place / f"{NAME}.co"), Limits()) == data


def bundled(place) -> object:
    """A program with two bundles' code objects: one whose debug data was split off, and one that has its own."""
    bundle = bundle_of(
        [
            (b"hipv4-amdgcn-amd-amdhsa--gfx900", objects.sample(f"{NAME}.co")),
            (b"hipv4-amdgcn-amd-amdhsa--gfx90a", objects.sample("v5-gfx90a.co")),
        ]
    )
    program = place / "inside" / "program"
    program.parent.mkdir()
    program.write_bytes(build_elf(machine=62, sections=[Section(".hip_fatbin", data=bundle)]))
    return program


def shade_of(run, program, *options):
    subjects = [f"shade+{offset:#x}" for offset in range(0, 0x190, 4)]
    return run("symbolize", "--json", program, *options, *subjects)


@pytest.mark.parametrize(("suffix", "is_large"), [(".dwo", False), (".dwp", False), (".dwo", True)])
def test_an_object_inside_a_program_finds_its_files(place, run, suffix, is_large, monkeypatch):
    if is_large:
        monkeypatch.setattr("symd.engine.files.opened_file.LARGE", 1)
    program = bundled(place)
    before = shade_of(run, program)
    assert not inlined(before)
    sample, named = (f"{NAME}.dwo", f"{NAME}.dwo") if suffix == ".dwo" else (f"{NAME}.co.dwp", "program.dwp")
    (program.parent / named).write_bytes(objects.sample(sample))
    after = shade_of(run, program)
    whole = place / "whole.co"
    whole.write_bytes(objects.sample(f"{NAME}-whole.co"))
    assert [each["frames"] for each in after.json] == [each["frames"] for each in shade_of(run, whole).json]
    assert [each["object"] for each in after.json] == [each["object"] for each in before.json]


def test_an_object_inside_a_program_takes_files_of_a_folder(place, run, server):
    program = bundled(place)
    (place / "elsewhere" / f"{NAME}.dwo").write_bytes(objects.sample(f"{NAME}.dwo"))
    assert inlined(shade_of(run, program, "--debug", place / "elsewhere"))
    assert inlined(shade_of(run, program, "--debug", place / "elsewhere", "--server", server))
    (place / "empty").mkdir()
    outcome = shade_of(run, program, "--debug", place / "empty")
    assert outcome.code == 1
    assert f"it has none of {NAME}.dwo" in outcome.err


def test_a_package_of_another_program_is_left_alone(place, run):
    program = bundled(place)
    (program.parent / "program.dwp").write_bytes(objects.sample("split-22-dwarf5.co.dwp"))
    assert not inlined(shade_of(run, program))


def test_locate_and_listing_take_the_files_of_a_folder(place, run):
    folder = place / "elsewhere"
    object_ = place / f"{NAME}.co"
    (folder / f"{NAME}.dwo").write_bytes(objects.sample(f"{NAME}.dwo"))
    line = "shade.cl:13"
    without = run("locate", "--json", object_, line)
    assert not any(each.get("inlined") for each in without.json)
    found = run("locate", "--json", "--debug", folder, object_, line)
    assert any(each["inlined"] for each in found.json)
    tools.require("llvm-objdump")
    listed = run("listing", "--json", "--debug", folder, object_).json
    assert any(len(each["frames"]) > 1 for each in listed)
    assert not any(len(each["frames"]) > 1 for each in run("listing", "--json", object_).json)
