"""symd extract."""

import hashlib
from pathlib import Path

import pytest

from symd.cli.extract import FileNames
from symd.debuginfo import reading
from symd.model.summaries import ObjectSummary
from tests.cli.conftest import ROOT, Run
from tests.cli.fake import FakeSymbolizer
from tests.hostile.growth import steps


def summary(path: str, target: str | None = None) -> ObjectSummary:
    return ObjectSummary(path, "any", target, 4, "", "none")


def test_every_object_becomes_a_file_with_its_own_bytes(symd: Run, sample: Path, tmp_path: Path):
    outcome = symd("extract", "--json", sample, tmp_path / "new" / "folder")
    assert outcome.code == 0
    [item] = outcome.json
    assert list(item) == ["object", "file", "format", "target", "size", "sha256"]
    data = Path(item["file"]).read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (item["size"], item["sha256"])
    assert data.startswith(b"\x7fELF")


def test_no_debug_data_is_decoded_to_write_the_objects_of_a_file(
    run: Run, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("read_each", "read_in_turn", "read_part"):
        monkeypatch.setattr(reading, name, lambda *_: pytest.fail("debug data is decoded"))
    outcome = run("extract", "--json", sample, tmp_path / "new")
    assert (outcome.code, len(outcome.json)) == (0, 1)


def test_a_file_that_is_one_object_is_said_to_be_copied(run: Run, tmp_path: Path):
    code = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    done = run("extract", code, tmp_path)
    assert Path(done.out.strip()).read_bytes() == code.read_bytes()
    assert done.err == f"symd: {code} is one code object, with no others inside, so it was copied\n"


def test_names_are_harmless_different_and_tell_the_kind():
    paths = ["", "a/b", "a_b", "A/B", "../../etc/passwd", "/", "x\0\n\x1b[2J", "..", "k.elf", "m", "é" * 500, "a" * 500]
    targets = {"m": "spirv1.2"}
    names = list(map(FileNames("program.bin"), (summary(path, targets.get(path)) for path in paths)))
    assert names[:6] == ["program.bin.elf", "a_b.elf", "a_b-2.elf", "A_B-3.elf", "etc_passwd.elf", "object.elf"]
    assert names[8:10] == ["k.elf", "m.spv"]
    assert len({name.lower() for name in names}) == len(names)
    assert all("/" not in name and name.isprintable() and len(name) < 200 and name[0] not in ".-" for name in names)


def test_a_file_of_other_contents_is_not_replaced_unless_told(
    run: Run, fake: FakeSymbolizer, module: Path, tmp_path: Path
):
    folder = tmp_path / "out"
    assert run("extract", module, folder).code == 0
    assert run("extract", module, folder).code == 0
    [path] = folder.iterdir()
    path.write_bytes(b"mine")
    outcome = run("extract", module, folder)
    assert (outcome.code, path.read_bytes()) == (2, b"mine")
    assert "--force" in outcome.err
    assert run("extract", "--force", module, folder).code == 0
    assert path.read_bytes() == b"\x7fELF"


def test_a_file_that_is_there_with_the_same_contents_stays(run: Run, tmp_path: Path):
    """Also of a real file, which is mapped."""
    code = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    assert run("extract", code, tmp_path / "out").code == 0
    assert run("extract", code, tmp_path / "out").code == 0


def test_a_link_in_the_folder_is_not_followed(run: Run, fake: FakeSymbolizer, module: Path, tmp_path: Path):
    folder, victim = tmp_path / "out", tmp_path / "victim"
    folder.mkdir()
    (folder / "module.bin.elf").symlink_to(victim)
    assert run("extract", module, folder).code == 2
    assert run("extract", "--force", module, folder).code == 0
    assert not victim.exists()


def test_a_folder_that_cannot_be_is_exit_code_3(run: Run, fake: FakeSymbolizer, module: Path):
    outcome = run("extract", module, module / "below")
    assert outcome.code == 3
    assert outcome.err.count("\n") == 1


def test_objects_are_asked_for_by_their_path(run: Run, fake: FakeSymbolizer, module: Path, tmp_path: Path):
    fake.summary = fake.summary._replace(objects=(summary("one"), summary("two")))
    fake.data = {"one": b"1", "two": b"2"}
    outcome = run("extract", module, tmp_path / "out")
    assert [Path(line).read_bytes() for line in outcome.out.splitlines()] == [b"1", b"2"]


def test_a_name_costs_the_same_however_many_are_alike():
    """Of each path one character is replaced that no file name has."""

    def names(count: int) -> list[str]:
        return list(map(FileNames("program.bin"), (summary(f"{chr(0x4E00 + number)}k") for number in range(count))))

    assert names(3) == ["k.elf", "k-2.elf", "k-3.elf"]
    assert len(set(names(400))) == 400
    assert steps(lambda: names(400)) < 2.05 * steps(lambda: names(200))
