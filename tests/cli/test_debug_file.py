"""The debug file of a code object: beside it, and made by objcopy."""

from __future__ import annotations

import errno
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from symd.config import Limits
from symd.engine.files import input as cli_input
from symd.formats import elf
from symd.formats.budget import Budget
from tests import tools
from tests.cli.conftest import ROOT, Run

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
LINED = "shade+0x80: blend at /src/shade.cl:13:30\n  (inlined by) shade at /src/shade.cl:23:18\n"
UNLINED = "shade+0x80: shade [NO_DEBUG_INFO]\n"
ELSEWHERE = "shade+0x80: shade [DEBUG_DATA_ELSEWHERE]\n"


@pytest.fixture
def slim(run: Run, tmp_path: Path) -> Path:
    assert run("slim", SHADE, tmp_path / "slim.co").code == 0
    return tmp_path / "slim.co"


@pytest.fixture
def objcopy() -> str:
    return tools.require("llvm-objcopy-19")


@pytest.fixture
def stripped(objcopy: str, tmp_path: Path) -> Path:
    """Without debug data; kept.debug beside it has it, and nothing says so."""
    tools.output(objcopy, "--only-keep-debug", SHADE, tmp_path / "kept.debug")
    tools.output(objcopy, "--strip-debug", SHADE, tmp_path / "stripped.co")
    return tmp_path / "stripped.co"


@pytest.fixture
def linked(objcopy: str, stripped: Path) -> Path:
    debug = stripped.with_name("kept.debug")
    tools.output(objcopy, f"--add-gnu-debuglink={debug}", stripped, stripped.with_name("linked.co"))
    return stripped.with_name("linked.co")


def symbolized(run: Run, file: Path, *options: object) -> str:
    outcome = run("symbolize", *options, file, "shade+0x80")
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


def test_what_slim_left_beside_the_object_is_found(run: Run, slim: Path):
    assert symbolized(run, slim) == LINED
    assert run("verify", slim).code == 0
    assert run("locate", slim, "shade.cl:13").code == 0


def test_it_may_be_named_all_the_same(run: Run, slim: Path):
    assert symbolized(run, slim, "--debug", f"{slim}.debug") == LINED


def test_a_daemon_gets_the_object_with_its_debug_file(run: Run, slim: Path, server: str):
    assert symbolized(run, slim, "--server", server) == LINED


def test_a_debug_file_of_another_object_is_none(run: Run, slim: Path):
    assert run("slim", SHADE.with_name("v5-gfx90a.co"), slim.with_name("other.co")).code == 0
    shutil.move(slim.with_name("other.co.debug"), f"{slim}.debug")
    assert symbolized(run, slim) == UNLINED


def without_it(run: Run, slim: Path, *options: object) -> str:
    """What is told of a debug file that cannot be used: the answer is as without it."""
    outcome = run("symbolize", *options, slim, "shade+0x80")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (0, UNLINED, 1)
    assert outcome.err.startswith(f"symd: answered without a debug file: {slim}.debug: ")
    return outcome.err


def test_a_damaged_one_is_named_and_left_out(run: Run, slim: Path):
    debug = Path(f"{slim}.debug")
    debug.write_bytes(debug.read_bytes()[:300])
    without_it(run, slim)
    assert run("symbolize", "--debug", debug, slim, "shade+0x80").code == 2


def test_one_that_is_too_large_is_named_and_left_out(run: Run, slim: Path):
    debug = Path(f"{slim}.debug")
    with debug.open("ab") as file:
        file.truncate(200_000)
    limit = "--limit", "module_size=100000"
    assert "larger than 100000 bytes" in without_it(run, slim, *limit)
    assert run("symbolize", *limit, "--debug", debug, slim, "shade+0x80").code == 2


def test_one_that_may_not_be_read_is_named_and_left_out(run: Run, slim: Path, monkeypatch: pytest.MonkeyPatch):
    real = open

    def closed(path: Any, *arguments: Any, **named: Any) -> Any:
        if str(path).endswith(".debug"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, *arguments, **named)

    monkeypatch.setattr("builtins.open", closed)
    assert "permission denied" in without_it(run, slim)


def test_something_else_of_that_name_is_none(run: Run, slim: Path):
    Path(f"{slim}.debug").write_text("a log\n")
    assert symbolized(run, slim) == UNLINED
    shutil.copy(slim, f"{slim}.debug")
    assert symbolized(run, slim) == UNLINED


def test_a_large_object_finds_its_debug_file(run: Run, slim: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("symd.engine.files.opened_file.LARGE", 1)
    assert symbolized(run, slim) == LINED


def test_what_objcopy_kept_belongs_to_the_object(run: Run, stripped: Path):
    assert symbolized(run, stripped) == UNLINED
    assert symbolized(run, stripped, "--debug", stripped.with_name("kept.debug")) == LINED


def test_what_objcopy_kept_of_another_object_does_not(run: Run, objcopy: str, stripped: Path):
    other = stripped.with_name("other.debug")
    tools.output(objcopy, "--only-keep-debug", SHADE.with_name("v4-gfx900-zlib.co"), other)
    tools.output(objcopy, "--remove-section=.note", other)
    outcome = run("symbolize", "--debug", other, stripped, "shade+0x80")
    assert outcome.code == 2
    assert "belongs to another code object" in outcome.err


@pytest.mark.parametrize("folder", ["", ".debug"])
def test_the_file_that_the_object_links_to_is_found(run: Run, linked: Path, folder: str):
    (linked.parent / folder).mkdir(exist_ok=True)
    shutil.move(linked.with_name("kept.debug"), linked.parent / folder / "kept.debug")
    assert symbolized(run, linked) == LINED


def test_one_that_cannot_be_used_is_not_told_where_another_is(run: Run, linked: Path):
    kept = linked.with_name("kept.debug")
    (linked.parent / ".debug").mkdir()
    shutil.copy(kept, linked.parent / ".debug")
    with kept.open("ab") as file:
        file.truncate(1 << 33)
    assert symbolized(run, linked) == LINED


def test_each_that_cannot_be_used_is_told_where_none_is(run: Run, linked: Path, monkeypatch: pytest.MonkeyPatch):
    """A file of 8 GiB is refused by its size, and not read as far as the limit of 2 GiB first."""
    read = cli_input._bounded

    def of_the_object(stream: BinaryIO, name: str, limits: Limits) -> bytes:
        assert not name.endswith("kept.debug")
        return read(stream, name, limits)

    monkeypatch.setattr(cli_input, "_bounded", of_the_object)
    (linked.parent / ".debug").mkdir()
    for folder in (linked.parent, linked.parent / ".debug"):
        with (folder / "kept.debug").open("ab") as file:
            file.truncate(1 << 33)
    outcome = run("symbolize", linked, "shade+0x80")
    assert (outcome.code, outcome.out, outcome.err.count("answered without a debug file")) == (0, ELSEWHERE, 2)


def test_llvm_symbolizer_follows_the_link_to_the_same_lines(run: Run, linked: Path):
    text = elf.parse(SHADE.read_bytes(), Budget(Limits())).by_name[".text"]
    addresses = [hex(address) for address in range(text.address, text.address + text.size, 4)]
    options = ["--output-style=LLVM", "--functions=linkage", f"--obj={linked}"]
    theirs = tools.output(tools.require("llvm-symbolizer-22"), *options, *addresses).split("\n\n")
    ours = run("llvm-symbolizer", *options, *addresses).out.split("\n\n")
    lines = [(mine, their) for mine, their in zip(ours, theirs, strict=True) if ":0:" not in their and "??" not in mine]
    assert len(lines) > 50
    assert all(mine == their for mine, their in lines)


def test_a_linked_file_with_another_checksum_is_named_with_both(run: Run, linked: Path):
    kept = linked.with_name("kept.debug")
    right = zlib.crc32(kept.read_bytes())
    with kept.open("ab") as file:
        file.write(b"more")
    outcome = run("symbolize", linked, "shade+0x80")
    assert (outcome.code, outcome.out) == (0, ELSEWHERE)
    assert outcome.err == (
        f"symd: answered without a debug file: {kept}: it is of another build: its CRC-32 is"
        f" {zlib.crc32(kept.read_bytes()):#010x}, where the object links to {right:#010x}\n"
    )
    assert gdb_says(linked, "CRC mismatch")


def gdb_says(file: Path, what: str) -> bool:
    """Where gdb is installed; where it is not, nobody asks."""
    path = tools.find("gdb")
    if path is None:
        return True
    command = [path, "-nx", "-batch", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return what in done.stdout + done.stderr


def test_a_linked_file_that_is_missing_is_named_with_where_it_was_looked_for(run: Run, linked: Path):
    kept, folder = linked.with_name("kept.debug"), linked.parent
    checksum = zlib.crc32(kept.read_bytes())
    kept.unlink()
    outcome = run("symbolize", linked, "shade+0x80")
    assert (outcome.code, outcome.out) == (0, ELSEWHERE)
    places = f"{folder}, {folder}/.debug, /usr/lib/debug{folder}"
    assert outcome.err == (
        f"symd: answered without a debug file: {linked}: kept.debug, to which it links, is in none of {places}\n"
    )
    outcome = run("info", linked)
    assert f"debug data is in kept.debug (.gnu_debuglink, CRC-32 {checksum:#010x}), which is not here" in outcome.out
    outcome = run("lines", linked)
    assert outcome.code != 0
    assert "its debug data is in kept.debug: put it beside FILE, or name it with --debug" in outcome.err
    assert "compile with" not in outcome.err


def test_a_daemon_answers_so_of_an_object_whose_file_is_missing(run: Run, linked: Path, server: str):
    linked.with_name("kept.debug").unlink()
    outcome = run("symbolize", "--server", server, linked, "shade+0x80")
    assert (outcome.code, outcome.out, outcome.err.count("kept.debug")) == (0, ELSEWHERE, 1)


@pytest.mark.parametrize("by", ["folder", "build ID"])
def test_the_debug_file_of_a_distribution_is_found(
    run: Run, by: str, objcopy: str, linked: Path, stripped: Path, monkeypatch: pytest.MonkeyPatch
):
    system = linked.parent / "system"
    monkeypatch.setattr("symd.engine.files.companion_files._OF_SYSTEM", str(system))
    place = system.joinpath(*linked.parent.parts[1:], "kept.debug")
    if by == "build ID":
        note = stripped.with_name("note")
        note.write_bytes(struct.pack("<III4s", 4, 4, 3, b"GNU\0") + bytes.fromhex("abcdef01"))
        tools.output(objcopy, f"--add-section=.note.gnu.build-id={note}", stripped, linked)
        content = linked.read_bytes()
        image = elf.parse(content, Budget(Limits()))
        at = image.header.shoff + image.by_name[".note.gnu.build-id"].index * 64 + 4
        linked.write_bytes(content[:at] + struct.pack("<I", 7) + content[at + 4 :])
        place = system / ".build-id" / "ab" / "cdef01.debug"
    place.parent.mkdir(parents=True)
    shutil.move(stripped.with_name("kept.debug"), place)
    assert symbolized(run, linked) == LINED


def test_an_object_that_cannot_be_joined_is_answered_as_without_the_file(run: Run, tmp_path: Path):
    cut = tmp_path / "cut.co"
    shutil.copy(SHADE.with_name("v4-gfx900-headers-cut.co"), cut)
    alone = symbolized(run, cut)
    shutil.copy(SHADE, f"{cut}.debug")
    assert symbolized(run, cut) == alone


def test_a_debug_file_that_is_not_linked_is_none(run: Run, slim: Path):
    shutil.copy(SHADE.with_suffix(".o"), f"{slim}.debug")
    assert symbolized(run, slim) == UNLINED
